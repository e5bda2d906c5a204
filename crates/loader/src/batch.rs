//! One batch: keys gather, the function is called once, each key gets its answer.
//!
//! The task of a batch waits until the loader has a turn for it, lets the runtime turn once unless
//! the batch is full, and takes it out of the loader; whoever loads from then on begins another. So
//! a key is never added to a call that has begun.
//!
//! However the task ends, by a panic of a key or with its runtime, the batch is out of the loader.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::runtime::Id;
use tokio::sync::{Notify, SemaphorePermit, oneshot};
use tokio::task::unconstrained;

use crate::loader::{Loaded, Shared};

/// What a load hears.
#[derive(Clone)]
enum Answer<V, E> {
    Loaded(Result<Option<V>, E>),
    /// The function panicked, with this text.
    Panicked(Arc<str>),
}

type Senders<V, E> = Vec<oneshot::Sender<Answer<V, E>>>;

/// Keys that are loaded together.
pub(crate) struct Batch<K, V, E> {
    /// The runtime of its loads, in which it runs.
    runtime: Id,
    keys: Mutex<Keys<K, V, E>>,
    interest: Arc<Interest>,
}

struct Keys<K, V, E> {
    /// In the order in which they came first.
    order: Vec<K>,
    senders: HashMap<K, Senders<V, E>>,
    /// With so many keys those that nobody waits for are left out, lest they add up.
    review_at: usize,
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

/// What the task of a batch owns.
pub(crate) struct Run<K, V, E> {
    batch: Arc<Batch<K, V, E>>,
    shared: Arc<Shared<K, V, E>>,
}

impl<K, V, E> Batch<K, V, E> {
    pub(crate) fn new(runtime: Id) -> Self {
        let keys = Keys { order: Vec::new(), senders: HashMap::new(), review_at: 0 };
        Self { runtime, keys: Mutex::new(keys), interest: Arc::default() }
    }

    pub(crate) fn runtime(&self) -> Id {
        self.runtime
    }

    /// Whether nobody waits for it. A load joins it under the lock of those that gather only.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.interest.loads.load(Ordering::Acquire) == 0
    }
}

impl<K: Eq + Hash + Clone, V, E> Batch<K, V, E> {
    /// Adds a load of a key, and tells whether there are as many keys now as there may be.
    pub(crate) fn join(&self, key: K, keys_max: usize) -> (PendingLoad<V, E>, bool) {
        let (sender, answer) = oneshot::channel();
        self.interest.loads.fetch_add(1, Ordering::AcqRel);
        let waiting = PendingLoad { answer, interest: Arc::clone(&self.interest) };
        let keys = &mut *self.keys.lock();
        match keys.senders.entry(key.clone()) {
            Entry::Occupied(mut senders) => {
                let senders = senders.get_mut();
                if senders.len() == senders.capacity() {
                    senders.retain(|sender| !sender.is_closed());
                }
                senders.push(sender);
            }
            Entry::Vacant(none) => {
                none.insert(vec![sender]);
                keys.order.push(key);
            }
        }
        if keys.order.len() >= keys.review_at {
            keys.retain_wanted();
            keys.review_at = (2 * keys.order.len()).max(REVIEW_AT_LEAST).min(keys_max);
        }
        (waiting, keys.order.len() >= keys_max)
    }
}

impl<K: Eq + Hash, V, E> Keys<K, V, E> {
    /// Leaves out the keys that nobody waits for any more.
    fn retain_wanted(&mut self) {
        let Self { order, senders, .. } = self;
        senders.retain(|_, senders| senders.iter().any(|sender| !sender.is_closed()));
        order.retain(|key| senders.contains_key(key));
    }
}

impl<K, V, E> Run<K, V, E> {
    pub(crate) fn new(batch: Arc<Batch<K, V, E>>, shared: Arc<Shared<K, V, E>>) -> Self {
        Self { batch, shared }
    }

