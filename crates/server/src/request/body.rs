//! The body of a request as it arrives: bounded, counted, and with a cause when it breaks off.
//!
//! While the server waits for it, and not while it has other things to do, it has to go on: see
//! `socket/body_rate.rs`.
//!
//! One of these is under the body of every call that did not come whole with its head, whatever its
//! protocol. Over HTTP/1.1 a connection that ends before the request was read to its end breaks the
//! client's sending, which then never sees the answer; so what nobody read is put aside
//! ([`UnreadBody`]) for whoever writes the answer, to be read and forgotten beside it. What then
//! ends the connection still leaves the client time to see it (`socket/gather.rs`). Over HTTP/2
//! nothing is put aside.
//!
//! Nothing is forgotten of a body whose client waits to be told to send it (`Expect: 100-continue`;
//! RFC 9110, section 10.1.1): to read it would tell so. The connection is closed instead, as where
//! more is to come than would be read.

use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderValue};
use http::request::Parts;
use http::{StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use tidewire_service::{BodyPass, Error, Frame, Headers, Result};
use tidewire_wire::unread::has_envelopes;
use tidewire_wire::{ENVELOPE_HEAD, EnvelopeHead};

use crate::limits::Limits;
use crate::request::observe::Counter;
use crate::socket::activity::Slot;
use crate::socket::body_rate::{BodyRate, Wait};
use crate::socket::gather::{AwaitedBody, GatherHandle};

/// The body of a request as the HTTP library has it, and how fast it has to come.
///
/// Over HTTP/2 what is not read is put aside in the slot of its call (`connection/http2.rs`): a
/// stream whose body is forgotten is reset, and some clients then lose the reply that came before.
pub(crate) struct RawBody {
    body: Option<Incoming>,
    pub(crate) version: Version,
    pub(crate) pace: BodyRate,
    slot: Option<Arc<Slot>>,
    /// HTTP/1.1: what is told once all of it is there.
    awaited: Option<AwaitedBody>,
    /// The client sends it once the HTTP library tells so, which it does when this is first read.
    waits_to_be_asked: bool,
    /// More of it came than is taken.
    is_too_large: bool,
}

impl RawBody {
    /// The body of a request of HTTP/1.1, or of HTTP/2 with the slot of its call.
    pub(crate) fn new(
        body: Incoming,
        parts: &Parts,
        pace: BodyRate,
        slot: Option<&Arc<Slot>>,
        connection: &GatherHandle,
    ) -> Self {
        let is_awaited = !body.is_end_stream();
        let slot = slot.filter(|_| is_awaited).cloned();
        slot.iter().for_each(|slot| slot.lend());
        let awaited = connection.awaited_body().filter(|_| is_awaited);
        let version = parts.version;
        let is_asking = || {
            let mut expected = parts.headers.get_all(EXPECT).iter();
            expected.any(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
        };
        let waits_to_be_asked = is_awaited && version == Version::HTTP_11 && is_asking();
        let is_too_large = false;
        Self { body: Some(body), version, pace, slot, awaited, waits_to_be_asked, is_too_large }
    }

    /// Whether its client waits until somebody reads it.
    pub(crate) fn waits_to_be_asked(&self) -> bool {
        self.waits_to_be_asked
    }

    /// Whether what is left of it is read and forgotten, as far as that is known.
    fn is_forgotten(&self, limits: &Limits) -> bool {
        let left = self.body.as_ref().and_then(|body| body.size_hint().exact()).unwrap_or(0);
        !self.is_too_large && left <= limits.body_bytes_max as u64
    }
}

impl Drop for RawBody {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.put_aside(self.body.take().filter(|body| !body.is_end_stream()));
        }
    }
}

/// The body of a request on its way in.
pub(crate) struct RequestBody {
    body: Option<RawBody>,
    wait: Wait,
    /// Nothing has to come now.
    may_pause: bool,
    /// How many bytes may still come, of how many.
    left: usize,
    bytes_max: usize,
    counter: Option<Counter>,
    leftover: Option<UnreadBody>,
    /// Until it is known that it does not pass unread.
    stream: Option<Box<MessageStream>>,
}

