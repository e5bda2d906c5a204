//! Streams of messages as the bodies that carry them, and back: several at a time where the other side of the
//! body takes them so.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::dispatch::{Errors, Wire};
use crate::stream::Part;
use crate::{Body, Codec, Error, Frame, Frames, Messages, Result, Stream};

/// Decodes each message of a body as it comes; an error is what `seen` makes of it.
pub(crate) fn decode_all<M: Wire>(
    body: Body,
    decode: impl Fn(&[u8]) -> Result<M> + Send + Unpin + 'static,
    seen: impl Fn(Error) -> Error + Send + Unpin + 'static,
) -> Stream<M> {
    match body {
        Body::Empty => Stream::from_values([]),
        Body::Full(bytes) => {
            let message = async move { decode(&bytes).map_err(seen) };
            Stream::new(futures_util::stream::once(message))
        }
        Body::Stream(frames) => {
            let decode = move |bytes: &[u8]| decode(bytes).map(Part::Message);
            Stream::from_parts(Decoded {
                frames,
                messages: Messages::default(),
                then: None,
                decode,
                seen,
            })
        }
    }
}

/// The messages of a body.
struct Decoded<D, E> {
    frames: Pin<Box<dyn Frames>>,
    messages: Messages,
    /// What comes behind `messages`, if that is known.
    then: Option<Option<Result<Frame>>>,
    decode: D,
    seen: E,
}

impl<M, D, E> futures_core::Stream for Decoded<D, E>
where
    D: Fn(&[u8]) -> Result<Part<M>> + Unpin,
    E: Fn(Error) -> Error + Unpin,
{
    type Item = Result<Part<M>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(message) = this.messages.take() {
                return Poll::Ready(Some((this.decode)(message).map_err(&this.seen)));
            }
            if let Some(then) = this.then.take() {
                let Some(frame) = then else { return Poll::Ready(None) };
                let part = match frame {
                    Ok(Frame::Data(data)) => (this.decode)(&data),
                    Ok(Frame::Trailers(trailers)) => Ok(Part::Trailers(trailers)),
                    Err(error) => Err(error),
                };
                return Poll::Ready(Some(part.map_err(&this.seen)));
            }
            this.messages.clear();
            this.messages.allow(u32::MAX);
            match this.frames.as_mut().poll_messages(cx, &mut this.messages) {
                Poll::Ready(then) => this.then = Some(then),
                Poll::Pending if this.messages.is_empty() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }
}

/// Encodes each message as it comes; an error is what the caller sees of it.
pub(crate) fn encode_all<M: Wire>(codec: Codec, items: Stream<M>, errors: Errors) -> Body {
    Body::batches(Encoded { parts: items.into_parts(), codec, errors })
}

/// The frames of a stream of messages.
struct Encoded<P> {
    parts: P,
    codec: Codec,
    errors: Errors,
}

impl<M, P> futures_core::Stream for Encoded<P>
where
    M: Wire,
    P: futures_core::Stream<Item = Result<Part<M>>> + Unpin,
{
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let part = ready!(Pin::new(&mut self.parts).poll_next(cx));
        Poll::Ready(part.map(|part| self.frame(part)))
    }
}

impl<M, P> Frames for Encoded<P>
where
    M: Wire,
    P: futures_core::Stream<Item = Result<Part<M>>> + Send + Unpin,
{
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame>>> {
        loop {
            match ready!(Pin::new(&mut self.parts).poll_next(cx)) {
                Some(Ok(Part::Message(message))) if self.codec.add(&message, messages) => {}
                part => return Poll::Ready(part.map(|part| self.frame(part))),
            }
        }
    }
}

impl<P> Encoded<P> {
    fn frame<M: Wire>(&self, part: Result<Part<M>>) -> Result<Frame> {
        match part.map_err(|error| self.errors.seen(error))? {
            Part::Message(message) => self.codec.encode(&message).map(Frame::Data),
            Part::Trailers(trailers) => Ok(Frame::Trailers(trailers)),
        }
    }
}
