//! One batch: keys gather, the function is called once, each key gets its answer.
//!
//! The task of a batch waits until the loader has a turn for it, lets the runtime turn once unless
//! the batch is full, and takes it out of the loader; whoever loads from then on begins another. So
//! a key is never added to a call that has begun.

use std::any::Any;
use std::collections::HashMap;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::loader::{Loaded, Shared};

/// What a load hears.
enum Answer<V, E> {
    Loaded(Result<Option<V>, E>),
    /// The function panicked, with this text.
    Panicked(Arc<str>),
}

type Senders<V, E> = Vec<oneshot::Sender<Answer<V, E>>>;

/// Keys that are loaded together.
pub(crate) struct Batch<K, V, E> {
    /// In the order in which they came first.
    keys: Mutex<Keys<K, V, E>>,
    interest: Arc<Interest>,
}

struct Keys<K, V, E> {
    order: Vec<K>,
    senders: HashMap<K, Senders<V, E>>,
}

/// How many loads wait for a batch.
#[derive(Default)]
struct Interest {
    loads: AtomicUsize,
    gone: Notify,
}

/// A load that waits for its batch.
pub(crate) struct PendingLoad<V, E> {
    answer: oneshot::Receiver<Answer<V, E>>,
    interest: Arc<Interest>,
}

impl<K, V, E> Batch<K, V, E>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    V: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    /// An empty batch, and the task that runs it.
    pub(crate) fn begin(shared: Arc<Shared<K, V, E>>) -> Arc<Self> {
        let keys = Mutex::new(Keys { order: Vec::new(), senders: HashMap::new() });
        let batch = Arc::new(Self { keys, interest: Arc::default() });
        tokio::spawn(Arc::clone(&batch).run(shared));
        batch
    }

    /// Adds a load of a key, and gives how many keys there are now.
    pub(crate) fn join(&self, key: K) -> (PendingLoad<V, E>, usize) {
        let (sender, answer) = oneshot::channel();
        self.interest.loads.fetch_add(1, Ordering::AcqRel);
        let waiting = PendingLoad { answer, interest: Arc::clone(&self.interest) };
        let keys = &mut *self.keys.lock();
        let senders = keys.senders.entry(key.clone()).or_default();
        if senders.is_empty() {
            keys.order.push(key);
        }
        senders.push(sender);
        (waiting, keys.order.len())
    }

    async fn run(self: Arc<Self>, shared: Arc<Shared<K, V, E>>) {
        let _turn = shared.turns.acquire().await.expect("nobody closes it");
        if self.keys.lock().order.len() < shared.keys_max {
            tokio::task::yield_now().await;
        }
        let taken = {
            let mut gathering = shared.gathering.lock();
            if gathering.as_ref().is_some_and(|batch| Arc::ptr_eq(batch, &self)) {
                *gathering = None;
            }
            let keys = &mut *self.keys.lock();
            Keys {
                order: std::mem::take(&mut keys.order),
                senders: std::mem::take(&mut keys.senders),
            }
        };
        let Keys { mut order, mut senders } = taken;
        senders.retain(|_, senders| senders.iter().any(|sender| !sender.is_closed()));
        order.retain(|key| senders.contains_key(key));
        if order.is_empty() {
            return;
        }
        // The function itself may panic, too, before it gives a future.
        let loading = AssertUnwindSafe(async { (shared.call)(order).await }).catch_unwind();
        tokio::select! {
            biased;
            loaded = loading => answer(senders, loaded),
            () = self.interest.gone() => {}
        }
    }
}

/// Tells each load what became of its key.
fn answer<K, V, E>(
    senders: HashMap<K, Senders<V, E>>,
    loaded: Result<Loaded<K, V, E>, Box<dyn Any + Send>>,
) where
    K: Eq + Hash,
    V: Clone,
    E: Clone,
{
    let panic = loaded.as_ref().err().map(|panic| Arc::<str>::from(text_of(&**panic)));
    let loaded = loaded.ok();
    for (key, senders) in senders {
        for sender in senders {
            let answer = match (&loaded, &panic) {
                (Some(Ok(values)), _) => {
                    let value = values.get(&key).cloned();
                    Answer::Loaded(value.transpose())
                }
                (Some(Err(error)), _) => Answer::Loaded(Err(error.clone())),
                (None, panic) => Answer::Panicked(panic.clone().unwrap_or_default()),
            };
            // Who has gone hears nothing.
            let _ = sender.send(answer);
        }
    }
}

/// What was said of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

impl Interest {
    /// Ready once nobody waits any more.
    async fn gone(&self) {
        loop {
            // Told of before the look, so that what happens after it is heard.
            let told = self.gone.notified();
            if self.loads.load(Ordering::Acquire) == 0 {
                return;
            }
            told.await;
        }
    }
}

impl<V, E> PendingLoad<V, E> {
    /// What became of the key.
    pub(crate) async fn answer(mut self) -> Result<Option<V>, E> {
        match (&mut self.answer).await {
            Ok(Answer::Loaded(value)) => value,
            Ok(Answer::Panicked(text)) => panic!("the function of a loader panicked: {text}"),
            Err(_) => panic!("the runtime in which a loader's function ran has ended"),
        }
    }
}

impl<V, E> Drop for PendingLoad<V, E> {
    fn drop(&mut self) {
        // The sender sees it closed before the batch looks whether anybody is left.
        self.answer.close();
        if self.interest.loads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.interest.gone.notify_one();
        }
    }
}
