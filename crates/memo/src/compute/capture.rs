//! Ambient capture: what the running computation reads is noted in its frame.
//!
//! A thread-local points at the frame of the computation that is being polled. It is set around every
//! poll, so capture survives `join!`, `select!` and `FuturesUnordered`, and costs one thread-local
//! load where nothing computes. A frame notes (node, version) once per node, in the order of reading:
//! linear up to 16, then through a small index.
#![allow(unsafe_code)]

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use crate::compute::scope::{Adopted, Stage, TakenReads};
use crate::graph::flight::Parent;
use crate::graph::unkept::{Unkept, UnkeptReads};
use crate::graph::validate::{Record, Taint};
use crate::graph::{Shared, ambient, relief};
use crate::memory::line;
use crate::store::slots::Id;
#[cfg(all(feature = "tokio", not(shuttle)))]
use crate::store::slots::IdHasher;
#[cfg(all(feature = "tokio", not(shuttle)))]
use std::hash::BuildHasher;

/// Records in the order of reading; the first few need no allocation.
pub(crate) struct Records {
    /// The first [`Records::count`] are there.
    few: [MaybeUninit<Record>; FEW],
    count: usize,
    more: Option<Box<More>>,
}

/// What few computations need.
#[derive(Default)]
struct More {
    /// Keys that the function looked for and did not find in memory, by memo and hash.
    missed: HashSet<MissedKey>,
    /// What was read that is not kept was made of this.
    unkept: Vec<Arc<UnkeptReads>>,
    /// All of them.
    records: Vec<Record>,
    /// Where to look for one; see [`Frame::note`].
    index: Vec<u32>,
}

impl Records {
    fn new() -> Self {
        Self { few: [const { MaybeUninit::uninit() }; FEW], count: 0, more: None }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Record] {
        if self.count > FEW
            && let Some(more) = &self.more
        {
            return &more.records;
        }
        // SAFETY: `push` filled them in order.
        unsafe { std::slice::from_raw_parts(self.few.as_ptr().cast(), self.count) }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [Record] {
        if let Some(more) = self.more.as_mut().filter(|_| self.count > FEW) {
            return &mut more.records;
        }
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.few.as_mut_ptr().cast(), self.count) }
    }

    #[inline]
    pub(crate) fn push(&mut self, record: Record) {
        match self.few.get_mut(self.count) {
            Some(place) => _ = place.write(record),
            None => self.push_to_many(record),
        }
        self.count += 1;
    }

    /// Forgets them where they are very many.
    fn forget_many(&mut self) {
        if self.count > NOTED_MAX {
            self.count = 0;
        }
    }

    pub(crate) fn push_unkept(&mut self, reads: Arc<UnkeptReads>) {
        reads.add(&mut self.more.get_or_insert_default().unkept);
    }

    fn push_to_many(&mut self, record: Record) {
        let more = self.more.get_or_insert_default();
        if self.count == FEW {
            more.records.clear();
            more.records.extend(self.few.map(|record| {
                // SAFETY: `push` filled them all before it came here.
                unsafe { record.assume_init() }
            }));
        }
        more.records.push(record);
    }

    #[cold]
    fn rebuild_index(&mut self, length: usize) {
        let Some(More { records, index, .. }) = self.more.as_deref_mut() else { return };
        index.clear();
        index.resize(length, 0);
        for (number, record) in (1u32..).zip(records) {
            let mut at = place(record.id) & (length - 1);
            while index[at] != 0 {
                at = (at + 1) & (length - 1);
            }
            index[at] = number;
        }
    }
}

/// Who asks: an attempt to compute a value.
pub(crate) type Asker = u64;

/// A key that is not in memory: the number of its memo, and its hash.
pub(crate) type MissedKey = (u16, u64);

