//! What can change: plain data, a name and a key.
#![allow(unsafe_code)]

mod open_keys;
mod since;
pub(crate) mod suspension;

use std::fmt;
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use crate::memory::hasher::KeyHasher;

use crate::batch::batch;
use crate::compute::capture::{self, Frame, Unread};
use crate::compute::in_order;
use crate::graph::cascade::{Mark, Walk};
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::order::{Ticket, WrittenKey};
use crate::graph::owner::{Functions, Owner};
use crate::graph::validate::Taint;
use crate::graph::{Graph, Shared};
use crate::memory::epoch;
use crate::memory::fault::{Fault, injected};
use crate::memory::line::pin;
use crate::memory::pool;
use crate::range::{Interval, Intervals, RangeHits};
use crate::source::open_keys::{OpenKeyGuard, OpenKeys};
use crate::source::suspension::Suspension;
use crate::store::key::{self, Key};
use crate::store::node::{FRESH, Header};
use crate::store::slots::Id;
use crate::store::table::{InsertCount, TABLE_BYTES, Table};
use crate::write::WriteGuard;

/// Something that memoized functions read and that can change: rows of a table, files, settings.
///
/// A source holds no data. A memoized function declares with [`read`](Self::read) or
/// [`range`](Self::range) that it depends on a key; whoever changes the data says so with
/// [`write`](Self::write) or [`changed`](Self::changed). Keys that nobody read cost nothing.
///
/// ```
/// use tidewire_memo::{Memo, Source};
/// # futures::executor::block_on(async {
/// let contacts = Source::<i32>::new("contacts");
/// let name = Memo::infallible("name", move |id: i32| async move {
///     contacts.read(&id);
///     format!("contact {id}") // a database would be asked here
/// });
/// assert_eq!(*name.get(1).await?, "contact 1");
/// contacts.changed(&1); // no `get` that starts after this returns sees the older value
/// # Ok::<(), tidewire_memo::Error>(())
/// # }).unwrap();
/// ```
pub struct Source<K: 'static> {
    inner: &'static Inner<K>,
}

/// The typed part of a source.
pub(crate) struct Inner<K> {
    owner: Owner,
    table: Table<Node<K>>,
    hasher: KeyHasher,
    intervals: OnceLock<Box<dyn Intervals<K>>>,
    /// The version of an interval that has no node yet: any change may have concerned it.
    last_change: AtomicU64,
    /// See [`Source::external`].
    external: AtomicBool,
    /// Suspensions that go on.
    suspended: AtomicUsize,
    pub(crate) open_keys: OpenKeys<K>,
}

/// A key that somebody read.
#[repr(C)]
pub(crate) struct Node<K> {
    header: Header,
    key: Point<K>,
}

/// What a source node stands for.
pub(crate) enum Point<K> {
    Key(K),
    Interval(Interval<K>),
}

