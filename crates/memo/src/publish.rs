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

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::capture::{Record, Records};
use crate::core::Core;
use crate::edges::Edges;
use crate::epoch::{self, pin};
use crate::error::Error;
use crate::event::EventKind;
use crate::fault::{Fault, injected};
use crate::key::Key;
use crate::memo::Node;
use crate::node::FRESH;
use crate::slots::Id;
use crate::value::Outcome;
use crate::work::{Done, Work};

/// A value that wants to be published, with everything about it that user code must tell.
pub(crate) struct Candidate<V> {
    pub(crate) outcome: Outcome<V>,
    /// Equal to the value that the node still has.
    equal: bool,
    fingerprint: Option<u64>,
    /// Bytes of the value on the heap.
    heap_bytes: usize,
    tainted: bool,
}

/// What became of a candidate.
pub(crate) enum Verdict<V> {
    Published,
    Rejected(Candidate<V>),
    /// This dependency must be verified first.
    Suspect(Candidate<V>, Id),
}

/// What the graph says.
enum Validity {
    Valid,
    Invalid,
    Unsure(Id),
}

impl<K: Key, V: Send + Sync + 'static> Work<K, V> {
    /// Runs the user code that publishing needs: equality, weight, fingerprint. `None` when finished.
    ///
    /// What was read stays in the frame, which nobody touches until the next attempt calls the function.
    pub(crate) fn candidate(
        &self,
        result: Result<V, Error>,
        has_old: bool,
    ) -> Option<Candidate<V>> {
        let outcome = Outcome::new(result);
        // SAFETY: the attempt lock is held, and the user's future is done with the frame.
        let frame = unsafe { &mut *self.frame() };
        let mut tainted = frame.is_tainted();
        if let Some(adopted) = frame.adopted.take() {
            let (more, their_taint) = adopted.close();
            tainted |= their_taint | !merge(frame.records_mut(), &more);
        }
        let old = if has_old { self.old_value()? } else { None };
        let options = &self.inner.options;
        let (mut equal, mut fingerprint, mut heap_bytes) = (false, None, 0);
        if let Ok(new) = outcome.result() {
            let old = old.as_ref().and_then(|old| old.result().ok());
            equal = matches!((self.inner.equal, old), (Some(equal), Some(old)) if equal(old, new));
            fingerprint = self.inner.equal.and_then(|_| options.fingerprint(new));
            heap_bytes = options.heap_bytes(new);
        }
        Some(Candidate { outcome, equal, fingerprint, heap_bytes, tainted })
    }

    /// What the node has; `None` outside when finished, inside when it has nothing.
    fn old_value(&self) -> Option<Option<Outcome<V>>> {
        let _pin = pin();
        if self.head.is_finished() {
            return None;
        }
        let head = self.node().value.load(Acquire);
        // SAFETY: a value is retired after it was taken out of its node, and the pin holds.
        Some((!head.is_null()).then(|| unsafe { Outcome::from_shared(head) }))
    }

    /// One try; see the module documentation.
    pub(crate) fn publish(&self, start_tick: u64, candidate: Candidate<V>) -> Verdict<V> {
        let options = &self.inner.options;
        let failed = candidate.outcome.result().is_err();
        let life = if failed { options.error_ttl() } else { options.ttl() };
        if candidate.tainted || (failed && life.is_none()) {
            return Verdict::Rejected(candidate);
        }
        // SAFETY: the attempt lock is held, and no user code is running in this frame.
        let records = unsafe { &*self.frame() }.records();
        let edges = Edges::exact(records.iter().map(|record| record.id));
        let (value, unused, old_edges);
        let mut alarm = None;
        {
            let mut core = self.shared().core.lock();
            if self.head.is_finished() || self.head.rejected.get() {
                drop(core);
                return Verdict::Rejected(candidate);
            }
            match validate(&core, records, start_tick) {
                Validity::Valid => {}
                Validity::Invalid => return Verdict::Rejected(candidate),
                Validity::Unsure(dependency) => return Verdict::Suspect(candidate, dependency),
            }
            let node = self.node();
            register(&mut core, node, &edges);
            let weight = self.inner.owner.node_bytes
                + size_of::<crate::value::Good<V>>()
                + candidate.heap_bytes
                + edges.heap_bytes();
            (value, unused) = self.place(&mut core, node, candidate);
            old_edges = node.header.set_dependencies(&mut core, edges);
            core.weigh(&node.header, weight);
            core.check_budget(self.shared(), Some(&self.inner.owner));
            node.header.verified.set(core.tick);
            match life {
                Some(life) => alarm = core.expiry.publish(self.id, life),
                None => core.expiry.forget(self.id),
            }
            self.finish(&mut core);
            node.header.set_state(FRESH);
            self.board.lock().done = Some(Done { outcome: value, published: true });
        }
        drop((old_edges, unused));
        if let Some(alarm) = alarm {
            alarm();
        }
        Verdict::Published
    }

    /// Puts the value into the node, or keeps the equal one that is there; returns what callers get, and
    /// what is not needed, to be dropped outside the lock.
    fn place(
        &self,
        core: &mut Core,
        node: &Node<K, V>,
        candidate: Candidate<V>,
    ) -> (Outcome<V>, Option<Outcome<V>>) {
        core.stats.published += 1;
        let old = node.value.load(Acquire);
        if candidate.equal && !old.is_null() {
            core.stats.cut_off += 1;
            core.note(EventKind::CutOff, &node.header);
            // SAFETY: the node's value is alive while the graph lock is held.
            return (unsafe { Outcome::from_shared(old) }, Some(candidate.outcome));
        }
        let remembered = core.ledger.fingerprint(self.id);
        let same = old.is_null() && remembered.is_some() && remembered == candidate.fingerprint;
        let version = if same {
            core.stats.cut_off += 1;
            core.note(EventKind::CutOff, &node.header);
            node.header.version()
        } else {
            core.note(EventKind::Published, &node.header);
            core.next_tick()
        };
        if let Some(fingerprint) = candidate.fingerprint {
            core.keep_fingerprint(self.id, fingerprint);
        }
        candidate.outcome.head().set_version(version);
        node.header.set_version(version);
        node.value.store(candidate.outcome.clone().into_raw(), Release);
        if !old.is_null() {
            // SAFETY: replaced just now, so new readers cannot find it; the node owned one count.
            unsafe { epoch::retire(old.cast(), Outcome::<V>::release) };
        }
        (candidate.outcome, None)
    }
}

