//! What callers see: a function of many keys, called one key at a time.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::batch::Batch;

/// Loads single keys by a function that loads many at once.
///
/// Loads that begin in one turn of the runtime are one call of the function, with each key once.
/// While as many calls as [`batches_max`](Self::batches_max) are under way, further loads gather
/// for the next one. So a list of orders costs one query for all of their customers, and a
/// database under load is asked fewer and larger questions.
///
/// Clones share their batches.
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
///
/// # Cancel safety
///
/// A load may be dropped at any time. The function is not asked for a key that nobody waits for
/// when the batch begins, and is dropped once nobody waits for any of its keys; otherwise it goes
/// on for the others.
///
/// # Panics
///
/// [`load`](Self::load) panics outside of a runtime of tokio.
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
    /// The batch that loads join now.
    pub(crate) gathering: Mutex<Option<Arc<Batch<K, V, E>>>>,
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
    /// asked for are ignored.
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
            gathering: Mutex::new(None),
        }))
    }

    /// So many calls of the function at once at most; without it as many as there are batches.
    /// Loads that come while all are under way gather, up to `keys_max` a batch. A good number is
    /// that of the connections that the database's pool has to spare. 0 is as 1.
    ///
    /// # Panics
    /// When the loader has been cloned or used.
    #[must_use]
    pub fn batches_max(mut self, batches_max: usize) -> Self {
        let shared =
            Arc::get_mut(&mut self.0).expect("batches_max is called before the loader is used");
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

    /// The values of keys, without those that have none.
    ///
    /// # Errors
    /// The first that comes, as of [`load`](Self::load).
    pub async fn load_many(&self, keys: impl IntoIterator<Item = K>) -> Result<HashMap<K, V>, E> {
        // All join before one of them is waited for.
        let loads: Vec<_> = keys
            .into_iter()
            .map(|key| {
                let waiting = self.0.join(key.clone());
                async move { Ok(waiting.answer().await?.map(|value| (key, value))) }
            })
            .collect();
        Ok(try_join_all(loads).await?.into_iter().flatten().collect())
    }
}

impl<K, V, E> Shared<K, V, E>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    V: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    /// Joins the batch that gathers, or begins one.
    fn join(self: &Arc<Self>, key: K) -> crate::batch::PendingLoad<V, E> {
        let mut gathering = self.gathering.lock();
        let batch = gathering.get_or_insert_with(|| Batch::begin(Arc::clone(self)));
        let (waiting, keys) = batch.join(key);
        if keys == self.keys_max {
            *gathering = None;
        }
        waiting
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
