//! The future of a `get`.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::audit::{self, Audit};
use crate::cached::Cached;
use crate::capture::{self, Frame};
use crate::core::Core;
use crate::cycle;
use crate::depth::{self, Level};
use crate::epoch::{self, pin};
use crate::error::Error;
use crate::event::EventKind;
use crate::key::Key;
use crate::memo::{Memo, Node};
use crate::node::{FRESH, SUSPECT};
use crate::slots::Id;
use crate::value::Outcome;
use crate::verify::{Progress, Verification};
use crate::wake;
use crate::work::{Joined, Work};

/// The future of [`Memo::get`]. A hit is answered by the first poll, without an allocation.
#[must_use = "futures do nothing unless polled"]
pub struct Get<K: Key, V: Send + Sync + 'static> {
    memo: Memo<K, V>,
    key: K,
    /// The node on whose behalf this runs, when that is not the ambient one.
    parent: Id,
    joined: Option<Joined<K, V>>,
    audit: Option<Audit<V>>,
}

impl<K: Key, V: Send + Sync + 'static> Unpin for Get<K, V> {}

impl<K: Key, V: Send + Sync + 'static> Get<K, V> {
    #[inline(always)]
    pub(crate) fn new(memo: Memo<K, V>, key: K) -> Self {
        Self { memo, key, parent: Id::NONE, joined: None, audit: None }
    }

    pub(crate) fn on_behalf_of(memo: Memo<K, V>, key: K, parent: Id) -> Self {
        Self { memo, key, parent, joined: None, audit: None }
    }
}

impl<K: Key, V: Send + Sync + 'static> Future for Get<K, V> {
    type Output = Result<Cached<V>, Error>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.joined.is_none()
            && let Some(value) = self.memo.unprobed(&self.key)
        {
            return Poll::Ready(Ok(value));
        }
        self.poll_slow(context)
    }
}

/// What a caller finds that is no lock-free hit.
enum Entry<K: Key, V: Send + Sync + 'static> {
    Hit(Cached<V>, Id),
    Failure(Outcome<V>, Id),
    Join(Joined<K, V>),
    Refused(Error),
}

impl<K: Key, V: Send + Sync + 'static> Get<K, V> {
    #[cold]
    #[inline(never)]
    fn poll_slow(&mut self, context: &mut Context<'_>) -> Poll<Result<Cached<V>, Error>> {
        let frame = capture::current();
        if let Some(audit) = &mut self.audit {
            return audit.as_mut().poll(context);
        }
        let answer = match &mut self.joined {
            Some(joined) => wait(joined, context),
            None => {
                if self.memo.inner.owner.is_probed()
                    && let Some(value) = self.memo.cached(&self.key)
                {
                    // The hit was noted, and may have been chosen to be audited.
                    return self.serve_probed(value, context);
                }
                match self.enter(frame) {
                    Entry::Hit(value, id) => {
                        let record = |frame: &Frame| {
                            frame.record(self.memo.shared(), id, value.version());
                        };
                        frame.into_iter().for_each(record);
                        return Poll::Ready(Ok(value));
                    }
                    Entry::Failure(outcome, id) => {
                        return Poll::Ready(deliver(outcome, Some(id), self.memo, frame));
                    }
                    Entry::Refused(error) => {
                        frame.into_iter().for_each(Frame::taint);
                        return Poll::Ready(Err(error));
                    }
                    Entry::Join(joined) => wait(self.joined.insert(joined), context),
                }
            }
        };
        let Some((outcome, published)) = answer else { return Poll::Pending };
        let joined = self.joined.take().expect("there is an answer, so it has joined");
        let id = published.then_some(joined.work.id);
        joined.leave();
        if frame.is_none() && depth::is_outside() {
            // Inside of a computation, what it has read so far would be the first to go.
            crate::budget::relieve(self.memo.shared());
        }
        epoch::collect_if_due();
        Poll::Ready(deliver(outcome, id, self.memo, frame))
    }

    fn serve_probed(
        &mut self,
        value: Cached<V>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Cached<V>, Error>> {
        match audit::sample(self.memo, &self.key, value) {
            Ok(value) => Poll::Ready(Ok(value)),
            Err(audit) => self.audit.insert(audit).as_mut().poll(context),
        }
    }

    /// Serves, verifies, joins or starts, in one hold of the graph lock where possible.
    fn enter(&mut self, frame: Option<&Frame>) -> Entry<K, V> {
        if let Some(frame) = frame {
            // Another graph's nodes have numbers of their own.
            let same = std::ptr::eq(frame.graph, self.memo.shared());
            self.parent = if same { frame.node } else { Id::NONE };
        }
        let _pin = pin();
        let Some((mut core, node)) = self.memo.node(&self.key) else {
            return Entry::Refused(Error::closed(self.memo.name()));
        };
        if node.header.state() == SUSPECT && !node.header.is_computing() {
            // Most of what is suspect can be settled right here, without an allocation for a work.
            let mut check = Verification::own(node.header.id);
            let progress = check.proceed(&mut core, self.memo.shared().walk_chunk());
            debug_assert!(!matches!(progress, Progress::Compute(id) if id == node.header.id));
        }
        if node.header.state() == FRESH
            && let Some(entry) = current_value(&mut core, node)
        {
            return entry;
        }
        if let Some(cycle) = cycle::find(&core, self.parent, node.header.id) {
            core.stats.cycles += 1;
            drop(core);
            return Entry::Refused(Error::cycle(&cycle.names()));
        }
        Entry::Join(Work::join(&mut core, self.memo.inner, node, self.parent))
    }
}

