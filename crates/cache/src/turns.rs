//! Which hits are checked (`verify.rs`).

use std::sync::atomic::{AtomicU32, Ordering};

use tidewire_memo::{Ambient, is_computing};

/// Which hits are checked: one of so many, none for 0.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    one_in: u32,
    hits: AtomicU32,
}

/// Marks what runs within a check: hits in it are not checked.
pub(crate) struct CheckScope;

impl Turns {
    /// Checks a share of the hits, between 0 and 1.
    pub(crate) fn of(share: f64) -> Self {
        let one_in = if share > 0.0 { (1.0 / share).clamp(1.0, 4e9).round() as u32 } else { 0 };
        Self { one_in, hits: AtomicU32::new(0) }
    }

    /// Whether any hit is checked.
    pub(crate) fn is_some(&self) -> bool {
        self.one_in != 0
    }

    /// Counts a hit, and tells whether it is checked.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.one_in != 0 && self.counts()
    }

    #[cold]
    fn counts(&self) -> bool {
        if is_computing() || Ambient::current().get::<CheckScope>().is_some() {
            return false;
        }
        self.hits.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_multiple_of(self.one_in)
    }
}
