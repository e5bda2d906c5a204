//! How a value becomes visible: validated and registered in one hold of the graph lock.
//!
//! A value may be published when
//! - every dependency is current at the version that was recorded,
//! - the version of every source is no later than the tick at which the attempt started (so it does not
//!   matter whether the function loaded first or declared first),
//! - no explicit invalidation came, nothing untrackable was read, and the work still has callers.
//!
//! Then the edges are registered and the value becomes visible in the same hold. A dependency that is
//! only suspect is verified with the lock released, and publishing is tried again without running the
//! function.
//!
//! A value that may not be published goes exactly to callers whose join revision is no later than the
//! attempt's start revision, where the revision counts *completed* changes. So a caller waits for two
//! attempts at most: the one that runs when it arrives, and the next.
#![allow(unsafe_code)]

use std::time::Duration;

use crate::compute::board::Done;
use crate::compute::capture::Frame;
use crate::compute::inner::Node;
use crate::compute::scope::ClosingReads;
use crate::compute::work::Work;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::event::EventKind;
use crate::graph::expiry::Alarm;
use crate::graph::unkept::UnkeptReads;
use crate::graph::validate::{Record, Taint, Validity, register, validate};
use crate::memory::epoch;
use crate::memory::line::pin;
use crate::memory::sync::MutexGuard;
use crate::store::edges::Edges;
use crate::store::key::Key;
use crate::store::node::{FRESH, GHOST};
use crate::store::slots::Id;
use crate::store::value::Outcome;

/// A value that wants to be published, with everything about it that user code must tell.
pub(crate) struct Candidate<V> {
    pub(crate) outcome: Outcome<V>,
    /// Equal to the value that the node still has.
    equal: bool,
    fingerprint: Option<u64>,
    /// Bytes of the value on the heap.
    heap_bytes: usize,
    pub(crate) taint: Taint,
}

impl<V> Candidate<V> {
    /// Of a function that panicked: it may have seen what a change has outdated, so that who came after
    /// that has it run again.
    pub(crate) fn of_panic(outcome: Outcome<V>) -> Self {
        let taint = Taint::UNTRACKED;
        Self { outcome, equal: false, fingerprint: None, heap_bytes: 0, taint }
    }

    /// Why it is not kept, once the graph has refused it.
    pub(crate) fn refused(&self) -> Taint {
        if self.taint.is_any() { self.taint } else { self.taint.or(Taint::OUTDATED) }
    }

    /// Whether running again would end like this.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.taint.has(Taint::UNTRACKED.or(Taint::ANNOUNCES))
    }

    /// Whether it may show states before and after a change that running again would show one side of.
    pub(crate) fn is_mixed(&self) -> bool {
        let is_in_vain = self.taint.has(Taint::ANNOUNCES.or(Taint::EXHAUSTED));
        !self.is_hopeless() || self.taint.has(Taint::OUTDATED) && !is_in_vain
    }
}

/// What became of a candidate.
pub(crate) enum Verdict<V> {
    /// It is visible; or it is an error that is not kept, and everyone has it.
    Settled,
    Rejected(Candidate<V>),
    /// Something was marked or read meanwhile: try again.
    Again(Candidate<V>),
    /// This dependency must be verified first.
    Suspect(Candidate<V>, Id),
}

