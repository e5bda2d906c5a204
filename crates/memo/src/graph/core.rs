//! Everything that the graph lock protects.
//!
//! `&Core` is the proof that the lock is held; `&mut Core` that nobody else is inside. No user code
//! runs while a `Core` is borrowed: not a key's `Eq` or `Hash`, no destructor, no waker (rendering a
//! key for the event log is the one exception, and the log is off unless a test turns it on).
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::graph::Shared;
use crate::graph::ambient;
use crate::graph::deferred::DeferredDrops;
use crate::graph::event::{Cause, Event, EventKind, Log};
use crate::graph::expiry::Expiry;
use crate::graph::flight::Works;
use crate::graph::ledger::Ledger;
use crate::graph::order::Writes;
use crate::graph::owner::Owner;
use crate::graph::stats::Stats;
use crate::graph::subscriptions::Watchers;
use crate::store::node::{GONE, Header};
use crate::store::slots::{Id, Slots};

/// Looks at a graph at some time, and says when to do so again.
pub(crate) type Lookout = Arc<dyn Fn(&Shared, Instant) -> Option<Instant> + Send + Sync>;

/// See the module documentation.
pub(crate) struct Core {
    /// Raised per change, per changed value published and per chunk of a walk.
    pub(crate) tick: u64,
    /// The tick of the last step of a change: since then nothing that was right has become wrong. What was
    /// forced out since, and made anew, is as it was.
    pub(crate) changed_at: u64,
    /// Numbers of attempts to compute something, unlike those of other graphs.
    pub(crate) attempts: u64,
    pub(crate) slots: Slots,
    pub(crate) works: Works,
    /// The latest change of keys that no node stands for, striped by hash.
    absent: Box<[u64]>,
    /// The latest change of every key of a source, by its number.
    whole: Vec<u64>,
    pub(crate) owners: Vec<Option<&'static Owner>>,
    pub(crate) ledger: Ledger,
    pub(crate) expiry: Expiry,
    pub(crate) watchers: Watchers,
    pub(crate) writes: Writes,
    /// Suspensions of its sources: what changes then is not announced.
    pub(crate) suspensions: usize,
    /// Who looks at the running computations whenever the time is told.
    pub(crate) lookout: Option<Lookout>,
    pub(crate) stats: Stats,
    pub(crate) log: Option<Log>,
    /// Whether hits are counted, memo by memo.
    pub(crate) counts_hits: bool,
    pub(crate) closed: bool,
}

// SAFETY: the raw pointers lead to nodes, which are only dereferenced under the lock that owns `Core`.
unsafe impl Send for Core {}

impl Core {
    pub(crate) fn new(first_tick: u64) -> Self {
        Self {
            tick: first_tick,
            changed_at: first_tick,
            attempts: NEXT_ATTEMPT.fetch_add(ATTEMPTS, Relaxed),
            slots: Slots::new(),
            works: Works::default(),
            absent: vec![0; if cfg!(shuttle) { 2 } else { ABSENT_STRIPES }].into(),
            whole: Vec::new(),
            owners: Vec::new(),
            ledger: Ledger::new(),
            expiry: Expiry::new(),
            watchers: Watchers::new(),
            writes: Writes::new(),
            suspensions: 0,
            lookout: None,
            stats: Stats::default(),
            log: None,
            counts_hits: false,
            closed: false,
        }
    }

    /// What a closed graph needs no more, to be dropped outside the lock.
    pub(crate) fn give_back(&mut self) -> impl Sized + use<> {
        let empty = Self::new(self.tick);
        let stripes = vec![self.tick].into();
        (
            std::mem::replace(&mut self.slots, empty.slots),
            std::mem::replace(&mut self.works, empty.works),
            std::mem::replace(&mut self.ledger, empty.ledger),
            std::mem::replace(&mut self.expiry, empty.expiry),
            std::mem::replace(&mut self.absent, stripes),
            (self.lookout.take(), self.log.take()),
        )
    }

    /// The first step of a change.
    pub(crate) fn begin_change(&mut self) {
        self.begin_walk();
        self.changed_at = self.tick;
    }

    /// The first step of any walk.
    pub(crate) fn begin_walk(&mut self) {
        self.tick += 1;
        self.stats.walks += 1;
    }

    pub(crate) fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// The node of `id`, unless it is gone.
    #[inline]
    pub(crate) fn node<'a>(&self, id: Id) -> Option<&'a Header> {
        // SAFETY: a node is unlinked from its slot under the lock before it is retired, and retired
        // memory outlives every pin; callers keep the reference no longer than the lock or their pin.
        self.slots.node(id).map(|node| unsafe { &*node })
    }

    /// Gives a node that was just made its identity.
    ///
    /// # Safety
    /// `node` points at a whole node (not only at its header) that nobody shares yet and that lives
    /// until its identity ends and the retirement that follows.
    #[inline(always)]
    pub(crate) unsafe fn adopt(&mut self, node: *mut Header, owner: &Owner) -> Id {
        let id = self.slots.add(node);
        // SAFETY: not shared yet.
        unsafe { (*node).id = id };
        // SAFETY: it lives long enough.
        self.enqueue(&owner.queue, unsafe { &*node }, owner.node_bytes);
        id
    }

