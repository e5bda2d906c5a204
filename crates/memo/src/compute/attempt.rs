//! The life of a computation: check, run, publish, and again when a change came between.
//!
//! ```text
//!   start ──▶ Checking ──unchanged──▶ served without running
//!     ▲ │         │ changed
//!     │ ▼         ▼
//!     │ Calling ──▶ Running ──▶ (publish) ──ok──▶ done
//!     │                          │   ▲ │
//!     │          only suspect    ▼   │ │
//!     │                      Settling┘ │
//!     └──────── rejected ──────────────┘   (callers from before the attempt are served its value)
//! ```
//! Each step goes on to the next by itself; a phase is where an attempt waits, or begins. One that was rejected
//! again and again waits for another caller to begin the next.
//! An attempt notes the tick and the revision at which it starts. What it may be used for afterwards is
//! decided in [`crate::compute::publish`].
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Acquire;
use std::task::{Context, Poll};

use crate::compute::board::Done;
use crate::compute::capture::{Asker, FrameGuard};
use crate::compute::inner::{Function, Node, RunningFuture};
use crate::compute::publish::{Candidate, Verdict};
use crate::compute::work::Work;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::event::{Cause, EventKind};
use crate::graph::order::Hold;
use crate::graph::unkept::{Unkept, UnkeptReads};
use crate::graph::validate::Taint;
use crate::graph::verify::Verification;
use crate::memory::fault::{Fault, injected};
use crate::memory::line::pin;
use crate::memory::wake::quietly;
use crate::memory::{hazard, line};
use crate::store::error::Error;
use crate::store::key::Key;
use crate::store::node::{FRESH, SUSPECT};
use crate::store::value::Outcome;

/// Where a computation stands.
pub(crate) struct Attempt<V: 'static> {
    phase: Phase<V>,
    pub(crate) start_revision: u64,
    pub(crate) start_tick: u64,
    pub(super) asker: Asker,
    /// Attempts rejected so far.
    pub(super) rejections: u32,
    /// Verifications of suspect dependencies of one candidate.
    settled: u32,
    /// The node had a value when the attempt started. Only this work can give it one.
    has_old: bool,
}

enum Phase<V: 'static> {
    /// The function is about to be called. What it makes is not kept for this reason, if there is one.
    Calling(Taint),
    /// Boxed, as everything rare: phases are moved about.
    Checking(Box<Verification>),
    Running(RunningFuture<V>),
    Settling(Box<(Candidate<V>, Verification)>),
    Holding(Box<(Candidate<V>, Hold)>),
    /// Its value is not kept, and whoever polls next begins another attempt.
    Rejected,
    Over,
}

/// What a step came to.
pub(super) enum Next {
    /// The outcome is on the board.
    Over,
    /// The phase says for what.
    Wait,
    /// A new attempt.
    Again,
    /// A new attempt, which is not this caller's.
    Yield,
}

/// What [`Attempt::abandon`] gives back, to be dropped outside of every lock.
pub(crate) struct AbandonedPhase<V: 'static> {
    _phase: Phase<V>,
}

impl<V: 'static> Attempt<V> {
    /// An attempt, in the hold of the graph lock in which it begins: notes what everything later is
    /// compared with, and says what comes first: a look at the old value, unless that goes by dependencies which may
    /// be those of before and `looks` is false, or the function.
    #[inline(always)]
    pub(crate) fn start<K>(
        core: &mut Core,
        node: &Node<K, V>,
        revision: u64,
        rejections: u32,
        looks: bool,
    ) -> Self {
        let phase = match node.header.state() {
            SUSPECT if !looks => call(core, node, None),
            SUSPECT | FRESH => Phase::Checking(Box::new(Verification::own(node.header.id))),
            _ => call(core, node, None),
        };
        let has_old = !node.header.value().is_null();
        Self { rejections, has_old, ..Self::begin(core, phase, revision) }
    }

    /// The first one of a node that was just made.
    #[inline(always)]
    pub(crate) fn first<K>(core: &mut Core, node: &Node<K, V>, revision: u64) -> Self {
        note_call(core, node, None);
        Self::begin(core, Phase::Calling(Taint::default()), revision)
    }

    #[inline(always)]
    fn begin(core: &mut Core, phase: Phase<V>, revision: u64) -> Self {
        core.attempts += 1;
        Self {
            phase,
            start_revision: revision,
            start_tick: core.tick,
            asker: core.attempts,
            rejections: 0,
            settled: 0,
            has_old: false,
        }
    }

    /// Whether nothing is left of it that has a destructor.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// The next one begins when somebody polls.
    pub(super) fn rests(&mut self) {
        self.phase = Phase::Rejected;
    }

    /// Whether it looks at the old value.
    pub(crate) fn looks(&self) -> bool {
        matches!(self.phase, Phase::Checking(_))
    }

    /// Stops; the user's future is dropped with what this returns.
    pub(crate) fn abandon(&mut self) -> AbandonedPhase<V> {
        AbandonedPhase { _phase: std::mem::replace(&mut self.phase, Phase::Over) }
    }
}