/// What one attempt has read so far. Touched only by the thread that polls it.
pub(crate) struct Frame {
    pub(crate) graph: &'static Shared,
    /// The node that is being computed.
    pub(crate) node: Id,
    records: UnsafeCell<Records>,
    taint: Cell<Taint>,
    /// The number of the attempt, unlike any other's; of no attempt before the function is called.
    pub(crate) asker: Cell<Asker>,
    /// Questions that were asked and not answered; see [`Frame::asks`].
    open: Cell<i32>,
    /// Of a task on behalf of a computation: the frame where it is polled, if that is of another one. Null for
    /// that of a function.
    polled_by: AtomicPtr<Self>,
    /// Where scoped tasks leave what they read; see [`crate::compute::scope`].
    pub(crate) adopted: OnceCell<Adopted>,
}

/// The frame of the computation that is being polled on this thread; `None` outside.
#[inline(always)]
pub(crate) fn current<'f>() -> Option<&'f Frame> {
    // SAFETY: the line of this thread. `FrameGuard` takes the pointer back before the poll that set it
    // returns; callers use the reference within that poll only.
    unsafe { (*line::mine()).frame().cast::<Frame>().as_ref() }
}

/// A read whose key may panic, forgotten when it is over: what a function makes that goes on after the panic
/// depends on something that it did not read, and is not kept.
pub(crate) struct Unread<'f>(pub(crate) &'f Frame);

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        self.0.add_taint(Taint::UNTRACKED);
    }
}

/// Whether a memoized function is running, so that what is read now is noted.
#[must_use]
pub fn is_computing() -> bool {
    current().is_some()
}

/// Whether the running computation has read anything so far that can tell it of a change: a source, or a
/// memo; in tasks of its own ([`scope`](crate::scope)) too. `false` outside of a computation.
#[must_use]
pub fn has_read() -> bool {
    current().is_some_and(|frame| {
        let adopted = frame.adopted.get();
        !frame.records().is_empty() || adopted.is_some_and(|adopted| adopted.has_read())
    })
}

/// Declares that the running computation is made of what no change will be told of: it is answered and not kept,
/// nor is what reads it. Nothing happens outside of one.
pub fn read_untracked() {
    current().inspect(|frame| frame.add_taint(Taint::UNTRACKED.or(Taint::UNTOLD)));
}

/// Whether the running computation has declared that ([`read_untracked`]), or was given what had; in tasks of
/// its own ([`scope`](crate::scope)) too.
#[must_use]
pub fn has_read_untracked() -> bool {
    current().is_some_and(|frame| {
        let of_tasks = frame.adopted.get().map_or_else(Taint::default, |adopted| adopted.taint());
        frame.taint().or(of_tasks).has(Taint::UNTOLD)
    })
}

/// Who asks here: the running computation, the call that the context has the number of, the task, or, where
/// tasks have no names, the thread.
pub(crate) fn asker() -> Asker {
    if let Some(frame) = current() {
        return frame.asker.get();
    }
    let call = ambient::tag();
    if call != 0 {
        // Numbers may differ in those bits alone.
        return mixed(call) | CALL;
    }
    #[cfg(all(feature = "tokio", not(shuttle)))]
    if let Some(task) = tokio::task::try_id() {
        return IdHasher::default().hash_one(task) & !THREAD | TASK;
    }
    crate::memory::sync::thread_number() | THREAD
}

/// A number of which every bit depends on all bits of this one (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Makes a frame current until it is dropped.
pub(crate) struct FrameGuard {
    outer: *const (),
}

impl FrameGuard {
    /// `None` hides the current frame.
    pub(crate) fn new(frame: Option<&Frame>) -> Self {
        let frame = frame.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the line of this thread.
        Self { outer: unsafe { &*line::mine() }.replace_frame(frame.cast()) }
    }
}

impl Drop for FrameGuard {
    fn drop(&mut self) {
        // SAFETY: the line of this thread.
        unsafe { &*line::mine() }.replace_frame(self.outer);
    }
}

