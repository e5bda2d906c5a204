//! Plain HTTP: the response to a call of a path comes back as it is.
//!
//! Only the headers of a connection stay behind (RFC 9110, section 7.6.1), in both directions:
//! those of requests in [`Order`](crate::order::Order). A response that cannot be passed on as it
//! is counts as a failure: a transfer coding other than `chunked`, whose bytes would be taken for
//! the content, and 101 to a request for no other protocol.

use std::task::{Context, Poll, Waker};

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};
use tidewire_service::{Body, Error, Frame, Reply, Result, end_to_end};

use crate::exchange::ResponseStart;
use crate::trace::{Step, tell};

/// The reply that came.
///
/// # Errors
/// It cannot be passed on: `internal`, 502.
pub(crate) fn reply(received: ResponseStart) -> Result<Reply> {
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
    reply.body = Body::frames(futures_util::stream::poll_fn(move |cx| {
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
