//! Early cutoff: whether a suspect value is still good, without running its function.
//!
//! Dependencies are checked sequentially, in the order in which they were read (a later one may no
//! longer be needed), with an explicit stack, a chunk per hold of the graph lock. A dependency that
//! must be computed is computed through its erased `refresh`, with the lock released. If every
//! dependency is current at a version no newer than this node's last verification, the node is current
//! again: its edges are restored and it flips in the same hold.
#![allow(unsafe_code)]

use std::task::{Context, Poll};

use crate::graph::Shared;
use crate::graph::core::Core;
use crate::graph::event::{Cause, EventKind};
use crate::graph::owner::Refresh;
use crate::memory::fault::{Fault, injected};
use crate::memory::line::pin;
use crate::store::node::{FADED, FRESH, GHOST, Header, SUSPECT};
use crate::store::slots::Id;

/// A verification in progress; kept across polls.
pub(crate) struct Verification {
    /// What is looked at now, and on whose behalf, the root first. Mostly there is only a root, which
    /// then costs no allocation.
    top: Step,
    below: Vec<Step>,
    /// The root must end with a value in memory: its owner wants to serve it.
    own: bool,
    restarts: u32,
    /// The first dependency of the root that has changed, and how many there are.
    pub(crate) changed: Option<Cause>,
    refreshing: Option<Refresh>,
}

#[derive(Clone, Copy)]
struct Step {
    id: Id,
    /// The next dependency to look at.
    next: usize,
}

/// How far one hold of the lock got.
pub(crate) enum Progress {
    /// The root is current, or cannot be shown to be.
    Done(bool),
    /// The chunk is used up.
    More,
    /// This node must be computed.
    Compute(Id),
}

impl Verification {
    /// Verifies a dependency, computing it if need be.
    pub(crate) fn of(root: Id) -> Self {
        let top = Step { id: root, next: 0 };
        Self { top, below: Vec::new(), own: false, restarts: 0, changed: None, refreshing: None }
    }

    /// Verifies the value of a node whose computation asks.
    pub(crate) fn own(root: Id) -> Self {
        Self { own: true, ..Self::of(root) }
    }

    /// Goes on until something must be awaited. `parent` is the node that waits.
    pub(crate) fn poll(
        &mut self,
        shared: &'static Shared,
        parent: Id,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        loop {
            if let Some(refreshing) = &mut self.refreshing {
                if refreshing.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.refreshing = None;
                let core = shared.core.lock();
                let refreshed = core.node(self.top.id);
                if !refreshed.is_some_and(Header::is_current) {
                    return Poll::Ready(false);
                }
            }
            // The pin keeps the node that must be computed until its key is cloned.
            let _pin = pin();
            let mut core = shared.core.lock();
            match self.proceed(&mut core, shared.walk_chunk()) {
                Progress::Done(current) => return Poll::Ready(current),
                Progress::More => {
                    drop(core);
                    shared.between_chunks();
                }
                Progress::Compute(id) => {
                    let Some(node) = core.node(id) else { return Poll::Ready(false) };
                    let (owner, whole) = (core.owner(node), core.whole(node));
                    drop(core);
                    // SAFETY: a whole node of this owner, alive because of the pin.
                    self.refreshing =
                        Some(unsafe { (owner.functions.refresh)(owner, whole, parent) });
                }
            }
        }
    }

    /// Whether values depend on each other in a circle, as those may that tasks read late: none of them can
    /// be shown to be unchanged. Who goes round comes by the one at the last power of two again.
    fn goes_round(&self, dependency: Id) -> bool {
        let last = (1 << self.below.len().ilog2()) - 1;
        self.below[last].id == dependency
    }

