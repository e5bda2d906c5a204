//! How keys are hashed: seeded per process and per table, so that nobody outside can pick keys that
//! collide. Under shuttle the seed is fixed, because a schedule must replay.
//!
//! The hash of a number is a product, so those of numbers that follow each other are evenly spaced; with one
//! seed in ten they crowd in a few places of a table. A second product spreads them with every seed.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::SharedSeed;
#[cfg(shuttle)]
use foldhash::fast::FixedState as Random;
use foldhash::fast::FoldHasher;
#[cfg(not(shuttle))]
use foldhash::fast::RandomState as Random;

/// The hash function of one table. Its seeds lie in it, so that a hit need not ask where they are.
#[derive(Debug)]
pub(crate) struct KeyHasher {
    seed: u64,
    shared: SharedSeed,
    /// Odd.
    factor: u64,
}

impl Default for KeyHasher {
    fn default() -> Self {
        let random = Random::default();
        let shared = SharedSeed::from_u64(random.hash_one(1));
        Self { seed: random.hash_one(0), shared, factor: FACTOR }
    }
}

impl KeyHasher {
    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        key.hash(&mut hasher);
        hasher.finish().wrapping_mul(self.factor)
    }
}

/// The golden ratio's.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
