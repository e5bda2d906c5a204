//! What the sessions of one acceptor hold for their peers, all together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of answers that were not taken, over all sessions.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max }
    }

    /// A session holds `now` bytes where it held `before`.
    pub(crate) fn settle(&self, before: usize, now: usize) {
        if now >= before {
            self.bytes.fetch_add(now - before, Ordering::AcqRel);
        } else {
            self.bytes.fetch_sub(before - now, Ordering::AcqRel);
        }
    }

    /// Whether all hold too much.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > self.bytes_max
    }
}
