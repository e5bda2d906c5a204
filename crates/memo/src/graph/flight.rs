//! What the graph knows of a running computation: who waits for it, and whether it was rejected.
//!
//! A computation hangs off its node by a number, so that a node has room for it. The typed part, what
//! runs and what came out, is the business of the floor above.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use crate::graph::core::Core;
use crate::graph::revision;
use crate::memory::callers::ByCaller;
use crate::memory::sync::AtomicU8;
use crate::store::node::Header;
use crate::store::slots::Id;

/// On behalf of what somebody asks: a run of the computation of a node.
#[derive(Clone, Copy)]
pub(crate) struct Parent {
    pub(crate) node: Id,
    /// The number of its attempt. What asks for an earlier one, a task that it left or a `get` that
    /// it gave away, is nothing that the one that runs now waits for.
    pub(crate) run: u64,
}

impl Parent {
    pub(crate) const NONE: Self = Self { node: Id::NONE, run: 0 };

    /// The attempt that runs, whichever it is: it drops who asks when it ends.
    pub(crate) fn now(node: Id) -> Self {
        Self { node, run: 0 }
    }
}

/// The erased part, written under the graph lock only.
pub(crate) struct WorkHead {
    pub(crate) node: Id,
    callers: Cell<u32>,
    next_caller: Cell<u32>,
    /// The outcome is on the board (by the end of the hold that set this), or nobody wants one any more.
    finished: AtomicU8,
    /// An explicit invalidation came while the attempt ran.
    pub(crate) rejected: Cell<bool>,
    /// The tick at which the attempt that runs began.
    pub(crate) start_tick: Cell<u64>,
    /// The revision at which it began.
    start_revision: Cell<u64>,
    /// The attempt that runs looks whether the old value is still good, by what that was made of, and has not
    /// called the function. Under the graph lock.
    pub(crate) looks: Cell<bool>,
    /// The attempt that runs is to begin anew; see [`crate::graph::cycle`]. Set under the graph lock.
    begins_anew: AtomicU8,
    /// How often one was.
    begun_anew: Cell<u8>,
    /// The same for changes that nobody has told of.
    begun_untold: Cell<u8>,
    /// A run of it, or of what it asked for, has changed something.
    outruns_itself: Cell<bool>,
    /// Callers that joined at a later one, and are there still.
    late: Cell<u32>,
    /// The number of that attempt.
    run: Cell<u64>,
    /// The computations that wait for this one, by caller.
    parents: RefCell<ByCaller<Parent>>,
    /// When somebody looking for what is stuck first saw it, and whether it was reported.
    first_seen: Cell<Option<Instant>>,
    reported: Cell<bool>,
}

impl WorkHead {
    /// With its first caller, whose number is 0; see [`WorkHead::begins_for`].
    #[inline(always)]
    pub(crate) fn new(node: Id, core: &Core, start_revision: u64) -> Self {
        Self {
            node,
            callers: Cell::new(1),
            next_caller: Cell::new(1),
            finished: AtomicU8::new(0),
            rejected: Cell::new(false),
            start_tick: Cell::new(core.tick),
            start_revision: Cell::new(start_revision),
            looks: Cell::new(false),
            begins_anew: AtomicU8::new(0),
            begun_anew: Cell::new(0),
            begun_untold: Cell::new(0),
            outruns_itself: Cell::new(false),
            late: Cell::new(0),
            run: Cell::new(0),
            parents: RefCell::default(),
            first_seen: Cell::new(None),
            reported: Cell::new(false),
        }
    }

    pub(crate) fn callers(&self) -> u32 {
        self.callers.get()
    }

    /// Says which attempt is the first, and on behalf of which computation the first caller asks.
    #[inline(always)]
    pub(crate) fn begins_for(&self, run: u64, parent: Parent) {
        self.run.set(run);
        self.waits(0, parent);
    }

