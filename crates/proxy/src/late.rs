//! How long an answer is waited for whose caller was told that it is late.

use std::time::Duration;

use tidewire_service::{Error, LateAnswer, Outcome};

/// The answer, or an error after 10 minutes: then its connection is closed.
pub fn late(answer: LateAnswer) -> LateAnswer {
    Box::pin(async move {
        tokio::time::timeout(LATE_MAX, answer).await.unwrap_or_else(|_| {
            let text = format!("no response within {LATE_MAX:?} after its caller was told so");
            Err(Error::deadline_exceeded(text).with_outcome(Outcome::Unknown))
        })
    })
}

/// Beyond it a program says nothing of what it changes.
const LATE_MAX: Duration = Duration::from_mins(10);
