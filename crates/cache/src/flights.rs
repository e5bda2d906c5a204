//! Which pages are asked for now, and of which an answer was kept: whether to wait for another
//! caller's answer.
//!
//! | of the page | another caller asks for it now | then |
//! |---|---|---|
//! | an answer was kept before | whether or not | one asks, the others wait for its answer |
//! | nothing is known | no | it asks, and what may be kept is |
//! | nothing is known | yes | it asks by itself: only the answer's head says whether it may be shared, and that may be long in coming |
//!
//! Both tables are of fixed size and may forget: then a caller asks by itself.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::key::Key;

/// What is known of pages, by hashes of their keys; 0 means empty.
pub(crate) struct Flights {
    hashes: RandomState,
    kept: Box<[AtomicU64]>,
    asked: Box<[AtomicU64]>,
}

/// A page that is asked for, until this is dropped.
pub(crate) struct Flight {
    flights: Arc<Flights>,
    /// 0 where all may wait for the answer.
    hash: u64,
}

impl Default for Flights {
    fn default() -> Self {
        let table = || (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { hashes: RandomState::new(), kept: table(), asked: table() }
    }
}

impl Flights {
    /// Asks for a page; `None` for whoever had better ask by itself.
    pub(crate) fn begin(self: &Arc<Self>, key: &Key) -> Option<Flight> {
        let hash = self.hash(key);
        if slot(&self.kept, hash).load(Ordering::Relaxed) == hash {
            return Some(Flight { flights: Arc::clone(self), hash: 0 });
        }
        let asked = slot(&self.asked, hash);
        let begun = asked.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Relaxed);
        begun.ok().map(|_| Flight { flights: Arc::clone(self), hash })
    }

    /// An answer for this key was kept, or could not be.
    pub(crate) fn note(&self, key: &Key, is_kept: bool) {
        let hash = self.hash(key);
        let kept = slot(&self.kept, hash);
        if is_kept {
            kept.store(hash, Ordering::Relaxed);
        } else {
            // Another page's is left alone.
            let _ = kept.compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hashes.hash_one(key).max(1)
    }
}

fn slot(table: &[AtomicU64], hash: u64) -> &AtomicU64 {
    &table[hash as usize % table.len()]
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.hash != 0 {
            slot(&self.flights.asked, self.hash).store(0, Ordering::Release);
        }
    }
}

/// 32 KiB a table.
const SLOTS: usize = 4096;