impl Frame {
    /// Writes a new frame where one shall be.
    ///
    /// # Safety
    /// The place is nobody else's.
    #[inline(always)]
    pub(crate) unsafe fn write(frame: *mut Self, graph: &'static Shared, node: Id) {
        // SAFETY: the caller says so; of the records only the number needs a value.
        unsafe {
            (&raw mut (*frame).graph).write(graph);
            (&raw mut (*frame).node).write(node);
            let records: *mut Records = (&raw mut (*frame).records).cast();
            (&raw mut (*records).count).write(0);
            (&raw mut (*records).more).write(None);
            (&raw mut (*frame).taint).write(Cell::new(Taint::default()));
            (&raw mut (*frame).asker).write(Cell::new(0));
            (&raw mut (*frame).open).write(Cell::new(0));
            (&raw mut (*frame).polled_by).write(AtomicPtr::new(ptr::null_mut()));
            (&raw mut (*frame).adopted).write(OnceCell::new());
        }
    }

    fn new(graph: &'static Shared, node: Id) -> Self {
        Self {
            graph,
            node,
            records: UnsafeCell::new(Records::new()),
            taint: Cell::new(Taint::default()),
            asker: Cell::new(0),
            open: Cell::new(0),
            polled_by: AtomicPtr::new(ptr::null_mut()),
            adopted: OnceCell::new(),
        }
    }

    /// A frame of a run for one caller, whose own reads all of it are; see [`crate::compute::own`].
    pub(crate) fn alone(graph: &'static Shared, asker: Asker) -> Self {
        let new = Self::new(graph, Id::NONE);
        new.asker.set(asker);
        new
    }

    /// A frame of a task on behalf of the computation of `frame`; see [`crate::compute::scope`].
    pub(crate) fn scoped(frame: &Self, adopted: Adopted) -> Self {
        let polled_by = AtomicPtr::new(NOBODY);
        let new = Self { polled_by, ..Self::new(frame.graph, frame.node) };
        new.asker.set(frame.asker.get());
        _ = new.adopted.set(adopted);
        new
    }

    /// The run that reads, to those who ask on behalf of it.
    #[inline]
    pub(crate) fn parent(&self) -> Parent {
        if self.is_scoped()
            && let Some(by) = self.polled_by()
        {
            return by.parent();
        }
        Parent { node: self.node, run: self.asker.get() }
    }

    #[inline]
    fn is_scoped(&self) -> bool {
        !self.polled_by.load(Relaxed).is_null()
    }

    /// The frame where a task is polled that is another computation's, which waits for what the task asks for.
    #[cold]
    fn polled_by(&self) -> Option<&Self> {
        let by = Some(self.polled_by.load(Relaxed)).filter(|by| !ptr::eq(*by, NOBODY))?;
        // SAFETY: as of `current`; `PolledBy` takes it back before the poll ends.
        let by = unsafe { &*by };
        (by.node != Id::NONE).then_some(by)
    }

    /// Whether it has nothing that has a destructor.
    #[inline]
    pub(crate) fn is_plain(&mut self) -> bool {
        self.records.get_mut().more.is_none() && self.adopted.get().is_none()
    }

    /// The first attempt calls the function.
    #[inline]
    pub(crate) fn begin(&self, asker: Asker, taint: Taint) {
        self.taint.set(taint);
        self.asker.set(asker);
    }

    /// Another attempt does so: forgets everything.
    pub(crate) fn begin_anew(&mut self, asker: Asker, taint: Taint) {
        self.begin(asker, taint);
        let records = self.records.get_mut();
        records.count = 0;
        records.more.iter_mut().for_each(|more| {
            more.missed.clear();
            more.unkept.clear();
        });
        self.open.set(0);
        self.adopted = OnceCell::new();
    }

    /// Notes that `id` was read at `version`.
    ///
    /// What a task reads is handed over before it gets it, so that an answer it sends never overtakes
    /// what it was made of.
    #[inline]
    pub(crate) fn record(&self, graph: &'static Shared, id: Id, version: u64) {
        if !ptr::eq(graph, self.graph) {
            return self.foreign(graph);
        }
        if self.note(Record { id, version }) && self.is_scoped() {
            self.hand_over(Ok(Record { id, version }));
        }
    }