impl<K: Key> Source<K> {
    /// Makes a source of this process alone: what other processes change, it never notices, and what
    /// is memoized over it stays stale for good. Data that others change too, such as a database,
    /// is a source that is [`external`](Self::external).
    ///
    /// It is in the global graph.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::new_in(&Graph::global(), name)
    }

    /// Makes a source of this process alone, as [`new`](Self::new) does, in a graph.
    #[must_use]
    pub fn new_in(graph: &Graph, name: &str) -> Self {
        let shared = graph.shared;
        let mut inner = None;
        shared.register(|number| {
            let bytes = size_of::<Node<K>>() + TABLE_BYTES;
            let owner =
                Owner::new(shared, Arc::from(name), number, true, &FunctionsOf::<K>::TABLE, bytes);
            let made: &'static Inner<K> = Box::leak(Box::new(Inner {
                owner,
                table: Table::new(),
                hasher: KeyHasher::default(),
                intervals: OnceLock::new(),
                last_change: AtomicU64::new(0),
                external: AtomicBool::new(false),
                suspended: AtomicUsize::new(0),
                open_keys: OpenKeys::new(),
            }));
            made.owner.typed.set(ptr::from_ref(made).cast());
            inner = Some(made);
            &made.owner
        });
        Self { inner: inner.expect("register calls its argument") }
    }

    /// Says that others may change the data without saying so here: another host, a person with a database
    /// client. What is made of it, directly or through others, lives at most
    /// [`Graph::set_external_life`], 5 seconds unless that is called. Call it before anything is read.
    #[must_use]
    pub fn external(self) -> Self {
        self.inner.external.store(true, Relaxed);
        self
    }

    /// Says that any key may have changed. When this returns, everything that depends on any key of the
    /// source is marked; returns how many values were.
    pub fn changed_all(&self) -> usize {
        self.shared().change(&mut [&mut AllKeys { inner: self.inner }])
    }

    /// Says that changes cannot be told from now on: a connection is lost, a position is not known yet.
    /// Everything that depends on the source is marked, and what reads it meanwhile is answered and not
    /// memoized, until the suspension is dropped.
    pub fn suspend(&self) -> Suspension {
        self.inner.suspended.fetch_add(1, SeqCst);
        self.shared().core.lock().suspensions += 1;
        self.changed_all();
        let source = *self;
        Suspension::new(move || {
            // What began before now may have been made of what nobody could tell.
            source.inner.suspended.fetch_sub(1, SeqCst);
            source.shared().core.lock().suspensions -= 1;
            source.changed_all();
        })
    }

    /// The name given to [`Source::new`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        &self.inner.owner.name
    }

    /// Declares that the running computation depends on `key`. Nothing happens outside of one.
    ///
    /// It does not matter whether this is called before or after the data is loaded.
    #[inline]
    pub fn read(&self, key: &K) {
        let noting = || in_order::noting(self.shared());
        let Some(frame) = capture::current().or_else(noting) else { return };
        self.inner.check_suspended(frame);
        let unread = Unread(frame);
        let hash = self.inner.hasher.hash(key);
        let _pin = pin();
        let is_it = |node: &Node<K>| matches!(&node.key, Point::Key(k) if k == key);
        let (id, version) = match self.inner.table.find(hash, is_it) {
            Some(node) => {
                node.header.visit();
                (node.header.id, node.header.version())
            }
            None => self.inner.insert(hash, is_it, || Point::Key(key.clone())),
        };
        std::mem::forget(unread);
        frame.record(self.shared(), id, version);
    }

    /// Declares that the running computation depends on every key in `bounds`, present or not.
    ///
    /// A change of a key makes stale every reader of an interval that contains it. So a page
    /// `(after, last]` of an ordered list depends on `(after, last]` and stays exact while other pages
    /// stay valid; the last page depends on `(after, ∞)`.
    ///
    /// ```
    /// # use tidewire_memo::Source;
    /// use std::ops::Bound::{Excluded, Included};
    /// let ids = Source::<u64>::new("ids");
    /// ids.range((Excluded(20), Included(40)));
    /// ids.range(40..);
    /// ```
    pub fn range(&self, bounds: impl RangeBounds<K>)
    where
        K: Ord,
    {
        let noting = || in_order::noting(self.shared());
        let Some(frame) = capture::current().or_else(noting) else { return };
        self.inner.check_suspended(frame);
        let unread = Unread(frame);
        let interval = Interval::new(&bounds);
        let intervals = self.inner.intervals.get_or_init(crate::range::index);
        let _pin = pin();
        let (id, version) = intervals.read(self.inner, interval);
        std::mem::forget(unread);
        frame.record(self.shared(), id, version);
    }

    /// Says that the data of `key` has changed, as a fact already visible to whoever loads it.
    ///
    /// When this returns, everything that depends on the key is marked, and no `get` that starts later
    /// returns a value computed from the older state. Returns how many values were marked. It may be
    /// called anywhere, also inside a computation. It waits for walks of other changes; see
    /// [`Source::changed_async`].
    pub fn changed(&self, key: &K) -> usize {
        self.shared().change(&mut [&mut self.mark(key)])
    }

    /// [`Source::changed`] for many keys, as one change.
    pub fn changed_many<'a>(&self, keys: impl IntoIterator<Item = &'a K>) -> usize {
        batch(|batch| keys.into_iter().for_each(|key| batch.changed(self, key)))
    }

    /// [`Source::changed`] for executors: marks a chunk per poll, so a change with a million dependants
    /// does not hold the thread.
    ///
    /// # Cancel safety
    /// Dropped before the first poll, nothing happens. Dropped later, the rest is marked by the drop.
    pub fn changed_async(&self, key: &K) -> impl Future<Output = ()> + Send + use<K> {
        self.shared().change_async(vec![Box::new(self.mark(key))])
    }

    /// Announces a write. Take the guard before the transaction: it calls [`Source::changed`] when it
    /// is finished or dropped, whatever happened in between: commit, error, panic or cancellation.
    pub fn write(&self, key: &K) -> WriteGuard {
        WriteGuard::new(self, key)
    }

    /// Announces a write whose key is not known yet, as that of a row whose number the database gives. Name
    /// the key by [`WriteGuard::also`] when it is known; a guard that ends without announces every key.
    pub fn write_unknown(&self) -> WriteGuard {
        WriteGuard::unnamed(self)
    }

    /// Removes the node of `key` if nothing current depends on it. What the budget does.
    #[doc(hidden)]
    pub fn evict(&self, key: &K) -> bool {
        let mut deferred = DeferredDrops::default();
        let hash = self.inner.hasher.hash(key);
        let _pin = pin();
        let is_it = |node: &Node<K>| matches!(&node.key, Point::Key(k) if k == key);
        let Some(node) = self.inner.table.find(hash, is_it) else { return false };
        let mut core = self.shared().core.lock();
        core.node(node.header.id).is_some_and(|node| core.evict(node, &mut deferred))
    }

    /// A change of `key`, which is cloned and hashed first. Where that panics nobody can say which key has
    /// changed, so that all have.
    pub(crate) fn mark(&self, key: &K) -> KeyMark<K> {
        let copied = catch_unwind(AssertUnwindSafe(|| (key.clone(), self.inner.hasher.hash(key))));
        let (key, hash) = copied.unwrap_or_else(|panic| {
            self.changed_all();
            resume_unwind(panic)
        });
        KeyMark {
            inner: self.inner,
            hash,
            key,
            node: None,
            seen: None,
            stabbed: None,
            whole: false,
            opened: None,
        }
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.inner.owner.graph
    }

    pub(crate) fn number(&self) -> u16 {
        self.inner.owner.number
    }

    /// A change of every key, and what says that it is to come.
    pub(crate) fn every_key(&self) -> (Box<dyn Mark>, WrittenKey) {
        (Box::new(AllKeys { inner: self.inner }), self.inner.written(None))
    }
}

