//! The typed part of a memo: its function, its table and its nodes.
//!
//! What the graph asks of it goes through a function table (see [`crate::graph::owner`]); hits are in
//! `hit.rs`.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::hash::Hash;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicPtr as PlainAtomicPtr;
use std::sync::atomic::Ordering::{Acquire, SeqCst};

use crate::compute::attempt::NamedFunction;
use crate::compute::get::Get;
use crate::compute::options::Options;
use crate::compute::work::Share;
use crate::graph::Shared;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::flight::WorkHead;
use crate::graph::owner::{Functions, Owner, Refresh};
use crate::graph::subscriptions::Subscription;
use crate::memory::hasher::KeyHasher;
use crate::memory::line::pin;
use crate::memory::sync::MutexGuard;
use crate::memory::{epoch, pool, running};
use crate::store::error::Error;
use crate::store::key::{self, Key};
use crate::store::node::{EMPTY, GONE, Header};
use crate::store::slots::Id;
use crate::store::table::{InsertCount, Place, TABLE_BYTES, Table};
use crate::store::value::Outcome;

/// The typed part of a memo.
pub(crate) struct Inner<K, V: 'static> {
    pub(super) table: Table<Node<K, V>>,
    hasher: KeyHasher,
    pub(crate) owner: Owner,
    /// Null when closed.
    pub(crate) function: PlainAtomicPtr<Function<K, V>>,
    pub(crate) equal: Option<fn(&V, &V) -> bool>,
    pub(crate) options: Options<V>,
}

/// A computation that has begun.
pub(crate) type RunningFuture<V> = running::RunningFuture<Result<V, Error>>;

/// The user's function with its future boxed and its error erased.
pub(crate) type Function<K, V> = Box<dyn Fn(K) -> RunningFuture<V> + Send + Sync>;

/// One key and its value. Starts with its header, whose end, with the key, is what hits read.
#[repr(C)]
pub(crate) struct Node<K, V> {
    pub(crate) header: Header,
    pub(crate) key: K,
    owns: std::marker::PhantomData<V>,
}

/// What a search without a lock found, to be confirmed under the lock.
pub(crate) struct Lookup<'p, K, V> {
    pub(crate) hash: u64,
    seen: InsertCount,
    pub(crate) node: Result<&'p Node<K, V>, Place>,
}

