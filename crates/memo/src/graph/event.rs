//! The event log: what the graph did, in the order of the graph lock.
//!
//! Off by default. While it is on, hits leave the lock-free path to be noted, and keys are rendered
//! with `Debug` under the graph lock, so it is for tests and for a console that asks.

use std::fmt;
use std::sync::Arc;

/// One thing that happened to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The memo or source.
    pub memo: Arc<str>,
    /// The key, rendered with `Debug`.
    pub key: String,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The function was called.
    Started,
    /// A caller joined a running computation.
    Joined,
    /// A value was served from memory.
    Hit,
    /// A value became visible.
    Published,
    /// An attempt was not published: something it read changed meanwhile.
    Rejected,
    /// Something below changed; the value is suspect.
    Marked,
    /// A suspect value turned out to be current without running its function.
    Verified,
    /// The function ran and gave an equal value: dependants stay valid.
    CutOff,
    /// The value was dropped to save memory.
    Evicted,
    /// The node was removed with its dependants marked, to save memory.
    Forced,
    /// The value outlived its `ttl`.
    Expired,
    /// The last caller went away.
    Cancelled,
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Started => "started",
            Self::Joined => "joined",
            Self::Hit => "hit",
            Self::Published => "published",
            Self::Rejected => "rejected",
            Self::Marked => "marked",
            Self::Verified => "verified",
            Self::CutOff => "cut off",
            Self::Evicted => "evicted",
            Self::Forced => "forced out",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}({})", self.kind, self.memo, self.key)
    }
}

/// Called with every mismatch.
pub(crate) type OnMismatch = dyn Fn(&Mismatch) + Send + Sync;

/// A hit that differed from what its function gives now, although nothing declared had changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The memo.
    pub memo: String,
    /// The key, rendered with `Debug`.
    pub key: String,
    /// What the value in memory depends on, as `name(key)`, in the order in which it was read.
    pub dependencies: Vec<String>,
}
