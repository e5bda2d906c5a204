//! How far the HTTP library is with the requests of a connection of HTTP/1.1.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::CachedHit;

/// How far the HTTP library is with the requests of one connection. One task writes and reads it.
#[derive(Debug, Default)]
pub(crate) struct RequestProgress {
    awaits_head: AtomicBool,
    count: AtomicUsize,
    /// One more than the bytes of the last body; 0 where that is not known.
    length: AtomicU64,
    /// How many had a body, or may have.
    bodies: AtomicUsize,
    /// How often requests were answered beside the library.
    answered: AtomicUsize,
    has_hit: AtomicBool,
    hit: Mutex<Option<CachedHit>>,
}

/// The requests that have begun.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestCounts {
    pub(super) count: usize,
    /// How long the body of the last one is, as far as its head says that.
    pub(super) length: Option<u64>,
    /// How many had a body, or may have; and how many of them before the last one.
    pub(super) bodies: usize,
    pub(super) bodies_before: usize,
}

impl RequestProgress {
    /// The library waits for a head: the response before is printed.
    pub(crate) fn await_head(&self) {
        self.awaits_head.store(true, Ordering::Relaxed);
    }

    /// A head was read, of a request with a body of this length, if that is known.
    pub(crate) fn begin(&self, length: Option<u64>) {
        self.awaits_head.store(false, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        if length != Some(0) {
            self.bodies.fetch_add(1, Ordering::Relaxed);
        }
        let length = length.map_or(0, |length| length.saturating_add(1));
        self.length.store(length, Ordering::Relaxed);
    }

    /// The last request is answered by the cache.
    pub(crate) fn set_hit(&self, hit: CachedHit) {
        *self.hit.lock() = Some(hit);
        self.has_hit.store(true, Ordering::Relaxed);
    }

    /// How often requests were answered beside the library.
    pub(crate) fn answer_count(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Requests were answered beside the library.
    pub(crate) fn count_answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn awaits_head(&self) -> bool {
        self.awaits_head.load(Ordering::Relaxed)
    }

    pub(super) fn counts(&self) -> RequestCounts {
        let count = self.count.load(Ordering::Relaxed);
        let length = self.length.load(Ordering::Relaxed).checked_sub(1);
        let bodies = self.bodies.load(Ordering::Relaxed);
        let last = usize::from(count > 0 && length != Some(0));
        RequestCounts { count, length, bodies, bodies_before: bodies - last }
    }

    pub(super) fn take_hit(&self) -> Option<CachedHit> {
        if !self.has_hit.load(Ordering::Relaxed) {
            return None;
        }
        self.has_hit.store(false, Ordering::Relaxed);
        self.hit.lock().take()
    }
}

impl RequestCounts {
    /// Whether one has begun since, and the last one had no body.
    pub(super) fn is_bodiless_since(self, before: Self) -> bool {
        self.count > before.count && self.length == Some(0)
    }
}
