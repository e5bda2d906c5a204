//! What a change does: mark everything that is reachable, before `changed` returns.
//!
//! The walk takes each list of dependants while it marks (so every edge is walked once per read that
//! made it), keeps its own stack (so depth costs no call stack) and takes the graph lock per chunk
//! (so that others get in). The cascade lock is held for the whole walk: a second change that reaches
//! a node which the first one marked may stop there, because the first one has finished.
//!
//! The revision counts changes whose walk is *complete*; it is bumped at the end.
#![allow(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};

use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::event::{Cause, EventKind};
use crate::graph::{Shared, raise_revision, relief};
use crate::memory::fault::{Fault, injected};
use crate::memory::sync::MutexGuard;
use crate::memory::{epoch, wake};
use crate::store::edges::Edges;
use crate::store::node::{FADED, FRESH, GHOST, Header, SUSPECT};

/// A walk that has begun: lists that were taken and how far each was walked.
#[derive(Default)]
pub(crate) struct Walk {
    stack: Vec<(Edges, usize)>,
    /// Sources that changed as a whole, and the slot up to which their nodes were marked.
    whole: Vec<(u16, u32, u64)>,
    deferred: DeferredDrops,
    marked: usize,
    /// It marks what depends on what is forced out, of which no data has changed.
    forces: bool,
    /// The tick at which the change began; 0 before its first mark.
    change: u64,
    /// Which change this is, so that its caller knows when somebody else finished it.
    number: u64,
}

/// One key of a change. Looked up without a lock, confirmed and applied under it.
pub(crate) trait Mark: Send {
    /// Looks the nodes up.
    fn find(&mut self);
    /// Whether the lookup still holds.
    fn holds(&self, core: &Core) -> bool;
    /// Marks the nodes with the tick of this change.
    fn apply(&self, core: &mut Core, walk: &mut Walk);
    /// Looking up panicked: the change is taken to concern every key of its source.
    fn widen(&mut self);
}

impl Walk {
    /// Marks one node and takes its dependants onto the stack.
    pub(crate) fn mark(&mut self, core: &mut Core, node: &Header, state: u8) {
        node.set_state(state);
        let tick = if self.change == 0 { core.tick } else { self.change };
        self.change = tick;
        core.note_because(EventKind::Marked, node, Some(Cause::Change { tick }));
        if node.is_watched() {
            core.watchers.notify(node.id, &mut self.deferred);
        }
        self.mark_dependants(core, node);
    }

    /// A value that a node had before was out of date: whoever was given it is told, and what was made of it
    /// is checked.
    pub(crate) fn outdate(&mut self, core: &mut Core, node: &Header) {
        core.notify_watchers(node, &mut self.deferred);
        self.mark_dependants(core, node);
    }

    /// Takes the dependants of a node, whose own value is right, onto the stack.
    pub(crate) fn mark_dependants(&mut self, core: &mut Core, node: &Header) {
        let dependants = core.take_dependants(node);
        if dependants.len() > 0 {
            self.stack.push((dependants, 0));
        }
    }

    /// Marks every key of a source, changed at this tick, a chunk at a time.
    ///
    /// A node that is added meanwhile needs no mark: it begins with the tick of this change.
    pub(crate) fn mark_whole(&mut self, core: &mut Core, owner: u16) {
        core.raise_absent_all(owner, core.tick);
        self.whole.push((owner, 0, core.tick));
    }

    /// Looks at one slot for a node of a source that changed as a whole. `false` when there is none left.
    fn sweep(&mut self, core: &mut Core) -> bool {
        let Some((owner, slot, tick)) = self.whole.last_mut() else { return false };
        if *slot as usize >= core.slots.len() {
            self.whole.pop();
            return true;
        }
        let (owner, tick) = (*owner, *tick);
        let node = core.neighbour(*slot);
        *slot += 1;
        if let Some(node) = node.filter(|node| node.owner == owner && node.version() < tick) {
            // Later than whatever was published since the change began.
            node.set_version(core.tick);
            self.mark(core, node, FRESH);
        }
        true
    }

    fn is_done(&self) -> bool {
        self.stack.is_empty() && self.whole.is_empty()
    }

