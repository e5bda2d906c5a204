//! What callers see: a function of many keys, called one key at a time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::try_join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::batch::{Batch, PendingLoad, Run};

/// Loads single keys by a function that loads many at once.
///
/// Loads that begin in one turn of the runtime are one call of the function, with each key once.
/// While as many calls as [`batches_max`](Self::batches_max) are under way, further loads gather
/// for the next one. So a list of orders costs one query for all of their customers, and a
/// database under load is asked fewer and larger questions.
///
/// Clones share their batches. A batch is of one runtime, so that a runtime that ends or stands
/// still holds up no other. The future of `block_on`, and so of `#[tokio::main]`, is not a task:
/// on a runtime of several threads a call may begin between two of its loads. The keys of one
/// `load_many` stay together there, too.
///
/// # What it promises
///
/// - **No value is older than its load.** A load joins only a batch that has not begun, and
///   nothing is kept afterwards. A memoized function that reads a source and then loads is as exact
///   as one that asks the database itself. (What the function reads of sources does not count for
///   those who wait: it runs in a task by itself.)
/// - **Each key has its answer**: a value, `None` where the function gave nothing for it, or an
///   error, either of the key ([`with_errors`](Self::with_errors)) or of the whole batch.
/// - **A panic of the function** is a panic of every load that waits for it, and of no other.
/// - **What callers give up does not add up**, not even while the database hangs.
///
/// # The function
///
/// It runs in a task by itself, for callers that do not know of each other: it sees no task-local
/// value, no span and no deadline of theirs. What an answer depends on, such as the tenant, is part
/// of the key. A call that never ends keeps its turn for as long as somebody waits for it, so give
/// it a time limit.
///
/// It may use other loaders. A load by the same loader waits for another turn, and so for ever if
/// those of `batches_max` are all taken by calls that do the same. Nor may it ask for a
/// memoized value whose function waits for this very call: the two wait for each other.
///
/// Values and errors are cloned where several loads wait for one key. Let the function turn rows
/// into what callers want, group rows of one key (`Loader<AuthorId, Vec<Book>, E>`), and put an
/// error that is not `Clone`, such as the database's, into an `Arc`.
///
/// # Cancel safety
///
/// A load may be dropped at any time. The function is not asked for a key that nobody waits for
/// when the batch begins, and is dropped once nobody waits for any of its keys; otherwise it goes
/// on for the others.
///
/// # Panics
///
/// [`load`](Self::load) panics outside of a runtime of tokio, and when the runtime in which it
/// began ends before it has its answer.
///
/// ```
/// use std::collections::HashMap;
/// use tidewire_loader::Loader;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::sync::Arc<std::io::Error>> {
/// let names = Loader::new(100, |ids: Vec<i64>| async move {
///     // SELECT id, name FROM people WHERE id = ANY($1)
///     println!("asked for {ids:?}");
///     Ok::<_, std::sync::Arc<std::io::Error>>(ids.into_iter().map(|id| (id, format!("name {id}"))))
/// });
/// let (ada, bob) = tokio::join!(names.load(1), names.load(2)); // asked for [1, 2]
/// assert_eq!((ada?.as_deref(), bob?.as_deref()), (Some("name 1"), Some("name 2")));
/// # Ok(())
/// # }
/// ```
pub struct Loader<K, V, E>(Arc<Shared<K, V, E>>);

/// Values by key, each perhaps an error.
pub(crate) type Loaded<K, V, E> = Result<HashMap<K, Result<V, E>>, E>;

/// A call of the function.
pub(crate) type Loading<K, V, E> = Pin<Box<dyn Future<Output = Loaded<K, V, E>> + Send>>;

pub(crate) struct Shared<K, V, E> {
    pub(crate) call: Box<dyn Fn(Vec<K>) -> Loading<K, V, E> + Send + Sync>,
    pub(crate) keys_max: usize,
    pub(crate) turns: Semaphore,
    /// The batches that loads join now: one for each runtime.
    gathering: Mutex<Vec<Arc<Batch<K, V, E>>>>,
}

/// Loads that join in one hold of the lock; then the batches that they begin may run.
struct Joining<'a, K, V, E> {
    // Before the batches, which take the lock as they are dropped.
    gathering: MutexGuard<'a, Vec<Arc<Batch<K, V, E>>>>,
    begun: Vec<Run<K, V, E>>,
    shared: &'a Arc<Shared<K, V, E>>,
    runtime: Handle,
}

