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

    /// A session holds `now` bytes where it held `before`; whether all hold too much.
    pub(crate) fn settle(&self, before: usize, now: usize) -> bool {
        let all = if now >= before {
            self.bytes.fetch_add(now - before, Ordering::AcqRel) + (now - before)
        } else {
            self.bytes.fetch_sub(before - now, Ordering::AcqRel) - (before - now)
        };
        all > self.bytes_max
    }
}
