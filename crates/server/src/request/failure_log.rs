//! The line of the log for a call that failed by the server's own fault.

use tidewire_service::{Code, Error, OneLine};

use crate::request::failure::EndCause;
use crate::request::observe::Watch;
use tidewire_service::LogLimit;

/// Logs an error that is the server's own fault, with its cause; others are the caller's business,
/// also that it went away.
pub(crate) fn log(error: &Error, target: &str) {
    let cause = std::error::Error::source(error);
    let ended = cause.and_then(|cause| cause.downcast_ref::<EndCause>());
    // A deadline is the caller's own.
    if error.code() == Code::Canceled || ended == Some(&EndCause::Deadline) {
        return;
    }
    let is_fault = matches!(error.code(), Code::Internal | Code::Unknown | Code::DataLoss);
    if is_fault || cause.is_some() {
        let Some(left_out) = FAILED.line(std::time::Instant::now()) else { return };
        // What a panic said was logged where it happened.
        let cause = cause.filter(|_| ended.is_none()).map(|cause| OneLine(cause).to_string());
        let error = OneLine(error);
        Watch::with_current(|watch| {
            let described = watch.map(Watch::described);
            let call = OneLine(described.as_ref().map_or(target, |it| &it.call));
            let program = described.as_ref().and_then(|it| it.program);
            let request_id = described.as_ref().and_then(|it| it.id);
            tracing::error!(%call, program, request_id, %error, cause, left_out, "a call failed");
        });
    }
}

/// Calls that failed.
static FAILED: LogLimit = LogLimit::ten_a_second();