    /// Adds a caller, on behalf of a computation or of none, and returns its number.
    #[inline(always)]
    pub(crate) fn enter(&self, revision: u64, parent: Parent) -> u32 {
        self.callers.set(self.callers.get() + 1);
        let caller = self.next_caller.get();
        self.next_caller.set(caller.wrapping_add(1));
        self.late.set(self.late.get() + u32::from(self.is_late(revision)));
        self.waits(caller, parent);
        caller
    }

    /// A caller asks on behalf of this computation, if of any: from the beginning, or because it goes on with
    /// another's `get`.
    #[inline(always)]
    pub(crate) fn waits(&self, caller: u32, parent: Parent) {
        if parent.node != Id::NONE {
            self.parents.borrow_mut().insert(caller, parent);
        }
    }

    /// The number of the caller who comes next.
    pub(crate) fn next_caller(&self) -> u32 {
        self.next_caller.get()
    }

    fn is_late(&self, revision: u64) -> bool {
        revision > self.start_revision.get()
    }

    /// Whether every caller was there when the attempt began.
    pub(crate) fn all_are_early(&self) -> bool {
        self.late.get() == 0
    }

    /// Whether the attempt that runs may begin anew for a cycle that it is in, which it does then: something was
    /// changed since it began (anywhere, once other graphs are read), or may have been without a word, by a write
    /// that is not announced yet or while a source is suspended. What nobody has told of may stay as it is, so
    /// that takes turns of its own.
    pub(crate) fn takes_turn(&self, core: &Core) -> bool {
        let elsewhere = core.stats.foreign_reads > 0 && self.is_late(revision());
        let is_told = self.start_tick.get() < core.changed_at || elsewhere;
        let may_be_untold = core.writes.are_open() || core.suspensions > 0;
        let turns = if is_told { &self.begun_anew } else { &self.begun_untold };
        let may = (is_told || may_be_untold) && turns.get() < ANEW_MAX;
        turns.set(turns.get() + u8::from(may));
        may
    }

    /// Whether runs of it change something each time, themselves or by what they ask for. In a cycle that is
    /// so of all that wait for it, so none of them begins anew.
    pub(crate) fn outruns_itself(&self) -> bool {
        self.outruns_itself.get()
    }

    /// The attempt that runs is to begin anew: nothing waits on behalf of it any more.
    pub(crate) fn begin_anew(&self) {
        self.begins_anew.store(1, Release);
    }

    /// Whether it is to; see [`WorkHead::begin_anew`].
    pub(crate) fn begins_anew(&self) -> bool {
        self.begins_anew.load(Acquire) != 0
    }

    /// A new attempt begins.
    pub(crate) fn restart(&self, run: u64, core: &Core, start_revision: u64) {
        self.begins_anew.store(0, Release);
        self.run.set(run);
        self.rejected.set(false);
        self.start_tick.set(core.tick);
        self.start_revision.set(start_revision);
        self.late.set(0);
    }

    /// A caller that joined at this revision goes; `true` when it was the last one.
    pub(crate) fn leave(&self, caller: u32, revision: u64) -> bool {
        self.late.set(self.late.get() - u32::from(self.is_late(revision)));
        self.callers.set(self.callers.get() - 1);
        self.parents.borrow_mut().remove(caller);
        self.callers.get() == 0
    }

    /// Whether it has nothing that has a destructor.
    #[inline]
    pub(crate) fn is_plain(&mut self) -> bool {
        self.parents.get_mut().is_plain()
    }

    /// Nobody needs to look any more.
    pub(crate) fn finish(&self) {
        self.finished.store(1, Release);
    }

    /// For how long it has been seen to run; `None` the first time. Under the graph lock.
    pub(crate) fn seen(&self, now: Instant) -> Option<Duration> {
        let Some(first) = self.first_seen.get() else {
            self.first_seen.set(Some(now));
            return None;
        };
        Some(now.saturating_duration_since(first))
    }

    /// `true` the first time. Under the graph lock.
    pub(crate) fn tell_once(&self) -> bool {
        !self.reported.replace(true)
    }

    /// Whether it is over. Without the graph lock this is a hint, with two uses: what is finished stays
    /// so; and a node whose work was not finished under a pin is alive while that pin holds, since it is
    /// retired after its work was finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Acquire) != 0
    }
}

