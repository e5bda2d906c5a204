//! Plain HTTP: the response to a call of a path comes back as it is.
//!
//! Only the headers of a connection stay behind (RFC 9110, section 7.6.1), in both directions:
//! those of requests in [`Order`](crate::order::Order). A response that cannot be passed on as it
//! is counts as a failure: a transfer coding other than `chunked`, whose bytes would be taken for
//! the content, and 101 to a request for no other protocol.
//!
//! A caller that sees the head of an error while it still sends may stop there. Over HTTP/2 curl
//! then ends its request short of the length that it declared, for which its stream is reset (RFC
//! 9113, section 8.1.1), and the rest of the response is lost. So an error that comes before the
//! whole request was sent is passed on once its body is there, if that is short; so is a redirect.

use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use futures_util::stream::{self, StreamExt as _};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};
use tidewire_service::{Body, Error, Frame, Reply, Result, end_to_end};

use crate::exchange::ResponseStart;
use crate::trace::{Step, tell};

/// The reply that came.
///
/// # Errors
/// It cannot be passed on: `internal`, 502. It broke off before any of it was.
pub(crate) async fn reply(received: ResponseStart) -> Result<Reply> {
    let may_stop_caller = may_stop_caller(&received);
    let mut reply = start_reply(received)?;
    if may_stop_caller && matches!(reply.body, Body::Stream(_)) {
        let body = std::mem::replace(&mut reply.body, Body::Empty);
        reply.body = Box::pin(wait_for_body(body)).await?;
    }
    Ok(reply)
}

/// The body, once all of it is there or more than [`EARLY_ERROR_MAX`].
async fn wait_for_body(body: Body) -> Result<Body> {
    let mut frames = body.into_frames();
    let mut data = BytesMut::new();
    while data.len() <= EARLY_ERROR_MAX {
        match frames.next().await.transpose()? {
            Some(Frame::Data(more)) => data.extend_from_slice(&more),
            None => return Ok(Body::Full(data.freeze())),
            Some(trailers) => {
                let frames = [Ok(Frame::Data(data.freeze())), Ok(trailers)];
                return Ok(Body::frames(stream::iter(frames)));
            }
        }
    }
    let begin = stream::iter([Ok(Frame::Data(data.freeze()))]);
    Ok(Body::frames(begin.chain(frames)))
}

/// Whether this is an error or redirect that came before the whole request was sent, and is not
/// known to be long.
fn may_stop_caller(received: &ResponseStart) -> bool {
    let ResponseStart { head, body } = received;
    let is_success = head.status.is_informational() || head.status.is_success();
    let is_short = |length| length <= EARLY_ERROR_MAX as u64;
    !is_success && !body.is_request_sent() && body.declared_length().is_none_or(is_short)
}

/// The longest body that is waited for, in bytes.
const EARLY_ERROR_MAX: usize = 64 << 10;

/// The reply, whose body may still come.
fn start_reply(received: ResponseStart) -> Result<Reply> {
    let ResponseStart { head, mut body } = received;
    let is_chunked = head.headers.contains_key(TRANSFER_ENCODING);
    check(head.status, is_chunked.then_some(&head.headers))?;
    let mut reply = Reply::new(Body::Empty).with_status(head.status);
    let mut headers = end_to_end(head.headers.into());
    if is_chunked {
        // RFC 9112, section 6.3: it counts in place of a length, which is taken out before others
        // are told it.
        headers.remove(CONTENT_LENGTH);
    }
    if head.status == StatusCode::NO_CONTENT {
        // RFC 9110, section 8.6: it must not say one, and over HTTP/2 would break its stream.
        headers.remove(CONTENT_LENGTH);
    }
    reply.headers = headers.into();
    if body.declared_length() == Some(0) {
        if body.is_end() {
            body.finish();
        }
        return Ok(reply);
    }
    // Of most answers all came at once. Of any other this is asked again, by whoever waits for it.
    let mut begun = match body.poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(Frame::Data(data)))) if body.is_end() => {
            let wire_bytes = data.len();
            tell(body.trace(), || Step::MessageReceived { wire_bytes });
            body.finish();
            reply.body = Body::Full(data);
            return Ok(reply);
        }
        // Nothing was passed on yet, so that there may still be another answer.
        Poll::Ready(Some(Err(error))) => return Err(error),
        begun => Some(begun),
    };
    reply.body = Body::frames(stream::poll_fn(move |cx| {
        let begun = begun.take().filter(Poll::is_ready);
        let frame = std::task::ready!(begun.unwrap_or_else(|| body.poll_frame(cx)));
        if let Some(Ok(Frame::Data(data))) = &frame {
            let wire_bytes = data.len();
            tell(body.trace(), || Step::MessageReceived { wire_bytes });
            // Whoever knows the length asks for no more than that, and drops what there is.
            if body.is_end() {
                body.finish();
            }
        }
        Poll::Ready(frame)
    }));
    Ok(reply)
}

fn check(status: StatusCode, coded: Option<&HeaderMap>) -> Result<()> {
    let none = |what: String| {
        let text = format!("the server behind sent {what}");
        Err(Error::internal(text).with_http_status(StatusCode::BAD_GATEWAY))
    };
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return none("101 without having been asked to switch protocols".to_owned());
    }
    let coding = coded.into_iter().flat_map(|headers| headers.get_all(TRANSFER_ENCODING));
    match coding.map(http::HeaderValue::as_bytes).find(|it| !it.eq_ignore_ascii_case(b"chunked")) {
        None => Ok(()),
        Some(other) => none(format!("transfer coding {}; it may chunk", other.escape_ascii())),
    }
}
