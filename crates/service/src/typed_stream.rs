//! Streams of messages as the bodies that carry them, and back: several at a time where the other
//! side of the body takes them so.

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
            Stream::from_parts(MessageDecoder {
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
struct MessageDecoder<D, E> {
    frames: Pin<Box<dyn Frames>>,
    messages: Messages,
    /// What comes behind `messages`, if that is known.
    then: Option<Option<Result<Frame>>>,
    decode: D,
    seen: E,
}

impl<M, D, E> futures_core::Stream for MessageDecoder<D, E>
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
    Body::batches(MessageEncoder { parts: items.into_parts(), codec, errors })
}

/// The frames of a stream of messages.
struct MessageEncoder<P> {
    parts: P,
    codec: Codec,
    errors: Errors,
}

impl<M, P> futures_core::Stream for MessageEncoder<P>
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

impl<M, P> Frames for MessageEncoder<P>
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

impl<P> MessageEncoder<P> {
    fn frame<M: Wire>(&self, part: Result<Part<M>>) -> Result<Frame> {
        match part.map_err(|error| self.errors.for_caller(error))? {
            Part::Message(message) => self.codec.encode(&message).map(Frame::Data),
            Part::Trailers(trailers) => Ok(Frame::Trailers(trailers)),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{FutureExt, StreamExt};
    use http::HeaderValue;

    use super::*;
    use crate::{Code, Headers, ThinHeaders};

    type Text = buffa_types::google::protobuf::StringValue;

    fn text(size: usize) -> Text {
        Text { value: "x".repeat(size), ..Default::default() }
    }

    /// Reads a body several messages at a time, and what ends it: how many times it was asked, too.
    fn taken(body: Body, at_once: u32) -> (Vec<Bytes>, Result<ThinHeaders, Code>, u32) {
        let (mut frames, mut messages) = (body.into_frames(), Messages::default());
        let (mut all, mut trailers, mut asked) = (Vec::new(), ThinHeaders::default(), 0);
        loop {
            messages.clear();
            messages.allow(at_once);
            asked += 1;
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let frame = frames.as_mut().poll_messages(&mut cx, &mut messages);
            while let Some(message) = messages.take() {
                all.push(Bytes::copy_from_slice(message));
            }
            match frame {
                Poll::Ready(Some(Ok(Frame::Data(data)))) => all.push(data),
                Poll::Ready(Some(Ok(Frame::Trailers(late)))) => trailers = late,
                Poll::Ready(Some(Err(error))) => return (all, Err(error.code()), asked),
                Poll::Ready(None) => return (all, Ok(trailers), asked),
                Poll::Pending => panic!("everything is there"),
            }
        }
    }

    /// Messages of every size that makes a difference; the first has no bytes at all.
    fn sizes() -> impl Iterator<Item = usize> {
        [0, 1, 0, 125, 126, 127, 5000, 16_380, 16_384, 40_000, 0].into_iter().chain(0..1000)
    }

    fn trailers() -> Headers {
        Headers::from_iter([(http::header::AGE, HeaderValue::from_static("7"))])
    }

    #[test]
    fn messages_come_in_order_whether_one_is_taken_or_many_and_then_trailers_or_an_error() {
        for (codec, at_once) in CASES {
            let all = || Stream::from_values(sizes().map(text)).with_trailers(trailers);
            let expected: Vec<_> = sizes().map(|size| codec.encode(&text(size)).unwrap()).collect();
            let (came, end, _) = taken(encode_all(codec, all(), Errors::Own), at_once);
            assert!(came == expected && end == Ok(trailers().into()), "{codec:?} {at_once}");

            let fails = || {
                let fails = [Err(Error::not_found("no more")), Ok(text(1))];
                Stream::from_results(sizes().map(|size| Ok(text(size))).chain(fails))
            };
            let (came, end, _) = taken(encode_all(codec, fails(), Errors::Own), at_once);
            assert!(came == expected && end == Err(Code::NotFound), "{codec:?} {at_once}");
        }
    }

    #[test]
    fn many_small_messages_are_asked_for_a_few_times() {
        let body =
            encode_all(Codec::Proto, Stream::from_values((0..1000).map(|_| text(1))), Errors::Own);
        let (came, end, asked) = taken(body, u32::MAX);
        assert_eq!((came.len(), end.is_ok(), asked), (1000, true, 1));
    }

    #[test]
    fn what_is_encoded_is_decoded_as_it_was_up_to_the_first_that_is_no_message() {
        let body = encode_all(Codec::Proto, Stream::from_values(sizes().map(text)), Errors::Own);
        let decode = |bytes: &[u8]| Codec::Proto.decode_reply::<Text>(bytes);
        let decoded = decode_all(body, decode, |error| error);
        let decoded = decoded.collect::<Vec<_>>().now_or_never().unwrap();
        assert!(decoded.into_iter().map(|text| text.unwrap().value.len()).eq(sizes()));

        let broken = [&b"\x0a\x01x"[..], b"", b"\x0a\x05x", b"\x0a\x01x"].map(Bytes::from_static);
        let mut frames = Messages::default();
        broken.iter().for_each(|bytes| assert!(frames.add(bytes)));
        let mut decoded =
            decode_all(Body::batches(FixedMessages(frames)), decode, Error::from_upstream);
        let mut next = || decoded.next().now_or_never().unwrap();
        assert_eq!(next().unwrap().map(|text| text.value).as_deref(), Some("x"));
        assert_eq!(next().unwrap().map(|text| text.value).as_deref(), Some(""));
        let error = next().unwrap_err();
        assert!(error.is_upstream() && error.code() == Code::Internal);
        assert!(next().unwrap().is_none(), "nothing follows an error");
    }

    const CASES: [(Codec, u32); 5] = [
        (Codec::Proto, 0),
        (Codec::Proto, 1),
        (Codec::Proto, 64),
        (Codec::Proto, u32::MAX),
        (Codec::Json, u32::MAX),
    ];

    /// Gives these messages at once, and ends.
    struct FixedMessages(Messages);

    impl futures_core::Stream for FixedMessages {
        type Item = Result<Frame>;

        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(None)
        }
    }

    impl Frames for FixedMessages {
        fn poll_messages(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            messages: &mut Messages,
        ) -> Poll<Option<Result<Frame>>> {
            while let Some(message) = self.0.take() {
                assert!(messages.takes(message.len()) && messages.add(message));
            }
            Poll::Ready(None)
        }
    }
}