impl<K: Key> Inner<K> {
    fn written(&self, hash: Option<u64>) -> WrittenKey {
        WrittenKey { owner: self.owner.number, hash }
    }

    /// Adds the node that `is_it` does not find, and returns its identity and version. Pinned.
    pub(crate) fn insert(
        &'static self,
        hash: u64,
        is_it: impl Fn(&Node<K>) -> bool,
        key: impl FnOnce() -> Point<K>,
    ) -> (Id, u64) {
        let node = self.make(hash, key());
        loop {
            let seen = self.table.seen(hash);
            let place = match self.table.find_or_place(hash, &is_it) {
                Err(place) => place,
                Ok(found) => {
                    self.discard(node);
                    return (found.header.id, found.header.version());
                }
            };
            let mut core = self.owner.graph.core.lock();
            if core.closed {
                drop(core);
                self.discard(node);
                return (Id::NONE, 0);
            }
            if !self.table.unchanged(&core.slots, hash, seen) {
                continue;
            }
            let version = core.absent(self.owner.number, hash);
            let id = self.adopt(&mut core, node, version);
            // SAFETY: the node lives until `unlink` takes it out and retires it.
            unsafe { self.table.insert(&mut core.slots, hash, node.as_ptr(), place) };
            return (id, version);
        }
    }

    /// Adds the node of an interval, whose index is locked by the caller.
    pub(crate) fn insert_interval(
        &self,
        core: &mut Core,
        node: NonNull<Node<K>>,
        version: u64,
    ) -> Id {
        self.adopt(core, node, version)
    }

    /// Drops a node that was never shared. Not under the graph lock.
    pub(crate) fn discard(&self, node: NonNull<Node<K>>) {
        // SAFETY: private to `range` and `insert`, which give up what they made.
        unsafe { pool::destroy(node) };
    }