impl<K: Key, V: Send + Sync + 'static> Work<K, V> {
    /// Runs the user code that publishing needs: equality, weight, fingerprint. `None` when finished.
    ///
    /// What was read stays in the frame, which nobody touches until the next attempt calls the function.
    #[inline(always)]
    pub(crate) fn candidate(&self, outcome: Outcome<V>, has_old: bool) -> Option<Candidate<V>> {
        let equal = has_old && self.is_equal(&outcome)?;
        let options = &self.inner.options;
        let mut fingerprint = None;
        let heap_bytes = match outcome.result() {
            Ok(new) => {
                fingerprint = options.fingerprint(new);
                if let Some(fingerprint) = fingerprint {
                    outcome.head().set_fingerprint(fingerprint);
                }
                // Without equality nothing is cut off, evicted or not.
                fingerprint = fingerprint.filter(|_| self.inner.equal.is_some());
                options.heap_bytes(new)
            }
            Err(error) => error.heap_bytes(),
        };
        Some(Candidate { outcome, equal, fingerprint, heap_bytes, taint: Taint::default() })
    }

    /// Whether this is a value equal to the one that the node has; `None` when finished.
    #[inline(never)]
    fn is_equal(&self, outcome: &Outcome<V>) -> Option<bool> {
        let old = self.old_value()?;
        let old = old.as_ref().and_then(|old| old.result().ok());
        let values = old.zip(outcome.result().ok());
        Some(self.inner.equal.zip(values).is_some_and(|(equal, (old, new))| equal(old, new)))
    }

    /// What the node has; `None` outside when finished, inside when it has nothing.
    fn old_value(&self) -> Option<Option<Outcome<V>>> {
        let _pin = pin();
        if self.head.is_finished() {
            return None;
        }
        let head = self.node().header.value();
        // SAFETY: a value is retired after it was taken out of its node, and the pin holds.
        Some((!head.is_null()).then(|| unsafe { Outcome::from_shared(head) }))
    }

    /// Takes over what scoped tasks have read; why the attempt must not be published, if so.
    #[inline]
    pub(crate) fn adopt(&self) -> Taint {
        // SAFETY: the attempt lock is held, and the user's future is done with the frame.
        let frame = unsafe { &*self.frame() };
        if frame.adopted.get().is_some() {
            frame.take_over();
        }
        frame.taint()
    }

    /// One try; see the module documentation.
    #[inline(always)]
    pub(crate) fn publish(&self, start_tick: u64, candidate: Candidate<V>) -> Verdict<V> {
        // SAFETY: the attempt lock is held, and no user code is running in this frame.
        let frame = unsafe { &*self.frame() };
        if frame.adopted.get().is_some() || frame.records().len() > AT_ONCE {
            return self.publish_rare(start_tick, candidate);
        }
        self.publish_as::<false>(start_tick, candidate)
    }

    #[inline(never)]
    pub(crate) fn publish_rare(&self, start_tick: u64, candidate: Candidate<V>) -> Verdict<V> {
        self.publish_as::<true>(start_tick, candidate)
    }

    /// The same; `RARE` when it may have scoped tasks or very many dependencies, which most have not.
    #[inline(always)]
    fn publish_as<const RARE: bool>(
        &self,
        start_tick: u64,
        mut candidate: Candidate<V>,
    ) -> Verdict<V> {
        let options = &self.inner.options;
        let failed = candidate.outcome.result().is_err();
        let life = if failed { options.error_ttl() } else { options.ttl() };
        candidate.taint = candidate.taint.or(self.adopt());
        // SAFETY: the attempt lock is held, and no user code is running in this frame.
        let frame = unsafe { &*self.frame() };
        let records = frame.records();
        if candidate.taint.is_any() {
            if self.is_outdated(frame, start_tick) {
                candidate.taint = candidate.taint.or(Taint::OUTDATED);
            }
            return Verdict::Rejected(candidate);
        }
        let is_large = RARE && records.len() > AT_ONCE;
        if is_large {
            match self.register_ahead(records, start_tick) {
                Validity::Valid => {}
                Validity::Invalid => return Verdict::Rejected(candidate),
                Validity::Unsure(dependency) => return Verdict::Suspect(candidate, dependency),
            }
        }
        let edges = Edges::exact(records.iter().map(|record| record.id));
        let mut told = RARE.then(DeferredDrops::default);
        let mut core = self.shared().core.lock();
        if self.head.is_finished() {
            drop(core);
            return Verdict::Rejected(candidate);
        }
        let header = &self.node().header;
        let undisturbed = header.end_publishing();
        if self.head.rejected.get() {
            drop(core);
            return Verdict::Rejected(candidate);
        }
        let adopted = frame.adopted.get().filter(|_| RARE);
        let closing = adopted.map(|adopted| adopted.closing());
        if matches!(closing, Some(None)) {
            drop(core);
            return Verdict::Again(candidate);
        }
        if is_large && !undisturbed {
            drop(core);
            return Verdict::Again(candidate);
        }
        if !is_large {
            match validate(&core, records, start_tick) {
                Validity::Valid => {}
                Validity::Invalid => return Verdict::Rejected(candidate),
                Validity::Unsure(dependency) => return Verdict::Suspect(candidate, dependency),
            }
        }
        let closing = closing.flatten();
        let has_open = frame.has_open(closing.as_ref().map_or(0, ClosingReads::open))
            || closing.as_ref().is_some_and(ClosingReads::has_missed);
        if has_open || failed && life.is_none() {
            // Valid now, so it is good for everyone who has joined by now; but it is not kept.
            core.stats.unpublished += 1;
            let unkept = self.unkept(Taint::UNTRACKED);
            self.conclude(&mut core, candidate.outcome, Err(unkept));
            return Verdict::Settled;
        }
        if !is_large {
            header.set_external(false);
            register(&mut core, header, edges.iter());
        }
        if let Some(told) = told.as_mut().filter(|_| self.board.lock().early.is_some()) {
            // Whoever was given this early has no version of it.
            core.notify_watchers(header, told);
        }
        self.show(core, candidate, edges, life, closing.map(|closing| (closing, start_tick)));
        Verdict::Settled
    }

    /// Whether what cannot be kept is outdated as well, of which whoever is given it is to be told. A strict
    /// memo looks at what it was given that is not kept, too.
    #[cold]
    fn is_outdated(&self, frame: &Frame, start_tick: u64) -> bool {
        let core = self.shared().core.lock();
        let is_valid = matches!(validate(&core, frame.records(), start_tick), Validity::Valid);
        let below =
            || !self.inner.options.is_strict() || UnkeptReads::are_valid(frame.unkept(), &core);
        !(is_valid && below())
    }

    /// Registers edges in many holds of the graph lock, so that nobody waits for all of them. A walk that
    /// comes to the node meanwhile disturbs it, which the last hold finds out.
    #[cold]
    fn register_ahead(&self, records: &[Record], start_tick: u64) -> Validity {
        for (number, chunk) in records.chunks(AT_ONCE).enumerate() {
            {
                let mut core = self.shared().core.lock();
                if self.head.is_finished() {
                    return Validity::Invalid;
                }
                let header = &self.node().header;
                if number == 0 {
                    header.set_external(false);
                    header.begin_publishing();
                }
                let validity = validate(&core, chunk, start_tick);
                if !matches!(validity, Validity::Valid) {
                    header.end_publishing();
                    return validity;
                }
                register(&mut core, header, chunk.iter().map(|record| record.id));
            }
            self.shared().between_chunks();
        }
        Validity::Valid
    }

    /// Makes a valid candidate visible. The edges are registered.
    #[inline(always)]
    fn show(
        &self,
        mut core: MutexGuard<'_, Core>,
        candidate: Candidate<V>,
        edges: Edges,
        life: Option<Duration>,
        closing: Option<(ClosingReads<'_>, u64)>,
    ) {
        let announces = candidate.taint.has(Taint::ANNOUNCES);
        let node = self.node();
        let value_bytes =
            size_of::<crate::store::value::Good<V>>().saturating_add(candidate.heap_bytes);
        let life = core.bounded_life(&node.header, life);
        let (value, unused) = self.place(&mut core, node, candidate);
        let edges = node.header.set_dependencies(&mut core.slots, edges);
        core.weigh_value(&self.inner.owner, &node.header, value_bytes);
        node.header.verified.set(core.tick);
        // What was made of an evicted value is current still, and ends no later than that would have.
        let anew = node.header.state() != GHOST;
        let alarm = match life {
            Some(life) => core.expiry.publish(self.id, life, anew),
            None => {
                if anew {
                    core.expiry.forget(self.id);
                }
                None
            }
        };
        core.check_budget(self.shared(), Some(&self.inner.owner));
        self.finish(&mut core);
        node.header.set_state(FRESH);
        self.board.lock().end(Done { outcome: value, standing: Ok(()) });
        if let Some((closing, start_tick)) = closing {
            closing.close(start_tick, node.header.version(), announces);
        }
        drop(core);
        if edges.heap_bytes() > 0 || unused.is_some() || alarm.is_some() {
            return leave(edges, unused, alarm);
        }
        // There is nothing to drop, and to ask costs less.
        std::mem::forget((edges, unused, alarm));
    }

    /// Puts the value into the node, or keeps the equal one that is there; returns what callers get, and
    /// what is not needed, to be dropped outside the lock.
    #[inline(always)]
    fn place(
        &self,
        core: &mut Core,
        node: &Node<K, V>,
        candidate: Candidate<V>,
    ) -> (Outcome<V>, Option<Outcome<V>>) {
        core.stats.published += 1;
        let old = node.header.value();
        if candidate.equal && !old.is_null() {
            core.stats.cut_off += 1;
            core.note(EventKind::CutOff, &node.header);
            // SAFETY: the node's value is alive while the graph lock is held.
            return (unsafe { Outcome::from_shared(old) }, Some(candidate.outcome));
        }
        let remembers = candidate.fingerprint.is_some() || core.ledger.remembers();
        let remembered = if remembers { core.ledger.fingerprint(self.id) } else { None };
        let same = old.is_null() && remembered.is_some() && remembered == candidate.fingerprint;
        let version = if same {
            core.stats.cut_off += 1;
            core.note(EventKind::CutOff, &node.header);
            node.header.version()
        } else {
            core.note(EventKind::Published, &node.header);
            core.next_tick()
        };
        if remembers {
            core.keep_fingerprint(self.id, candidate.fingerprint);
        }
        candidate.outcome.head().set_version(version);
        node.header.set_version(version);
        let error = candidate.outcome.result().err();
        error.into_iter().for_each(|error| error.set_version(version));
        let failed = error.is_some();
        node.header.set_value(candidate.outcome.clone().into_raw().as_ptr(), failed);
        if !old.is_null() {
            epoch::note_bytes(node.header.weight.get() as usize);
            // SAFETY: replaced just now, so new readers cannot find it; the node owned one count.
            unsafe { epoch::retire(old.cast_mut().cast(), Outcome::<V>::release) };
        }
        (candidate.outcome, None)
    }
}

/// What publishing leaves, to be dropped and told outside the lock.
#[cold]
#[inline(never)]
fn leave<V>(edges: Edges, outcome: Option<Outcome<V>>, alarm: Option<Alarm>) {
    alarm.iter().for_each(|alarm| alarm());
    drop((edges, outcome));
}

/// Edges that are registered in one hold of the graph lock.
const AT_ONCE: usize = 512;