/// What nobody read of a request's body; clones share it.
#[derive(Clone, Default)]
pub(crate) struct UnreadBody(Arc<Mutex<Option<RawBody>>>);

impl http_body::Body for RawBody {
    type Data = bytes::Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<http_body::Frame<bytes::Bytes>, hyper::Error>>> {
        self.waits_to_be_asked = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        let is_all = frame.is_none() || body.is_end_stream();
        if is_all && let Some(awaited) = self.awaited.take() {
            awaited.came();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }
}

impl RequestBody {
    /// A body of any length.
    pub(crate) fn new(body: RawBody, counter: Option<Counter>) -> Self {
        Self {
            body: Some(body),
            wait: Wait::default(),
            may_pause: false,
            left: usize::MAX,
            bytes_max: usize::MAX,
            counter,
            leftover: None,
            stream: None,
        }
    }

    /// The same body with at most so many bytes.
    pub(crate) fn limit(mut self, bytes_max: usize) -> Self {
        (self.left, self.bytes_max) = (bytes_max, bytes_max);
        self
    }

    /// The same body, which is bounded by its messages if they pass unread.
    pub(crate) fn or_messages(mut self, stream: MessageStream) -> Self {
        self.stream = Some(Box::new(stream));
        self
    }

    /// Where what nobody reads is put aside; `None` where that is not needed.
    pub(crate) fn leftover(&mut self, version: Version) -> Option<UnreadBody> {
        let needed = version < Version::HTTP_2 && !self.is_over();
        self.leftover = needed.then(UnreadBody::default);
        self.leftover.clone()
    }

    /// Whether no more will come.
    pub(crate) fn is_over(&self) -> bool {
        self.body.as_ref().is_none_or(RawBody::is_end_stream)
    }

    /// Whether its client waits until somebody reads it.
    pub(crate) fn waits_to_be_asked(&self) -> bool {
        self.body.as_ref().is_some_and(RawBody::waits_to_be_asked)
    }

    /// Whether nothing has to come now, as between two messages of a stream.
    pub(crate) fn may_pause(&mut self, may_pause: bool) {
        if may_pause {
            self.wait = Wait::default();
        }
        self.may_pause = may_pause;
    }

    /// Knows what bounds it once it is read: its messages, if they pass unread.
    fn settle(&mut self) -> Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        if stream.pass.passes() {
            let pauses = self.body.as_ref().is_some_and(|body| body.pace.pauses);
            let may_pause = pauses && !stream.is_within_message();
            self.may_pause(may_pause);
            return Ok(());
        }
        let declared = self.stream.take().and_then(|stream| stream.declared);
        let checked = check_length(declared.as_ref(), self.bytes_max);
        if checked.is_err() {
            self.body.iter_mut().for_each(|body| body.is_too_large = true);
        }
        checked
    }

    /// The next piece.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame>>> {
        if let Err(error) = self.settle() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let pace = body.pace;
        let frame = match Pin::new(body).poll_frame(cx) {
            Poll::Pending if self.may_pause => return Poll::Pending,
            Poll::Pending => {
                let error = ready!(self.wait.poll_over(pace, cx));
                self.body = None;
                return Poll::Ready(Some(Err(error)));
            }
            Poll::Ready(frame) => frame,
        };
        let frame = match frame {
            None => {
                self.body = None;
                return Poll::Ready(None);
            }
            Some(Err(cause)) => {
                self.body = None;
                return Poll::Ready(Some(Err(broken_off(cause))));
            }
            Some(Ok(frame)) => frame,
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                return Poll::Ready(Some(Ok(Frame::Trailers(trailers.into()))));
            }
        };
        self.wait.came(data.len(), pace);
        if let Some(counter) = &self.counter {
            counter.add(data.len());
        }
        if let Some(stream) = &mut self.stream {
            let seen = stream.see(&data);
            if seen.is_err() {
                self.body.iter_mut().for_each(|body| body.is_too_large = true);
            }
            return Poll::Ready(Some(seen.map(|()| Frame::Data(data))));
        }
        Poll::Ready(Some(match self.left.checked_sub(data.len()) {
            None => {
                self.body.iter_mut().for_each(|body| body.is_too_large = true);
                Err(too_large(None, self.bytes_max))
            }
            Some(left) => {
                self.left = left;
                Ok(Frame::Data(data))
            }
        }))
    }
}

