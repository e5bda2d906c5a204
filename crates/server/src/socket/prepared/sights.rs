//! Which requests the cache has answered once: what comes once is not worth preparing.

use std::sync::atomic::{AtomicU64, Ordering};

/// Some of the requests that were answered from memory, by their hashes.
///
/// A place has room for a few, the newest first; the oldest makes room. So two requests that share
/// a place and come in turn are both known. Threads that add to one place at once may lose one of
/// theirs, which is prepared later then.
#[derive(Debug)]
pub(super) struct Sights(Box<[[AtomicU64; IN_PLACE]]>);

impl Default for Sights {
    fn default() -> Self {
        Self((0..PLACES).map(|_| [const { AtomicU64::new(0) }; IN_PLACE]).collect())
    }
}

impl Sights {
    /// Whether the request of this hash was answered before.
    pub(super) fn has(&self, hash: u64) -> bool {
        self.place(hash).iter().any(|sight| sight.load(Ordering::Relaxed) == hash)
    }

    /// It is answered now; whether it was before.
    pub(super) fn add(&self, hash: u64) -> bool {
        let is_there = self.has(hash);
        if !is_there {
            self.place(hash).iter().fold(hash, |new, sight| sight.swap(new, Ordering::Relaxed));
        }
        is_there
    }

    /// It counts as not answered before.
    pub(super) fn forget(&self, hash: u64) {
        for sight in self.place(hash) {
            let _ = sight.compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn place(&self, hash: u64) -> &[AtomicU64; IN_PLACE] {
        &self.0[hash as usize % PLACES]
    }
}

const PLACES: usize = 1024;
const IN_PLACE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_share_a_place_are_known_until_newer_ones_fill_it() {
        let sights = Sights::default();
        let hash = |n: u64| 7 + (n << 32);
        assert!((0..4).all(|n| !sights.add(hash(n))));
        assert!((0..4).all(|n| sights.has(hash(n)) && sights.add(hash(n))));
        sights.forget(hash(1));
        assert!(!sights.has(hash(1)) && sights.has(hash(0)));
        assert!((4..6).all(|n| !sights.add(hash(n))));
        let known: Vec<_> = (0..6).filter(|n| sights.has(hash(*n))).collect();
        assert_eq!(known, [2, 3, 4, 5]);
    }
}
