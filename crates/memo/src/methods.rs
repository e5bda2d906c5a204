//! Where an object keeps the memos of its `#[memo]` methods.

use std::any::Any;
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};

use crate::graph::Graph;
use crate::memo::Memo;
use crate::memory::running::RunningFuture;
use crate::store::error::{BoxError, Error};
use crate::store::key::Key;

/// The memos of one object, made at the first call of each method.
///
/// An object with `#[memo]` methods has a field `memos: Methods`. Dropping it closes them: whoever still
/// waits gets an error of kind [`Closed`](crate::ErrorKind::Closed).
///
/// ```
/// use std::sync::Arc;
/// use tidewire_memo::{Graph, Methods, Source, memo};
///
/// struct Contacts {
///     rows: Source<i32>,
///     memos: Methods,
/// }
///
/// impl Contacts {
///     #[memo]
///     async fn name(self: &Arc<Self>, id: i32) -> Result<String, std::fmt::Error> {
///         self.rows.read(&id);
///         Ok(format!("contact {id}"))
///     }
/// }
/// # let graph = Graph::new();
/// let contacts = Arc::new(Contacts { rows: Source::new_in(&graph, "contacts"), memos: Methods::new_in(&graph) });
/// # futures::executor::block_on(async {
/// assert_eq!(*contacts.name(1).await?, "contact 1");
/// contacts.rows.changed(&1);
/// # Ok::<(), tidewire_memo::Error>(())
/// # }).unwrap();
/// ```
pub struct Methods {
    graph: Graph,
    memos: [OnceLock<Box<dyn Close>>; PER_OBJECT],
}

/// One `#[memo]` method of the program; made by the attribute.
#[derive(Debug)]
pub struct Method {
    name: &'static str,
    /// A number from 1, given at the first call.
    number: AtomicUsize,
}

/// The value type of a memoized method's return type.
pub trait MethodOutput {
    /// `V` of `Result<V, E>`.
    type Value;
}

impl<V, E> MethodOutput for Result<V, E> {
    type Value = V;
}

impl Method {
    /// Made by the attribute.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, number: AtomicUsize::new(0) }
    }

    /// Where its memo is kept; different methods may share a place and are told apart by type and name.
    fn place(&self) -> usize {
        let number = self.number.load(Relaxed);
        if number != 0 {
            return number % PER_OBJECT;
        }
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let new = NEXT.fetch_add(1, Relaxed);
        match self.number.compare_exchange(0, new, Relaxed, Relaxed) {
            Ok(_) => new % PER_OBJECT,
            Err(number) => number % PER_OBJECT,
        }
    }
}

impl Methods {
    /// Memos in the global graph.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self::new_in(&Graph::global())
    }

    /// Memos in a graph, which stays open as long as they do.
    #[must_use]
    pub fn new_in(graph: &Graph) -> Self {
        Self { graph: graph.clone(), memos: [const { OnceLock::new() }; PER_OBJECT] }
    }

    /// The memo of a method, made at the first call. Used by the attribute.
    ///
    /// # Panics
    /// When the object has more memoized methods than there are places for.
    #[doc(hidden)]
    pub fn memo<T, K, V, E, R>(
        &self,
        method: &'static Method,
        this: &Arc<T>,
        function: fn(Arc<T>, K) -> R,
        options: fn(Memo<K, V>) -> Memo<K, V>,
    ) -> Memo<K, V>
    where
        T: Send + Sync + 'static,
        K: Key,
        V: PartialEq + Send + Sync + 'static,
        E: Into<BoxError> + 'static,
        R: Future<Output = Result<V, E>> + Send + 'static,
    {
        let first = method.place();
        for step in 0..PER_OBJECT {
            let place = &self.memos[(first + step) % PER_OBJECT];
            let kept = place.get_or_init(|| {
                let this = Arc::downgrade(this);
                let call = move |key| call(&this, function, key, method.name);
                let function = move |key| RunningFuture::new(call(key), |result| result);
                let memo = Memo::build(&self.graph, method.name, Some(V::eq), Box::new(function));
                Box::new(StoredMemo { method, memo: options(memo) })
            });
            let kept = kept.as_any().downcast_ref::<StoredMemo<K, V>>();
            if let Some(kept) = kept.filter(|kept| std::ptr::eq(kept.method, method)) {
                return kept.memo;
            }
        }
        panic!("an object has at most {PER_OBJECT} memoized methods");
    }
}

fn call<T, K, V, E, R>(
    this: &Weak<T>,
    function: fn(Arc<T>, K) -> R,
    key: K,
    name: &'static str,
) -> impl Future<Output = Result<V, Error>> + Send + use<T, K, V, E, R>
where
    T: Send + Sync + 'static,
    E: Into<BoxError>,
    R: Future<Output = Result<V, E>> + Send + 'static,
{
    let running = this.upgrade().map(|this| function(this, key));
    async move {
        match running {
            Some(running) => running.await.map_err(|error| Error::failed(error.into())),
            None => Err(Error::closed(name)),
        }
    }
}

struct StoredMemo<K: Key, V: Send + Sync + 'static> {
    method: &'static Method,
    memo: Memo<K, V>,
}

/// A memo of any types that can be closed and recognised.
trait Close: Any + Send + Sync {
    fn close(&self);
    fn as_any(&self) -> &dyn Any;
}

impl<K: Key, V: Send + Sync + 'static> Close for StoredMemo<K, V> {
    fn close(&self) {
        self.memo.close();
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Methods {
    fn drop(&mut self) {
        self.memos.iter().filter_map(OnceLock::get).for_each(|memo| memo.close());
    }
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Methods").finish_non_exhaustive()
    }
}

/// Memoized methods of one object.
const PER_OBJECT: usize = 32;
