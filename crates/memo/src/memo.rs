//! What is derived: a memoized async function.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;

use crate::compute::cached_value::CachedValue;
use crate::compute::capture::Frame;
use crate::compute::get::Get;
use crate::compute::inner::{Function, Inner, RunningFuture};
use crate::graph::Graph;
use crate::graph::deferred::DeferredDrops;
use crate::graph::expiry::Lifetime;
use crate::memory::epoch;
use crate::memory::line::pin;
use crate::store::error::{BoxError, Error};
use crate::store::key::Key;
use crate::store::value::value_of;
use crate::tooling::inspect::Neighbourhood;
use crate::watch::{Notify, Watch};

/// A memoized async function from `K` to `V`.
///
/// The function runs once per key; its value is served from memory until something that it read (a
/// [`Source`](crate::Source) or another memo) has changed. A `Memo` is a `Copy` handle.
///
/// The function may read sources, memos and its key. What else it reads (a clock, a file, a service) is
/// invisible to the graph; bound its life with [`Memo::ttl`].
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tidewire::memo::{Memo, Source};
///
/// static RUNS: AtomicU32 = AtomicU32::new(0);
/// # futures::executor::block_on(async {
/// let rows = Source::<u32>::new("rows");
/// let square = Memo::infallible("square", move |id: u32| async move {
///     rows.read(&id);
///     RUNS.fetch_add(1, Ordering::Relaxed);
///     id * id
/// });
/// assert_eq!(*square.get(3).await?, 9);
/// assert_eq!(*square.get(3).await?, 9);
/// assert_eq!(RUNS.load(Ordering::Relaxed), 1);
/// rows.changed(&3);
/// assert_eq!(*square.get(3).await?, 9);
/// assert_eq!(RUNS.load(Ordering::Relaxed), 2, "a change makes it run again");
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
pub struct Memo<K: 'static, V: 'static> {
    pub(crate) inner: &'static Inner<K, V>,
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
        let function: Function<K, V> = Box::new(move |key| RunningFuture::new(function(key), Ok));
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

    pub(crate) fn build(
        graph: &Graph,
        name: &str,
        equal: Option<fn(&V, &V) -> bool>,
        function: Function<K, V>,
    ) -> Self {
        Self { inner: Inner::register(graph.shared, name, equal, function) }
    }

