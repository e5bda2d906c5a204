//! How memory stays bounded: a SIEVE queue per owner, ghosts, and forcing out.
//!
//! Every node counts its bytes. Above the budget, the hand of a queue moves from the oldest node to
//! the newest: a node that was asked for since the hand last passed is spared once, any other loses
//! its value. If something current depends on it (or a watch does), it stays as a ghost, through which
//! invalidations still travel; else the node goes. When nothing but ghosts and source nodes is left to
//! take, the oldest of them are forced out with their dependants marked: over-invalidation is
//! allowed, under-invalidation never. Forcing needs the cascade lock, so it happens after a `get` or
//! `changed`, never inside a publish.
//!
//! Hits pay one relaxed bit, written when clear. When the graph is over its budget, queues are relieved
//! in turn, the one with the most bytes first.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::graph::cascade::Walk;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::event::EventKind;
use crate::graph::owner::{Owner, Queue};
use crate::graph::{Graph, Shared};
use crate::memory::epoch;
use crate::memory::fault::{Fault, injected};
use crate::store::node::{DIRTY, FADED, FRESH, GHOST, Header, SUSPECT};
use crate::store::slots::Id;

/// The accounts of a graph.
pub(crate) struct Ledger {
    bytes: usize,
    budget: usize,
    /// Ghosts as they became ghosts; ids of nodes that recovered may remain, and come once more.
    ghosts: VecDeque<Id>,
    ghosts_before_prune: usize,
    /// Hashes of values that were evicted, where the memo can give one.
    fingerprints: HashMap<Id, u64>,
    /// Values larger than a budget, to be evicted next.
    oversized: Vec<Id>,
    /// What was made at this tick or later may have been read by a computation that runs.
    in_use_from: u64,
    /// The same, and is not evicted now.
    spare_from: u64,
    /// Something is above a budget only because a watch needs it.
    pub(crate) spared_for_watch: bool,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            bytes: 0,
            budget: DEFAULT_BUDGET,
            ghosts: VecDeque::new(),
            ghosts_before_prune: GHOSTS_BEFORE_PRUNE,
            fingerprints: HashMap::new(),
            oversized: Vec::new(),
            in_use_from: u64::MAX,
            spare_from: u64::MAX,
            spared_for_watch: false,
        }
    }

    /// Bytes of what is kept beside the nodes.
    fn aside(&self) -> usize {
        self.fingerprints.len() * FINGERPRINT_BYTES + self.ghosts.len() * size_of::<Id>()
    }

    /// Adds a ghost to the line; forgets when they recovered where that is the majority of it.
    fn queue_ghost(&mut self, id: Id, is_ghost: impl Fn(Id) -> bool) {
        if self.ghosts.len() >= self.ghosts_before_prune {
            let line = std::mem::take(&mut self.ghosts);
            let mut known = HashSet::new();
            let latest = line.into_iter().rev().filter(|&id| is_ghost(id) && known.insert(id));
            latest.for_each(|id| self.ghosts.push_front(id));
            self.ghosts_before_prune = (self.ghosts.len() * 2).max(GHOSTS_BEFORE_PRUNE);
        }
        self.ghosts.push_back(id);
    }

    #[cold]
    fn note_oversized(&mut self, id: Id) {
        self.oversized.push(id);
    }

    #[cold]
    fn replace_fingerprint(&mut self, id: Id, fingerprint: Option<u64>) {
        match fingerprint {
            Some(fingerprint) => _ = self.fingerprints.insert(id, fingerprint),
            None => _ = self.fingerprints.remove(&id),
        }
    }

    /// Whether it remembers a fingerprint at all.
    #[inline]
    pub(crate) fn remembers(&self) -> bool {
        !self.fingerprints.is_empty()
    }

    pub(crate) fn fingerprint(&self, id: Id) -> Option<u64> {
        self.fingerprints.get(&id).copied()
    }
}

