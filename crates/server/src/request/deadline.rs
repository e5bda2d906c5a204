//! How long a caller waits, outside of the RPC protocols, and what it is told afterwards.
//!
//! The RPC protocols have their own headers, which the crate `wire` reads. REST and plain HTTP have
//! none: there it is `Connect-Timeout-Ms`, as the same server reads it of the same client over
//! Connect. Whatever the protocol, the deadline is in the context of the call, and `run_call.rs`
//! enforces it: when it passes, the answer is `DEADLINE_EXCEEDED`, a query is dropped, a command
//! runs on, and a stream of replies ends.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tidewire_service::{Context, DeadlineOwner, Error, Result};
use tokio::time::Instant;

use crate::request::failure::EndCause;

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

/// When a call has to be answered, and who wants that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    owner: DeadlineOwner,
}

impl Deadline {
    /// That of a call.
    #[inline]
    pub(crate) fn of_call(context: &Context) -> Option<Self> {
        let at = Instant::from_std(context.deadline()?);
        Some(Self { at, owner: context.deadline_owner() })
    }

    /// The error once it has passed.
    pub(crate) fn error(self) -> Error {
        let text = match self.owner {
            DeadlineOwner::ServerDefault => {
                "the caller set no deadline, and limits.deadline_default of the server has passed"
            }
            DeadlineOwner::ServerMax => "limits.deadline_max of the server has passed",
            _ => "the deadline that the caller set has passed",
        };
        Error::deadline_exceeded(text).with_cause(EndCause::Deadline)
    }
}

const HEADER: HeaderName = HeaderName::from_static("connect-timeout-ms");
