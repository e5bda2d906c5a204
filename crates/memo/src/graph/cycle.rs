//! Cycles: a value that would wait for itself.
//!
//! Waits-for edges are walked upward, from the computation that asks through everything that waits for
//! it (`join!` gives one computation several children, but each knows its parents). They are kept under
//! the graph lock, so a cycle that spans tasks is found by whoever closes it.
//!
//! A change may turn edges round while a run of before waits, so that what waits is in no state a cycle. So
//! before somebody is told of one, a run in it that a change has overtaken begins anew: it waits for nothing
//! any more, and asks for what it needs now. First of all, what only looks at an old value by the edges of then
//! calls its function.
#![allow(unsafe_code)]

use std::collections::HashMap;

use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::flight::{Parent, WorkHead};
use crate::graph::owner::Owner;
use crate::store::node::Header;
use crate::store::slots::Id;

/// The cycle that `asker` would close by waiting for `wanted`, if it would.
#[inline]
pub(crate) fn find(core: &Core, asker: Parent, wanted: &Header) -> Option<Cycle> {
    if asker.node == Id::NONE || !wanted.is_computing() || !core.is_running(asker) {
        return None;
    }
    search(core, asker.node, wanted.id)
}

/// The same after looks at old values, and runs that changes have overtaken, begin anew, as long as there is one
/// in the cycle. Whom to wake for that is to be woken outside of the lock.
#[cold]
pub(crate) fn find_current(
    core: &Core,
    asker: Parent,
    wanted: &Header,
    deferred: &mut DeferredDrops,
) -> Option<Cycle> {
    while let Some(cycle) = find(core, asker, wanted) {
        let first = |is_such: &dyn Fn(&WorkHead) -> bool| {
            cycle.nodes.iter().find_map(|&(owner, node)| {
                // SAFETY: a node of the cycle, alive while the graph lock is held.
                let node = unsafe { &*node };
                is_such(core.flight(node)?).then(|| (owner, core.flight_pointer(node)))
            })
        };
        let outrun = match first(&|head| head.looks.take()) {
            None if first(&WorkHead::outruns_itself).is_some() => None,
            None => first(&|head| head.takes_turn(core)),
            looks => looks,
        };
        let Some((owner, work)) = outrun else { return Some(cycle) };
        // SAFETY: the running work of a node of this owner.
        unsafe { (owner.functions.begin_anew)(work, deferred) };
    }
    None
}

fn search(core: &Core, asker: Id, wanted: Id) -> Option<Cycle> {
    // From each node found, the one that it waits for on the way down to `asker`.
    let mut below: HashMap<Id, Id> = HashMap::new();
    let mut open = vec![asker];
    while let Some(id) = open.pop() {
        if id == wanted {
            return Some(path(core, asker, wanted, &below));
        }
        let Some(node) = core.node(id) else { continue };
        for parent in core.parents(node) {
            if parent != asker && !below.contains_key(&parent) {
                below.insert(parent, id);
                open.push(parent);
            }
        }
    }
    None
}

/// The nodes of a cycle, to be named after the graph lock is released: names come from user code.
pub(crate) struct Cycle {
    nodes: Vec<(&'static Owner, *const Header)>,
}

impl Cycle {
    /// `memo(key)` of every node, the first one again at the end. Under the pin of [`find`].
    pub(crate) fn names(&self) -> Vec<String> {
        let closed = self.nodes.iter().chain(self.nodes.first());
        let name = |&(owner, node): &(&'static Owner, *const Header)| {
            // SAFETY: a whole node of this owner, alive because of the pin.
            format!("{}({})", owner.name, unsafe { (owner.functions.label)(node) })
        };
        closed.map(name).collect()
    }
}

fn path(core: &Core, asker: Id, wanted: Id, below: &HashMap<Id, Id>) -> Cycle {
    let mut nodes = Vec::new();
    let mut at = wanted;
    loop {
        nodes.extend(core.node(at).map(|node| (core.owner(node), core.whole(node))));
        match below.get(&at) {
            Some(&next) if at != asker => at = next,
            _ => return Cycle { nodes },
        }
    }
}