impl<K: Key, V: Send + Sync + 'static> Work<K, V> {
    /// Drives the computation. `Ready` when the outcome is on the board.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let _ambient = self.ambient.enter_from_elsewhere();
        self.poll_first(&mut None, context)
    }

    /// The same where the ambient context is its own already, with the call that comes first, if it is
    /// prepared.
    pub(crate) fn poll_first(
        &self,
        prepared: &mut Option<Call<K, V>>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        // What callers capture is their business; the computation has a frame of its own.
        let _entered = FrameGuard::new(None);
        let mut attempt = self.attempt.lock();
        let driven = catch_unwind(AssertUnwindSafe(|| {
            let mut driven = self.drive(&mut attempt, prepared, context);
            while driven.is_pending() && self.head.begins_anew() {
                self.begin_anew(&mut attempt);
                driven = self.drive_on(&mut attempt, context);
            }
            driven
        }));
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

    /// Mostly the function is called and has its value at once. A call that comes first is that of the first
    /// attempt.
    #[inline(always)]
    fn drive(
        &self,
        attempt: &mut Attempt<V>,
        prepared: &mut Option<Call<K, V>>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let Phase::Calling(taint) = attempt.phase else { return self.drive_on(attempt, context) };
        // What is there has nothing to drop.
        std::mem::forget(std::mem::replace(&mut attempt.phase, Phase::Over));
        // SAFETY: the attempt lock is held, and no user code is running in this frame.
        unsafe { &*self.frame() }.begin(attempt.asker, taint);
        let next = match prepared.take().filter(|_| !self.head.is_finished()) {
            Some(call) => self.call(attempt, call, context),
            None => self.call_unprepared(attempt, context),
        };
        match next {
            Next::Over => Poll::Ready(()),
            Next::Wait => Poll::Pending,
            Next::Again => self.drive_on(attempt, context),
            Next::Yield => self.yields(attempt),
        }
    }

    #[inline(never)]
    fn drive_on(&self, attempt: &mut Attempt<V>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let next = match std::mem::replace(&mut attempt.phase, Phase::Over) {
                Phase::Calling(taint) => self.call_anew(attempt, taint, context),
                Phase::Checking(check) => self.check(attempt, check, context),
                Phase::Running(future) => {
                    // What tasks have read comes before what is read next.
                    _ = self.adopt();
                    let entered = self.enter_frame();
                    self.run_on(attempt, future, entered, context)
                }
                Phase::Settling(settling) => self.settle(attempt, settling, context),
                Phase::Holding(holding) => self.hold(attempt, holding, context),
                Phase::Rejected => self.start_rejected(attempt),
                Phase::Over => Next::Over,
            };
            match next {
                Next::Over => return Poll::Ready(()),
                Next::Wait => return Poll::Pending,
                Next::Again => {}
                Next::Yield => return self.yields(attempt),
            }
        }
    }

    /// Whether the old value is still good.
    #[inline(never)]
    fn check(
        &self,
        attempt: &mut Attempt<V>,
        mut check: Box<Verification>,
        context: &mut Context<'_>,
    ) -> Next {
        let unchanged = match check.poll(self.shared(), self.id, context) {
            Poll::Ready(unchanged) => unchanged,
            Poll::Pending => {
                attempt.phase = Phase::Checking(check);
                return Next::Wait;
            }
        };
        let mut core = self.shared().core.lock();
        if self.head.is_finished() {
            return Next::Over;
        }
        let node = self.node();
        let head = node.header.value();
        if !unchanged || node.header.state() != FRESH || head.is_null() {
            self.head.looks.set(false);
            attempt.phase = call(&mut core, node, check.changed);
            return Next::Again;
        }
        // SAFETY: the node's value is alive while the graph lock is held.
        let outcome = unsafe { Outcome::from_shared(head) };
        self.conclude(&mut core, outcome, Ok(()));
        Next::Over
    }

    #[inline(never)]
    fn call_anew(&self, attempt: &mut Attempt<V>, taint: Taint, context: &mut Context<'_>) -> Next {
        // SAFETY: the attempt lock is held, and no user code is running in this frame.
        unsafe { &mut *self.frame() }.begin_anew(attempt.asker, taint);
        self.call_unprepared(attempt, context)
    }

    /// Calls the function, and polls what it returns.
    #[inline(always)]
    fn call(&self, attempt: &mut Attempt<V>, call: Call<K, V>, context: &mut Context<'_>) -> Next {
        let Call { key, function } = call;
        let entered = self.enter_frame();
        // SAFETY: it is named.
        let future = unsafe { (*function.0)(key) };
        drop(function);
        self.run(attempt, future, entered, context)
    }

    /// Makes the frame current. This frame is touched by this thread only, which holds the attempt lock.
    #[inline(always)]
    fn enter_frame(&self) -> FrameGuard {
        // SAFETY: as above.
        FrameGuard::new(Some(unsafe { &*self.frame() }))
    }

    /// The same without anything prepared.
    #[inline(never)]
    fn call_unprepared(&self, attempt: &mut Attempt<V>, context: &mut Context<'_>) -> Next {
        let pinned = pin();
        if self.head.is_finished() {
            return self.over();
        }
        let key = self.node().key.clone();
        let function = self.inner.function.load(Acquire);
        if function.is_null() {
            return self.fail(Error::closed(&self.inner.owner.name));
        }
        let named = NamedFunction::new(function);
        let pinned = named.is_none().then_some(pinned);
        let entered = self.enter_frame();
        // SAFETY: named, or pinned.
        let future = unsafe { (*function)(key) };
        drop((named, pinned));
        self.run_on(attempt, future, entered, context)
    }

    #[inline(never)]
    fn run_on(
        &self,
        attempt: &mut Attempt<V>,
        future: RunningFuture<V>,
        entered: FrameGuard,
        context: &mut Context<'_>,
    ) -> Next {
        self.run(attempt, future, entered, context)
    }

    /// Polls the function's future, and publishes what comes out.
    #[inline(always)]
    fn run(
        &self,
        attempt: &mut Attempt<V>,
        mut future: RunningFuture<V>,
        entered: FrameGuard,
        context: &mut Context<'_>,
    ) -> Next {
        let polled = catch_unwind(AssertUnwindSafe(|| future.poll(context)));
        drop(entered);
        let result = match polled {
            Ok(Poll::Ready(result)) => result,
            Ok(Poll::Pending) => {
                attempt.phase = Phase::Running(future);
                return Next::Wait;
            }
            Err(payload) => {
                let outcome = Outcome::new(Err(self.panic_error(payload)));
                // First, since whoever comes while it is dropped asks after the panic.
                let next = self.rejected(attempt, Candidate::of_panic(outcome));
                quietly(|| drop(future));
                return next;
            }
        };
        let outcome = Outcome::new(result);
        drop(future);
        let Some(candidate) = self.candidate(outcome, attempt.has_old) else { return self.over() };
        if self.shared().has_writes() {
            return self.offer_held(attempt, candidate);
        }
        self.offer(attempt, candidate)
    }

    /// Publishes, as often as something comes between.
    #[inline(always)]
    fn offer(&self, attempt: &mut Attempt<V>, candidate: Candidate<V>) -> Next {
        match self.publish(attempt.start_tick, candidate) {
            Verdict::Settled => Next::Over,
            verdict => self.offer_again(attempt, verdict),
        }
    }

    /// The same where something was between already.
    #[inline(never)]
    fn offer_rare(&self, attempt: &mut Attempt<V>, candidate: Candidate<V>) -> Next {
        let verdict = self.publish_rare(attempt.start_tick, candidate);
        self.offer_again(attempt, verdict)
    }

    /// The same after a try.
    #[cold]
    #[inline(never)]
    fn offer_again(&self, attempt: &mut Attempt<V>, mut verdict: Verdict<V>) -> Next {
        loop {
            let (candidate, dependency) = match verdict {
                Verdict::Settled => return Next::Over,
                Verdict::Rejected(candidate) => return self.rejected(attempt, candidate),
                Verdict::Again(candidate) => (candidate, None),
                Verdict::Suspect(candidate, dependency) => (candidate, Some(dependency)),
            };
            if attempt.settled >= SETTLE_LIMIT {
                return self.rejected(attempt, candidate);
            }
            attempt.settled += 1;
            if let Some(dependency) = dependency {
                self.serve_early(attempt, &candidate);
                let check = Verification::of(dependency);
                attempt.phase = Phase::Settling(Box::new((candidate, check)));
                return Next::Again;
            }
            verdict = self.publish_rare(attempt.start_tick, candidate);
        }
    }

    /// The load has ended. What it was made of may be newer than what others are given still.
    #[cold]
    #[inline(never)]
    fn offer_held(&self, attempt: &mut Attempt<V>, mut candidate: Candidate<V>) -> Next {
        candidate.taint = candidate.taint.or(self.adopt());
        // SAFETY: the attempt lock is held, and no user code is running in this frame.
        let records = unsafe { &*self.frame() }.records();
        let writes = self.shared().core.lock().writes_of(records, attempt.asker);
        if writes.is_empty() || injected(Fault::NotHeld) {
            return self.offer_rare(attempt, candidate);
        }
        attempt.phase = Phase::Holding(Box::new((candidate, Hold(writes))));
        Next::Again
    }

    #[inline(never)]
    fn hold(
        &self,
        attempt: &mut Attempt<V>,
        holding: Box<(Candidate<V>, Hold)>,
        context: &mut Context<'_>,
    ) -> Next {
        if holding.1.poll(self.shared(), attempt.asker, context) {
            attempt.phase = Phase::Holding(holding);
            return Next::Wait;
        }
        self.offer_rare(attempt, holding.0)
    }

    #[inline(never)]
    fn settle(
        &self,
        attempt: &mut Attempt<V>,
        mut settling: Box<(Candidate<V>, Verification)>,
        context: &mut Context<'_>,
    ) -> Next {
        match settling.1.poll(self.shared(), self.id, context) {
            Poll::Pending => {
                attempt.phase = Phase::Settling(settling);
                Next::Wait
            }
            Poll::Ready(true) => self.offer_rare(attempt, settling.0),
            Poll::Ready(false) => self.rejected(attempt, settling.0),
        }
    }

    /// What an answer that is not kept brings along. The caller drives the attempt.
    pub(crate) fn unkept(&self, taint: Taint) -> Box<Unkept> {
        // SAFETY: the attempt lock is held, and no user code is running in this frame.
        let frame = unsafe { &*self.frame() };
        let is_known = taint.has(Taint::OUTDATED.or(Taint::EXHAUSTED));
        let reads = || UnkeptReads::of(frame.records(), frame.unkept());
        Unkept::new(taint, if is_known { None } else { reads() })
    }

    #[cold]
    fn panicked(&self, payload: Box<dyn std::any::Any + Send>) {
        let error = self.panic_error(payload);
        self.fail(error);
    }

    #[cold]
    fn panic_error(&self, payload: Box<dyn std::any::Any + Send>) -> Error {
        self.shared().core.lock().stats.panicked += 1;
        let error = Error::panicked(&self.inner.owner.name, &*payload);
        quietly(|| drop(payload));
        error
    }

    /// Everyone who waits gets the error; nothing is memoized.
    #[cold]
    pub(super) fn fail(&self, error: Error) -> Next {
        let outcome = Outcome::new(Err(error));
        let mut core = self.shared().core.lock();
        if !self.head.is_finished() {
            self.conclude(&mut core, outcome, Err(self.unkept(Taint::UNTRACKED)));
        }
        Next::Over
    }

    /// Over, as somebody said who may still be putting the outcome on the board, under the graph lock.
    #[cold]
    fn over(&self) -> Next {
        drop(self.shared().core.lock());
        Next::Over
    }

    /// Puts the outcome on the board and takes the work off its node.
    pub(crate) fn conclude(
        &self,
        core: &mut Core,
        outcome: Outcome<V>,
        standing: Result<(), Box<Unkept>>,
    ) {
        let mut deferred = DeferredDrops::default();
        let node = self.node();
        self.finish(core);
        self.inner.discard_empty(core, node, &mut deferred);
        self.board.lock().end(Done { outcome, standing });
    }
}

