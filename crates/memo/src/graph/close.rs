//! The end of a memo or a graph: functions dropped, values freed, everybody told.
#![allow(unsafe_code)]

use crate::graph::Shared;
use crate::graph::cascade::Walk;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::owner::Owner;
use crate::memory::epoch;
use crate::memory::wake::quietly;

impl Shared {
    /// Closes one memo. One that was closed before has nothing left, and its number may be another's.
    pub(crate) fn close_one(&self, owner: &'static Owner) {
        if !self.core.lock().has_owner(owner) {
            return;
        }
        self.close_owner(owner);
        let mut core = self.core.lock();
        if core.has_owner(owner) {
            core.owners[owner.number as usize] = None;
        }
        drop(core);
        epoch::collect();
    }

    /// Closes every memo and source.
    pub(crate) fn close(&self) {
        let owners: Vec<&'static Owner> = {
            let mut core = self.core.lock();
            core.closed = true;
            core.owners.iter().flatten().copied().collect()
        };
        for owner in owners {
            self.close_owner(owner);
        }
        let mut deferred = DeferredDrops::default();
        let rest = {
            let mut core = self.core.lock();
            core.watchers.close(&mut deferred);
            core.give_back()
        };
        drop((deferred, rest));
        self.audits.close();
        let report = self.on_mismatch.lock().take();
        quietly(|| drop(report));
        epoch::collect();
    }

    /// Drops the function of an owner, ends its computations and removes its nodes.
    fn close_owner(&self, owner: &'static Owner) {
        owner.closes();
        // SAFETY: called with the owner's own function table.
        unsafe { (owner.functions.close)(owner) };
        let mut deferred = DeferredDrops::default();
        deferred.wakers.extend(self.core.lock().writes.stop_waiting());
        drop(deferred);
        loop {
            let mut deferred = DeferredDrops::default();
            let mut more = false;
            self.cascade(|core, walk| more = core.close_some(owner, walk, &mut deferred));
            drop(deferred);
            if !more {
                break;
            }
        }
        // SAFETY: this owner's own function table, and no node of it is left.
        unsafe { (owner.functions.free)(owner, &mut self.core.lock()) };
    }
}

impl Core {
    /// Whether this owner is one still.
    fn has_owner(&self, owner: &Owner) -> bool {
        let place = self.owners.get(owner.number as usize).copied().flatten();
        place.is_some_and(|known| std::ptr::eq(known, owner))
    }

    /// Removes some nodes of an owner; `true` when there are more.
    fn close_some(
        &mut self,
        owner: &'static Owner,
        walk: &mut Walk,
        deferred: &mut DeferredDrops,
    ) -> bool {
        for _ in 0..PER_HOLD {
            let Some(node) = self.neighbour(owner.queue.oldest.get()) else { return false };
            let work = self.flight_pointer(node);
            if !work.is_null() {
                // SAFETY: the running work of a node of this owner.
                unsafe { (owner.functions.abort)(self, owner, work, deferred) };
            }
            self.force_out(node, walk);
        }
        true
    }
}

const PER_HOLD: usize = 128;
