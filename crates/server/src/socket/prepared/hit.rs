//! A reply that the cache gave, on its way out.

use std::fmt;
use std::sync::{Arc, Weak};

use tidewire_service::CachedBody;

/// A reply that the cache gave: whom to ask whether it is given again, and by which settings.
#[derive(Clone)]
pub(crate) struct CachedHit {
    /// What is prepared keeps nothing in memory.
    pub(crate) kept: Weak<dyn CachedBody>,
    pub(crate) version: u64,
    /// Of the server's settings.
    pub(crate) edition: u64,
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
        Self { kept: Arc::downgrade(kept), version, edition }
    }
}