/// The value of a fresh node, under the lock and pinned.
#[allow(unsafe_code)]
fn current_value<K: Key, V: Send + Sync + 'static>(
    core: &mut Core,
    node: &Node<K, V>,
) -> Option<Entry<K, V>> {
    let head = node.value.load(std::sync::atomic::Ordering::Acquire);
    if head.is_null() {
        return None;
    }
    core.note(EventKind::Hit, &node.header);
    let id = node.header.id;
    // SAFETY: the node's value is alive while the graph lock is held.
    if unsafe { &*head }.is_failure() {
        // SAFETY: as above.
        return Some(Entry::Failure(unsafe { Outcome::from_shared(head) }, id));
    }
    // SAFETY: a value, read under the caller's pin.
    Some(Entry::Hit(unsafe { Cached::pinned(head) }, id))
}

/// Polls the computation, or waits for whoever does.
fn wait<K: Key, V: Send + Sync + 'static>(
    joined: &mut Joined<K, V>,
    context: &mut Context<'_>,
) -> Option<(Outcome<V>, bool)> {
    let mut starts = joined.takes_start();
    let work = &joined.work;
    loop {
        let level = Level::enter();
        if !starts || level.is_none() {
            // Cloned and dropped outside of the lock: both may be user code.
            let waker = context.waker().clone();
            let mut board = work.board.lock();
            if let Some(answer) = joined.answer(&board) {
                return Some(answer);
            }
            if board.polling && !starts {
                let old = board.wait(joined.caller(), waker);
                drop(board);
                drop(old);
                return None;
            }
            if level.is_none() {
                board.polling = false;
                let old = board.wait(joined.caller(), waker);
                drop(board);
                drop(old);
                work.defer();
                return None;
            }
            board.start_polling();
        }
        let waker = Waker::from(work.clone());
        let polled = work.poll(&mut Context::from_waker(&waker));
        let mut board = work.board.lock();
        let answer = joined.answer(&board);
        if polled.is_ready() {
            let waiting = board.stop_polling();
            drop(board);
            waiting.into_values().for_each(wake::wake);
        } else if answer.is_some() {
            // Served early: the others drive on, and `leave` tells one of them.
            board.polling = false;
            drop(board);
        } else {
            drop(board);
            work.stay_driver(joined.caller(), context.waker());
        }
        level.iter().for_each(Level::drain);
        if answer.is_some() || polled.is_pending() {
            return answer;
        }
        starts = false;
    }
}

/// Hands an outcome to the caller and tells the frame what was used.
fn deliver<K: Key, V: Send + Sync + 'static>(
    outcome: Outcome<V>,
    published: Option<Id>,
    memo: Memo<K, V>,
    frame: Option<&Frame>,
) -> Result<Cached<V>, Error> {
    if let Some(frame) = frame {
        match published {
            Some(id) => frame.record(memo.shared(), id, outcome.head().version()),
            None => frame.taint(),
        }
    }
    match outcome.result() {
        Ok(_) => Ok(Cached::counted(outcome)),
        Err(error) => Err(error.clone()),
    }
}

impl<K: Key, V: Send + Sync + 'static> Drop for Get<K, V> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(joined) = self.joined.take() {
            joined.leave();
        }
    }
}

impl<K: Key, V: Send + Sync + 'static> fmt::Debug for Get<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get").field("memo", &self.memo).field("key", &self.key).finish()
    }
}
