//! How memory stays bounded: a SIEVE queue per owner, ghosts, and forcing out. When, and in which order of
//! owners, says [`crate::graph::relief`].
//!
//! Every node counts its bytes. Above the budget, the hand of a queue moves from the oldest node to
//! the newest: a node that was asked for since the hand last passed is spared once, any other loses
//! its value. If something current depends on it (or a watch does), it stays as a ghost, through which
//! invalidations still travel; else the node goes. When nothing but ghosts and source nodes is left to
//! take, the oldest of them are forced out with their dependants marked: over-invalidation is
//! allowed, under-invalidation never. Forcing needs the cascade lock, so it happens after a `get` or
//! `changed`, never inside a publish.
//!
//! Hits pay one relaxed bit, written when clear.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::SeqCst;

use crate::graph::cascade::Walk;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::event::EventKind;
use crate::graph::owner::{Owner, Queue};
use crate::graph::{Graph, Shared, relief};
use crate::memory::epoch;
use crate::memory::fault::{Fault, injected};
use crate::store::node::{DIRTY, FADED, FRESH, GHOST, Header, SUSPECT};
use crate::store::slots::Id;

impl Graph {
    /// Sets the byte budget of the graph; the default is 256 MiB.
    ///
    /// Counted are nodes, keys and values by their size, what [`Memo::weigh`](crate::Memo::weigh) says
    /// that a value holds beyond that, errors by twice the length of their message, and edges. Handles and watches keep values alive beyond it, and some MiB of
    /// what was replaced or evicted, of all graphs together, wait to be freed. A lower budget frees
    /// places for other values, of any graph; the places themselves stay with the process.
    pub fn set_budget(&self, bytes: usize) {
        let mut core = self.shared.core.lock();
        core.ledger.budget = bytes;
        core.check_budget(self.shared, None);
        drop(core);
        relief::relieve(self.shared);
    }
}

