//! What a change does: mark everything that is reachable, before `changed` returns.
//!
//! The walk takes each list of dependants while it marks (so every edge is walked once per read that
//! made it), keeps its own stack (so depth costs no call stack) and takes the graph lock per chunk
//! (so that others get in). The cascade lock is held for the whole walk: a second change that reaches
//! a node which the first one marked may stop there, because the first one has finished.
//!
//! The revision counts changes whose walk is *complete*; it is bumped at the end.
#![allow(unsafe_code)]

use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};

use crate::core::Core;
use crate::edges::Edges;
use crate::event::EventKind;
use crate::fault::{Fault, injected};
use crate::graph::Shared;
use crate::node::{FADED, FRESH, GHOST, Header, SUSPECT};
use crate::sync::MutexGuard;
use crate::trash::Trash;
use crate::{budget, epoch};

/// A walk that has begun: lists that were taken and how far each was walked.
#[derive(Default)]
pub(crate) struct Walk {
    stack: Vec<(Edges, usize)>,
    trash: Trash,
    marked: usize,
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
}

impl Walk {
    /// Marks one node and takes its dependants onto the stack.
    pub(crate) fn mark(&mut self, core: &mut Core, node: &Header, state: u8) {
        node.set_state(state);
        core.note(EventKind::Marked, node);
        if node.is_watched() {
            core.watchers.notify(node.id, &mut self.trash);
        }
        let dependants = node.take_dependants(core);
        if dependants.len() > 0 {
            self.stack.push((dependants, 0));
        }
    }

    fn is_done(&self) -> bool {
        self.stack.is_empty()
    }

    /// Marks up to one chunk of nodes.
    fn step(&mut self, shared: &Shared) {
        let chunk = shared.walk_chunk();
        let mut finished = Vec::new();
        let mut core = shared.core.lock();
        if !injected(Fault::TickNotBumpedPerChunk) {
            core.tick += 1;
        }
        let mut marked = 0;
        for _ in 0..chunk {
            let Some((edges, at)) = self.stack.last_mut() else { break };
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
        self.complete(shared);
    }

    /// The end of a change: from now on, callers are later than it.
    fn complete(&mut self, shared: &Shared) {
        if !injected(Fault::RevisionBumpedEarly) && !injected(Fault::RevisionNeverBumped) {
            shared.revision.fetch_add(1, SeqCst);
        }
        self.trash.wake();
    }
}

impl Shared {
    /// Applies a change and returns how many nodes it marked, when everything reachable is marked.
    pub(crate) fn change(&self, marks: &mut [&mut dyn Mark]) -> usize {
        let mut walk = Walk::default();
        {
            let _held = (!injected(Fault::NoCascadeLock)).then(|| self.begin(marks, &mut walk));
            if injected(Fault::NoCascadeLock) {
                marks.iter_mut().for_each(|mark| mark.find());
                self.try_apply(marks, &mut walk);
            }
            walk.finish(self);
        }
        self.after_change();
        walk.marked
    }

    /// The same as a future that does one chunk per poll.
    pub(crate) fn change_async<'a>(
        &'static self,
        marks: Vec<Box<dyn Mark + 'a>>,
    ) -> impl Future<Output = ()> + Send + 'a {
        ChangeAsync { shared: self, marks, number: 0, over: false }
    }

    /// Runs `first` under both locks and walks what it marked. For everything that is no source.
    pub(crate) fn cascade(&self, first: impl FnOnce(&mut Core, &mut Walk)) -> usize {
        let mut walk = Walk::default();
        {
            let _held = self.lock_cascade();
            let mut core = self.core.lock();
            core.tick += 1;
            core.stats.walks += 1;
            first(&mut core, &mut walk);
            drop(core);
            walk.finish(self);
        }
        self.after_change();
        walk.marked
    }

    /// Takes the cascade lock with no walk left in it.
    pub(crate) fn lock_cascade(&self) -> MutexGuard<'_, Option<Walk>> {
        let mut held = self.cascade.lock();
        if let Some(mut left) = held.take() {
            left.finish(self);
        }
        held
    }

    /// Looks the keys up without a lock, then takes both locks and applies them.
    fn begin(&self, marks: &mut [&mut dyn Mark], walk: &mut Walk) -> MutexGuard<'_, Option<Walk>> {
        for _ in 0..LOOKUPS {
            marks.iter_mut().for_each(|mark| mark.find());
            let held = self.lock_cascade();
            if self.try_apply(marks, walk) {
                return held;
            }
        }
        // Other threads keep inserting beside these keys: look up while nobody can.
        let held = self.lock_cascade();
        loop {
            marks.iter_mut().for_each(|mark| mark.find());
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
        core.tick += 1;
        core.stats.walks += 1;
        marks.iter().for_each(|mark| mark.apply(&mut core, walk));
        if injected(Fault::RevisionBumpedEarly) {
            self.revision.fetch_add(1, SeqCst);
        }
        drop(core);
        true
    }

    fn after_change(&self) {
        let waiters = std::mem::take(&mut *self.cascade_waiters.lock());
        waiters.into_iter().for_each(std::task::Waker::wake);
        budget::relieve(self);
        epoch::collect_if_due();
    }
}

struct ChangeAsync<'a> {
    shared: &'static Shared,
    marks: Vec<Box<dyn Mark + 'a>>,
    /// The walk that is left in the cascade lock between polls; 0 before it began.
    number: u64,
    over: bool,
}

impl Future for ChangeAsync<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let shared = this.shared;
        if this.number == 0 {
            this.marks.iter_mut().for_each(|mark| mark.find());
        }
        let Some(mut held) = shared.cascade.try_lock() else {
            shared.cascade_waiters.lock().push(context.waker().clone());
            // The walk may have ended in between, and then nobody would wake this task.
            if shared.cascade.try_lock().is_some() {
                context.waker().wake_by_ref();
            }
            return Poll::Pending;
        };
        if this.number == 0 {
            if let Some(left) = held.as_mut() {
                left.step(shared);
                if left.is_done() {
                    left.complete(shared);
                    *held = None;
                }
                drop(held);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let marks: Vec<&mut dyn Mark> =
                this.marks.iter_mut().map(|mark| &mut **mark as &mut dyn Mark).collect();
            let mut walk = Walk::default();
            if !shared.try_apply(&marks, &mut walk) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            walk.number = NEXT_WALK.fetch_add(1, SeqCst);
            this.number = walk.number;
            *held = Some(walk);
        }
        let mine = held.as_mut().filter(|walk| walk.number == this.number);
        if let Some(walk) = mine {
            walk.step(shared);
            if !walk.is_done() {
                drop(held);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            walk.complete(shared);
            *held = None;
        }
        drop(held);
        this.over = true;
        shared.after_change();
        Poll::Ready(())
    }
}

impl Drop for ChangeAsync<'_> {
    /// A change that has begun is finished, whatever its caller does.
    fn drop(&mut self) {
        if self.number != 0 && !self.over {
            drop(self.shared.lock_cascade());
            self.shared.after_change();
        }
    }
}

static NEXT_WALK: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// How many edges ahead of the walk nodes are loaded into the cache.
const PREFETCH: usize = 8;
/// Lookups outside the locks before one inside the cascade lock.
const LOOKUPS: usize = 4;