    /// Marks up to one chunk of nodes.
    fn step(&mut self, shared: &Shared) {
        let chunk = shared.walk_chunk();
        let mut finished = Vec::new();
        let mut core = shared.core.lock();
        if !injected(Fault::TickNotBumpedPerChunk) {
            core.tick += 1;
        }
        if !self.forces {
            core.changed_at = core.tick;
        }
        let mut marked = 0;
        for _ in 0..chunk {
            let Some((edges, at)) = self.stack.last_mut() else {
                if self.sweep(&mut core) {
                    continue;
                }
                break;
            };
            let Some(id) = edges.get(*at) else {
                // Lists with memory of their own are freed outside the lock.
                finished.extend(self.stack.pop().filter(|(edges, _)| edges.heap_bytes() > 0));
                continue;
            };
            *at += 1;
            if let Some(soon) = edges.get(*at + PREFETCH) {
                core.slots.prefetch(soon);
            }
            let Some(node) = core.node(id) else { continue };
            node.disturb();
            let suspect = match node.state() {
                FRESH => SUSPECT,
                GHOST => FADED,
                _ => continue,
            };
            marked += 1;
            self.mark(&mut core, node, suspect);
        }
        core.stats.marked += marked;
        self.marked += marked as usize;
        drop(core);
        drop(finished);
    }

    fn finish(&mut self, shared: &Shared) {
        while !self.is_done() {
            self.step(shared);
            shared.between_chunks();
        }
        self.complete();
    }

    /// The end of a change: from now on, callers are later than it.
    fn complete(&self) {
        if !self.forces
            && !injected(Fault::RevisionBumpedEarly)
            && !injected(Fault::RevisionNeverBumped)
        {
            raise_revision();
        }
    }
}

/// Looks every key up. Returns what the first of those that panicked said.
fn look_up(marks: &mut [&mut dyn Mark]) -> Option<Panic> {
    let mut first = None;
    for mark in marks {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| mark.find())) {
            mark.widen();
            first.get_or_insert(panic);
        }
    }
    first
}

type Panic = Box<dyn Any + Send>;

impl Shared {
    /// Applies a change and returns how many nodes it marked, when everything reachable is marked.
    pub(crate) fn change(&self, marks: &mut [&mut dyn Mark]) -> usize {
        let mut walk = Walk::default();
        let mut panic = None;
        {
            let _held =
                (!injected(Fault::NoCascadeLock)).then(|| self.begin(marks, &mut walk, &mut panic));
            if injected(Fault::NoCascadeLock) {
                panic = look_up(marks);
                self.try_apply(marks, &mut walk);
            }
            walk.finish(self);
        }
        self.after_change();
        if let Some(panic) = panic.filter(|_| !std::thread::panicking()) {
            resume_unwind(panic);
        }
        walk.marked
    }

    /// The same as a future that does one chunk per poll.
    pub(crate) fn change_async<'a>(
        &'static self,
        marks: Vec<Box<dyn Mark + 'a>>,
    ) -> impl Future<Output = ()> + Send + 'a {
        ChangeAsync { shared: self, marks, begun: false, number: 0, over: false }
    }

    /// Runs `first` under both locks and walks what it marked: a change of what is no source.
    pub(crate) fn cascade(&self, first: impl FnOnce(&mut Core, &mut Walk)) -> usize {
        self.walk(Walk::default(), first)
    }

    /// The same for what goes from memory with what depends on it, and has not changed.
    pub(crate) fn force(&self, first: impl FnOnce(&mut Core, &mut Walk)) {
        self.walk(Walk { forces: true, ..Walk::default() }, first);
    }

    fn walk(&self, mut walk: Walk, first: impl FnOnce(&mut Core, &mut Walk)) -> usize {
        {
            let _held = self.lock_cascade(&mut walk.deferred);
            let mut core = self.core.lock();
            if walk.forces {
                core.begin_walk();
            } else {
                core.begin_change();
            }
            first(&mut core, &mut walk);
            drop(core);
            walk.finish(self);
        }
        self.after_change();
        walk.marked
    }

    /// Takes the cascade lock with no walk left in it. Whom that wakes is woken with `deferred`, by when the
    /// lock is released: a waker may come straight back.
    pub(crate) fn lock_cascade(
        &self,
        deferred: &mut DeferredDrops,
    ) -> MutexGuard<'_, Option<Walk>> {
        let mut held = self.cascade.lock();
        if let Some(mut left) = held.take() {
            left.finish(self);
            deferred.take(&mut left.deferred);
        }
        held
    }

    /// Looks the keys up without a lock, then takes both locks and applies them.
    fn begin(
        &self,
        marks: &mut [&mut dyn Mark],
        walk: &mut Walk,
        panic: &mut Option<Panic>,
    ) -> MutexGuard<'_, Option<Walk>> {
        for _ in 0..LOOKUPS {
            *panic = look_up(marks).or_else(|| panic.take());
            let held = self.lock_cascade(&mut walk.deferred);
            if self.try_apply(marks, walk) {
                return held;
            }
        }
        // Other threads keep inserting beside these keys: look up while nobody can.
        let held = self.lock_cascade(&mut walk.deferred);
        loop {
            *panic = look_up(marks).or_else(|| panic.take());
            if self.try_apply(marks, walk) {
                return held;
            }
        }
    }

    fn try_apply(&self, marks: &[&mut dyn Mark], walk: &mut Walk) -> bool {
        let mut core = self.core.lock();
        if !marks.iter().all(|mark| mark.holds(&core)) {
            return false;
        }
        core.begin_change();
        marks.iter().for_each(|mark| mark.apply(&mut core, walk));
        if injected(Fault::RevisionBumpedEarly) {
            raise_revision();
        }
        drop(core);
        true
    }

    /// Both locks are free: tasks that wait for them go on, and the budget is looked after.
    pub(crate) fn after_change(&self) {
        self.wake_cascade_waiters();
        relief::relieve(self);
        epoch::collect_if_due();
    }

    fn wake_cascade_waiters(&self) {
        let waiters = std::mem::take(&mut *self.cascade_waiters.lock());
        waiters.into_iter().for_each(wake::wake);
    }

    /// Whether a change has begun, and not everything that depends on it is marked yet.
    pub(crate) fn is_announcing(&self) -> bool {
        let is_announcing = self.cascade.try_lock().is_none_or(|walk| walk.is_some());
        // A task may have found the lock taken by this look.
        self.wake_cascade_waiters();
        is_announcing
    }
}

