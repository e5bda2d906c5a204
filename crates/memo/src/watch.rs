//! Watching: being told that a value became stale, or being given every fresh value.
//!
//! A watch puts a subscription on the node. A walk that marks the node notifies it and computes nothing. The
//! subscription stays on the node until the watch is dropped, so a node that is watched is never removed
//! silently: evicted, it remains as a ghost; forced out, it is notified.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::graph::core::Core;
use crate::graph::subscriptions::{Inbox, Subscription};

use crate::compute::cached_value::CachedValue;
use crate::compute::get::Get;
use crate::memo::Memo;
use crate::store::error::{Error, ErrorKind};
use crate::store::key::Key;
use crate::store::slots::Id;

/// A subscription on the node of one key, moved to the next node when that one goes.
pub(crate) struct Post<K: Key, V: Send + Sync + 'static> {
    memo: Memo<K, V>,
    key: K,
    subscription: Subscription,
    id: Id,
}

impl<K: Key, V: Send + Sync + 'static> Post<K, V> {
    pub(crate) fn new(memo: Memo<K, V>, key: K) -> Self {
        let subscription = Subscription::of(Arc::default(), 0);
        let id = memo.inner.attach(&key, &subscription).unwrap_or(Id::NONE);
        Self { memo, key, subscription, id }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.id == Id::NONE
    }

    /// Makes sure that a living node has the subscription. `false` when the memo is closed.
    pub(crate) fn renew(&mut self) -> bool {
        let alive = self.memo.inner.shared().core.lock().node(self.id).is_some();
        if alive {
            return true;
        }
        match self.memo.inner.attach(&self.key, &self.subscription) {
            Some(id) => self.id = id,
            None => self.id = Id::NONE,
        }
        !self.is_closed()
    }

    /// Whether this version is the current one.
    fn is_current(&self, core: &Core, version: u64) -> bool {
        core.node(self.id).is_some_and(|node| node.is_current() && node.version() == version)
    }

    /// Forgets notifications when this version is current: the value is newer than any of them. A run
    /// that changes what the value is made of would otherwise be asked for again by its own notification.
    fn settle(&self, version: u64) {
        let core = self.memo.inner.shared().core.lock();
        if self.is_current(&core, version) {
            // In the hold in which it is current: a later mark notifies again.
            self.inbox().silence();
        }
    }

    fn inbox(&self) -> &Inbox {
        self.subscription.inbox()
    }
}

impl<K: Key, V: Send + Sync + 'static> Drop for Post<K, V> {
    fn drop(&mut self) {
        self.memo.inner.shared().detach(self.id, &self.subscription);
    }
}

/// A stream of the fresh values of one key: first the current one, then one after each change.
///
/// A mark wakes the stream, which verifies; it yields only when the version changed, so a change that
/// early cutoff absorbs yields nothing. A value that lives shorter than a poll takes may be skipped,
/// never the last one. An error that is memoized is yielded once. An error or a value that is not
/// kept (of a source that is suspended, of another graph, of a fallback) is computed anew by the next
/// poll, since nothing would tell that it changed: pause before you ask again. The stream ends when
/// the memo is closed.
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use tidewire::memo::{Graph, Memo, Source};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let rows = Source::<u32>::new_in(&graph, "rows");
/// let read = Memo::infallible_in(&graph, "read", move |id: u32| async move {
///     rows.read(&id);
///     std::time::Instant::now() // a database would be asked here
/// });
/// let mut values = read.watch(1);
/// let first = values.next().await.expect("the memo is open")?;
/// rows.changed(&1);
/// let second = values.next().await.expect("the memo is open")?;
/// assert_ne!(first.version(), second.version());
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct Watch<K: Key, V: Send + Sync + 'static> {
    post: Post<K, V>,
    get: Option<Get<K, V>>,
    /// The version yielded last; `None` before the first.
    last: Option<u64>,
    /// The last value was not published, so no mark will come: ask again.
    again: bool,
    /// The last value is not kept: others run before it is computed again.
    pauses: bool,
    /// `next` was called anew while what an earlier call had asked for was not there yet.
    is_asked_anew: bool,
    /// Answers in a row that were older than the call of `next` that they came for.
    outdated: u32,
}