    /// The same for all that a run of its own has read.
    pub(crate) fn record_all(&self, graph: &'static Shared, reads: &[Record]) {
        reads.iter().for_each(|read| self.record(graph, read.id, read.version));
    }

    /// `false` when that is known already.
    #[inline]
    fn note(&self, new: Record) -> bool {
        // SAFETY: a frame is touched by the one thread that polls it, and nothing below calls out.
        let records = unsafe { &mut *self.records.get() };
        if records.count <= LINEAR {
            let mut known = records.as_mut_slice().iter_mut();
            if let Some(record) = known.find(|record| record.id.slot() == new.id.slot()) {
                return keep_older(record, new);
            }
            records.push(new);
            if records.count > LINEAR {
                records.rebuild_index(LINEAR * 4);
            }
            return true;
        }
        let more = records.more.as_mut().expect("more than a few");
        let mask = more.index.len() - 1;
        let mut at = place(new.id) & mask;
        while more.index[at] != 0 {
            let record = &mut more.records[more.index[at] as usize - 1];
            if record.id.slot() == new.id.slot() {
                return keep_older(record, new);
            }
            at = (at + 1) & mask;
        }
        more.records.push(new);
        records.count += 1;
        more.index[at] = records.count as u32;
        let length = more.index.len();
        if records.count * 2 > length {
            records.rebuild_index(length * 2);
        }
        true
    }

    /// Says that the attempt must not be published: it used something that cannot be validated.
    pub(crate) fn add_taint(&self, taint: Taint) {
        let before = self.taint.get();
        self.taint.set(before.or(taint));
        if self.is_scoped() && self.taint.get() != before {
            self.hand_over(Err(Unkept::new(taint, None)));
        }
    }

    /// It used an answer that is not kept.
    #[cold]
    pub(crate) fn add_unkept(&self, graph: &'static Shared, unkept: Box<Unkept>) {
        if !ptr::eq(graph, self.graph) || unkept.reads.is_none() {
            return self.add_taint(unkept.taint);
        }
        self.taint.set(self.taint.get().or(unkept.taint));
        if self.is_scoped() {
            return self.hand_over(Err(unkept));
        }
        // SAFETY: a frame is touched by the one thread that polls it, and nothing here calls out.
        let records = unsafe { &mut *self.records.get() };
        unkept.reads.into_iter().for_each(|reads| records.push_unkept(reads));
    }

    /// The function asks for a value. What it makes is not kept unless it is answered, by the function itself
    /// or a task of its, before it ends: else it may be made of not having waited.
    pub(crate) fn asks(&self) {
        self.count_open(1);
    }

    /// The value is there.
    pub(crate) fn is_answered(&self) {
        self.count_open(-1);
    }

    fn count_open(&self, more: i32) {
        match self.adopted.get().filter(|_| self.is_scoped()) {
            Some(adopted) => adopted.count_open(more),
            None => self.open.set(self.open.get() + more),
        }
    }

    /// The function looked for a value in memory and found none, which may change and will not be told.
    pub(crate) fn misses(&self, key: MissedKey) {
        if let Some(adopted) = self.adopted.get().filter(|_| self.is_scoped()) {
            return adopted.misses(self.graph, self.node, key);
        }
        // SAFETY: a frame is touched by the one thread that polls it, and nothing here calls out.
        let records = unsafe { &mut *self.records.get() };
        records.more.get_or_insert_default().missed.insert(key);
    }

    /// It asks for the value that it did not find, and depends on that.
    pub(crate) fn makes_good(&self, key: MissedKey) {
        // SAFETY: as above.
        if let Some(more) = unsafe { &mut *self.records.get() }.more.as_mut() {
            more.missed.remove(&key);
        }
        self.adopted.get().into_iter().for_each(|adopted| adopted.makes_good(key));
    }

    /// Whether it asked for what it was not given; `tasks` of its apart, of whose questions so many are open.
    pub(crate) fn has_open(&self, tasks: i32) -> bool {
        // SAFETY: as in `records`.
        let more = unsafe { &*self.records.get() }.more.as_ref();
        // What a task asks the function may wait for.
        self.open.get() + tasks != 0 || more.is_some_and(|more| !more.missed.is_empty())
    }