impl Graph {
    /// Sets the byte budget of the graph; the default is 256 MiB.
    ///
    /// Counted are nodes, keys and values by their size, what [`Memo::weigh`](crate::Memo::weigh) says
    /// that a value holds beyond that, and edges. Handles and watches keep values alive beyond it, and some MiB of
    /// what was replaced or evicted, of all graphs together, wait to be freed.
    pub fn set_budget(&self, bytes: usize) {
        let mut core = self.shared.core.lock();
        core.ledger.budget = bytes;
        core.check_budget(self.shared, None);
        drop(core);
        relieve(self.shared);
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

    fn unlink(&mut self, node: &Header) {
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

    fn is_over(&self) -> bool {
        self.bytes() > self.ledger.budget
    }

    /// A computation that runs may have read whatever was made since it began, and would begin again if
    /// that went: it is spared as long as the graph is not far above its budget. Further above only the
    /// values go, and their ghosts remain, with which the computation can be published all the same.
    fn spare_what_is_in_use(&mut self) {
        // SAFETY: the works of nodes are alive while the graph lock is held.
        let starts = self.works.iter().map(|work| unsafe { &*work }.start_tick.get());
        self.ledger.in_use_from = starts.min().unwrap_or(u64::MAX);
        self.limit_what_is_spared();
    }

    fn limit_what_is_spared(&mut self) {
        let near = self.bytes() <= self.ledger.budget.saturating_add(OVERDRAFT);
        self.ledger.spare_from = if near { self.ledger.in_use_from } else { u64::MAX };
    }

    fn is_spared(&self, node: &Header) -> bool {
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
    fn under_hand<'a>(&self, queue: &Queue) -> Option<&'a Header> {
        let place = if queue.hand.get() == END { &queue.oldest } else { &queue.hand };
        let node = self.neighbour(place.get())?;
        queue.hand.set(node.newer.get());
        Some(node)
    }

    /// Drops what is stale and was not asked for among the next `steps` nodes of a queue, with the sources that
    /// only it read. Near the budget that is left to eviction, whose hand takes what is current too.
    pub(crate) fn sweep(&mut self, queue: &Queue, steps: usize, deferred: &mut DeferredDrops) {
        let is_near = self.bytes() > self.ledger.budget / 8 * 7;
        let steps = if is_near || queue.bytes.get() < LEFT_ALONE { 0 } else { steps };
        for _ in 0..steps {
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

    /// The next victim of one queue: the hand moves on over the nodes that are spared.
    fn next_victim<'a>(&self, queue: &Queue, hand: &mut Hand) -> Option<&'a Header> {
        while hand.steps > 0 {
            hand.steps -= 1;
            let node = self.under_hand(queue)?;
            let busy = node.is_computing();
            let empty = matches!(node.state(), GHOST | FADED);
            if !busy && !empty && !self.is_spared(node) {
                hand.helped = true;
                if !node.take_visited() {
                    return Some(node);
                }
                if node.is_source() {
                    // By whatever runs, perhaps, which would begin again.
                    node.verified.set(self.tick);
                }
            }
        }
        None
    }
}

/// What one hold of the graph lock may do and did.
struct Hand {
    steps: usize,
    /// A value went, or lost its second chance.
    helped: bool,
}

impl Queue {
    fn is_over(&self) -> bool {
        self.bytes.get() > self.budget.get()
    }
}

/// Brings the graph back under its budgets. Call it with no lock held; cheap when there is nothing
/// to do.
#[inline]
pub(crate) fn relieve(shared: &Shared) {
    if shared.over_budget.load(Relaxed) {
        relieve_now(shared);
    }
}

#[cold]
fn relieve_now(shared: &Shared) {
    if shared.relieving.swap(true, SeqCst) {
        return;
    }
    shared.over_budget.store(false, SeqCst);
    let mut owners = over_budget(shared);
    evict_oversized(shared);
    owners.sort_unstable_by_key(|&(bytes, ..)| std::cmp::Reverse(bytes));
    for &(_, length, owner) in &owners {
        // Every node is seen twice at most: once to clear its bit, once to take it.
        let mut steps = length * 2 + 2;
        while evict_some(shared, owner, &mut steps) {}
    }
    let mut passed = 0;
    while force_some(shared, &mut passed) {}
    let mut core = shared.core.lock();
    if core.ledger.spare_from != u64::MAX {
        // Something was spared for a computation: look again when it is over.
        shared.over_budget.store(true, SeqCst);
    }
    core.ledger.in_use_from = u64::MAX;
    drop(core);
    shared.relieving.store(false, SeqCst);
}

/// Evicts values that are larger than a whole budget, before everything else goes for their sake.
fn evict_oversized(shared: &Shared) {
    let mut deferred = DeferredDrops::default();
    let mut core = shared.core.lock();
    core.spare_what_is_in_use();
    for id in std::mem::take(&mut core.ledger.oversized) {
        if let Some(node) = core.node(id).filter(|node| !matches!(node.state(), GHOST | FADED)) {
            core.evict(node, &mut deferred);
        }
    }
    core.limit_what_is_spared();
}

/// The owners that must give something back, with the bytes and the length of their queues.
fn over_budget(shared: &Shared) -> Vec<(usize, usize, &'static Owner)> {
    let core = shared.core.lock();
    let all = core.is_over();
    let owners = core.owners.iter().flatten();
    let over = owners.filter(|owner| all || owner.queue.is_over());
    let sized = |owner: &&'static Owner| {
        let queue = &owner.queue;
        (queue.bytes.get(), queue.length.get() as usize, *owner)
    };
    over.map(sized).collect()
}

/// Evicts values of one owner in one hold of the graph lock; `true` when more is to be done here.
fn evict_some(shared: &Shared, owner: &'static Owner, steps: &mut usize) -> bool {
    let mut deferred = DeferredDrops::default();
    let mut core = shared.core.lock();
    let queue = &owner.queue;
    let mut hand = Hand { steps: (*steps).min(HOLD), helped: false };
    *steps -= hand.steps;
    while queue.is_over() || core.is_over() {
        let Some(node) = core.next_victim(queue, &mut hand) else { break };
        core.evict(node, &mut deferred);
    }
    let still = queue.is_over() || core.is_over();
    drop(core);
    drop(deferred);
    still && hand.helped
}

/// Forces out ghosts, the oldest first, then source nodes; `true` when more is to be done. Those of memos that are
/// within their budget are passed by, a bounded number at a time, and stand at the end of the line then.
fn force_some(shared: &Shared, passed: &mut usize) -> bool {
    if over_budget(shared).is_empty() {
        return false;
    }
    let mut forced = false;
    let mut shorter = false;
    let passed_before = *passed;
    shared.cascade(|core, walk| {
        core.limit_what_is_spared();
        let line = core.ledger.ghosts.len();
        for _ in 0..HOLD.min(core.ledger.ghosts.len()) {
            let Some(ghost) = core.ledger.ghosts.pop_front() else { break };
            let Some(node) = core.node(ghost) else { continue };
            let is_ghost = matches!(node.state(), GHOST | FADED);
            if !is_ghost {
                continue;
            }
            let over = core.is_over() || core.queue(node).is_over();
            if !over && core.owners.iter().flatten().any(|owner| owner.queue.is_over()) {
                core.ledger.ghosts.push_back(ghost);
                *passed += 1;
                continue;
            }
            if !over {
                core.ledger.ghosts.push_front(ghost);
                break;
            }
            let needed = core.is_spared(node) || core.serves_watch(node);
            if !needed && core.force_out(node, walk) {
                forced = true;
            } else {
                core.ledger.ghosts.push_back(ghost);
            }
        }
        // Ids of nodes that recovered or went before may fill a whole hold, with ghosts behind them.
        shorter = core.ledger.ghosts.len() < line;
        if !forced && !shorter {
            forced = core.force_sources(walk);
        }
    });
    forced || shorter || *passed > passed_before && *passed < PASSED
}

impl Core {
    /// Forces out source nodes of the owner that holds the most, oldest first.
    fn force_sources(&mut self, walk: &mut Walk) -> bool {
        let sources = self.owners.iter().flatten().filter(|owner| owner.is_source);
        let over = self.is_over();
        let largest = sources
            .filter(|owner| over || owner.queue.is_over())
            .max_by_key(|owner| owner.queue.length.get())
            .copied();
        let Some(owner) = largest else { return false };
        let mut forced = false;
        for _ in 0..HOLD {
            if !self.is_over() && !owner.queue.is_over() {
                break;
            }
            let Some(node) = self.neighbour(owner.queue.oldest.get()) else { break };
            if self.is_spared(node) || self.serves_watch(node) {
                self.renew(node);
            } else {
                forced |= self.force_out(node, walk);
            }
        }
        forced
    }

    /// Puts a node at the young end of its queue.
    fn renew(&mut self, node: &Header) {
        let weight = node.weight.get() as usize;
        self.unlink(node);
        self.enqueue(self.queue(node), node, weight);
    }

    /// Whether a watch is above this node. What a watch needs is not forced out: the watch would compute
    /// it anew at once, force out another's, and so on while nothing changes.
    ///
    /// Looks at a bounded number of nodes; when they do not decide, the answer is yes, and one of the
    /// nodes with many dependants stays.
    fn serves_watch(&mut self, node: &Header) -> bool {
        let serves = !self.watchers.is_empty() && self.has_watch_above(node);
        self.ledger.spared_for_watch |= serves;
        serves
    }

    fn has_watch_above(&self, node: &Header) -> bool {
        let mut found = vec![node.id];
        let mut at = 0;
        while let Some(node) = found.get(at).and_then(|&id| self.node(id)) {
            if node.is_watched() || found.len() > WATCH_SCAN {
                return true;
            }
            for id in node.dependants(&self.slots).iter().take(WATCH_SCAN + 1) {
                if !found.contains(&id) && self.node(id).is_some() {
                    found.push(id);
                }
            }
            at += 1;
        }
        false
    }
}

/// Nodes that are looked at for a watch above.
const WATCH_SCAN: usize = 64;
const END: u32 = u32::MAX;
/// Steps of the hand per hold of the graph lock.
const HOLD: usize = 128;
/// Ghosts of others that are passed by when a memo is above its own budget.
const PASSED: usize = 1024;
const GHOSTS_BEFORE_PRUNE: usize = 1024;
/// About what an entry of a map with a key of 8 bytes takes.
const FINGERPRINT_BYTES: usize = 32;
/// Bytes above the budget up to which what running computations may have read is spared.
const OVERDRAFT: usize = 64 << 10;
const DEFAULT_BUDGET: usize = 256 << 20;
const LEFT_ALONE: usize = 1 << 20;
