//! What the pool has decided, for whoever does it.

use tokio::time::Instant;

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<M> {
    /// Start an instance, and tell by `started` or `start_failed`.
    Start,
    /// Freeze this one.
    Freeze(M),
    /// End this one, and tell by `ended`.
    Stop(M),
    /// Nothing before this, unless something happens.
    Wait(Option<Instant>),
    /// Nothing ever again.
    Done,
}

/// The first of two times, as far as there are any.
pub(super) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
