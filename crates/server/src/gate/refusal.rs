//! A refusal that is over after a while, and who is never refused.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use tidewire_service::{Error, Head, Target};

use super::own_targets::HEALTH;

/// Refuses for now: `status` is for protocols that have statuses of HTTP.
pub(super) fn later(status: StatusCode, wait: Duration, text: String) -> Error {
    let mut error = Error::resource_exhausted(text).with_http_status(status);
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
        error.headers_mut().insert(RETRY_AFTER, value);
    }
    error
}

/// Whether it is a question of health, which is answered under any load.
pub(super) fn is_health(head: &Head) -> bool {
    matches!(&head.target, Target::Method(method) if method.service == HEALTH)
}
