//! Calls that take longer than their callers wait.

use std::pin::pin;
use std::time::Duration;

use tidewire_service::{Call, Error, LateAnswer, Outcome, Reply, Result};

use crate::response_timer::ResponseTimer;

/// What a call comes to that `pass` makes; `None` once its program has taken `timeout`. Whoever
/// listens for late answers to it hears of its answer then, for 10 minutes more.
pub async fn in_time<F>(
    call: Call,
    timer: &ResponseTimer,
    timeout: Duration,
    pass: impl FnOnce(Call) -> F,
) -> Option<Result<Reply>>
where
    F: Future<Output = Result<Reply>> + Send + 'static,
{
    let Some(listener) = call.context.late_listener() else {
        // In its place: the future of a call is large, and most are never moved.
        let answer = pin!(pass(call));
        return tokio::select! {
            biased;
            outcome = answer => Some(outcome),
            () = timer.is_over(timeout) => None,
        };
    };
    let mut answer: LateAnswer = Box::pin(pass(call));
    tokio::select! {
        biased;
        outcome = &mut answer => Some(outcome),
        () = timer.is_over(timeout) => {
            listener.hear(bounded(answer));
            None
        }
    }
}

/// The answer, or an error once [`LATE_MAX`] is over: then its connection is closed.
fn bounded(answer: LateAnswer) -> LateAnswer {
    Box::pin(async move {
        tokio::time::timeout(LATE_MAX, answer).await.unwrap_or_else(|_| {
            let text = format!("no response within {LATE_MAX:?} after its caller was told so");
            Err(Error::deadline_exceeded(text).with_outcome(Outcome::Unknown))
        })
    })
}

/// Beyond it a program says nothing of what it changes.
const LATE_MAX: Duration = Duration::from_mins(10);
