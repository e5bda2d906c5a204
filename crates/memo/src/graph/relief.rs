//! Bringing a graph back within its budgets: who does so, when, and in which order things go.
//!
//! Values go first, those of the owner with the most bytes; then ghosts, the oldest first; then source nodes.
//! It happens after a `get`, a change or a task, with no lock held: never inside a publish.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::graph::Shared;
use crate::graph::cascade::Walk;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::owner::{Owner, Queue};
use crate::memory::depth::{self, Deferred};
use crate::memory::epoch;
use crate::store::node::{FADED, GHOST, Header};
use crate::store::slots::Id;

/// Brings the graph back under its budgets. Call it with no lock held; cheap when there is nothing
/// to do.
#[inline]
pub(crate) fn relieve(shared: &Shared) {
    if shared.over_budget.load(Relaxed) {
        relieve_now(shared);
    }
}

/// The same for a graph that another one's functions read: now where nothing runs, else when the outermost
/// of what runs here is over.
pub(crate) fn relieve_foreign(shared: &'static Shared) {
    if !shared.over_budget.load(Relaxed) {
        return;
    }
    if depth::is_outside() {
        relieve_now(shared);
    } else if depth::will_drain() {
        depth::defer(Box::new(OverBudget(shared)));
    }
}

struct OverBudget(&'static Shared);

impl Deferred for OverBudget {
    fn drive(self: Box<Self>) {
        relieve(self.0);
    }
}

/// The same for what a task of a node's computation has read, unless the node is being computed still, or
/// again, which may need that.
pub(crate) fn relieve_after(shared: &Shared, node: Id) {
    let is_computing = || shared.core.lock().node(node).is_some_and(Header::is_computing);
    if shared.over_budget.load(Relaxed) && !is_computing() {
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
    epoch::collect_if_due();
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
    shared.force(|core, walk| {
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

/// What one hold of the graph lock may do and did.
struct Hand {
    steps: usize,
    /// A value went, or lost its second chance.
    helped: bool,
}

impl Core {
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
/// Steps of the hand per hold of the graph lock.
const HOLD: usize = 128;
/// Ghosts of others that are passed by when a memo is above its own budget.
const PASSED: usize = 1024;