/// Notes that the function is called next.
#[inline]
fn call<K, V>(core: &mut Core, node: &Node<K, V>, cause: Option<Cause>) -> Phase<V> {
    note_call(core, node, cause);
    // Whoever is given it is told, so that a subscription asks for the next one, which may be kept.
    let unkept = Taint::UNTRACKED.or(Taint::DEFERRED);
    Phase::Calling(if node.header.take_unkept() { unkept } else { Taint::default() })
}

#[inline]
fn note_call<K, V>(core: &mut Core, node: &Node<K, V>, cause: Option<Cause>) {
    core.stats.started += 1;
    core.note_because(EventKind::Started, &node.header, cause);
}

/// A call of a memo's function.
pub(crate) struct Call<K: 'static, V: 'static> {
    pub(crate) key: K,
    pub(crate) function: NamedFunction<K, V>,
}

/// A function that stays as long as this, whoever closes the memo.
///
/// It may take long to return its future: a hazard slot lets reclamation go on.
pub(crate) struct NamedFunction<K: 'static, V: 'static>(
    *const Function<K, V>,
    &'static hazard::Slot,
);

impl<K, V> NamedFunction<K, V> {
    /// Pinned, with a function that was there since; `None` when there is no slot for it.
    #[inline(always)]
    pub(crate) fn new(function: *mut Function<K, V>) -> Option<Self> {
        // SAFETY: the line of this thread.
        let line = unsafe { &*line::mine() };
        hazard::name(line, function.cast()).map(|slot| Self(function, slot))
    }
}

impl<K, V> Drop for NamedFunction<K, V> {
    #[inline(always)]
    fn drop(&mut self) {
        hazard::clear(self.1);
    }
}

/// Suspect dependencies verified for one candidate before it is given up.
const SETTLE_LIMIT: u32 = 16;
