//! Changes while a response is on its way: what was asked for before a change is not stored after
//! it, since it may be of the state before.
//!
//! A change is kept by a hash of its key or tag, with its number. Once there are too many, all of
//! them are forgotten, and what was asked for before that is not stored.

use std::collections::HashMap;

/// The changes that were, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    last: u64,
    /// Changes up to this one are forgotten.
    forgotten: u64,
    by_hash: HashMap<u64, u64>,
}

impl Changes {
    /// The number of the last one.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// A key or a tag changed.
    pub(crate) fn add(&mut self, hash: u64) {
        self.last += 1;
        if self.by_hash.len() >= KEPT_MAX {
            self.by_hash.clear();
            self.forgotten = self.last;
        }
        self.by_hash.insert(hash, self.last);
    }

    /// Everything may have changed.
    pub(crate) fn add_all(&mut self) {
        self.last += 1;
        self.by_hash.clear();
        self.forgotten = self.last;
    }

    /// Whether none of these changed since that one.
    pub(crate) fn is_none_since(&self, number: u64, mut hashes: impl Iterator<Item = u64>) -> bool {
        number >= self.forgotten
            && hashes.all(|hash| self.by_hash.get(&hash).is_none_or(|last| *last <= number))
    }
}

const KEPT_MAX: usize = 1 << 16;
