//! The event log: what the graph did, in the order of the graph lock.
//!
//! Off by default. What is recorded is chosen by kind and kept in a ring, so listening for long costs no
//! more than listening for a while. While hits are recorded they leave the lock-free path. Keys are
//! rendered with `Debug` under the graph lock, so it is for tests and for a console that asks.

use std::collections::VecDeque;
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
    /// When, in the ticks that versions are made of.
    pub tick: u64,
    /// The number of the call in whose [`Ambient`](crate::Ambient) it happened; 0 for none.
    pub tag: u64,
    /// Why, where that is known.
    pub cause: Option<Cause>,
}

/// Why something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Of a mark: the change that began at this tick.
    Change {
        /// The tick.
        tick: u64,
    },
    /// Of a function that was called for a suspect value: the first dependency that has changed.
    Dependency {
        /// Its number in the order in which dependencies were read, from 1.
        number: usize,
        /// How many there are.
        of: usize,
    },
}

/// Which events are recorded, and how many are kept. See [`Graph::record_events`](crate::Graph::record_events).
///
/// What happened to one memo, for a test or a console:
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use tidewire::memo::{EventKind, Graph, Memo, Recording};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// graph.record_events(Recording::everything().without(EventKind::Hit));
/// let double = Memo::infallible_in(&graph, "double", async |n: u32| 2 * n);
/// double.get(1).await?;
/// let kinds: Vec<_> = graph.take_events().iter().map(|event| event.kind).collect();
/// assert_eq!(kinds, [EventKind::Started, EventKind::Published]);
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    kinds: u32,
    keep: usize,
}

impl Recording {
    /// Every kind, of which the latest 65,536 are kept.
    #[must_use]
    pub const fn everything() -> Self {
        Self { kinds: u32::MAX, keep: 1 << 16 }
    }

    /// Nothing: recording ends, and what was kept is dropped.
    #[must_use]
    pub const fn nothing() -> Self {
        Self { kinds: 0, keep: 0 }
    }

    /// All but one kind. Without [`EventKind::Hit`] hits stay as fast as ever.
    #[must_use]
    pub const fn without(self, kind: EventKind) -> Self {
        Self { kinds: self.kinds & !(1 << kind as u32), keep: self.keep }
    }

    /// Keeps this many of the latest events.
    #[must_use]
    pub const fn keep(self, events: usize) -> Self {
        Self { kinds: self.kinds, keep: events }
    }

    pub(crate) const fn has(self, kind: EventKind) -> bool {
        self.kinds & (1 << kind as u32) != 0
    }

    pub(crate) const fn is_nothing(self) -> bool {
        self.kinds == 0
    }
}

/// What is recorded, and what was.
pub(crate) struct Log {
    pub(crate) recording: Recording,
    pub(crate) events: VecDeque<Event>,
}

impl Log {
    /// Adds an event; `true` when the oldest one went for it.
    pub(crate) fn push(&mut self, event: Event) -> bool {
        self.events.push_back(event);
        let full = self.events.len() > self.recording.keep;
        if full {
            self.events.pop_front();
        }
        full
    }
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
