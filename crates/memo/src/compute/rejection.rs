//! What becomes of an attempt that is not kept: who is served its value all the same, and what runs next.

use std::task::Poll;

use crate::compute::attempt::{Attempt, Next};
use crate::compute::board::Early;
use crate::compute::publish::Candidate;
use crate::compute::work::Work;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::event::EventKind;
use crate::graph::revision;
use crate::graph::validate::Taint;
use crate::memory::depth;
use crate::memory::fault::{Fault, injected};
use crate::memory::wake::quietly;
use crate::store::error::Error;
use crate::store::key::Key;

/// Rejected attempts after which a strict memo serves early values after all, and whoever drives leaves
/// further ones to others.
const REJECTIONS_MAX: u32 = 16;

impl<K: Key, V: Send + Sync + 'static> Work<K, V> {
    /// The value is not valid now. Whoever arrived before the attempt started may have it all the same;
    /// for the others the function runs again, driven by whoever polls next once it was rejected often.
    #[cold]
    pub(super) fn rejected(&self, attempt: &mut Attempt<V>, candidate: Candidate<V>) -> Next {
        let lenient = self.serves_early(attempt, &candidate);
        let mut deferred = DeferredDrops::default();
        {
            let mut core = self.shared().core.lock();
            if self.head.is_finished() {
                return Next::Over;
            }
            if core.closed {
                // It may be made of that.
                drop(core);
                return self.fail(Error::closed(&self.inner.owner.name));
            }
            core.stats.rejected += 1;
            if lenient && self.refusal(attempt, &candidate).has(Taint::TOLD) {
                core.notify_watchers(&self.node().header, &mut deferred);
            }
            core.note(EventKind::Rejected, &self.node().header);
            let all_early = self.head.all_are_early();
            if (all_early && lenient) || injected(Fault::EarlyForAnyone) {
                core.stats.unpublished += 1;
                let unkept = self.unkept(self.refusal(attempt, &candidate));
                self.conclude(&mut core, candidate.outcome, Err(unkept));
                return Next::Over;
            }
        }
        self.serve_early(attempt, &candidate);
        if attempt.rejections >= REJECTIONS_MAX {
            Next::Yield
        } else {
            self.start_rejected(attempt)
        }
    }

    pub(super) fn start_rejected(&self, attempt: &mut Attempt<V>) -> Next {
        let mut core = self.shared().core.lock();
        if self.head.is_finished() {
            return Next::Over;
        }
        self.start_anew(&mut core, attempt, true);
        Next::Again
    }

    /// Leaves the next attempt to whoever polls next, so that a caller who has his answer goes with it,
    /// however often others come and the data changes.
    pub(super) fn yields(&self, attempt: &mut Attempt<V>) -> Poll<()> {
        attempt.rests();
        self.board.lock().wake();
        Poll::Pending
    }

    /// Drops what runs, which waits for itself, and has been overtaken by a change.
    #[cold]
    pub(super) fn begin_anew(&self, attempt: &mut Attempt<V>) {
        let abandoned = attempt.abandon();
        depth::drop_nested(|| quietly(|| drop(abandoned)));
        let mut core = self.shared().core.lock();
        if self.head.is_finished() {
            return;
        }
        core.stats.rejected += 1;
        core.note(EventKind::Rejected, &self.node().header);
        self.start_anew(&mut core, attempt, false);
    }

    fn start_anew(&self, core: &mut Core, attempt: &mut Attempt<V>, looks: bool) {
        *attempt = Attempt::start(core, self.node(), revision(), attempt.rejections + 1, looks);
        self.head.restart(attempt.asker, core, attempt.start_revision);
        self.head.looks.set(attempt.looks());
    }

    fn serves_early(&self, attempt: &Attempt<V>, candidate: &Candidate<V>) -> bool {
        let is_strict = self.inner.options.is_strict() && attempt.rejections < REJECTIONS_MAX;
        !(is_strict && candidate.is_mixed())
    }

    /// Why a value is not kept. What was rejected over and over is not asked for again by whoever used it.
    fn refusal(&self, attempt: &Attempt<V>, candidate: &Candidate<V>) -> Taint {
        let refused = candidate.refused();
        match () {
            () if attempt.rejections >= REJECTIONS_MAX => {
                let exhausted = Taint::UNTRACKED.or(Taint::DEFERRED).or(Taint::EXHAUSTED);
                refused.without(Taint::OUTDATED).or(exhausted)
            }
            () if candidate.is_hopeless() => refused.or(Taint::UNTRACKED),
            () => refused,
        }
    }

    pub(super) fn serve_early(&self, attempt: &Attempt<V>, candidate: &Candidate<V>) {
        if !self.serves_early(attempt, candidate) {
            return;
        }
        let next_caller = {
            let _core = self.shared().core.lock();
            self.head.next_caller()
        };
        let early = Early {
            start: attempt.start_revision,
            next_caller,
            outcome: candidate.outcome.clone(),
            unkept: self.unkept(self.refusal(attempt, candidate)),
        };
        let old = self.board.lock().early.replace(early);
        drop(old);
        self.wake_all();
    }
}
