//! What an operator may do to one entry by its number, without its memo's types at hand.
//!
//! Both are what [`Memo`](crate::Memo) has for a key, and as safe: nothing that is stale is ever current
//! because of them. A key of a source has no value; invalidating it is saying that it changed.

use crate::compute::capture::Frame;
use crate::graph::Graph;
use crate::graph::deferred::DeferredDrops;
use crate::memory::epoch;
use crate::memory::line::pin;
use crate::store::slots::Id;

impl Graph {
    /// Makes an entry stale, whatever its dependencies say, and everything that depends on it. Returns how
    /// many dependants were marked; `None` when it is gone.
    pub fn invalidate(&self, id: u64) -> Option<usize> {
        Frame::announces(self.shared);
        let mut found = false;
        let marked = self.shared.cascade(|core, walk| {
            let Some(node) = core.node(Id::from_bits(id)) else { return };
            found = true;
            match node.is_source() {
                // It goes, with a version that is later than what anybody has read.
                true => {
                    if node.hash == 0 {
                        // One interval: those that are read next begin with the change of all.
                        core.raise_absent_all(node.owner, core.tick);
                    }
                    core.force_out(node, walk);
                }
                false => core.invalidate(node, walk),
            }
        });
        found.then_some(marked)
    }

    /// Drops the value of an entry from memory; nobody is told, because nothing changed. `false` when there
    /// was nothing to drop, it is computed just now, or it is a source that somebody depends on.
    pub fn evict(&self, id: u64) -> bool {
        let mut deferred = DeferredDrops::default();
        let _pin = pin();
        let mut core = self.shared.core.lock();
        let evicted =
            core.node(Id::from_bits(id)).is_some_and(|node| core.evict(node, &mut deferred));
        drop(core);
        epoch::collect_if_due();
        evicted
    }
}