    /// A node that is not shared yet.
    pub(crate) fn make(&self, hash: u64, key: Point<K>) -> NonNull<Node<K>> {
        let header = Header::new(self.owner.number, hash, true);
        header.set_external(self.external.load(Relaxed));
        header.visit();
        pool::put(Node { header, key })
    }

    fn adopt(&self, core: &mut Core, node: NonNull<Node<K>>, version: u64) -> Id {
        let header = node.as_ptr().cast::<Header>();
        // SAFETY: a node starts with its header, is not shared yet and lives until `unlink` retires it.
        let id = unsafe {
            (*header).set_version(version);
            // A source needs no verification; this says since when it is there.
            (*header).verified.set(core.tick);
            core.adopt(header, &self.owner)
        };
        core.check_budget(self.owner.graph, Some(&self.owner));
        id
    }

    /// While changes cannot be told nothing that reads is kept.
    fn check_suspended(&self, frame: &Frame) {
        if self.suspended.load(SeqCst) > 0 {
            frame.add_taint(Taint::UNTRACKED);
        }
    }

    /// The tick of the latest change of any key.
    pub(crate) fn last_change(&self, core: &Core) -> u64 {
        self.last_change.load(Relaxed).max(core.last_of_all(self.owner.number))
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.owner.graph
    }
}

/// One changed key; see [`Mark`].
pub(crate) struct KeyMark<K: 'static> {
    inner: &'static Inner<K>,
    hash: u64,
    key: K,
    node: Option<Id>,
    seen: Option<InsertCount>,
    stabbed: Option<RangeHits>,
    /// It could not be told which nodes are concerned, so all are.
    whole: bool,
    /// While a guard announces it.
    opened: Option<OpenKeyGuard<K>>,
}

impl<K: Key> KeyMark<K> {
    /// Begins a write of this key: says which nodes it may change, by now and from now on.
    pub(crate) fn begin_write(&mut self, ticket: &Ticket) {
        let number = ticket.number();
        let found = catch_unwind(AssertUnwindSafe(|| {
            // First, so that an interval that comes now is found, or finds this.
            let opened = self.inner.open_keys.open(number, self.key.clone());
            (opened, self.inner.intervals.get().map(|intervals| intervals.stab(&self.key)))
        }));
        match found {
            Ok((opened, stabbed)) if !stabbed.as_ref().is_some_and(RangeHits::is_unsure) => {
                self.opened = Some(opened);
                ticket.add(self.inner.written(Some(self.hash)));
                let ids = stabbed.iter().flat_map(RangeHits::ids);
                self.inner.shared().core.lock().add_intervals(number, ids);
            }
            // It panics again when it is announced, of every key.
            _ => ticket.add(self.inner.written(None)),
        }
    }
}

impl<K: Key> Mark for KeyMark<K> {
    fn find(&mut self) {
        Frame::announces(self.inner.shared());
        let _pin = pin();
        self.seen = Some(self.inner.table.seen(self.hash));
        let is_it = |node: &Node<K>| matches!(&node.key, Point::Key(k) if *k == self.key);
        let node = self.inner.table.find(self.hash, is_it);
        self.node = node.map(|node| node.header.id);
        self.stabbed = self.inner.intervals.get().map(|intervals| intervals.stab(&self.key));
        self.whole |= self.stabbed.as_ref().is_some_and(RangeHits::is_unsure);
    }

    fn widen(&mut self) {
        self.whole = true;
    }

    fn holds(&self, core: &Core) -> bool {
        if self.whole {
            return true;
        }
        if injected(Fault::InsertUnnoticed) {
            return true;
        }
        let seen = self.seen.expect("`find` comes first");
        let intervals = self.inner.intervals.get();
        let same = match (intervals, &self.stabbed) {
            (Some(intervals), Some(stabbed)) => intervals.unchanged(stabbed),
            (intervals, _) => intervals.is_none(),
        };
        // A node that was found and is gone by now may have been replaced by one that nobody saw.
        let alive = self.node.is_some_and(|id| core.node(id).is_some());
        same && (alive || self.inner.table.unchanged(&core.slots, self.hash, seen))
    }