impl Core {
    /// The running computation of a node, alive while the graph lock is held.
    pub(crate) fn flight(&self, node: &Header) -> Option<&WorkHead> {
        let work = self.flight_pointer(node);
        // SAFETY: a work takes itself off its node under the lock before it goes.
        unsafe { work.as_ref() }
    }

    /// The same as it was hung there; null when there is none.
    pub(crate) fn flight_pointer(&self, node: &Header) -> *const WorkHead {
        node.work().map_or(ptr::null(), |number| self.works.get(number))
    }

    /// Hangs a computation off a node that has none.
    #[inline(always)]
    pub(crate) fn hang(&mut self, node: &Header, work: *const WorkHead) {
        debug_assert!(!node.is_computing());
        node.set_work(Some(self.works.add(work)));
    }

    /// Takes the computation off the node.
    #[inline(always)]
    pub(crate) fn land(&mut self, node: &Header) {
        if let Some(number) = node.work() {
            self.works.remove(number);
            node.set_work(None);
        }
        node.end_publishing();
    }

    /// The nodes whose computations wait for that of `node`.
    pub(crate) fn parents(&self, node: &Header) -> Vec<Id> {
        self.flight(node).map_or_else(Vec::new, |head| self.parents_of(head))
    }

    /// The nodes whose computations wait for this one.
    pub(crate) fn parents_of(&self, head: &WorkHead) -> Vec<Id> {
        let parents = head.parents.borrow();
        let running = parents.iter_from(0).filter(|(_, parent)| self.is_running(**parent));
        running.map(|(_, parent)| parent.node).collect()
    }

    /// This run changes something, as the next one will: that is no reason to begin it anew, nor what waits
    /// for it; see [`WorkHead::outruns_itself`].
    pub(crate) fn outruns_itself(&self, run: Parent) {
        let mut open = vec![run];
        while let Some(run) = open.pop() {
            let running = self.node(run.node).filter(|_| self.is_running(run));
            let head = running.and_then(|node| self.flight(node));
            if let Some(head) = head.filter(|head| !head.outruns_itself.replace(true)) {
                open.extend(head.parents.borrow().iter_from(0).map(|(_, parent)| *parent));
            }
        }
    }

    /// Whether this very run of the computation goes on.
    pub(crate) fn is_running(&self, Parent { node, run }: Parent) -> bool {
        match self.node(node).and_then(|node| self.flight(node)) {
            Some(head) => !head.begins_anew() && (run == 0 || head.run.get() == run),
            None => run == 0,
        }
    }
}

/// The running computations, by number: a node has room for a number only, as few of them compute.
#[derive(Default)]
pub(crate) struct Works {
    /// An entry without a computation says which is the next of these, as [`Works::free`] does; it is odd.
    entries: Vec<*const WorkHead>,
    /// One more than the number of an entry without a computation; 0 when there is none.
    free: u32,
}

impl Works {
    #[inline(always)]
    fn add(&mut self, work: *const WorkHead) -> u32 {
        let Some(number) = self.free.checked_sub(1) else { return self.add_further(work) };
        let entry = &mut self.entries[number as usize];
        self.free = (entry.addr() >> 1) as u32;
        *entry = work;
        number
    }

    #[cold]
    fn add_further(&mut self, work: *const WorkHead) -> u32 {
        self.entries.push(work);
        u32::try_from(self.entries.len() - 1).expect("fewer computations than nodes")
    }

    fn get(&self, number: u32) -> *const WorkHead {
        self.entries[number as usize]
    }

    /// All that are running.
    pub(crate) fn iter(&self) -> impl Iterator<Item = *const WorkHead> + '_ {
        self.entries.iter().copied().filter(|work| work.addr() & 1 == 0)
    }

    #[inline]
    fn remove(&mut self, number: u32) {
        self.entries[number as usize] = ptr::without_provenance((self.free as usize) << 1 | 1);
        self.free = number + 1;
    }
}

/// How often runs of one computation begin anew because of cycles, for each of the two reasons.
const ANEW_MAX: u8 = 16;