impl futures_core::Stream for RequestBody {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_piece(cx)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(leftover) = &self.leftover
            && let Some(body) = self.body.take()
        {
            *leftover.0.lock() = Some(body);
        }
    }
}

impl UnreadBody {
    /// A body that nobody will read.
    pub(crate) fn of(body: RawBody) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    /// Whether something was put aside.
    pub(crate) fn is_some(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Forgets what nobody read as far as it came, up to `limits.unread_body_bytes_max`. Unless
    /// that was all, the connection closes.
    pub(crate) async fn discard_what_came(&self, limits: &Limits) {
        let Some(mut body) = self.0.lock().take() else { return };
        if !body.waits_to_be_asked {
            read_what_came(&mut body, limits).await;
        }
    }

    /// Forgets what nobody read as far as it came. Over HTTP/1.1 what still comes is read and
    /// forgotten beside the answer, within the bounds of the server; then the connection goes on.
    pub(crate) async fn read_on(self, limits: &Limits) {
        let Some(mut body) = self.0.lock().take() else { return };
        if body.version < Version::HTTP_2
            && !body.waits_to_be_asked
            && read_what_came(&mut body, limits).await == Came::Part
            && body.is_forgotten(limits)
        {
            tokio::spawn(discard(body, limits));
        }
    }
}

/// How much of a body was there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    All,
    Part,
    /// It broke off.
    Broken,
}

/// Reads what came of a body and forgets it.
async fn read_what_came(body: &mut RawBody, limits: &Limits) -> Came {
    let mut asked = false;
    let mut left = limits.unread_body_bytes_max;
    std::future::poll_fn(|cx| {
        loop {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    asked = false;
                    let length = frame.data_ref().map_or(0, bytes::Bytes::len);
                    let Some(rest) = left.checked_sub(length) else {
                        return Poll::Ready(Came::Part);
                    };
                    left = rest;
                }
                Poll::Ready(None) => return Poll::Ready(Came::All),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Came::Broken),
                // The connection, which is this task, hands over what it has once it was asked.
                Poll::Pending if !asked => {
                    asked = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Pending => return Poll::Ready(Came::Part),
            }
        }
    })
    .await
}

/// Reads a body of up to `limits.body_bytes_max` to its end and forgets it: for as long as
/// something comes in each `limits.unread_body_timeout`, and at most for
/// `limits.body_progress_timeout`. Ends with the connection.
fn discard(mut body: RawBody, limits: &Limits) -> impl Future<Output = ()> + use<> {
    body.pace = body.pace.that_ends_after(limits.unread_body_timeout);
    let whole_timeout = limits.body_progress_timeout;
    let mut body = RequestBody::new(body, None).limit(limits.body_bytes_max);
    let to_its_end = std::future::poll_fn(move |cx| {
        while let Some(piece) = ready!(body.poll_piece(cx)) {
            if piece.is_err() {
                break;
            }
        }
        Poll::Ready(())
    });
    async move {
        // Where it is not over then, the connection is closed.
        let _ = tokio::time::timeout(whole_timeout, to_its_end).await;
    }
}

/// A body of plain HTTP that is a stream of messages: gRPC, gRPC-Web, or a stream of Connect.
///
/// It may pass unread, and then whoever reads it bounds it. Of its bytes only where a message
/// begins and ends is looked at here: a message has to go on as any body has, and has the limit of
/// one.
pub(crate) struct MessageStream {
    pass: BodyPass,
    /// The length that its head declares.
    declared: Option<HeaderValue>,
    bytes_max: usize,
    /// What came of the head of a message.
    head: [u8; ENVELOPE_HEAD],
    head_bytes: usize,
    /// What is to come of a message.
    left: usize,
}