    /// A turn of the loader; none if nobody waits any more before there is one.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let mut turn = pin!(self.shared.turns.acquire());
        loop {
            tokio::select! {
                biased;
                turn = &mut turn => return Some(turn.expect("nobody closes it")),
                () = self.batch.interest.gone() => {
                    if self.shared.leave_abandoned(&self.batch) {
                        return None;
                    }
                }
            }
        }
    }
}

impl<K, V, E> Run<K, V, E>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    V: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    /// The task of the batch.
    pub(crate) async fn run(self) {
        let Some(_turn) = self.turn().await else { return };
        if self.batch.keys.lock().order.len() < self.shared.keys_max {
            tokio::task::yield_now().await;
        }
        self.shared.leave(&self.batch);
        let Keys { order, senders, .. } = {
            let keys = &mut *self.batch.keys.lock();
            keys.retain_wanted();
            Keys {
                order: std::mem::take(&mut keys.order),
                senders: std::mem::take(&mut keys.senders),
                review_at: 0,
            }
        };
        if order.is_empty() {
            return;
        }
        // The function itself may panic, too, before it gives a future.
        let loading = AssertUnwindSafe(async { (self.shared.call)(order).await }).catch_unwind();
        tokio::select! {
            biased;
            loaded = loading => answer(senders, loaded),
            () = self.batch.interest.gone() => {}
        }
    }
}

impl<K, V, E> Drop for Run<K, V, E> {
    fn drop(&mut self) {
        self.shared.leave(&self.batch);
    }
}

/// Tells each load what became of its key.
fn answer<K, V, E>(
    senders: HashMap<K, Senders<V, E>>,
    mut loaded: Result<Loaded<K, V, E>, Box<dyn Any + Send>>,
) where
    K: Eq + Hash,
    V: Clone,
    E: Clone,
{
    let panic = loaded.as_ref().err().map(|panic| Arc::<str>::from(text_of(&**panic)));
    for (key, mut senders) in senders {
        let answer = unless_panicking(|| match &mut loaded {
            Ok(Ok(values)) => Answer::Loaded(values.remove(&key).transpose()),
            Ok(Err(error)) => Answer::Loaded(Err(error.clone())),
            Err(_) => Answer::Panicked(panic.clone().unwrap_or_default()),
        });
        let last = senders.pop();
        // Who has gone hears nothing.
        for sender in senders.into_iter().filter(|sender| !sender.is_closed()) {
            let _ = sender.send(unless_panicking(|| answer.clone()));
        }
        let _ = last.map(|last| last.send(answer));
    }
}

/// An answer, although a key, a value or an error may panic on the way to it.
fn unless_panicking<V, E>(answer: impl FnOnce() -> Answer<V, E>) -> Answer<V, E> {
    catch_unwind(AssertUnwindSafe(answer))
        .unwrap_or_else(|panic| Answer::Panicked(text_of(&*panic).into()))
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
        // Its batch is a task that runs later, so a caller that loads in a loop holds up nobody
        // and needs no budget. Used up by some of thousands of loads in one task, it would have
        // the others polled in vain again and again.
        match unconstrained(&mut self.answer).await {
            Ok(Answer::Loaded(value)) => value,
            Ok(Answer::Panicked(text)) => panic!("the function of a loader panicked: {text}"),
            Err(_) => panic!("the runtime in which a loader was used has ended, or a key panicked"),
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

/// Fewer keys are not worth a look.
const REVIEW_AT_LEAST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn loads_of_one_key_that_were_dropped_do_not_add_up() {
        let batch = Batch::<u32, u32, String>::new(tokio::runtime::Handle::current().id());
        let waits = batch.join(1, 10);
        for _ in 0..1_000 {
            drop(batch.join(1, 10));
        }
        let senders = batch.keys.lock().senders[&1].len();
        assert!(senders <= 4, "{senders} senders for one load that waits");
        drop(waits);
    }
}
