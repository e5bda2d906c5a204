//! The life of a computation: check, run, publish, and again when a change came between.
//!
//! ```text
//!   start ──▶ Checking ──unchanged──▶ served without running
//!     ▲ │         │ changed
//!     │ ▼         ▼
//!     │ Calling ──▶ Running ──▶ Publishing ──ok──▶ done
//!     │                          │   ▲ │
//!     │          only suspect    ▼   │ │
//!     │                      Settling┘ │
//!     └──────── rejected ──────────────┘   (callers from before the attempt are served its value)
//! ```
//! An attempt notes the tick and the revision at which it starts. What it may be used for afterwards is
//! decided in [`crate::compute::publish`].
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::task::{Context, Poll};

use crate::compute::capture::Entered;
use crate::compute::inner::{Node, Running};
use crate::compute::publish::{Candidate, Verdict};
use crate::compute::work::{Done, Early, Work};
use crate::graph::core::Core;
use crate::graph::event::{Cause, EventKind};
use crate::graph::revision;
use crate::graph::trash::Trash;
use crate::graph::validate::Taint;
use crate::graph::verify::Verification;
use crate::store::error::Error;
use crate::store::key::Key;
use crate::store::node::{FRESH, SUSPECT};
use crate::store::value::Outcome;
use tidewire_memo_memory::fault::{Fault, injected};
use tidewire_memo_memory::line::pin;
use tidewire_memo_memory::wake::quietly;
use tidewire_memo_memory::{hazard, line};

/// Where a computation stands.
pub(crate) struct Attempt<V> {
    phase: Phase<V>,
    pub(crate) start_revision: u64,
    pub(crate) start_tick: u64,
    /// Attempts rejected so far.
    rejections: u32,
    /// Verifications of suspect dependencies of one candidate.
    settled: u32,
    /// The node had a value when the attempt started. Only this work can give it one.
    has_old: bool,
}

enum Phase<V> {
    /// The function is about to be called.
    Calling,
    Checking(Verification),
    Running(Running<V>),
    Publishing(Candidate<V>),
    /// Boxed, since it is rare and phases are moved about.
    Settling(Box<(Candidate<V>, Verification)>),
    Over,
}

/// What [`Attempt::abandon`] gives back, to be dropped outside of every lock.
pub(crate) struct Abandoned<V> {
    _phase: Phase<V>,
}

impl<V> Attempt<V> {
    /// The first attempt, in the hold of the graph lock in which its work is made.
    pub(crate) fn started<K>(core: &mut Core, node: &Node<K, V>, revision: u64) -> Self {
        let mut attempt = Self {
            phase: Phase::Over,
            start_revision: 0,
            start_tick: 0,
            rejections: 0,
            settled: 0,
            has_old: false,
        };
        attempt.phase = attempt.start(core, node, revision);
        attempt
    }

    /// Notes what everything later is compared with, and says what comes first.
    fn start<K>(&mut self, core: &mut Core, node: &Node<K, V>, revision: u64) -> Phase<V> {
        self.start_revision = revision;
        self.start_tick = core.tick;
        self.settled = 0;
        self.has_old = !node.header.value().is_null();
        if matches!(node.header.state(), SUSPECT | FRESH) {
            return Phase::Checking(Verification::own(node.header.id));
        }
        call(core, node, None)
    }

    /// Stops; the user's future is dropped with what this returns.
    pub(crate) fn abandon(&mut self) -> Abandoned<V> {
        Abandoned { _phase: std::mem::replace(&mut self.phase, Phase::Over) }
    }
}

