//! What is derived: a memoized async function.
#![allow(unsafe_code)]

use std::fmt;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicPtr as PlainAtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use crate::hasher::BuildKeyHasher;

use crate::cached::Cached;
use crate::capture;
use crate::core::Core;
use crate::epoch::{self, pin};
use crate::error::{BoxError, Error};
use crate::event::EventKind;
use crate::get::Get;
use crate::graph::{Graph, Shared};
use crate::key::Key;
use crate::node::{EMPTY, FRESH, GONE, Header};
use crate::options::Options;
use crate::owner::{Functions, Owner, Refresh};
use crate::pool;
use crate::slots::Id;
use crate::sync::{AtomicPtr, MutexGuard};
use crate::table::{Seen, Table};
use crate::trash::Trash;
use crate::value::{Head, Outcome, value_of};
use crate::watch::{Bell, Notify, Watch};
use crate::work::{Work, WorkHead};

/// A memoized async function from `K` to `V`.
///
/// The function runs once per key; its value is served from memory until something that it read (a
/// [`Source`](crate::Source) or another memo) has changed. A `Memo` is a `Copy` handle.
///
/// The function may read sources, memos and its key. What else it reads (a clock, a file, a service) is
/// invisible to the graph; bound its life with [`Memo::ttl`].
pub struct Memo<K: 'static, V: 'static> {
    pub(crate) inner: &'static Inner<K, V>,
}

/// The typed part of a memo.
pub(crate) struct Inner<K, V> {
    pub(crate) owner: Owner,
    table: Table<Node<K, V>>,
    hasher: BuildKeyHasher,
    /// Null when closed.
    pub(crate) function: PlainAtomicPtr<Function<K, V>>,
    pub(crate) equal: Option<fn(&V, &V) -> bool>,
    pub(crate) options: Options<V>,
}

/// The user's function with its future boxed and its error erased.
pub(crate) type Function<K, V> = Box<dyn Fn(K) -> Running<V> + Send + Sync>;
/// A running computation.
pub(crate) type Running<V> = Pin<Box<dyn Future<Output = Result<V, Error>> + Send>>;

/// One key and its value. Starts with its header.
#[repr(C)]
pub(crate) struct Node<K, V> {
    pub(crate) header: Header,
    /// Null when there is none. Written under the graph lock; read by hits.
    pub(crate) value: AtomicPtr<Head>,
    pub(crate) key: K,
    owns: std::marker::PhantomData<V>,
}