impl<K: Key, V: Send + Sync + 'static> Inner<K, V> {
    /// Makes a memo and tells the graph of it. Never freed.
    pub(crate) fn register(
        shared: &'static Shared,
        name: &str,
        equal: Option<fn(&V, &V) -> bool>,
        function: Function<K, V>,
    ) -> &'static Self {
        let mut inner = None;
        shared.register(|number| {
            let bytes = size_of::<Node<K, V>>() + TABLE_BYTES;
            let functions = &FunctionsOf::<K, V>::TABLE;
            let owner = Owner::new(shared, Arc::from(name), number, false, functions, bytes);
            let made: &'static Self = Box::leak(Box::new(Self {
                owner,
                table: Table::new(),
                hasher: KeyHasher::default(),
                function: PlainAtomicPtr::new(Box::into_raw(Box::new(function))),
                equal,
                options: Options::new(),
            }));
            made.owner.typed.set(ptr::from_ref(made).cast());
            inner = Some(made);
            &made.owner
        });
        inner.expect("register calls its argument")
    }

    #[inline(always)]
    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash(key)
    }

    /// Pinned.
    pub(crate) fn find<'p, Q>(&self, hash: u64, key: &Q) -> Option<&'p Node<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.table.find(hash, |node| node.key.borrow() == key)
    }

    /// The identity of the node of a key, if there is one.
    pub(crate) fn id_of<Q>(&self, key: &Q) -> Option<Id>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let _pin = pin();
        self.find(self.hash(key), key).map(|node| node.header.id)
    }

    pub(crate) fn name(&self) -> &str {
        &self.owner.name
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.owner.graph
    }

    /// A node that is not shared yet.
    #[inline(always)]
    fn make(&self, hash: u64, key: K) -> NonNull<Node<K, V>> {
        let place = pool::place::<Node<K, V>>();
        let node = place.as_ptr();
        // SAFETY: a new place, of which every part is written.
        unsafe {
            (&raw mut (*node).header).write(Header::new(self.owner.number, hash, false));
            (&raw mut (*node).key).write(key);
        }
        place
    }

    /// Shares a node where the search ended that began when this was seen; `false` when another one may have
    /// been added beside it since.
    #[inline(always)]
    fn insert(
        &self,
        core: &mut Core,
        node: NonNull<Node<K, V>>,
        hash: u64,
        seen: InsertCount,
        place: Place,
    ) -> bool {
        if !self.table.unchanged(&core.slots, hash, seen) {
            return false;
        }
        // SAFETY: a node starts with its header and lives until `unlink` retires it.
        unsafe {
            core.adopt(node.as_ptr().cast(), &self.owner);
            self.table.insert(&mut core.slots, hash, node.as_ptr(), place);
        }
        true
    }

    /// Looks for the node of a key without a lock. Pinned.
    #[inline]
    pub(crate) fn look<'p>(&self, key: &K) -> Lookup<'p, K, V> {
        self.look_again(self.hash(key), key)
    }

    #[inline]
    fn look_again<'p>(&self, hash: u64, key: &K) -> Lookup<'p, K, V> {
        let seen = self.table.seen(hash);
        Lookup { hash, seen, node: self.table.find_or_place(hash, |node| node.key == *key) }
    }

    /// The living node of `key`, made if need be, with the graph lock that was taken to find it; `None`
    /// when closed. Pinned since the caller looked.
    #[inline(always)]
    pub(crate) fn node<'p>(
        &self,
        key: &K,
        mut looked: Lookup<'p, K, V>,
    ) -> Option<(MutexGuard<'static, Core>, &'p Node<K, V>)> {
        loop {
            if looked.node.is_err()
                && let Some(added) = self.add_again(key, &looked)
            {
                return Some(added);
            }
            let core = self.shared().core.lock();
            if self.is_closed(&core) {
                return None;
            }
            if let Ok(node) = looked.node
                && node.header.state() != GONE
            {
                return Some((core, node));
            }
            drop(core);
            looked = self.look_again(looked.hash, key);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_again<'p>(
        &self,
        key: &K,
        looked: &Lookup<'p, K, V>,
    ) -> Option<(MutexGuard<'static, Core>, &'p Node<K, V>)> {
        self.add(key, looked)
    }

    /// Makes the node of a key that was not found, with the graph lock that this takes; `None` when it was, or
    /// may have been added since, or when closed. Pinned since the caller looked.
    #[inline(always)]
    pub(crate) fn add<'p>(
        &self,
        key: &K,
        looked: &Lookup<'p, K, V>,
    ) -> Option<(MutexGuard<'static, Core>, &'p Node<K, V>)> {
        let place = looked.node.err()?;
        let node = self.make(looked.hash, key.clone());
        let mut core = self.shared().core.lock();
        if !self.is_closed(&core) && self.insert(&mut core, node, looked.hash, looked.seen, place) {
            // SAFETY: just shared; alive while the lock or the pin holds.
            return Some((core, unsafe { node.as_ref() }));
        }
        drop(core);
        // SAFETY: never shared.
        unsafe { pool::destroy(node) };
        None
    }

    /// Hangs a subscription on the node of `key`; `None` when closed.
    pub(crate) fn attach(&self, key: &K, subscription: &Subscription) -> Option<Id> {
        let _pin = pin();
        let (mut core, node) = self.node(key, self.look(key))?;
        node.header.set_watched(true);
        core.watchers.attach(node.header.id, subscription);
        Some(node.header.id)
    }

    /// Calls the function, with whatever frame is current; `None` when closed.
    pub(crate) fn call(&'static self, key: K) -> Option<RunningFuture<V>> {
        let _pin = pin();
        let function = self.function.load(Acquire);
        // SAFETY: retired when it is replaced by null, and the pin holds.
        (!function.is_null()).then(|| unsafe { (*function)(key) })
    }

    /// The function, which stays as long as what is returned; `None` when closed, or when that needs the pin.
    /// Pinned.
    #[inline(always)]
    pub(crate) fn name_function(&self) -> Option<NamedFunction<K, V>> {
        let function = self.function.load(Acquire);
        if function.is_null() { None } else { NamedFunction::new(function) }
    }

    pub(crate) fn is_closed(&self, core: &Core) -> bool {
        core.closed || self.function.load(Acquire).is_null()
    }

    /// Removes a node that never got a value and that nobody computes or watches.
    pub(crate) fn discard_empty(
        &'static self,
        core: &mut Core,
        node: &Node<K, V>,
        deferred: &mut DeferredDrops,
    ) {
        let header = &node.header;
        if header.state() == EMPTY && !header.is_computing() && !header.is_watched() {
            core.remove(&self.owner, header, deferred);
        }
    }

    /// Whether the version of a key, checked without computing anything, is this one.
    pub(crate) fn validate<Q>(&self, key: &Q, version: u64) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.id_of(key).is_some_and(|id| self.shared().is_at(id, version))
    }

    /// Sets a probe: hits are noted or audited. See [`Owner::set_probe`].
    pub(crate) fn set_probe(&'static self, core: &mut Core, bit: u32, on: bool) {
        self.owner.set_probe(core, bit, on);
    }
}