fn validate(core: &Core, records: &[Record], start_tick: u64) -> Validity {
    let mut suspect = None;
    for record in records {
        let Some(node) = core.node(record.id) else { return Validity::Invalid };
        let version = node.version();
        if version != record.version && !injected(Fault::VersionsNotCompared) {
            return Validity::Invalid;
        }
        if node.is_source() && version > start_tick && !injected(Fault::SourceStartIgnored) {
            return Validity::Invalid;
        }
        if suspect.is_none() && !node.is_current() && !injected(Fault::SuspectAccepted) {
            suspect = Some(record.id);
        }
    }
    suspect.map_or(Validity::Valid, Validity::Unsure)
}

/// Makes the node a dependant of everything in `edges`, where it is not one already: a list that was
/// not taken since the node was last verified still has it, if it was a dependency then.
fn register<K, V>(core: &mut Core, node: &Node<K, V>, edges: &Edges) {
    let header = &node.header;
    let verified = header.verified.get();
    for (at, id) in edges.iter().enumerate() {
        let Some(dependency) = core.node(id) else { continue };
        let old = header.dependencies(core);
        let untouched = dependency.taken.get() <= verified;
        let known = untouched
            && (old.get(at) == Some(id) || old.iter().take(SEARCHED).any(|old| old == id));
        if !known {
            dependency.add_dependant(core, header.id);
        }
    }
}

/// Adds what scoped tasks read; `false` when they saw another version of something.
fn merge(records: &mut Records, more: &[Record]) -> bool {
    let mut known: std::collections::HashMap<u32, Record> =
        records.as_slice().iter().map(|record| (record.id.slot(), *record)).collect();
    for record in more {
        match known.insert(record.id.slot(), *record) {
            None => records.push(*record),
            Some(old) if old.id == record.id && old.version == record.version => {}
            Some(_) => return false,
        }
    }
    true
}

/// Old dependencies that are searched for a moved one before the edge is simply added again.
const SEARCHED: usize = 32;