impl<K: Key, V: Send + Sync + 'static> Memo<K, V> {
    /// Memoizes a function that can fail, in the global graph.
    ///
    /// An error reaches every caller of that computation and is not memoized, unless
    /// [`Memo::error_ttl`] gives errors a life of their own.
    pub fn new<F, R, E>(name: &str, function: F) -> Self
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<V, E>> + Send + 'static,
        E: Into<BoxError>,
        V: PartialEq,
    {
        Self::new_in(&Graph::global(), name, function)
    }

    /// Memoizes a function that cannot fail, in the global graph.
    pub fn infallible<F, R>(name: &str, function: F) -> Self
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = V> + Send + 'static,
        V: PartialEq,
    {
        Self::infallible_in(&Graph::global(), name, function)
    }

    /// Memoizes a function that can fail, without early cutoff, so that `V` need not be `PartialEq`: a
    /// recomputed value always makes its dependants recompute.
    pub fn no_cutoff<F, R, E>(name: &str, function: F) -> Self
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<V, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self::no_cutoff_in(&Graph::global(), name, function)
    }

    /// [`Memo::new`] in a graph.
    pub fn new_in<F, R, E>(graph: &Graph, name: &str, function: F) -> Self
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<V, E>> + Send + 'static,
        E: Into<BoxError>,
        V: PartialEq,
    {
        Self::build(graph, name, Some(V::eq), fallible(function))
    }

    /// [`Memo::infallible`] in a graph.
    pub fn infallible_in<F, R>(graph: &Graph, name: &str, function: F) -> Self
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = V> + Send + 'static,
        V: PartialEq,
    {
        let function: Function<K, V> = Box::new(move |key| {
            let future = function(key);
            Box::pin(async move { Ok(future.await) })
        });
        Self::build(graph, name, Some(V::eq), function)
    }

    /// [`Memo::no_cutoff`] in a graph.
    pub fn no_cutoff_in<F, R, E>(graph: &Graph, name: &str, function: F) -> Self
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<V, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self::build(graph, name, None, fallible(function))
    }

    fn build(
        graph: &Graph,
        name: &str,
        equal: Option<fn(&V, &V) -> bool>,
        function: Function<K, V>,
    ) -> Self {
        let shared = graph.shared;
        let mut inner = None;
        shared.register(|number| {
            let bytes = size_of::<Node<K, V>>() + crate::TABLE_BYTES;
            let functions = &FunctionsOf::<K, V>::TABLE;
            let owner = Owner::new(shared, Arc::from(name), number, false, functions, bytes);
            let made: &'static Inner<K, V> = Box::leak(Box::new(Inner {
                owner,
                table: Table::new(),
                hasher: BuildKeyHasher::default(),
                function: PlainAtomicPtr::new(Box::into_raw(Box::new(function))),
                equal,
                options: Options::new(),
            }));
            made.owner.typed.set(ptr::from_ref(made).cast());
            inner = Some(made);
            &made.owner
        });
        Self { inner: inner.expect("register calls its argument") }
    }

    /// The name given to [`Memo::new`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        &self.inner.owner.name
    }

    /// The value of `key`: from memory when it is current, else computed, once for all who ask.
    ///
    /// Inside a memoized function the read becomes a dependency.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the computation to the other callers; the last one cancels it.
    #[inline(always)]
    pub fn get(&self, key: K) -> Get<K, V> {
        Get::new(*self, key)
    }

    /// The value of `key` if it is in memory and current.
    #[inline(always)]
    #[must_use]
    pub fn cached(&self, key: &K) -> Option<Cached<V>> {
        // SAFETY: `hit` calls it pinned, with the head of a value.
        self.hit::<true, _>(key, |head| unsafe { Cached::pinned(head) })
    }

    /// The same, while nobody wants to hear of hits.
    #[inline(always)]
    pub(crate) fn unprobed(&self, key: &K) -> Option<Cached<V>> {
        if self.inner.owner.is_probed() {
            return None;
        }
        // SAFETY: `hit` calls it pinned, with the head of a value.
        self.hit::<false, _>(key, |head| unsafe { Cached::pinned(head) })
    }

    /// Lends the value of `key` to `look`, if it is in memory and current.
    ///
    /// Memory is not reclaimed while `look` runs, so keep it short.
    #[inline(always)]
    pub fn with<R>(&self, key: &K, look: impl FnOnce(&V) -> R) -> Option<R> {
        // SAFETY: `hit` calls it pinned, with the head of a value.
        self.hit::<true, _>(key, |head| look(unsafe { value_of(head) }))
    }

    /// A copy of the value of `key`, if it is in memory and current.
    #[inline(always)]
    #[must_use]
    pub fn copied(&self, key: &K) -> Option<V>
    where
        V: Copy,
    {
        self.with(key, |value| *value)
    }

    /// Makes the value of `key` stale, whatever its dependencies say, and everything that depends on it.
    ///
    /// Prefer a source: it says what changed rather than what follows. Returns how many dependants were
    /// marked.
    pub fn invalidate(&self, key: &K) -> usize {
        let id = {
            let _pin = pin();
            self.find(self.hash(key), key).map(|node| node.header.id)
        };
        // Also without a node: a computation above may have used a value that is gone by now, and the
        // revision must tell its early callers from later ones.
        self.shared().cascade(|core, walk| {
            if let Some(node) = id.and_then(|id| core.node(id)) {
                core.invalidate(node, walk);
            }
        })
    }

    /// Drops the value of `key` from memory; nobody is told, because nothing changed.
    ///
    /// While something depends on it, a small ghost stays, so that no invalidation is lost. `false` when
    /// there was nothing to drop or a computation is running.
    pub fn evict(&self, key: &K) -> bool {
        let mut trash = Trash::default();
        let _pin = pin();
        let Some(node) = self.find(self.hash(key), key) else { return false };
        let mut core = self.shared().core.lock();
        let alive = core.node(node.header.id).is_some();
        let evicted = alive && core.evict(&node.header, &mut trash);
        drop(core);
        epoch::collect_if_due();
        evicted
    }

    /// Removes `key` and marks everything that depends on it. What the budget does to old ghosts.
    #[doc(hidden)]
    pub fn force_out(&self, key: &K) -> bool {
        let id = {
            let _pin = pin();
            self.find(self.hash(key), key).map(|node| node.header.id)
        };
        let Some(id) = id else { return false };
        let mut forced = false;
        self.shared().cascade(|core, walk| {
            forced = core.node(id).is_some_and(|node| core.force_out(node, walk));
        });
        forced
    }

    /// A stream of fresh values: the current one, then one after each change.
    pub fn watch(&self, key: K) -> Watch<K, V> {
        Watch::new(*self, key)
    }

    /// A stream that says when the value has become suspect, and computes nothing.
    ///
    /// Make it before the `get` whose value it shall guard.
    pub fn notify(&self, key: K) -> Notify<K, V> {
        Notify::new(*self, key)
    }

    /// The lock-free path: no read-modify-write, no allocation, one relaxed bit.
    #[inline(always)]
    fn hit<const PROBES: bool, R>(
        &self,
        key: &K,
        serve: impl FnOnce(*const Head) -> R,
    ) -> Option<R> {
        let _pin = pin();
        let node = self.find(self.hash(key), key)?;
        if node.header.state() != FRESH {
            return None;
        }
        let head = node.value.load(Acquire);
        // SAFETY: a value is retired only after it was replaced here, and the pin holds.
        let is_value = !head.is_null() && !unsafe { &*head }.is_failure();
        if !is_value {
            return None;
        }
        node.header.visit();
        if let Some(frame) = capture::current() {
            // SAFETY: as above.
            frame.record(self.shared(), node.header.id, unsafe { &*head }.version());
        }
        if PROBES && self.inner.owner.is_probed() {
            self.probed(node.header.id);
        }
        Some(serve(head))
    }

    #[cold]
    fn probed(&self, id: Id) {
        let mut core = self.shared().core.lock();
        if let Some(node) = core.node(id) {
            core.note(EventKind::Hit, node);
        }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: &K) -> u64 {
        self.inner.hasher.hash_one(key)
    }

    #[inline(always)]
    pub(crate) fn find<'p>(&self, hash: u64, key: &K) -> Option<&'p Node<K, V>> {
        self.inner.table.find(hash, |node| node.key == *key)
    }

    pub(crate) fn seen(&self, hash: u64) -> Seen {
        self.inner.table.seen(hash)
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.inner.owner.graph
    }

    /// A node that is not shared yet.
    pub(crate) fn make(&self, hash: u64, key: K) -> NonNull<Node<K, V>> {
        let header = Header::new(self.inner.owner.number, hash, false);
        let value = AtomicPtr::new(ptr::null_mut());
        pool::put(Node { header, key, value, owns: std::marker::PhantomData })
    }

    /// Shares a node; `false` when another one may have been added beside it since `seen`.
    pub(crate) fn insert(&self, core: &mut Core, node: NonNull<Node<K, V>>, seen: Seen) -> bool {
        // SAFETY: nobody else knows the node yet.
        let hash = unsafe { node.as_ref() }.header.hash;
        if !self.inner.table.unchanged(core, hash, seen) {
            return false;
        }
        // SAFETY: a node starts with its header and lives until `unlink` retires it.
        unsafe {
            core.adopt(node.as_ptr().cast(), self.inner.owner.node_bytes);
            self.inner.table.insert(core, hash, node.as_ptr());
        }
        true
    }

    /// The living node of `key`, made if need be, with the graph lock that was taken to find it; `None`
    /// when closed. Pinned.
    pub(crate) fn node<'p>(&self, key: &K) -> Option<(MutexGuard<'static, Core>, &'p Node<K, V>)> {
        let hash = self.hash(key);
        let mut made: Option<NonNull<Node<K, V>>> = None;
        loop {
            let seen = self.seen(hash);
            let found = self.find(hash, key);
            match (found, made) {
                (None, None) => made = Some(self.make(hash, key.clone())),
                // SAFETY: never shared.
                (Some(_), Some(unused)) => drop(unsafe { pool::take(unused) }),
                _ => {}
            }
            let mut core = self.shared().core.lock();
            if let Some(node) = found {
                made = None;
                if self.is_closed(&core) {
                    return None;
                }
                if node.header.state() != GONE {
                    return Some((core, node));
                }
                continue;
            }
            let node = made.expect("made above when nothing was found");
            if self.is_closed(&core) {
                drop(core);
                // SAFETY: never shared.
                drop(unsafe { pool::take(node) });
                return None;
            }
            if self.insert(&mut core, node, seen) {
                // SAFETY: just shared; alive while the lock or the pin holds.
                return Some((core, unsafe { node.as_ref() }));
            }
        }
    }

    /// Hangs a bell on the node of `key`; `None` when closed.
    pub(crate) fn attach(&self, key: &K, bell: &Arc<Bell>) -> Option<Id> {
        let _pin = pin();
        let (mut core, node) = self.node(key)?;
        node.header.set_watched(true);
        core.watchers.attach(node.header.id, bell);
        Some(node.header.id)
    }

    pub(crate) fn is_closed(&self, core: &Core) -> bool {
        core.closed || self.inner.function.load(Acquire).is_null()
    }

    /// Removes a node that never got a value and that nobody computes or watches.
    pub(crate) fn discard_empty(&self, core: &mut Core, node: &Node<K, V>, trash: &mut Trash) {
        let header = &node.header;
        if header.state() == EMPTY && !header.is_computing() && !header.is_watched() {
            core.remove(&self.inner.owner, header, trash);
        }
    }

    /// Whether what is in memory for `key` is a current failure.
    pub(crate) fn is_memoized_failure(&self, key: &K) -> bool {
        let _pin = pin();
        self.find(self.hash(key), key).is_some_and(|node| {
            let head = node.value.load(Acquire);
            // SAFETY: retired only after it was replaced, and the pin holds.
            node.header.is_current() && !head.is_null() && unsafe { &*head }.is_failure()
        })
    }
}

