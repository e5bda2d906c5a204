//! A reply that the cache gave, on its way out.

use std::fmt;
use std::sync::{Arc, Weak};

use tidewire_service::{CachedBody, Peer};

/// A reply that the cache gave: whom to ask whether it is given again, and by which settings.
#[derive(Clone)]
pub(crate) struct CachedHit {
    /// What is prepared keeps nothing in memory.
    pub(crate) kept: Weak<dyn CachedBody>,
    pub(crate) version: u64,
    /// Of the server's settings.
    pub(crate) edition: u64,
    pub(crate) watched: HitWatch,
}

/// Whether gates or observers see requests, and by what they are asked and told of one that is
/// answered by what is prepared.
#[derive(Clone)]
pub(crate) enum HitWatch {
    /// There are none.
    Nobody,
    /// There are, and they see the next one, too.
    Unknown,
    /// As they saw this one.
    Known(Arc<dyn RepeatWatch>),
}

/// What gates and observers have to do with requests that are answered by what is prepared.
pub(crate) trait RepeatWatch: Send + Sync {
    /// Lets a request of the same bytes pass, from this peer; `None` where something has to see it.
    fn admit(self: Arc<Self>, peer: &Arc<Peer>) -> Option<TellRepeat>;

    /// What it takes in memory, about.
    fn bytes(&self) -> usize;
}

/// Tells of a request that was answered, by a body of so many bytes.
pub(crate) type TellRepeat = Box<dyn FnOnce(usize)>;

impl HitWatch {
    /// What it takes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        if let Self::Known(known) = self { known.bytes() } else { 0 }
    }
}

impl PartialEq for CachedHit {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.kept, &other.kept)
            && self.version == other.version
            && self.edition == other.edition
    }
}

impl fmt::Debug for CachedHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedHit").field("version", &self.version).finish_non_exhaustive()
    }
}

impl CachedHit {
    /// This version of what is kept.
    pub(crate) fn new(kept: &Arc<dyn CachedBody>, version: u64, edition: u64) -> Self {
        Self { kept: Arc::downgrade(kept), version, edition, watched: HitWatch::Nobody }
    }
}
