//! Whether a change was announced already, so that the same one need not be announced again.
//!
//! Whoever commits a write and announces it hears of it a second time where a change log tells of
//! every write. The tick of the acknowledged commit is kept: what was announced after it covers it.

use std::sync::atomic::Ordering::Relaxed;

use super::{Node, Point, Source};
use crate::graph::deferred::DeferredDrops;
use crate::memory::line::pin;
use crate::range::RangeHits;
use crate::store::key::Key;

impl<K: Key> Source<K> {
    /// Where the graph's counter of changes is. A change that is announced after this call is later.
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.shared().core.lock().tick
    }

    /// Whether a change of `key` need not be announced again: one was after [`tick`](Self::tick) returned
    /// this, and everything that depends on the key is marked. Whatever was true of the data at that tick,
    /// nobody is given an older value any more. May say `false` of a key whose change was announced, and
    /// `true` of one that nothing in memory depends on.
    #[must_use]
    pub fn changed_since(&self, key: &K, tick: u64) -> bool {
        let is_announced = self.is_announced(key, tick);
        // Whoever came for that lock meanwhile waits to be told that it is free.
        self.shared().after_change();
        is_announced
    }

    fn is_announced(&self, key: &K, tick: u64) -> bool {
        let inner = self.inner;
        let hash = inner.hasher.hash(key);
        // Wakes whom a walk left, after the lock is released.
        let mut deferred = DeferredDrops::default();
        // A walk that has begun is over when this is held.
        let _walks = self.shared().lock_cascade(&mut deferred);
        let _pin = pin();
        let stabbed = inner.intervals.get().map(|intervals| intervals.stab(key));
        if stabbed.as_ref().is_some_and(RangeHits::is_unsure) {
            return false;
        }
        let is_it = |node: &Node<K>| matches!(&node.key, Point::Key(known) if known == key);
        let node = inner.table.find(hash, is_it);
        let core = self.shared().core.lock();
        // Who reads the key from now on begins with this version, whoever raised it.
        let of_key = match node.and_then(|node| core.node(node.header.id)) {
            Some(node) => node.version(),
            None => core.absent(inner.owner.number, hash),
        };
        let ids = stabbed.iter().flat_map(RangeHits::ids);
        let of_intervals = ids.filter_map(|id| core.node(id)).all(|node| node.version() > tick);
        // An interval that is read from now on begins with the last change of any key.
        of_key > tick && of_intervals && inner.last_change.load(Relaxed) > tick
    }
}