/// The function table of memos with these types.
struct FunctionsOf<K, V>(std::marker::PhantomData<(K, V)>);

impl<K: Key, V: Send + Sync + 'static> FunctionsOf<K, V> {
    const TABLE: Functions = Functions {
        refresh: Self::refresh,
        unlink: Self::unlink,
        drop_value: Self::drop_value,
        label: Self::label,
        change: |_, _| None,
        close: Self::close,
        free: Self::free,
        begin_anew: Self::begin_anew,
        abort: Self::abort,
        probe: Self::probe,
    };

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn probe(owner: &'static Owner, core: &mut Core, on: bool) {
        // SAFETY: an owner with this table.
        unsafe { Self::inner(owner) }.table.probe(&mut core.slots, on);
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn free(owner: &'static Owner, core: &mut Core) {
        // SAFETY: an owner with this table.
        unsafe { Self::inner(owner) }.table.close(&mut core.slots);
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn refresh(owner: &'static Owner, node: *const Header, parent: Id) -> Refresh {
        // SAFETY: a whole node of a memo of these types, alive because the caller is pinned.
        let node = unsafe { &*node.cast::<Node<K, V>>() };
        // SAFETY: an owner with this table.
        let memo = unsafe { Self::inner(owner) };
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
                pool::destroy(NonNull::new_unchecked(node.cast::<Node<K, V>>()));
            });
        }
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn drop_value(node: *const Header) -> bool {
        // SAFETY: a whole node of these types.
        let header = unsafe { &*node };
        let head = header.value().cast_mut();
        if head.is_null() {
            return false;
        }
        header.set_value(ptr::null_mut(), header.has_failed());
        // SAFETY: the node owned one count, and new readers cannot find it there any more.
        unsafe { epoch::retire(head.cast(), Outcome::<V>::release) };
        true
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn label(node: *const Header) -> String {
        // SAFETY: a whole node of these types.
        key::text(unsafe { &(*node.cast::<Node<K, V>>()).key })
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn close(owner: &'static Owner) {
        // SAFETY: an owner with this table.
        let inner = unsafe { Self::inner(owner) };
        inner.options.close();
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
    unsafe fn begin_anew(work: *const WorkHead, deferred: &mut DeferredDrops) {
        // SAFETY: the work of a node of these types, kept alive by its callers.
        unsafe { Share::<K, V>::of(work.cast()) }.begin_anew(deferred);
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn abort(
        core: &mut Core,
        owner: &'static Owner,
        work: *const WorkHead,
        deferred: &mut DeferredDrops,
    ) {
        // SAFETY: the work of a node of these types, kept alive by its callers.
        unsafe { Share::<K, V>::of(work.cast()) }.abort(core, owner, deferred);
    }

    /// # Safety
    /// The owner has this table.
    unsafe fn inner(owner: &'static Owner) -> &'static Inner<K, V> {
        // SAFETY: set by `build` to an `Inner` of these types, which is leaked.
        unsafe { &*owner.typed.get().cast() }
    }
}