impl Core {
    /// Puts a new node at the young end of its owner's queue.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, queue: &Queue, node: &Header, weight: usize) {
        let slot = node.id.slot();
        let newest = queue.newest.replace(slot);
        node.older.set(newest);
        node.newer.set(END);
        match self.neighbour(newest) {
            Some(neighbour) => neighbour.newer.set(slot),
            None => queue.oldest.set(slot),
        }
        queue.length.set(queue.length.get() + 1);
        self.weigh(queue, node, weight);
    }

    /// Takes a node out of its queue and out of the accounts.
    pub(crate) fn dequeue(&mut self, node: &Header) {
        self.unlink(node);
        epoch::note_bytes(node.weight.get() as usize);
        self.weigh(self.queue(node), node, 0);
        self.keep_fingerprint(node.id, None);
    }

    pub(super) fn unlink(&mut self, node: &Header) {
        let queue = self.queue(node);
        let (newer, older) = (node.newer.get(), node.older.get());
        match self.neighbour(newer) {
            Some(neighbour) => neighbour.older.set(older),
            None => queue.newest.set(older),
        }
        match self.neighbour(older) {
            Some(neighbour) => neighbour.newer.set(newer),
            None => queue.oldest.set(newer),
        }
        if queue.hand.get() == node.id.slot() {
            queue.hand.set(newer);
        }
        queue.length.set(queue.length.get() - 1);
    }

    /// Weighs a node with a new value, and notes one that no budget has room for.
    #[inline(always)]
    pub(crate) fn weigh_value(&mut self, owner: &Owner, node: &Header, value_bytes: usize) {
        self.weigh_whole(owner, node, value_bytes);
        let weight = node.weight.get() as usize;
        if weight > self.ledger.budget || weight > owner.queue.budget.get() {
            self.ledger.note_oversized(node.id);
        }
    }

    /// Changes what a node counts for: itself, its edges in both directions and its value.
    #[inline(always)]
    fn weigh_whole(&mut self, owner: &Owner, node: &Header, value_bytes: usize) {
        let edges =
            node.dependencies(&self.slots).heap_bytes() + node.dependants(&self.slots).heap_bytes();
        self.weigh(&owner.queue, node, (owner.node_bytes + edges).saturating_add(value_bytes));
    }

    /// Counts more for a node.
    pub(crate) fn add_weight(&mut self, node: &Header, more: usize) {
        self.weigh(self.queue(node), node, (node.weight.get() as usize).saturating_add(more));
    }

    #[inline]
    pub(crate) fn weigh(&mut self, queue: &Queue, node: &Header, weight: usize) {
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let old = node.weight.replace(weight) as usize;
        queue.bytes.set(queue.bytes.get() - old + weight as usize);
        self.ledger.bytes = self.ledger.bytes - old + weight as usize;
    }

    /// Everything that is accounted for.
    pub(crate) fn bytes(&self) -> usize {
        self.ledger.bytes + self.ledger.aside() + self.expiry.bytes() + self.watchers.bytes()
    }

    pub(super) fn is_over(&self) -> bool {
        self.bytes() > self.ledger.budget
    }

    /// A computation that runs may have read whatever was made since it began, and would begin again if
    /// that went: it is spared as long as the graph is not far above its budget. Further above only the
    /// values go, and their ghosts remain, with which the computation can be published all the same.
    pub(super) fn spare_what_is_in_use(&mut self) {
        // SAFETY: the works of nodes are alive while the graph lock is held.
        let starts = self.works.iter().map(|work| unsafe { &*work }.start_tick.get());
        self.ledger.in_use_from = starts.min().unwrap_or(u64::MAX);
        self.limit_what_is_spared();
    }

    pub(super) fn limit_what_is_spared(&mut self) {
        let near = self.bytes() <= self.ledger.budget.saturating_add(OVERDRAFT);
        self.ledger.spare_from = if near { self.ledger.in_use_from } else { u64::MAX };
    }

    pub(super) fn is_spared(&self, node: &Header) -> bool {
        node.verified.get() >= self.ledger.spare_from
    }

    /// Notes that somebody must call [`relieve`], if so.
    #[inline(always)]
    pub(crate) fn check_budget(&self, shared: &Shared, owner: Option<&Owner>) {
        let over_own = owner.is_some_and(|owner| owner.queue.is_over());
        if over_own || self.is_over() {
            shared.over_budget.store(true, SeqCst);
        }
    }

    /// Drops the value of a node, or the node itself when nothing depends on it. Not while it computes.
    pub(crate) fn evict(&mut self, node: &Header, deferred: &mut DeferredDrops) -> bool {
        if node.is_computing() {
            return false;
        }
        let owner = self.owner(node);
        let state = node.state();
        let in_use = node.verified.get() >= self.ledger.in_use_from;
        if node.is_source() {
            return !in_use && self.evict_source(owner, node, deferred);
        }
        let needed = node.is_watched()
            || matches!(state, FRESH | GHOST) && (in_use || self.has_live_dependants(node))
            || self.may_prove_equal(node);
        if !needed || injected(Fault::NoGhost) {
            self.note(EventKind::Evicted, node);
            self.remove(owner, node, deferred);
            return true;
        }
        let ghost = match state {
            FRESH => GHOST,
            SUSPECT => FADED,
            _ => return false,
        };
        node.set_state(ghost);
        // SAFETY: the node belongs to this owner.
        if !unsafe { (owner.functions.drop_value)(self.whole(node)) } {
            return false;
        }
        epoch::note_bytes(node.weight.get() as usize);
        self.weigh_whole(owner, node, 0);
        self.note(EventKind::Evicted, node);
        self.stats.ghosted += 1;
        let slots = &self.slots;
        let is_ghost = |id| {
            // SAFETY: a node found in its slot is alive while the graph lock is held.
            slots.node(id).is_some_and(|node| matches!(unsafe { &*node }.state(), GHOST | FADED))
        };
        self.ledger.queue_ghost(node.id, is_ghost);
        true
    }

    /// Whether what is suspect may be found unchanged by the hash of this node's value. Whoever depends on a
    /// node that is suspect itself is in no list any more.
    fn may_prove_equal(&self, node: &Header) -> bool {
        let waits = match node.state() {
            SUSPECT => true,
            FRESH | GHOST => node.dependants(&self.slots).len() > 0,
            _ => false,
        };
        waits && self.ledger.remembers() && self.ledger.fingerprint(node.id).is_some()
    }

    /// A source node that nobody needs goes; its key is "absent" since its last change.
    fn evict_source(
        &mut self,
        owner: &'static Owner,
        node: &Header,
        deferred: &mut DeferredDrops,
    ) -> bool {
        if self.has_live_dependants(node) {
            return false;
        }
        self.raise_absent(node.owner, node.hash, node.version());
        self.remove(owner, node, deferred);
        true
    }

    /// Remembers the hash of a published value, for when the value is evicted; forgets that of the value
    /// before when the new one has none, above all when it is an error.
    #[inline]
    pub(crate) fn keep_fingerprint(&mut self, id: Id, fingerprint: Option<u64>) {
        if fingerprint.is_some() || self.ledger.remembers() {
            self.ledger.replace_fingerprint(id, fingerprint);
        }
    }

    /// Removes a node without walking its dependants: none is current, or the caller walks them.
    pub(crate) fn remove(
        &mut self,
        owner: &'static Owner,
        node: &Header,
        deferred: &mut DeferredDrops,
    ) {
        let whole = self.whole(node);
        self.disown(node, deferred);
        // SAFETY: the node belongs to this owner and its identity ended.
        unsafe { (owner.functions.unlink)(owner, whole) };
    }

    /// Removes a node whatever depends on it, and marks what does.
    pub(crate) fn force_out(&mut self, node: &Header, walk: &mut Walk) -> bool {
        if node.is_computing() {
            return false;
        }
        let owner = self.owner(node);
        self.note(EventKind::Forced, node);
        self.stats.forced += 1;
        if node.is_source() {
            self.raise_absent(node.owner, node.hash, self.tick);
        }
        if !injected(Fault::GhostDroppedSilently) {
            walk.mark(self, node, crate::store::node::GONE);
        }
        let mut deferred = DeferredDrops::default();
        self.remove(owner, node, &mut deferred);
        true
    }

    pub(crate) fn queue(&self, node: &Header) -> &'static Queue {
        &self.owner(node).queue
    }

    pub(crate) fn neighbour<'a>(&self, slot: u32) -> Option<&'a Header> {
        // SAFETY: queues hold live nodes only, and the graph lock is held.
        self.slots.at(slot).map(|node| unsafe { &*node })
    }

    /// The node under the hand of a queue, which moves on.
    pub(super) fn under_hand<'a>(&self, queue: &Queue) -> Option<&'a Header> {
        let place = if queue.hand.get() == END { &queue.oldest } else { &queue.hand };
        let node = self.neighbour(place.get())?;
        queue.hand.set(node.newer.get());
        Some(node)
    }

    /// Drops what is stale and was not asked for among the next `steps` nodes of a queue, with the sources that
    /// only it read. Near the budget that is left to eviction, whose hand takes what is current too.
    pub(crate) fn sweep(&mut self, queue: &Queue, steps: usize, deferred: &mut DeferredDrops) {
        let is_near = self.bytes() > self.ledger.budget / 8 * 7;
        let is_left_alone = is_near || queue.bytes.get() < LEFT_ALONE;
        let most = if is_left_alone { 0 } else { queue.length.get() as usize };
        for _ in 0..steps.min(most) {
            let Some(node) = self.under_hand(queue) else { return };
            let stale = matches!(node.state(), SUSPECT | FADED | DIRTY);
            let goes = stale && !node.take_visited();
            let read: Vec<Id> = node.dependencies(&self.slots).iter().filter(|_| goes).collect();
            let gone = goes && self.evict(node, deferred);
            for id in read {
                let source = self.node(id).filter(|node| gone && node.is_source());
                _ = source.map(|source| self.evict(source, deferred));
            }
        }
    }
}

impl Queue {
    pub(super) fn is_over(&self) -> bool {
        self.bytes.get() > self.budget.get()
    }
}

const END: u32 = u32::MAX;
/// Bytes above the budget up to which what running computations may have read is spared.
const OVERDRAFT: usize = 64 << 10;
const LEFT_ALONE: usize = 1 << 20;
