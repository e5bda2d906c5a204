//! Calls on this crate's connections, in the bytes that the crate `wire` writes and reads.
//!
//! A reply of one message is read to its end before the caller sees it; a reply of many is a stream
//! that ends with the trailers, or in the error that they hold. Messages are bytes throughout:
//! nothing is encoded or decoded here, so that a remote service can be passed on unchanged.

use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll, ready};

use bytes::Bytes;
use futures_util::StreamExt;
use http::HeaderMap;
use tidewire_service::{Body, Codec, Error, Frame, Reply, Result, StreamKind};
use tidewire_wire::{Caller, Event, Replies};

use crate::exchange::{ResponseBody, ResponseStart};
use crate::trace::{Step, Trace, tell};

/// What of a call is needed to read its response.
#[derive(Debug, Clone)]
pub(crate) struct ReplyContext {
    pub(crate) kind: StreamKind,
    pub(crate) codec: Codec,
}

/// Each message in its envelope; the caller's trailers have no place in a request.
pub(crate) fn sealed(caller: &Caller, body: Body) -> Body {
    let caller = caller.clone();
    let Body::Stream(frames) = body else { return body };
    let pieces = frames.filter_map(move |frame| {
        let piece = match frame {
            Ok(Frame::Data(message)) => Some(caller.message(message)),
            Ok(Frame::Trailers(_)) => None,
            Err(error) => Some(Err(error)),
        };
        std::future::ready(piece)
    });
    Body::stream(pieces.flat_map(|piece| {
        let both = match piece {
            Ok([head, message]) => [Some(Ok(head)), (!message.is_empty()).then_some(Ok(message))],
            Err(error) => [Some(Err(error)), None],
        };
        futures_util::stream::iter(both.into_iter().flatten())
    }))
}

/// The reply that a response holds.
pub(crate) async fn reply(
    caller: &Caller,
    expected: &ReplyContext,
    received: ResponseStart,
) -> Result<Reply> {
    let ResponseStart { head, mut body } = received;
    let mut replies = caller.replies(expected.kind, expected.codec, head, body.host())?;
    replies.expect(body.declared_length())?;
    if body.is_end() && replies.is_of_headers() {
        body.finish();
        return of_headers(replies, expected.kind, body.host());
    }
    let bare =
        caller.is_bare(expected.kind).then(|| PlainMessage { trace: body.take_trace(), bytes: 0 });
    let headers = if bare.is_some() { HeaderMap::new() } else { replies.take_headers() };
    let reader = Reader { body, replies, bare, is_over: false };
    if !expected.kind.server_streams() {
        return one(reader, headers).await;
    }
    Ok(many(reader, headers))
}

/// The reply of a response of headers only.
fn of_headers(mut replies: Replies, kind: StreamKind, host: &str) -> Result<Reply> {
    replies.finish();
    let Event::End(trailers) = replies.read()? else { return Err(no_message(host)) };
    if !kind.server_streams() {
        return Err(no_message(host));
    }
    let mut reply = Reply::new(Body::Empty);
    reply.trailers = trailers.into();
    Ok(reply)
}

fn many(mut reader: Reader, headers: HeaderMap) -> Reply {
    let mut reply = Reply::new(Body::Empty);
    reply.headers = headers.into();
    let metadata = reply.headers.clone();
    let items = futures_util::stream::poll_fn(move |cx| reader.poll_frame(cx));
    reply.body = Body::frames(items.map(move |item| {
        item.map_err(|mut error| {
            if error.headers().is_empty() {
                error.headers_mut().clone_from(&metadata);
            }
            error
        })
    }));
    reply
}

/// The one message that is expected, and the trailers after it.
async fn one(mut reader: Reader, headers: HeaderMap) -> Result<Reply> {
    let outcome = only(&mut reader).await;
    match outcome {
        Ok((message, trailers)) => {
            let mut reply = Reply::new(Body::Full(message));
            let own = if reader.bare.is_some() { reader.replies.take_headers() } else { headers };
            reply.headers = own.into();
            reply.trailers = trailers.into();
            Ok(reply)
        }
        Err(mut error) => {
            if error.headers().is_empty() {
                *error.headers_mut() = headers.into();
            }
            Err(error)
        }
    }
}

async fn only(reader: &mut Reader) -> Result<(Bytes, HeaderMap)> {
    let mut message = None;
    loop {
        let event = poll_fn(|cx| reader.poll_event(cx)).await?;
        match (event, &mut message) {
            (Event::Message { .. }, Some(_)) => {
                return Err(Error::unimplemented(format!(
                    "{} sent more than one message where one is expected",
                    reader.body.host()
                )));
            }
            (Event::Message { data, .. }, message) => *message = Some(data),
            (Event::End(trailers), message) => {
                let message = message.take().ok_or_else(|| no_message(reader.body.host()))?;
                return Ok((message, trailers));
            }
            (Event::EndSeen | Event::More, _) => {}
        }
    }
}

fn no_message(host: &str) -> Error {
    Error::unimplemented(format!("{host} sent no message where one is expected"))
}

/// A response and what reads it.
struct Reader {
    body: ResponseBody,
    replies: Replies,
    bare: Option<PlainMessage>,
    is_over: bool,
}

/// A body that is the message: it is told of once it is there, whatever it turns out to be.
struct PlainMessage {
    trace: Option<Trace>,
    bytes: usize,
}

impl Reader {
    fn poll_frame(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Frame>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(error) = self.body.overdue() {
            self.is_over = true;
            return Poll::Ready(Some(Err(error)));
        }
        let frame = match ready!(self.poll_event(cx)) {
            Ok(Event::Message { data, .. }) => return Poll::Ready(Some(Ok(Frame::Data(data)))),
            Ok(Event::End(trailers)) => Some(Ok(Frame::Trailers(trailers.into()))),
            Ok(Event::EndSeen | Event::More) => None,
            Err(error) => Some(Err(error)),
        };
        self.is_over = true;
        Poll::Ready(frame)
    }

    /// The next message, or the end.
    fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Event>> {
        loop {
            match self.replies.read()? {
                Event::More => {}
                Event::EndSeen => {
                    if let Some(trailers) = self.replies.end_trailers() {
                        tell(self.body.trace(), || Step::Trailers {
                            trailers: trailers.clone().into(),
                        });
                    }
                    continue;
                }
                event => {
                    if let (Event::Message { wire_bytes, .. }, None) = (&event, &self.bare) {
                        let wire_bytes = *wire_bytes;
                        tell(self.body.trace(), || Step::MessageReceived { wire_bytes });
                    }
                    return Poll::Ready(Ok(event));
                }
            }
            match ready!(self.body.poll_frame(cx)) {
                Some(Ok(Frame::Data(data))) => {
                    if let Some(bare) = &mut self.bare {
                        bare.bytes += data.len();
                    }
                    self.replies.push(data);
                }
                Some(Ok(Frame::Trailers(trailers))) => self.replies.trailers(trailers.into()),
                Some(Err(error)) => return Poll::Ready(self.replies.broke(error)),
                None => self.finish(),
            }
        }
    }

    fn finish(&mut self) {
        if let Some(PlainMessage { trace, bytes }) = &self.bare {
            let wire_bytes = *bytes;
            tell(trace.as_ref(), || Step::MessageReceived { wire_bytes });
            tell(trace.as_ref(), || Step::Done);
        }
        self.replies.finish();
    }
}