impl<K: Key, V: Send + Sync + 'static> Work<K, V> {
    /// Drives the computation. `Ready` when the outcome is on the board.
    pub(crate) fn poll(self: &Arc<Self>, context: &mut Context<'_>) -> Poll<()> {
        // What callers capture is their business; the computation has a frame of its own.
        let _entered = Entered::new(None);
        let _ambient = self.ambient.clone().enter();
        let mut attempt = self.attempt.lock();
        let driven = catch_unwind(AssertUnwindSafe(|| self.drive(&mut attempt, context)));
        let polled = driven.unwrap_or_else(|payload| {
            self.panicked(payload);
            Poll::Ready(())
        });
        drop(attempt);
        if polled.is_pending() {
            self.abandon_if_cancelled();
        }
        polled
    }

    fn drive(&self, attempt: &mut Attempt<V>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let phase = std::mem::replace(&mut attempt.phase, Phase::Over);
            let next = match phase {
                Phase::Calling => self.call(),
                Phase::Checking(check) => self.check(check, context),
                Phase::Running(future) => self.run(future, attempt.has_old, context),
                Phase::Publishing(candidate) => self.try_publish(attempt, candidate),
                Phase::Settling(settling) => self.settle(attempt, settling, context),
                Phase::Over => return Poll::Ready(()),
            };
            match next {
                Next::Continue(phase) => attempt.phase = phase,
                Next::Wait(phase) => {
                    attempt.phase = phase;
                    return Poll::Pending;
                }
            }
        }
    }

    /// Whether the old value is still good.
    fn check(&self, mut check: Verification, context: &mut Context<'_>) -> Next<V> {
        let unchanged = match check.poll(self.shared(), self.id, context) {
            Poll::Pending => return Next::Wait(Phase::Checking(check)),
            Poll::Ready(unchanged) => unchanged,
        };
        let mut core = self.shared().core.lock();
        if self.head.is_finished() {
            return Next::over();
        }
        let node = self.node();
        let head = node.header.value();
        if !unchanged || node.header.state() != FRESH || head.is_null() {
            return Next::Continue(call(&mut core, node, check.changed));
        }
        // SAFETY: the node's value is alive while the graph lock is held.
        let outcome = unsafe { Outcome::from_shared(head) };
        self.conclude(&mut core, outcome, Ok(()));
        Next::over()
    }

    /// Calls the function.
    fn call(&self) -> Next<V> {
        // SAFETY: the attempt lock is held, and no user code is running in this frame.
        unsafe { &mut *self.frame() }.reset();
        let key = {
            let _pin = pin();
            if self.head.is_finished() {
                return self.over();
            }
            self.node().key.clone()
        };
        let pinned = pin();
        let function = self.inner.function.load(Acquire);
        if function.is_null() {
            return self.fail(Error::closed(&self.inner.owner.name));
        }
        // The function may take long to return its future: a hazard slot lets reclamation go on.
        // SAFETY: the line of this thread.
        let line = unsafe { &*line::mine() };
        let slot = hazard::name(line, function.cast());
        let pinned = slot.is_none().then_some(pinned);
        let named = Named(slot);
        // SAFETY: this frame is touched by this thread only, which holds the attempt lock.
        let entered = Entered::new(Some(unsafe { &*self.frame() }));
        // SAFETY: named in a slot, or pinned.
        let future = unsafe { (*function)(key) };
        drop((entered, named, pinned));
        Next::Continue(Phase::Running(future))
    }

    fn run(&self, mut future: Running<V>, has_old: bool, context: &mut Context<'_>) -> Next<V> {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: as in `call`.
            let _entered = Entered::new(Some(unsafe { &*self.frame() }));
            Pin::new(&mut future).poll(context)
        }));
        let result = match polled {
            Ok(Poll::Pending) => return Next::Wait(Phase::Running(future)),
            Ok(Poll::Ready(result)) => result,
            Err(payload) => {
                quietly(|| drop(future));
                self.panicked(payload);
                return Next::over();
            }
        };
        let outcome = Outcome::new(result);
        drop(future);
        match self.candidate(outcome, has_old) {
            Some(candidate) => Next::Continue(Phase::Publishing(candidate)),
            None => self.over(),
        }
    }

    fn try_publish(&self, attempt: &mut Attempt<V>, candidate: Candidate<V>) -> Next<V> {
        match self.publish(attempt.start_tick, candidate) {
            Verdict::Settled => Next::over(),
            Verdict::Again(candidate) if attempt.settled < SETTLE_LIMIT => {
                attempt.settled += 1;
                Next::Continue(Phase::Publishing(candidate))
            }
            Verdict::Again(candidate) => self.rejected(attempt, candidate),
            Verdict::Rejected(candidate) => self.rejected(attempt, candidate),
            Verdict::Suspect(candidate, dependency) => {
                if attempt.settled >= SETTLE_LIMIT {
                    return self.rejected(attempt, candidate);
                }
                attempt.settled += 1;
                self.serve_early(attempt, &candidate);
                let check = Verification::of(dependency);
                Next::Continue(Phase::Settling(Box::new((candidate, check))))
            }
        }
    }

    fn settle(
        &self,
        attempt: &mut Attempt<V>,
        mut settling: Box<(Candidate<V>, Verification)>,
        context: &mut Context<'_>,
    ) -> Next<V> {
        match settling.1.poll(self.shared(), self.id, context) {
            Poll::Pending => Next::Wait(Phase::Settling(settling)),
            Poll::Ready(true) => Next::Continue(Phase::Publishing(settling.0)),
            Poll::Ready(false) => self.rejected(attempt, settling.0),
        }
    }

    /// The value is not valid now. Whoever arrived before the attempt started may have it all the same;
    /// for the others, and there is at most one more round of them, the function runs again.
    fn rejected(&self, attempt: &mut Attempt<V>, candidate: Candidate<V>) -> Next<V> {
        let lenient = candidate.is_hopeless() || self.serves_early(attempt);
        let mut trash = Trash::default();
        {
            let mut core = self.shared().core.lock();
            if self.head.is_finished() {
                return Next::over();
            }
            core.stats.rejected += 1;
            if lenient && self.refused(attempt, &candidate).outdated {
                core.ring(&self.node().header, &mut trash);
            }
            core.note(EventKind::Rejected, &self.node().header);
            let all_early = self.head.latest_join.get() <= attempt.start_revision;
            if (all_early && lenient) || injected(Fault::EarlyForAnyone) {
                core.stats.unpublished += 1;
                let taint = self.refused(attempt, &candidate);
                self.conclude(&mut core, candidate.outcome, Err(taint));
                return Next::over();
            }
        }
        self.serve_early(attempt, &candidate);
        attempt.rejections += 1;
        let mut core = self.shared().core.lock();
        if self.head.is_finished() {
            return Next::over();
        }
        self.head.rejected.set(false);
        let phase = attempt.start(&mut core, self.node(), revision());
        self.head.start_tick.set(attempt.start_tick);
        Next::Continue(phase)
    }

    fn serves_early(&self, attempt: &Attempt<V>) -> bool {
        !self.inner.options.is_strict() || attempt.rejections >= STRICT_LIMIT
    }

    /// Why a value is not kept. What was rejected over and over is not asked for again by whoever used it.
    fn refused(&self, attempt: &Attempt<V>, candidate: &Candidate<V>) -> Taint {
        let hopeless = candidate.is_hopeless() || attempt.rejections >= STRICT_LIMIT;
        candidate.refused().or(if hopeless { Taint::UNTRACKED } else { Taint::default() })
    }

    fn serve_early(&self, attempt: &Attempt<V>, candidate: &Candidate<V>) {
        if !(candidate.is_hopeless() || self.serves_early(attempt)) {
            return;
        }
        let early = Early {
            start: attempt.start_revision,
            outcome: candidate.outcome.clone(),
            taint: self.refused(attempt, candidate),
        };
        let old = self.board.lock().early.replace(early);
        drop(old);
        self.wake_all();
    }

    fn panicked(&self, payload: Box<dyn std::any::Any + Send>) {
        self.shared().core.lock().stats.panicked += 1;
        self.fail(Error::panicked(&self.inner.owner.name, &*payload));
        quietly(|| drop(payload));
    }

    /// Everyone who waits gets the error; nothing is memoized.
    fn fail(&self, error: Error) -> Next<V> {
        let outcome = Outcome::new(Err(error));
        let mut core = self.shared().core.lock();
        if !self.head.is_finished() {
            self.conclude(&mut core, outcome, Err(Taint::UNTRACKED));
        }
        Next::over()
    }

    /// Over, as somebody said who may still be putting the outcome on the board, under the graph lock.
    fn over(&self) -> Next<V> {
        drop(self.shared().core.lock());
        Next::over()
    }

    /// Puts the outcome on the board and takes the work off its node.
    pub(crate) fn conclude(
        &self,
        core: &mut Core,
        outcome: Outcome<V>,
        standing: Result<(), Taint>,
    ) {
        let mut trash = Trash::default();
        let node = self.node();
        self.finish(core);
        self.inner.discard_empty(core, node, &mut trash);
        self.board.lock().done = Some(Done { outcome, standing });
    }
}

/// Notes that the function is called next.
fn call<K, V>(core: &mut Core, node: &Node<K, V>, cause: Option<Cause>) -> Phase<V> {
    core.stats.started += 1;
    core.note_because(EventKind::Started, &node.header, cause);
    Phase::Calling
}

/// Clears a hazard slot when the call that it guards is over, whichever way.
struct Named(Option<&'static hazard::Slot>);

impl Drop for Named {
    fn drop(&mut self) {
        self.0.into_iter().for_each(hazard::clear);
    }
}

enum Next<V> {
    Continue(Phase<V>),
    Wait(Phase<V>),
}

impl<V> Next<V> {
    fn over() -> Self {
        Self::Continue(Phase::Over)
    }
}

/// Suspect dependencies verified for one candidate before it is given up.
const SETTLE_LIMIT: u32 = 16;
/// Rejected attempts after which a strict memo serves early values after all.
const STRICT_LIMIT: u32 = 16;