    /// One chunk under the lock.
    pub(crate) fn proceed(&mut self, core: &mut Core, chunk: usize) -> Progress {
        for _ in 0..chunk {
            let step = self.top;
            let is_root = self.below.is_empty();
            let Some(node) = core.node(step.id) else {
                let Some(asker) = self.below.pop() else { return Progress::Done(false) };
                self.top = asker;
                continue;
            };
            let wants_value = is_root && self.own;
            match node.state() {
                FRESH | GHOST => {
                    let Some(asker) = self.below.pop() else {
                        return Progress::Done(node.state() == FRESH || !wants_value);
                    };
                    self.top = asker;
                    continue;
                }
                SUSPECT => {}
                FADED if !wants_value => {}
                _ if wants_value || node.is_unkept() => return Progress::Done(false),
                _ => return Progress::Compute(step.id),
            }
            match examine(core, node, step.next) {
                Finding::Unchanged => confirm(core, node),
                Finding::Changed(at) if wants_value => {
                    let of = node.dependencies(&core.slots).len();
                    self.changed = Some(Cause::Dependency { number: at + 1, of });
                    return Progress::Done(false);
                }
                Finding::Changed(_) => return Progress::Compute(step.id),
                Finding::Unsure { at, dependency } => {
                    self.below.push(Step { id: step.id, next: at });
                    if self.goes_round(dependency) {
                        return Progress::Done(false);
                    }
                    self.top = Step { id: dependency, next: 0 };
                }
                Finding::Restart => {
                    self.restarts += 1;
                    if self.restarts > RESTARTS {
                        return Progress::Done(false);
                    }
                    self.top.next = 0;
                }
            }
        }
        Progress::More
    }
}

impl Shared {
    /// Whether the version of a node, checked without computing anything, is this one.
    pub(crate) fn is_at(&self, id: Id, version: u64) -> bool {
        let mut check = Verification::of(id);
        loop {
            let mut core = self.core.lock();
            if core.node(id).is_none_or(|node| node.version() != version || node.has_failed()) {
                return false;
            }
            match check.proceed(&mut core, self.walk_chunk()) {
                Progress::Done(current) => return current,
                Progress::Compute(_) => return false,
                Progress::More => {}
            }
            drop(core);
            self.between_chunks();
        }
    }
}

enum Finding {
    Unchanged,
    /// The dependency with this number has.
    Changed(usize),
    /// This dependency must be verified first.
    Unsure {
        at: usize,
        dependency: Id,
    },
    /// Something that was fine before is suspect again.
    Restart,
}

/// Looks at the dependencies from `from` on, and at the earlier ones again at the end: they were
/// checked in earlier holds of the lock.
fn examine(core: &Core, node: &Header, from: usize) -> Finding {
    let dependencies = node.dependencies(&core.slots);
    let verified = node.verified.get();
    let mut at = from;
    while let Some(id) = dependencies.get(at) {
        match status(core, id, verified) {
            Status::Unchanged => at += 1,
            Status::Changed => return Finding::Changed(at),
            Status::Unsure => return Finding::Unsure { at, dependency: id },
        }
    }
    for (at, id) in dependencies.iter().take(from).enumerate() {
        match status(core, id, verified) {
            Status::Unchanged => {}
            Status::Changed => return Finding::Changed(at),
            Status::Unsure => return Finding::Restart,
        }
    }
    Finding::Unchanged
}

enum Status {
    Unchanged,
    Changed,
    Unsure,
}

fn status(core: &Core, dependency: Id, verified: u64) -> Status {
    match core.node(dependency) {
        None => Status::Changed,
        Some(node) if !node.is_current() => Status::Unsure,
        Some(node) if node.version() > verified => Status::Changed,
        Some(_) => Status::Unchanged,
    }
}

/// Makes a node current, up to now, when nothing of which it was made has changed, which is so of most that
/// are suspect; `false` when that takes more than a look.
#[inline]
pub(crate) fn confirm_unchanged(core: &mut Core, node: &Header) -> bool {
    let (dependencies, verified) = (node.dependencies(&core.slots), node.verified.get());
    let unchanged = dependencies.len() <= AT_ONCE
        && dependencies.iter().all(|id| matches!(status(core, id, verified), Status::Unchanged));
    if unchanged {
        confirm(core, node);
    }
    unchanged
}

/// The node is current: restores the edges that walks took since, and flips it.
fn confirm(core: &mut Core, node: &Header) {
    let verified = node.verified.get();
    let count = node.dependencies(&core.slots).len();
    for at in 0..count {
        let Some(id) = node.dependencies(&core.slots).get(at) else { break };
        let Some(dependency) = core.node(id) else { continue };
        if dependency.taken.get() > verified && !injected(Fault::EdgesNotRestored) {
            core.add_dependant(dependency, node.id);
        }
    }
    node.verified.set(core.tick);
    node.set_state(if matches!(node.state(), FADED | GHOST) { GHOST } else { FRESH });
    core.stats.verified += 1;
    core.note(EventKind::Verified, node);
}

/// Dependencies that are looked at in one hold of the graph lock.
const AT_ONCE: usize = 512;
/// Restarts of one verification before it is given up and the function runs.
const RESTARTS: u32 = 16;
