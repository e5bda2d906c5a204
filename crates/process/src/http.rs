//! One call of a hosted program over plain HTTP: bodies pass as streams, nothing is read whole.
//!
//! | what happens | the caller gets |
//! |---|---|
//! | an answer, whatever its status | that, headers and trailers as they are |
//! | the process ends before the head, of a safe request without a body | one more try, at a new process |
//! | the process ends before the head, of another | 502 |
//! | the process ends within the body | a body that breaks off |
//! | no head within `request_timeout` | 504; after three in a row the process is killed |
//!
//! A seat is held until the last byte of the answer was read, so that an open stream counts as a call.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use http::StatusCode;
use tidewire_service::{
    Body, Call, Code, Context, Error, HttpTarget, Reply, Result, Service, Target,
};

use crate::hosted::{Inner, Seat};

/// Passes a call to an instance.
pub(crate) async fn pass(inner: &Arc<Inner>, call: Call) -> Result<Reply> {
    let Some(target) = call.http_target() else {
        let name = inner.program.name();
        return Err(Error::unimplemented(format!("{name} answers plain HTTP only")));
    };
    let again = again(target, &call);
    match once(inner, call).await {
        Err(Failed { error, is_crash: true }) => match again {
            Some(call) => once(inner, call).await.map_err(|failed| failed.error),
            None => Err(error),
        },
        outcome => outcome.map_err(|failed| failed.error),
    }
}

/// Why there is no answer.
struct Failed {
    error: Error,
    /// The process ended, and the answer had not begun.
    is_crash: bool,
}

async fn once(inner: &Arc<Inner>, call: Call) -> Result<Reply, Failed> {
    let failed = |error, is_crash| Failed { error, is_crash };
    let seat = inner.seat().await.map_err(|error| failed(error, false))?;
    let answer = seat.instance.upstream.call(call);
    match tokio::time::timeout(inner.life.request_timeout, answer).await {
        Ok(Ok(reply)) => {
            seat.instance.answered();
            Ok(seated(reply, seat))
        }
        Ok(Err(error)) if error.code() == Code::Unavailable => {
            // The end of a process is known a moment after that of its connections.
            let end = tokio::time::timeout(END_IS_KNOWN, seat.instance.ended()).await;
            if let Ok(end) = end {
                inner.ended(seat.instance.id, end);
            }
            let name = inner.program.name();
            let text = match end {
                Ok(_) => format!("{name} ended before it answered"),
                Err(_) => format!("{name} broke the connection off before it answered"),
            };
            let seen = Error::unavailable(text).with_http_status(StatusCode::BAD_GATEWAY);
            Err(failed(seen.with_outcome(error.outcome()).with_cause(error), end.is_ok()))
        }
        Ok(Err(error)) => Err(failed(error, false)),
        Err(_) => {
            seat.instance.did_not_answer();
            let (name, timeout) = (inner.program.name(), inner.life.request_timeout);
            let text = format!("{name} did not answer within {timeout:?}");
            Err(failed(Error::deadline_exceeded(text), false))
        }
    }
}

/// The same call once more, where that does no more than once.
fn again(target: &HttpTarget, call: &Call) -> Option<Call> {
    let is_safe = target.method.is_safe() && matches!(call.body, Body::Empty);
    is_safe.then(|| {
        let context = Context::new(call.context.headers().clone());
        let context = context.with_deadline(call.context.deadline());
        Call::of_target(Target::Http(target.clone()), context, Body::Empty)
    })
}

/// The reply, which gives the seat back when its body is over.
fn seated(mut reply: Reply, seat: Seat) -> Reply {
    let Body::Stream(mut frames) = reply.body else { return reply };
    let mut seat = Some(seat);
    reply.body = Body::frames(futures_util::stream::poll_fn(move |cx| {
        let frame = std::task::ready!(frames.poll_next_unpin(cx));
        if frame.is_none() {
            drop(seat.take());
        }
        Poll::Ready(frame)
    }));
    reply
}

const END_IS_KNOWN: Duration = Duration::from_millis(500);