impl MessageStream {
    /// That of a request with these headers, if it is one.
    pub(crate) fn of(headers: &Headers, limits: &Limits) -> Option<Self> {
        let is_one = |value: &HeaderValue| has_envelopes(value.as_bytes());
        headers.get(CONTENT_TYPE).is_some_and(is_one).then(|| Self {
            pass: BodyPass::default(),
            declared: headers.get(CONTENT_LENGTH).cloned(),
            bytes_max: limits.message_bytes_max,
            head: [0; ENVELOPE_HEAD],
            head_bytes: 0,
            left: 0,
        })
    }

    /// What tells it that it passes unread.
    pub(crate) fn pass(&self) -> BodyPass {
        self.pass.clone()
    }

    fn is_within_message(&self) -> bool {
        self.left > 0 || self.head_bytes > 0
    }

    /// Looks at what came.
    fn see(&mut self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            if self.left > 0 {
                let here = self.left.min(data.len());
                self.left -= here;
                data = &data[here..];
                continue;
            }
            let here = (ENVELOPE_HEAD - self.head_bytes).min(data.len());
            self.head[self.head_bytes..][..here].copy_from_slice(&data[..here]);
            self.head_bytes += here;
            data = &data[here..];
            if self.head_bytes < ENVELOPE_HEAD {
                return Ok(());
            }
            let length = EnvelopeHead::parse(self.head).length();
            let bytes_max = self.bytes_max;
            if length > bytes_max {
                return Err(Error::resource_exhausted(format!(
                    "a message of the request has {length} bytes, over limits.message_bytes_max = \
                     {bytes_max}; send less or raise the limit"
                ))
                .with_http_status(StatusCode::PAYLOAD_TOO_LARGE));
            }
            (self.head_bytes, self.left) = (0, length);
        }
        Ok(())
    }
}

/// Refuses a body by the length that its head declares (`Content-Length`).
///
/// # Errors
/// When that is over the limit.
#[inline]
pub(crate) fn check_length(declared: Option<&HeaderValue>, bytes_max: usize) -> Result<()> {
    let Some(declared) = declared else { return Ok(()) };
    let declared: Option<u64> = declared.to_str().ok().and_then(|text| text.parse().ok());
    match declared {
        Some(length) if length > bytes_max as u64 => Err(too_large(Some(length), bytes_max)),
        _ => Ok(()),
    }
}

fn too_large(declared: Option<u64>, bytes_max: usize) -> Error {
    let what = declared.map_or_else(String::new, |length| format!("{length} bytes, "));
    Error::resource_exhausted(format!(
        "request body is {what}over limits.body_bytes_max = {bytes_max}; send less or raise the limit"
    ))
    .with_http_status(StatusCode::PAYLOAD_TOO_LARGE)
}

/// What a body that breaks off means: the caller's mistake, or its going away.
fn broken_off(cause: hyper::Error) -> Error {
    let source = std::error::Error::source(&cause).and_then(|s| s.downcast_ref::<io::Error>());
    let malformed = source.is_some_and(|source| {
        matches!(source.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
    });
    if malformed {
        return Error::invalid_argument(format!("the request body is malformed: {cause}"));
    }
    Error::canceled("the request body ended before it was complete").with_cause(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(content_type: &'static str) -> Option<MessageStream> {
        let headers = Headers::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        let limits = Limits { message_bytes_max: 3, ..Limits::default() };
        MessageStream::of(&headers, &limits)
    }

    #[test]
    fn a_message_is_bounded_however_its_bytes_come_and_their_sum_is_not() {
        let mut messages = stream("application/grpc").unwrap();
        for byte in [0, 0, 0, 0, 3, 1, 2, 3].repeat(100) {
            messages.see(&[byte]).unwrap();
        }
        assert!(!messages.is_within_message());
        messages.see(&[0, 0, 0, 0, 0, 1, 0, 0]).unwrap();
        assert!(messages.is_within_message(), "of a head a part came");
        messages.see(&[0, 1]).unwrap();
        assert!(messages.is_within_message(), "of a message its length came");
        messages.see(&[9]).unwrap();
        assert!(!messages.is_within_message());
        let error = messages.see(&[0, 0, 0, 0, 4]).unwrap_err();
        assert!(error.message().contains("limits.message_bytes_max = 3"), "{error}");
    }
}