    /// The pointer to a whole node that the slots hold for this header.
    pub(crate) fn whole(&self, node: &Header) -> *const Header {
        self.slots.node(node.id).expect("the node has its identity still")
    }

    /// Ends a node's identity. Its dependants are not walked: give the list to a walk, or drop it when
    /// none of them is current.
    pub(crate) fn disown(&mut self, node: &Header, deferred: &mut DeferredDrops) {
        self.dequeue(node);
        self.expiry.forget(node.id);
        if node.is_watched() {
            self.watchers.release(node.id, deferred);
        }
        self.slots.release(node.id);
        self.stats.removed += 1;
        node.set_state(GONE);
        let dependencies =
            node.set_dependencies(&mut self.slots, crate::store::edges::Edges::new());
        if dependencies.heap_bytes() > 0 {
            deferred.edges.push(dependencies);
        }
    }

    /// Whether a current node depends on this one. Looks at a bounded number of edges; when they do
    /// not decide, the answer is yes, which is always safe.
    pub(crate) fn has_live_dependants(&self, node: &Header) -> bool {
        let dependants = node.dependants(&self.slots);
        let decided = dependants.len() <= LIVENESS_SCAN;
        let scanned = dependants.iter().take(LIVENESS_SCAN);
        let needs = |node: &Header| node.is_current() || node.is_publishing();
        !decided || scanned.filter_map(|id| self.node(id)).any(needs)
    }

    /// The version a source key without a node has.
    pub(crate) fn absent(&self, owner: u16, hash: u64) -> u64 {
        self.absent[self.stripe(owner, hash)].max(self.last_of_all(owner))
    }

    /// When every key of a source last changed.
    pub(crate) fn last_of_all(&self, owner: u16) -> u64 {
        self.whole.get(usize::from(owner)).copied().unwrap_or(0)
    }

    /// Says that a source key without a node changed, or lost its node, at `tick`.
    pub(crate) fn raise_absent(&mut self, owner: u16, hash: u64, tick: u64) {
        let at = self.stripe(owner, hash);
        self.absent[at] = self.absent[at].max(tick);
    }

    /// Says that every key of a source changed at `tick`. Readers of other sources are not disturbed.
    pub(crate) fn raise_absent_all(&mut self, owner: u16, tick: u64) {
        let at = usize::from(owner);
        if self.whole.len() <= at {
            self.whole.resize(at + 1, 0);
        }
        self.whole[at] = self.whole[at].max(tick);
    }

    fn stripe(&self, owner: u16, hash: u64) -> usize {
        (hash ^ u64::from(owner).wrapping_mul(0x9E37_79B9_7F4A_7C15)) as usize % self.absent.len()
    }

    pub(crate) fn owner(&self, node: &Header) -> &'static Owner {
        self.owners[node.owner as usize].expect("an owner is removed after its nodes")
    }

    /// Notifies the watches of a node without marking it: what they were given is outdated.
    pub(crate) fn notify_watchers(&self, node: &Header, deferred: &mut DeferredDrops) {
        if node.is_watched() {
            self.watchers.notify(node.id, deferred);
        }
    }

    /// Notes an event, when a test or the console listens.
    #[inline]
    pub(crate) fn note(&mut self, kind: EventKind, node: &Header) {
        self.note_because(kind, node, None);
    }

    /// Notes that a value was served, when somebody listens or counts.
    #[inline]
    pub(crate) fn note_hit(&mut self, node: &Header) {
        if self.counts_hits {
            let hits = &self.owner(node).queue.hits;
            hits.set(hits.get() + 1);
        }
        self.note(EventKind::Hit, node);
    }

    /// The same with its cause.
    #[inline]
    pub(crate) fn note_because(&mut self, kind: EventKind, node: &Header, cause: Option<Cause>) {
        if self.log.as_ref().is_some_and(|log| log.recording.has(kind)) {
            self.note_slow(kind, node, cause);
        }
    }

    #[cold]
    fn note_slow(&mut self, kind: EventKind, node: &Header, cause: Option<Cause>) {
        let owner = self.owner(node);
        // SAFETY: the node belongs to this owner, so it has the type its function table expects.
        let key = unsafe { (owner.functions.label)(self.whole(node)) };
        let (tick, tag) = (self.tick, ambient::tag());
        if let Some(log) = &mut self.log {
            let event = Event { kind, memo: owner.name.clone(), key, tick, tag, cause };
            self.stats.events_dropped += u64::from(log.push(event));
        }
    }
}

/// Attempts of one graph, whose numbers are set aside for it: as many as it makes in months.
const ATTEMPTS: u64 = 1 << 44;
static NEXT_ATTEMPT: AtomicU64 = AtomicU64::new(0);
/// Stripes of keys without a node: a change of one such key delays attempts on a 1,024th of them.
const ABSENT_STRIPES: usize = 1024;
/// Edges that are looked at to decide whether anyone depends on a node.
const LIVENESS_SCAN: usize = 64;