struct ChangeAsync<'a> {
    shared: &'static Shared,
    marks: Vec<Box<dyn Mark + 'a>>,
    /// It was polled, so it will be announced whatever its caller does.
    begun: bool,
    /// The walk that is left in the cascade lock between polls; 0 before there is one.
    number: u64,
    over: bool,
}

impl ChangeAsync<'_> {
    /// One step under the cascade lock; `None` when somebody else has it. `true` when the change is over.
    fn step(&mut self, deferred: &mut DeferredDrops) -> Option<bool> {
        let shared = self.shared;
        let mut marks: Vec<&mut dyn Mark> =
            self.marks.iter_mut().map(|mark| &mut **mark as &mut dyn Mark).collect();
        if self.number == 0
            && let Some(panic) = look_up(&mut marks)
        {
            resume_unwind(panic);
        }
        let mut held = shared.cascade.try_lock()?;
        if self.number == 0 && held.is_none() {
            let mut walk = Walk::default();
            if !shared.try_apply(&marks, &mut walk) {
                return Some(false);
            }
            walk.number = NEXT_WALK.fetch_add(1, SeqCst);
            self.number = walk.number;
            *held = Some(walk);
        }
        // Before this change has a walk it helps with the one that is in its way.
        let Some(walk) = held.as_mut() else { return Some(true) };
        let mine = walk.number == self.number;
        if self.number != 0 && !mine {
            return Some(true);
        }
        walk.step(shared);
        if !walk.is_done() {
            return Some(false);
        }
        walk.complete();
        deferred.take(&mut walk.deferred);
        *held = None;
        Some(mine)
    }
}

impl Future for ChangeAsync<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.begun = true;
        let mut deferred = DeferredDrops::default();
        match self.step(&mut deferred) {
            Some(true) => {
                self.over = true;
                self.shared.after_change();
                Poll::Ready(())
            }
            Some(false) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                let waker = context.waker().clone();
                self.shared.cascade_waiters.lock().push(waker);
                // The walk may have ended in between, and then nobody would wake this task.
                if self.shared.cascade.try_lock().is_some() {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for ChangeAsync<'_> {
    /// A change that has begun is finished, whatever its caller does.
    fn drop(&mut self) {
        if self.over || !self.begun {
            return;
        }
        if self.number == 0 {
            let marks = self.marks.iter_mut().map(|mark| &mut **mark as &mut dyn Mark);
            self.shared.change(&mut marks.collect::<Vec<_>>());
            return;
        }
        let mut deferred = DeferredDrops::default();
        drop(self.shared.lock_cascade(&mut deferred));
        self.shared.after_change();
    }
}

static NEXT_WALK: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// How many edges ahead of the walk nodes are loaded into the cache.
const PREFETCH: usize = 8;
/// Lookups outside the locks before one inside the cascade lock.
const LOOKUPS: usize = 4;