impl<K, V, E> Loader<K, V, E>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    V: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    /// A loader that calls `load` with `keys_max` keys at most; 0 is as 1.
    ///
    /// `load` gets each key once, in the order in which they were asked for first, and gives the
    /// values that there are in any order. A key that it leaves out has none; keys that were not
    /// asked for are ignored. If it gives a key twice, the last value counts.
    pub fn new<F, I>(keys_max: usize, load: impl Fn(Vec<K>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<I, E>> + Send + 'static,
        I: IntoIterator<Item = (K, V)>,
    {
        Self::calling(keys_max, move |keys| {
            let loading = load(keys);
            Box::pin(async {
                Ok(loading.await?.into_iter().map(|(key, value)| (key, Ok(value))).collect())
            })
        })
    }

    /// The same with a function that may fail for single keys.
    pub fn with_errors<F, I>(
        keys_max: usize,
        load: impl Fn(Vec<K>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<I, E>> + Send + 'static,
        I: IntoIterator<Item = (K, Result<V, E>)>,
    {
        Self::calling(keys_max, move |keys| {
            let loading = load(keys);
            Box::pin(async { Ok(loading.await?.into_iter().collect()) })
        })
    }

    fn calling(
        keys_max: usize,
        call: impl Fn(Vec<K>) -> Loading<K, V, E> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Shared {
            call: Box::new(call),
            keys_max: keys_max.max(1),
            turns: Semaphore::new(Semaphore::MAX_PERMITS),
            gathering: Mutex::default(),
        }))
    }

    /// So many calls of the function at once at most; without it as many as there are batches.
    /// Loads that come while all are under way gather, up to `keys_max` a batch. A good number is
    /// that of the connections that the database's pool has to spare. 0 is as 1.
    ///
    /// # Panics
    /// While there are clones or calls of the loader.
    #[must_use]
    pub fn batches_max(mut self, batches_max: usize) -> Self {
        let shared =
            Arc::get_mut(&mut self.0).expect("batches_max is called before the loader is cloned");
        shared.turns = Semaphore::new(batches_max.clamp(1, Semaphore::MAX_PERMITS));
        self
    }

    /// The value of a key; `None` where there is none.
    ///
    /// # Errors
    /// That of the function, of this key or of the whole batch.
    pub async fn load(&self, key: K) -> Result<Option<V>, E> {
        self.0.join(key).answer().await
    }

    /// The values of keys, without those that have none. A key that is given twice is asked for
    /// once. All join before a call begins, so there are as few calls as `keys_max` allows.
    ///
    /// # Errors
    /// The first that comes, as of [`load`](Self::load).
    pub async fn load_many(&self, keys: impl IntoIterator<Item = K>) -> Result<HashMap<K, V>, E> {
        let loads = self.0.join_many(keys.into_iter().collect()).into_iter();
        let values =
            loads.map(async |(key, load)| Ok(load.answer().await?.map(|value| (key, value))));
        Ok(try_join_all(values).await?.into_iter().flatten().collect())
    }
}

impl<K, V, E> Shared<K, V, E>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    V: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    fn join(self: &Arc<Self>, key: K) -> PendingLoad<V, E> {
        let mut joining = Joining::begin(self);
        let load = joining.load(key);
        joining.end();
        load
    }

    /// The loads of keys, each once. No batch of theirs runs before all of them have joined.
    fn join_many(self: &Arc<Self>, keys: Vec<K>) -> HashMap<K, PendingLoad<V, E>> {
        let mut loads = HashMap::new();
        if keys.is_empty() {
            return loads;
        }
        let mut joining = Joining::begin(self);
        for key in keys {
            if let Entry::Vacant(first) = loads.entry(key) {
                let load = joining.load(first.key().clone());
                first.insert(load);
            }
        }
        joining.end();
        loads
    }
}

impl<K, V, E> Shared<K, V, E> {
    /// No load joins this batch from now on.
    pub(crate) fn leave(&self, batch: &Arc<Batch<K, V, E>>) {
        self.gathering.lock().retain(|other| !Arc::ptr_eq(other, batch));
    }

    /// The same if nobody waits for it; tells whether that is so.
    pub(crate) fn leave_abandoned(&self, batch: &Arc<Batch<K, V, E>>) -> bool {
        let mut gathering = self.gathering.lock();
        if batch.is_abandoned() {
            gathering.retain(|other| !Arc::ptr_eq(other, batch));
        }
        batch.is_abandoned()
    }
}

impl<'a, K, V, E> Joining<'a, K, V, E>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    V: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    fn begin(shared: &'a Arc<Shared<K, V, E>>) -> Self {
        let runtime = Handle::current();
        Self { gathering: shared.gathering.lock(), begun: Vec::new(), shared, runtime }
    }

    /// Joins the batch that gathers in this runtime, or begins one.
    fn load(&mut self, key: K) -> PendingLoad<V, E> {
        let runtime = self.runtime.id();
        let at = self.gathering.iter().position(|batch| batch.runtime() == runtime);
        let at = at.unwrap_or_else(|| {
            let batch = Arc::new(Batch::new(runtime));
            self.begun.push(Run::new(Arc::clone(&batch), Arc::clone(self.shared)));
            self.gathering.push(batch);
            self.gathering.len() - 1
        });
        let (load, is_full) = self.gathering[at].join(key, self.shared.keys_max);
        if is_full {
            self.gathering.swap_remove(at);
        }
        load
    }

    fn end(self) {
        // A runtime that shuts down drops a batch at once, which takes the lock.
        drop(self.gathering);
        for batch in self.begun {
            self.runtime.spawn(batch.run());
        }
    }
}

impl<K, V, E> Clone for Loader<K, V, E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V, E> fmt::Debug for Loader<K, V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("keys_max", &self.0.keys_max).finish_non_exhaustive()
    }
}