    /// A change is announced. When that is done by the running computation, and outdates what it has read,
    /// it would do so again if it ran again.
    pub(crate) fn announces(graph: &'static Shared) {
        if let Some(frame) = current().filter(|frame| ptr::eq(frame.graph, graph)) {
            frame.add_taint(Taint::ANNOUNCES);
            graph.core.lock().outruns_itself(frame.parent());
        }
    }

    #[cold]
    fn hand_over(&self, read: Result<Record, Box<Unkept>>) {
        let Some(adopted) = self.adopted.get() else { return };
        if adopted.add(self.graph, self.node, read) != Stage::Open {
            // Noted is what need not be handed over again, which does no harm where nobody collects it.
            // SAFETY: a frame is touched by the one thread that polls it, and nothing here calls out.
            unsafe { &mut *self.records.get() }.forget_many();
        }
    }

    /// Takes over what tasks of the function have read since, so that it stands before what is read next.
    #[cold]
    pub(crate) fn take_over(&self) {
        let Some(adopted) = self.adopted.get().filter(|_| !self.is_scoped()) else { return };
        let TakenReads { records, unkept, taint } = adopted.take();
        self.taint.set(self.taint.get().or(taint));
        records.into_iter().for_each(|record| _ = self.note(record));
        // SAFETY: a frame is touched by the one thread that polls it, and nothing here calls out.
        let records = unsafe { &mut *self.records.get() };
        unkept.into_iter().for_each(|reads| records.push_unkept(reads));
    }

    pub(crate) fn taint(&self) -> Taint {
        self.taint.get()
    }

    /// What was read, in order. Not to be held while something is read.
    pub(crate) fn records(&self) -> &[Record] {
        // SAFETY: the callers are the attempt itself, between polls, and `has_read`, in one expression.
        unsafe { &*self.records.get() }.as_slice()
    }

    /// What that was made of that was read and is not kept. As [`Frame::records`].
    pub(crate) fn unkept(&self) -> &[Arc<UnkeptReads>] {
        // SAFETY: the callers are the attempt itself, between polls.
        unsafe { &*self.records.get() }.more.as_ref().map_or(&[], |more| &more.unkept)
    }

    #[cold]
    fn foreign(&self, graph: &'static Shared) {
        self.add_taint(Taint::UNTRACKED);
        self.graph.core.lock().stats.foreign_reads += 1;
        relief::relieve_foreign(graph);
    }
}

/// Says where a task is polled, until it is dropped.
pub(crate) struct PolledBy<'f>(&'f Frame);

impl<'f> PolledBy<'f> {
    pub(crate) fn new(task: &'f Frame, by: &Frame) -> Self {
        task.polled_by.store(ptr::from_ref(by).cast_mut(), Relaxed);
        Self(task)
    }
}

impl Drop for PolledBy<'_> {
    fn drop(&mut self) {
        self.0.polled_by.store(NOBODY, Relaxed);
    }
}

/// Of two reads of one node the older one counts: while that is right, so is the newer one.
fn keep_older(record: &mut Record, new: Record) -> bool {
    let is_older = (new.id.generation(), new.version) < (record.id.generation(), record.version);
    if is_older {
        *record = new;
    }
    is_older
}

fn place(id: Id) -> usize {
    (id.slot().wrapping_mul(0x9E37_79B1) >> 7) as usize
}

/// Where a task is polled that no other computation awaits.
const NOBODY: *mut Frame = ptr::dangling_mut();
/// Numbers of askers that are no attempts.
const CALL: Asker = TASK | THREAD;
const TASK: Asker = 1 << 63;
const THREAD: Asker = 1 << 62;
/// Records of a task that are not forgotten although its function is over.
const NOTED_MAX: usize = 1024;
/// Records without an allocation.
const FEW: usize = 4;
/// Up to this many dependencies a search beats an index.
const LINEAR: usize = 16;