    fn apply(&self, core: &mut Core, walk: &mut Walk) {
        let tick = core.tick;
        if self.whole {
            walk.mark_whole(core, self.inner.owner.number);
            return self.inner.last_change.store(tick, Relaxed);
        }
        let mut mark = |core: &mut Core, id| {
            let Some(node) = core.node(id) else { return false };
            node.set_version(tick);
            walk.mark(core, node, FRESH);
            true
        };
        let present = self.node.is_some_and(|id| mark(core, id));
        if !present && !injected(Fault::AbsentNotRaised) {
            core.raise_absent(self.inner.owner.number, self.hash, tick);
        }
        if let Some(stabbed) = &self.stabbed {
            for id in stabbed.ids() {
                mark(core, id);
            }
        }
        self.inner.last_change.store(tick, Relaxed);
    }
}

/// A change of every key.
struct AllKeys<K: 'static> {
    inner: &'static Inner<K>,
}

impl<K: Key> Mark for AllKeys<K> {
    fn find(&mut self) {
        Frame::announces(self.inner.shared());
    }

    fn widen(&mut self) {}

    fn holds(&self, _: &Core) -> bool {
        true
    }

    fn apply(&self, core: &mut Core, walk: &mut Walk) {
        walk.mark_whole(core, self.inner.owner.number);
        self.inner.last_change.store(core.tick, Relaxed);
    }
}

/// The function table of sources with this key type.
struct FunctionsOf<K>(std::marker::PhantomData<K>);

impl<K: Key> FunctionsOf<K> {
    const TABLE: Functions = Functions {
        refresh: |_, _, _| unreachable!("a source is always current"),
        unlink: Self::unlink,
        drop_value: |_| false,
        label: Self::label,
        change: Self::change,
        probe: |_, _, _| (),
        close: Self::close,
        free: Self::free,
        begin_anew: |_, _| unreachable!("a source computes nothing"),
        abort: |_, _, _, _| unreachable!("a source computes nothing"),
    };

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn label(node: *const Header) -> String {
        // SAFETY: a whole node of this owner.
        match unsafe { &(*node.cast::<Node<K>>()).key } {
            Point::Key(key) => key::text(key),
            Point::Interval(interval) => key::text(interval),
        }
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn change(owner: &'static Owner, node: *const Header) -> Option<Box<dyn Mark>> {
        // SAFETY: as in `unlink`.
        let inner = unsafe { &*owner.typed.get().cast::<Inner<K>>() };
        // SAFETY: a whole node of this owner, alive because the caller is pinned.
        match unsafe { &(*node.cast::<Node<K>>()).key } {
            Point::Key(key) => Some(Box::new(Source { inner }.mark(key))),
            Point::Interval(_) => None,
        }
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn close(owner: &'static Owner) {
        // SAFETY: as in `unlink`.
        let inner = unsafe { &*owner.typed.get().cast::<Inner<K>>() };
        inner.intervals.get().into_iter().for_each(|intervals| intervals.close());
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn free(owner: &'static Owner, core: &mut Core) {
        // SAFETY: as in `unlink`.
        let inner = unsafe { &*owner.typed.get().cast::<Inner<K>>() };
        inner.table.close(&mut core.slots);
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn unlink(owner: &'static Owner, header: *const Header) {
        // SAFETY: set by `new_in` to an `Inner` of this key type, which is leaked.
        let inner = unsafe { &*owner.typed.get().cast::<Inner<K>>() };
        let node = header.cast::<Node<K>>();
        // SAFETY: a whole node of this owner.
        let (hash, key) = unsafe { ((*node).header.hash, &(*node).key) };
        match (key, inner.intervals.get()) {
            (Point::Interval(_), Some(intervals)) => intervals.removed(),
            _ => inner.table.remove(hash, node),
        }
        // SAFETY: out of the table, and its identity ended, so new readers cannot find it.
        unsafe {
            epoch::retire(node.cast_mut().cast(), |node| {
                pool::destroy(NonNull::new_unchecked(node.cast::<Node<K>>()));
            });
        }
    }
}

impl<K> Clone for Source<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Source<K> {}

impl<K> fmt::Debug for Source<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.inner.owner.name).finish()
    }
}
