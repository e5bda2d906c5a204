//! What is known of each caller, by a keyed hash of whoever it is: a table with a bound.
//!
//! Who has a connection or a call holds what is known of it, so that a call looks nobody up, and
//! nothing of it is lost. Of others what nobody needs is dropped when there is no room, and then a
//! quarter of them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;

/// Callers in shards, each with what is known of it.
#[derive(Debug)]
pub(super) struct CallerTable<T> {
    random: RandomState,
    shards: [Mutex<Shard<T>>; SHARDS],
}

type Shard<T> = HashMap<u64, Arc<T>, BuildHasherDefault<IdentityHasher>>;

/// A key that is a hash already.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

const SHARDS: usize = 16;
/// Over all shards some 65,000 callers, or as many as have connections or calls.
const SHARD_MAX: usize = 4096;

impl<T: Default> CallerTable<T> {
    /// Nobody is known.
    pub(super) fn new() -> Self {
        Self { random: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// What is known of a caller, new or not; `is_needed` says what would be missed if nobody knew
    /// it.
    pub(super) fn find(&self, who: impl Hash, is_needed: impl Fn(&T) -> bool) -> Arc<T> {
        let caller = self.random.hash_one(who);
        // By other bits than those by which the table puts it in a bucket.
        let shard = &self.shards[(caller >> 40) as usize % SHARDS];
        let mut shard = shard.lock();
        if shard.len() >= SHARD_MAX && !shard.contains_key(&caller) {
            make_room(&mut shard, is_needed);
        }
        Arc::clone(shard.entry(caller).or_default())
    }
}

impl<T: Default> Default for CallerTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

fn make_room<T>(shard: &mut Shard<T>, is_needed: impl Fn(&T) -> bool) {
    let is_held = |caller: &Arc<T>| Arc::strong_count(caller) > 1;
    shard.retain(|_, caller| is_held(caller) || is_needed(caller));
    if shard.len() >= SHARD_MAX {
        // So many that not every new one has all looked at.
        let mut left = SHARD_MAX / 4;
        shard.retain(|_, caller| {
            let stays = left == 0 || is_held(caller);
            left -= usize::from(!stays);
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn there_is_a_bound_on_callers_and_who_is_there_or_is_needed_is_not_forgotten() {
        let callers = CallerTable::<AtomicU32>::new();
        let held = callers.find("ada", |_| false);
        held.store(7, Ordering::Relaxed);
        callers.find("eve", |_| false).store(8, Ordering::Relaxed);
        for number in 0..200_000_u32 {
            callers.find(number, |known| known.load(Ordering::Relaxed) == 8);
        }
        let known: usize = callers.shards.iter().map(|shard| shard.lock().len()).sum();
        assert!(known <= SHARDS * SHARD_MAX, "{known} callers");
        assert!(Arc::ptr_eq(&held, &callers.find("ada", |_| false)));
        assert_eq!(callers.find("eve", |_| false).load(Ordering::Relaxed), 8);
        let all_needed = (0..200_000_u32).map(|number| callers.find(number, |_| true));
        assert_eq!(all_needed.map(|one| one.load(Ordering::Relaxed)).max(), Some(0));
        let known: usize = callers.shards.iter().map(|shard| shard.lock().len()).sum();
        assert!(known <= SHARDS * SHARD_MAX, "{known} callers");
    }
}
