//! How long an answer stays true.
//!
//! The side that answers says what it knows; the side that keeps the answer acts on it. A
//! [`Validator`] names the content, so it is equal on every host and after a restart; a
//! [`Lifetime`] bounds it by time; a [`Staleness`] tells when it ends early. The memo graph, a live
//! connection and an HTTP upstream implement [`Staleness`] each in their own way, and none needs to
//! know another.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long an answer stays true. The default says that nothing is known.
#[derive(Clone, Default)]
pub struct Freshness {
    /// Names the content.
    pub validator: Option<Validator>,
    /// Bounds it by time.
    pub lifetime: Lifetime,
    /// Tells when it ends early.
    pub staleness: Option<Arc<dyn Staleness>>,
}

/// A 128-bit hash of the encoded content: equal content, equal validator, on any host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Validator(pub [u8; 16]);

/// A bound by time on how long an answer may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lifetime {
    /// Nothing was said: keep it only as long as its [`Staleness`] says that it is fresh.
    #[default]
    Unknown,
    /// For this long from when it was computed.
    For(Duration),
    /// For ever: the answer to this request never changes.
    Immutable,
}

/// Tells when an answer stops being true. Once stale, it stays stale.
pub trait Staleness: Send + Sync + 'static {
    /// Whether the answer is stale by now.
    fn is_stale(&self) -> bool;

    /// Ready once the answer is stale; otherwise the task is woken when it becomes so.
    ///
    /// Several tasks may wait at once.
    fn poll_stale(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl Freshness {
    /// An answer that is known to end early when `staleness` says so.
    pub fn tracked(staleness: Arc<dyn Staleness>) -> Self {
        Self { staleness: Some(staleness), ..Self::default() }
    }

    /// Whether anything is known that would allow keeping the answer.
    pub fn is_known(&self) -> bool {
        self.staleness.is_some() || self.lifetime != Lifetime::Unknown
    }
}

impl fmt::Debug for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Freshness")
            .field("validator", &self.validator)
            .field("lifetime", &self.lifetime)
            .field("stale", &self.staleness.as_ref().map(|s| s.is_stale()))
            .finish()
    }
}