impl<K: Key, V: Send + Sync + 'static> Watch<K, V> {
    pub(crate) fn new(memo: Memo<K, V>, key: K) -> Self {
        let post = Post::new(memo, key);
        Self {
            post,
            get: None,
            last: None,
            again: true,
            pauses: false,
            is_asked_anew: false,
            outdated: 0,
        }
    }

    /// The next fresh value; `None` when the memo is closed. It is no older than the call.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: the computation goes on, and the next call waits for it.
    /// What was made of a state before that call is computed again, up to 16 times in a row, so that a
    /// caller who gives up again and again while the data changes is shown something at last.
    pub async fn next(&mut self) -> Option<Result<CachedValue<V>, Error>> {
        self.is_asked_anew = self.get.is_some();
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Whether an answer is of an earlier call of `next`, and has been overtaken by a change since.
    fn is_too_old(&mut self, answer: &Result<CachedValue<V>, Error>) -> bool {
        let version = answer.as_ref().map_or_else(Error::version, CachedValue::version);
        let is_old = std::mem::take(&mut self.is_asked_anew)
            && self.outdated < OUTDATED_MAX
            && !self.post.is_current(&self.post.memo.inner.shared().core.lock(), version);
        self.outdated = if is_old { self.outdated + 1 } else { 0 };
        is_old
    }

    /// What the last answer means for this stream; `None` when there is nothing to yield.
    fn judge(
        &mut self,
        answer: Result<CachedValue<V>, Error>,
    ) -> Option<Option<Result<CachedValue<V>, Error>>> {
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Closed) {
            // Finds out that it is closed, so that whoever asks again is told so again.
            self.post.renew();
            return Some(None);
        }
        let version = answer.as_ref().map_or_else(Error::version, CachedValue::version);
        self.again = version == 0;
        self.pauses = self.again;
        self.post.settle(version);
        if version != 0 && self.last == Some(version) {
            return None;
        }
        self.last = Some(version);
        Some(Some(answer))
    }
}

impl<K: Key, V: Send + Sync + 'static> Unpin for Watch<K, V> {}

impl<K: Key, V: Send + Sync + 'static> Unpin for Notify<K, V> {}

impl<K: Key, V: Send + Sync + 'static> Stream for Watch<K, V> {
    type Item = Result<CachedValue<V>, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        for _ in 0..ROUNDS_MAX {
            if this.get.is_none() {
                if this.post.is_closed() {
                    return Poll::Ready(None);
                }
                if !this.again && this.post.inbox().poll(context.waker()).is_pending() {
                    return Poll::Pending;
                }
                if std::mem::take(&mut this.pauses) {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                this.again = true;
                this.post.inbox().silence();
                if !this.post.renew() {
                    return Poll::Ready(None);
                }
                let (memo, key) = (this.post.memo.inner, this.post.key.clone());
                let early = this.last == Some(0);
                this.get = Some(if early { Get::patient(memo, key) } else { Get::new(memo, key) });
            }
            // What the code of a key unwinds through is asked for anew: nothing tells of it again.
            let Some(mut get) = this.get.take() else { continue };
            this.again = true;
            let answer = Pin::new(&mut get).poll(context);
            this.again = false;
            let Poll::Ready(answer) = answer else {
                this.get = Some(get);
                return Poll::Pending;
            };
            if this.is_too_old(&answer) {
                this.again = true;
                continue;
            }
            if let Some(item) = this.judge(answer) {
                return Poll::Ready(item);
            }
        }
        // It changes whenever it is looked at: others run first.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A stream that says when the value of one key has become suspect, and computes nothing.
///
/// Any mark after the stream was made is reported; marks that come before it is polled again are
/// reported once. After a report nothing more comes until somebody has asked for the value again. An early
/// or outdated value (version 0) is reported when the first who waits for it is given it. A report that comes
/// while a `get` is under way counts for what that gives: ask again once it has answered. The stream ends
/// when the memo is closed.
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use tidewire::memo::{Graph, Memo, Source};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let rows = Source::<u32>::new_in(&graph, "rows");
/// let read = Memo::infallible_in(&graph, "read", move |id: u32| async move {
///     rows.read(&id);
///     id
/// });
/// read.get(1).await?;
/// let mut changes = read.notify(1);
/// rows.changed(&1);
/// assert_eq!(changes.next().await, Some(()), "tell whoever shows the value");
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct Notify<K: Key, V: Send + Sync + 'static> {
    post: Post<K, V>,
}

impl<K: Key, V: Send + Sync + 'static> Notify<K, V> {
    pub(crate) fn new(memo: Memo<K, V>, key: K) -> Self {
        Self { post: Post::new(memo, key) }
    }

    /// Waits until the value is suspect; `None` when the memo is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<()> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<K: Key, V: Send + Sync + 'static> Stream for Notify<K, V> {
    type Item = ();

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<()>> {
        let this = self.get_mut();
        if this.post.is_closed() {
            return Poll::Ready(None);
        }
        if this.post.inbox().poll(context.waker()).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(this.post.renew().then_some(()))
    }
}

impl<K: Key, V: Send + Sync + 'static> fmt::Debug for Watch<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("key", &self.post.key).field("last", &self.last).finish()
    }
}

impl<K: Key, V: Send + Sync + 'static> fmt::Debug for Notify<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").field("key", &self.post.key).finish()
    }
}

/// How often in a row an answer that is older than its call is not yielded.
const OUTDATED_MAX: u32 = 16;

/// How often one poll of a watch asks for a value that turns out to be no news.
const ROUNDS_MAX: u32 = 32;
