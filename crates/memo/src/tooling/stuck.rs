//! Naming what never ends: above all a cycle through a task that was spawned without `scope`.
//!
//! A cycle is found when the computation that closes it asks on behalf of a computation. A task that is
//! spawned without [`scope`](crate::compute::scope()) asks on behalf of nobody, so a cycle through it is a hang
//! that no single call can tell from slowness. What remains visible is half of it: a computation that
//! has been running for long, waits for no other computation, and is waited for by others. That is
//! what is reported, once for each computation, when somebody asked for it and tells the time.
//!
//! Costs nothing until [`Graph::on_stuck`] is called; afterwards, every `advance` looks at the running
//! computations.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::graph::core::{Core, Lookout};
use crate::graph::owner::Owner;
use crate::graph::{Graph, Shared};
use crate::memory::line::pin;
use crate::memory::wake::quietly;
use crate::store::node::Header;
use crate::store::slots::Id;

/// A computation that has been running for long and waits for no other one that the graph knows of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stuck {
    /// The computation, as `memo(key)`.
    pub running: String,
    /// For how long it has been seen to run, in the time that `advance` was told.
    pub seen_for: Duration,
    /// Calls that wait for it, of computations and of tasks.
    pub callers: u32,
    /// The computations that wait for it, directly or through others, as `memo(key)`; nearest first.
    pub waiting: Vec<String>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { running, seen_for, callers, waiting } = self;
        let one = |task: &str| {
            format!(
                "if it waits for a spawned task that asks for {task}, that is a cycle: wrap the task's future in `scope`"
            )
        };
        write!(f, "{running} has been running for {seen_for:?} with {callers} waiting calls")?;
        match waiting.last() {
            Some(last) => write!(f, ", of {}; {}", waiting.join(" and "), one(last)),
            None => write!(f, "; {}", one(running)),
        }
    }
}

impl Graph {
    /// Lets `report` be told of every computation that has been running for `after` or longer while it
    /// waits for no other computation: a slow function, or one that waits for itself through a task
    /// that was spawned without `scope`, which nothing else can find. What is computed for a caller that holds a
    /// write guard is not looked at.
    ///
    /// For debugging. Time is what [`Graph::advance`] is told, which then asks to be called again within
    /// `after`; so a computation is reported once, by an age of at most twice that.
    pub fn on_stuck(&self, after: Duration, report: impl Fn(&Stuck) + Send + Sync + 'static) {
        let lookout: Lookout =
            Arc::new(move |shared, now| shared.look_for_stuck(now, after, &report));
        let (old, alarm) = {
            let mut core = self.shared.core.lock();
            (core.lookout.replace(lookout), core.expiry.alarm())
        };
        drop(old);
        alarm.iter().for_each(|alarm| alarm());
    }
}

impl Shared {
    /// Reports what is stuck at `now`. Returns when to look again.
    fn look_for_stuck(
        &self,
        now: Instant,
        after: Duration,
        report: &dyn Fn(&Stuck),
    ) -> Option<Instant> {
        // The pin keeps nodes alive until they are named, outside the lock: names come from user code.
        let _pin = pin();
        let mut core = self.core.lock();
        let found = core.stuck(now, after);
        drop(core);
        for found in found {
            let name = |&(owner, node): &(&'static Owner, *const Header)| {
                // SAFETY: a whole node of this owner, alive because of the pin.
                format!("{}({})", owner.name, unsafe { (owner.functions.label)(node) })
            };
            let mut names = found.nodes.iter().map(name);
            let Some(running) = names.next() else { continue };
            let (seen_for, callers, waiting) = (found.seen_for, found.callers, names.collect());
            // Its panic is its own: whoever tells the time goes on.
            quietly(|| report(&Stuck { running, seen_for, callers, waiting }));
        }
        now.checked_add(after)
    }
}

/// A computation and what waits for it, not named yet.
struct StuckComputation {
    nodes: Vec<(&'static Owner, *const Header)>,
    seen_for: Duration,
    callers: u32,
}

impl Core {
    fn stuck(&mut self, now: Instant, after: Duration) -> Vec<StuckComputation> {
        let mut due = Vec::new();
        let mut waits = HashSet::new();
        for running in self.works.iter() {
            // SAFETY: the work of a node is alive while it hangs there, and the graph lock is held.
            let head = unsafe { &*running };
            waits.extend(self.parents_of(head));
            if let Some(seen_for) = head.seen(now).filter(|&seen_for| seen_for >= after) {
                due.push((head, seen_for));
            }
        }
        // What waits for another computation is that one's business.
        due.retain(|(head, _)| !waits.contains(&head.node) && head.tell_once());
        due.into_iter()
            .map(|(head, seen_for)| {
                let ids = self.waiting_for(head.node);
                let nodes = ids.into_iter().filter_map(|id| self.node(id));
                let nodes = nodes.map(|node| (self.owner(node), self.whole(node))).collect();
                StuckComputation { nodes, seen_for, callers: head.callers() }
            })
            .collect()
    }

    /// A node and what waits for it, nearest first.
    fn waiting_for(&self, id: Id) -> Vec<Id> {
        let mut found = vec![id];
        let mut at = 0;
        while at < found.len() && found.len() < NAMED {
            let node = self.node(found[at]);
            for parent in node.into_iter().flat_map(|node| self.parents(node)) {
                if !found.contains(&parent) {
                    found.push(parent);
                }
            }
            at += 1;
        }
        found
    }
}

/// Computations that one report names, about.
const NAMED: usize = 16;
