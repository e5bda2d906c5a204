//! What is known of each caller: a table with a bound.
//!
//! Who has a connection or a call holds what is known of it, so that a call looks nobody up, and
//! nothing of it is lost. Of others what nobody needs is dropped when there is no room, and then a
//! quarter of them.

use parking_lot::Mutex;
use std::sync::Arc;

use tidewire_service::{CallerKey, CallerMap};

/// Callers in shards, each with what is known of it.
#[derive(Debug)]
pub(super) struct CallerTable<T>([Mutex<Shard<T>>; SHARDS]);

type Shard<T> = CallerMap<Arc<T>>;

const SHARDS: usize = 16;
/// Over all shards some 65,000 callers, or as many as have connections or calls.
const SHARD_MAX: usize = 4096;

impl<T: Default> CallerTable<T> {
    /// Nobody is known.
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }

    /// What is known of a caller, new or not; `is_needed` says what would be missed if nobody knew
    /// it.
    pub(super) fn find(&self, caller: CallerKey, is_needed: impl Fn(&T) -> bool) -> Arc<T> {
        // By other bits than those by which the table puts it in a bucket.
        let shard = &self.0[(caller.number() >> 40) as usize % SHARDS];
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
    use tidewire_service::{Context, Principal};

    fn key(name: impl ToString) -> CallerKey {
        let mut context = Context::default();
        context.set_principal(Principal::new("id", name.to_string()));
        context.caller_key()
    }

    #[test]
    fn there_is_a_bound_on_callers_and_who_is_there_or_is_needed_is_not_forgotten() {
        let callers = CallerTable::<AtomicU32>::new();
        let held = callers.find(key("ada"), |_| false);
        held.store(7, Ordering::Relaxed);
        callers.find(key("eve"), |_| false).store(8, Ordering::Relaxed);
        for number in 0..200_000_u32 {
            callers.find(key(number), |known| known.load(Ordering::Relaxed) == 8);
        }
        let known: usize = callers.0.iter().map(|shard| shard.lock().len()).sum();
        assert!(known <= SHARDS * SHARD_MAX, "{known} callers");
        assert!(Arc::ptr_eq(&held, &callers.find(key("ada"), |_| false)));
        assert_eq!(callers.find(key("eve"), |_| false).load(Ordering::Relaxed), 8);
        let all_needed = (0..200_000_u32).map(|number| callers.find(key(number), |_| true));
        assert_eq!(all_needed.map(|one| one.load(Ordering::Relaxed)).max(), Some(0));
        let known: usize = callers.0.iter().map(|shard| shard.lock().len()).sum();
        assert!(known <= SHARDS * SHARD_MAX, "{known} callers");
    }
}
