//! How long a client of REST waits: `Connect-Timeout-Ms`, as over Connect.
//!
//! There is no standard header for it. This one is what the same server reads of the same client over
//! Connect, so that a client needs no second name for it. The deadline is in the context of the call,
//! and kept here: when it passes, the answer is `DEADLINE_EXCEEDED` (504), a query is dropped and a
//! command runs on; a stream of replies ends there.

use std::time::Duration;

use http::HeaderMap;
use tidewire_service::{Error, Result};
use tokio::time::Instant;

use crate::observe::Ended;

/// When the client stops waiting.
///
/// # Errors
/// `INVALID_ARGUMENT` for a header that is no number of milliseconds.
pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Instant>> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let milliseconds = value.to_str().ok().filter(|text| {
        !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit())
    });
    match milliseconds.and_then(|text| text.parse().ok()) {
        Some(milliseconds) => Ok(Some(Instant::now() + Duration::from_millis(milliseconds))),
        None => Err(Error::invalid_argument(format!(
            "header {HEADER} is {value:?}; give milliseconds in up to ten digits, such as 2500"
        ))),
    }
}

/// The error for a client that waited long enough.
pub(crate) fn passed() -> Error {
    Error::deadline_exceeded("the deadline that connect-timeout-ms set has passed")
        .with_cause(Ended::Deadline)
}

const HEADER: &str = "connect-timeout-ms";
