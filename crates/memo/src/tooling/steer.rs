//! What an operator may do to one entry by its number, without its memo's types at hand.
//!
//! Both are what [`Memo`](crate::Memo) has for a key, and as safe: nothing that is stale is ever current
//! because of them. A key of a source has no value; invalidating it is saying that it changed.
#![allow(unsafe_code)]

use crate::compute::capture::Frame;
use crate::graph::Graph;
use crate::graph::cascade::Mark;
use crate::graph::deferred::DeferredDrops;
use crate::memory::epoch;
use crate::memory::line::pin;
use crate::store::slots::Id;

impl Graph {
    /// Makes an entry stale, whatever its dependencies say, and everything that depends on it. Returns how
    /// many dependants were marked; `None` when it is gone.
    ///
    /// A key of a source counts as changed, also for whoever reads an interval around it. An interval of a
    /// source counts as changed for those who read just this one.
    pub fn invalidate(&self, id: u64) -> Option<usize> {
        let id = Id::from_bits(id);
        if let Some(mut change) = self.change_of(id) {
            return Some(self.shared.change(&mut [&mut *change]));
        }
        Frame::announces(self.shared);
        let mut found = false;
        let marked = self.shared.cascade(|core, walk| {
            let Some(node) = core.node(id) else { return };
            found = true;
            match node.is_source() {
                // It goes, with a version that is later than what anybody has read.
                true => {
                    // Those that are read next begin with the change of all.
                    core.raise_absent_all(node.owner, core.tick);
                    core.force_out(node, walk);
                }
                false => core.invalidate(node, walk),
            }
        });
        found.then_some(marked)
    }

    /// A change of the key of a source that this entry stands for, if it does.
    fn change_of(&self, id: Id) -> Option<Box<dyn Mark>> {
        let _pin = pin();
        let (owner, node) = {
            let core = self.shared.core.lock();
            let node = core.node(id)?;
            (core.owner(node), core.whole(node))
        };
        // SAFETY: its own owner's function; alive because of the pin.
        unsafe { (owner.functions.change)(owner, node) }
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
