//! One call of a hosted program: bodies pass as streams, nothing is read whole.
//!
//! | what happens | the caller gets |
//! |---|---|
//! | an answer, whatever its status | that, headers and trailers as they are |
//! | the process ends before the head, of a unary query or a safe request without a body | one more try, at a new process |
//! | the process ends before the head, of another | 502, `unavailable`; `aborted` for a command of the live protocol: it may have run |
//! | the process ends within the body | a body that breaks off |
//! | no head within `request_timeout`, by the process's own [clock](crate::turn) | 504; after three in a row the process is killed |
//!
//! A seat is held until the last byte of the answer was read, so that an open stream counts as a call.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use http::StatusCode;
use tidewire_service::{Body, Call, Error, Reply, Result, StreamKind, Target, Upgrade};

use crate::clock::Clock;
use crate::headers;
use crate::hosted::{Inner, Seat};
use crate::program::Listen;

/// Passes a call to an instance.
pub(crate) async fn pass(inner: Arc<Inner>, call: Call) -> Result<Reply> {
    let is_native = inner.generation().program.listen == Listen::Native;
    if call.http_target().is_none() && !is_native {
        let name = inner.name();
        return Err(Error::unimplemented(format!("{name} answers plain HTTP only")));
    }
    let call = if is_native { headers::prepared(call) } else { call };
    let again = again(&call);
    match once(&inner, call).await {
        Err(Failed { error, is_crash: true }) => match again {
            Some(call) => Box::pin(once(&inner, call)).await.map_err(|failed| failed.error),
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

async fn once(inner: &Arc<Inner>, mut call: Call) -> Result<Reply, Failed> {
    let failed = |error, is_crash| Failed { error, is_crash };
    let seat = inner.seat(call.context.enclosing()).await.map_err(|error| failed(error, false))?;
    let timeout = seat.instance.generation.life.request_timeout;
    let outcome = {
        // In its place: the future of a call is large, and a timeout that had it would have it moved.
        let clock = Clock::of(&mut call);
        let answer = pin!(seat.instance.call(call));
        tokio::select! {
            biased;
            outcome = answer => Some(outcome),
            () = clock.is_over(timeout) => None,
        }
    };
    match outcome {
        Some(Ok(reply)) => {
            seat.instance.answered();
            Ok(seated(reply, seat))
        }
        Some(Err(error)) => Err(lost(inner, &seat, error).await),
        None => {
            seat.instance.did_not_answer();
            let name = inner.name();
            let text = format!("{name} did not answer within {timeout:?}");
            let error = Error::deadline_exceeded(text);
            Err(failed(
                match seat.instance.hint() {
                    Some(hint) => error.with_cause(hint),
                    None => error,
                },
                false,
            ))
        }
    }
}

/// What an error of a call comes to: whether the process is at its end.
fn lost<'a>(
    inner: &'a Inner,
    seat: &'a Seat,
    error: Error,
) -> Pin<Box<dyn Future<Output = Failed> + Send + 'a>> {
    Box::pin(async move {
        if !seat.instance.is_out_of_reach(&error) {
            return Failed { error, is_crash: false };
        }
        // The end of a process is known a moment after that of its connections; one whose session is
        // over is killed.
        let wait = match seat.instance.generation.program.listen {
            Listen::Native => END_IS_CERTAIN,
            _ => END_IS_KNOWN,
        };
        let end = tokio::time::timeout(wait, seat.instance.ended()).await;
        if let Ok(end) = end {
            inner.ended(seat.instance.id, end);
        }
        let name = inner.name();
        let text = match end {
            Ok(_) => format!("{name} ended before it answered"),
            Err(_) => format!("{name} broke the connection off before it answered"),
        };
        let seen = Error::new(error.code(), text).with_http_status(StatusCode::BAD_GATEWAY);
        let error = seen.with_outcome(error.outcome()).with_cause(error);
        Failed { error, is_crash: end.is_ok() }
    })
}

/// The same call once more, where that does no more than once.
fn again(call: &Call) -> Option<Call> {
    let body = match (&call.target, &call.body) {
        (Target::Http(http), Body::Empty) if http.method.is_safe() => Body::Empty,
        (Target::Method(method), Body::Full(message))
            if method.is_query() && method.kind == StreamKind::Unary =>
        {
            Body::Full(message.clone())
        }
        _ => return None,
    };
    let again = Call::of_target(call.target.clone(), call.context.clone(), body);
    Some(again.with_codecs(call.codec, call.accept))
}

/// The reply, which gives the seat back when its body is over, or the connection that it takes over.
fn seated(mut reply: Reply, seat: Seat) -> Reply {
    if let Some(upgrade) = reply.take_upgrade() {
        let upgrade = Upgrade::new(move |connection| async move {
            upgrade.run(connection).await;
            drop(seat);
        });
        return Reply::upgrade(reply.status, upgrade).with_headers(reply.headers);
    }
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
const END_IS_CERTAIN: Duration = Duration::from_secs(30);