    /// The name given to [`Memo::new`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.inner.name()
    }

    /// The value of `key`: from memory when it is current, else computed, once for all who ask.
    ///
    /// Inside a memoized function the read becomes a dependency.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the computation to the other callers; the last one cancels it. Up to seven
    /// that are kept and polled no more hold no other caller up: whenever the computation can go on, eight
    /// callers are woken, and all at the next time if none of them polled. A memoized function that drops it
    /// before its answer is answered and not kept.
    #[inline(always)]
    pub fn get(&self, key: K) -> Get<K, V> {
        Get::new(self.inner, key)
    }

    /// The value of `key` if it is in memory and current. Allocates nothing, also for a key that is only
    /// borrowed: `cached("name")` for keys of type `String`.
    #[inline(always)]
    #[must_use]
    pub fn cached<Q>(&self, key: &Q) -> Option<CachedValue<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.inner.cached(key)
    }

    /// As [`cached`](Self::cached), but a memoized function that finds nothing does not depend on that: for one
    /// that then gets the same answer in another way, whether or not it is in memory here.
    #[must_use]
    pub fn peek<Q>(&self, key: &Q) -> Option<CachedValue<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.inner.peek(key)
    }

    /// Lends the value of `key` to `look`, if it is in memory and current.
    ///
    /// Memory is not reclaimed while `look` runs, so keep it short.
    #[inline(always)]
    pub fn with<Q, R>(&self, key: &Q, look: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // SAFETY: `hit` calls it pinned, with the head of a value.
        self.inner.hit(key, |head, _| look(unsafe { value_of(head) }))
    }

    /// A copy of the value of `key`, if it is in memory and current.
    #[inline(always)]
    #[must_use]
    pub fn copied<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Copy,
    {
        self.with(key, |value| *value)
    }

    /// Whether `version` is that of the current value of `key`, without computing: what a conditional
    /// request asks. It is known also when the value itself was evicted while something depends on it or
    /// watches it. A value that was served early has version 0, which is never current. For callers outside
    /// of computations.
    #[must_use]
    pub fn validate<Q>(&self, key: &Q, version: u64) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // SAFETY: `hit` calls it pinned, with the head of a value.
        match self.inner.hit(key, |head, _| unsafe { &*head }.version()) {
            Some(current) => current == version,
            None => version != 0 && self.inner.validate(key, version),
        }
    }

    /// When the value of `key` was made and until when it lives, if it has a life of its own and somebody
    /// has told the time since.
    #[must_use]
    pub fn lifetime<Q>(&self, key: &Q) -> Option<Lifetime>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let id = self.inner.id_of(key)?;
        self.inner.shared().core.lock().expiry.lifetime(id)
    }

    /// What the graph knows of `key`, and of what it depends on; `None` where it has no entry.
    #[must_use]
    pub fn entry<Q>(&self, key: &Q) -> Option<Neighbourhood>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let _pin = pin();
        self.inner.shared().entry(self.inner.id_of(key)?)
    }

    /// Makes the value of `key` stale, whatever its dependencies say, and everything that depends on it.
    ///
    /// Prefer a source: it says what changed rather than what follows. Returns how many dependants were
    /// marked.
    pub fn invalidate<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Frame::announces(self.inner.shared());
        let id = self.inner.id_of(key);
        // Also without a node: a computation above may have used a value that is gone by now, and the
        // revision must tell its early callers from later ones.
        self.inner.shared().cascade(|core, walk| {
            if let Some(node) = id.and_then(|id| core.node(id)) {
                core.invalidate(node, walk);
            }
        })
    }

    /// Drops the value of `key` from memory; nobody is told, because nothing changed.
    ///
    /// While something depends on it, a small ghost stays, so that no invalidation is lost. `false` when
    /// there was nothing to drop or a computation is running.
    pub fn evict<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut deferred = DeferredDrops::default();
        let _pin = pin();
        let Some(id) = self.inner.id_of(key) else { return false };
        let mut core = self.inner.shared().core.lock();
        let evicted = core.node(id).is_some_and(|node| core.evict(node, &mut deferred));
        drop(core);
        epoch::collect_if_due();
        evicted
    }

    /// Drops those of the next `steps` values, in turn and each once, that are stale and were not asked for since
    /// the last look: four for each new value leave few. What is stale in 1 MiB stays, since it may come out equal.
    pub fn sweep(&self, steps: usize) {
        let mut deferred = DeferredDrops::default();
        let _pin = pin();
        self.inner.shared().core.lock().sweep(&self.inner.owner.queue, steps, &mut deferred);
    }

    /// Removes `key` and marks everything that depends on it. What the budget does to old ghosts.
    #[doc(hidden)]
    pub fn force_out(&self, key: &K) -> bool {
        let Some(id) = self.inner.id_of(key) else { return false };
        let mut forced = false;
        self.inner.shared().force(|core, walk| {
            forced = core.node(id).is_some_and(|node| core.force_out(node, walk));
        });
        forced
    }

    /// Closes this memo alone, with what [`Graph`] says about a graph that is dropped. Whatever depends on
    /// its values becomes stale.
    pub fn close(&self) {
        self.inner.shared().close_one(&self.inner.owner);
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
}

fn fallible<K, V, F, R, E>(function: F) -> Function<K, V>
where
    F: Fn(K) -> R + Send + Sync + 'static,
    R: Future<Output = Result<V, E>> + Send + 'static,
    E: Into<BoxError>,
{
    Box::new(move |key| {
        let convert = |result: Result<V, E>| result.map_err(|error| Error::failed(error.into()));
        RunningFuture::new(function(key), convert)
    })
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
