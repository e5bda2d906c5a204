//! How long a caller waits, outside of the RPC protocols, and what it is told afterwards.
//!
//! The RPC protocols have their own headers, which the crate `wire` reads. REST and plain HTTP have
//! none: there it is `Connect-Timeout-Ms`, as the same server reads it of the same client over
//! Connect. Whatever the protocol, the point in time is in the context of the call and is kept in
//! `run.rs`: when it passes the answer is `DEADLINE_EXCEEDED`, a query is dropped, a command runs
//! on, and a stream of replies ends there.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tidewire_service::{Error, Result};

use crate::observe::EndCause;

/// How long the client waits from now on.
///
/// # Errors
/// `INVALID_ARGUMENT` for a header that is not a number of milliseconds, or occurs twice.
#[inline]
pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Duration>> {
    // Few names are compared sooner than this one is hashed.
    if headers.keys().any(|name| *name == HEADER) { parse(headers) } else { Ok(None) }
}

fn parse(headers: &HeaderMap) -> Result<Option<Duration>> {
    let mut values = headers.get_all(&HEADER).iter();
    let value = values.next().filter(|_| values.next().is_none());
    let digits = value.and_then(|value| value.to_str().ok()).filter(|text| {
        !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit())
    });
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(milliseconds) => Ok(Some(Duration::from_millis(milliseconds))),
        None => Err(Error::invalid_argument(format!(
            "header {HEADER} is {}; give milliseconds in up to ten digits, such as 2500",
            value.map_or_else(|| "there twice".to_owned(), |value| format!("{value:?}"))
        ))),
    }
}

/// The error for a client that waited long enough.
pub(crate) fn deadline_error() -> Error {
    Error::deadline_exceeded("the deadline that the caller set has passed")
        .with_cause(EndCause::Deadline)
}

const HEADER: HeaderName = HeaderName::from_static("connect-timeout-ms");