fn fallible<K, V, F, R, E>(function: F) -> Function<K, V>
where
    F: Fn(K) -> R + Send + Sync + 'static,
    R: Future<Output = Result<V, E>> + Send + 'static,
    E: Into<BoxError>,
{
    Box::new(move |key| {
        let future = function(key);
        Box::pin(async move { future.await.map_err(|error| Error::failed(error.into())) })
    })
}

/// The function table of memos with these types.
struct FunctionsOf<K, V>(std::marker::PhantomData<(K, V)>);

impl<K: Key, V: Send + Sync + 'static> FunctionsOf<K, V> {
    const TABLE: Functions = Functions {
        refresh: Self::refresh,
        unlink: Self::unlink,
        drop_value: Self::drop_value,
        label: Self::label,
        close: Self::close,
        abort: Self::abort,
    };

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn refresh(owner: &'static Owner, node: *const Header, parent: Id) -> Refresh {
        // SAFETY: a whole node of a memo of these types, alive because the caller is pinned.
        let node = unsafe { &*node.cast::<Node<K, V>>() };
        // SAFETY: an owner with this table.
        let memo = Memo { inner: unsafe { Self::inner(owner) } };
        let get = Get::on_behalf_of(memo, node.key.clone(), parent);
        Box::pin(async move { drop(get.await) })
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn unlink(owner: &'static Owner, header: *const Header) {
        // SAFETY: an owner with this table.
        let inner = unsafe { Self::inner(owner) };
        let node = header.cast::<Node<K, V>>();
        // SAFETY: a whole node of these types; retired below, so alive here.
        let hash = unsafe { (*node).header.hash };
        inner.table.remove(hash, node);
        // SAFETY: as above; out of the table and its identity ended, so new readers cannot find it.
        unsafe {
            Self::drop_value(header);
            epoch::retire(node.cast_mut().cast(), |node| {
                drop(pool::take(NonNull::new_unchecked(node.cast::<Node<K, V>>())));
            });
        }
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn drop_value(node: *const Header) -> bool {
        // SAFETY: a whole node of these types.
        let node = unsafe { &*node.cast::<Node<K, V>>() };
        let head = node.value.load(Acquire);
        if head.is_null() {
            return false;
        }
        node.value.store(ptr::null_mut(), Release);
        // SAFETY: the node owned one count, and new readers cannot find it there any more.
        unsafe { epoch::retire(head.cast(), Outcome::<V>::release) };
        true
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn label(node: *const Header) -> String {
        // SAFETY: a whole node of these types.
        format!("{:?}", unsafe { &(*node.cast::<Node<K, V>>()).key })
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn close(owner: &'static Owner) {
        // SAFETY: an owner with this table.
        let inner = unsafe { Self::inner(owner) };
        let function = inner.function.swap(ptr::null_mut(), SeqCst);
        if !function.is_null() {
            // SAFETY: swapped out once; callers name it in a hazard slot or are pinned.
            unsafe {
                epoch::retire(function.cast(), |function| {
                    drop(Box::from_raw(function.cast::<Function<K, V>>()));
                });
            }
        }
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn abort(
        core: &mut Core,
        owner: &'static Owner,
        work: *const WorkHead,
        trash: &mut Trash,
    ) {
        // SAFETY: the work of a node of these types, kept alive by its callers.
        unsafe { &*work.cast::<Work<K, V>>() }.abort(core, owner, trash);
    }

    /// # Safety
    /// The owner has this table.
    unsafe fn inner(owner: &'static Owner) -> &'static Inner<K, V> {
        // SAFETY: set by `build` to an `Inner` of these types, which is leaked.
        unsafe { &*owner.typed.get().cast() }
    }
}

impl<K, V> Clone for Memo<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Memo<K, V> {}

impl<K, V> fmt::Debug for Memo<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memo").field(&self.inner.owner.name).finish()
    }
}
