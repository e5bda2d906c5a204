//! The future of a `get`.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::compute::audit::{self, Audit};
use crate::compute::cached::Cached;
use crate::compute::capture::{self, Frame};
use crate::compute::depth::{self, Level};
use crate::compute::inner::{Inner, Node};
use crate::graph::core::Core;
use crate::graph::cycle;
use crate::graph::event::EventKind;
use crate::graph::validate::Taint;
use crate::store::error::Error;
use crate::store::key::Key;
use tidewire_memo_memory::epoch;
use tidewire_memo_memory::line::{self, pin};

use crate::compute::work::{Joined, Work};
use crate::graph::verify::{Progress, Verification};
use crate::store::node::{FRESH, SUSPECT};
use crate::store::slots::Id;
use crate::store::value::Outcome;
use tidewire_memo_memory::wake;

/// The future of [`Memo::get`](crate::Memo::get). A hit is answered by the first poll, without an
/// allocation.
#[must_use = "futures do nothing unless polled"]
pub struct Get<K: Key, V: Send + Sync + 'static> {
    memo: &'static Inner<K, V>,
    key: K,
    stage: Stage<K, V>,
}

/// How far a `get` is.
enum Stage<K: Key, V: Send + Sync + 'static> {
    /// Not polled yet.
    New,
    /// The same, on behalf of a node that is not the ambient one.
    OnBehalf(Id),
    /// The same, by who was answered early before and would only be given the same again.
    Patient,
    /// Waits for a computation.
    Joined(Joined<K, V>),
    /// Re-executes a hit.
    Audit(Audit<V>),
}

impl<K: Key, V: Send + Sync + 'static> Unpin for Get<K, V> {}

impl<K: Key, V: Send + Sync + 'static> Get<K, V> {
    #[inline(always)]
    pub(crate) fn new(memo: &'static Inner<K, V>, key: K) -> Self {
        Self { memo, key, stage: Stage::New }
    }

    /// Waits for the end of the computation and takes no early answer.
    pub(crate) fn patient(memo: &'static Inner<K, V>, key: K) -> Self {
        Self { memo, key, stage: Stage::Patient }
    }

    pub(crate) fn on_behalf_of(memo: &'static Inner<K, V>, key: K, parent: Id) -> Self {
        Self { memo, key, stage: Stage::OnBehalf(parent) }
    }
}

impl<K: Key, V: Send + Sync + 'static> Future for Get<K, V> {
    type Output = Result<Cached<V>, Error>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if matches!(self.stage, Stage::New)
            && let Some(value) = self.memo.hot(&self.key)
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
        if matches!(self.stage, Stage::New)
            && let Some(value) = self.memo.long_hit(&self.key)
        {
            return self.serve_long(value, context);
        }
        let frame = capture::current();
        let answer = match &mut self.stage {
            Stage::Audit(audit) => return audit.as_mut().poll(context),
            Stage::Joined(joined) => wait(joined, context),
            Stage::New | Stage::OnBehalf(_) | Stage::Patient => match self.enter(frame) {
                Entry::Hit(value, id) => {
                    if let Some(frame) = frame {
                        frame.record(self.memo.shared(), id, value.version());
                    }
                    return Poll::Ready(Ok(value));
                }
                Entry::Failure(outcome, id) => {
                    return Poll::Ready(deliver(outcome, Ok(id), self.memo, frame));
                }
                Entry::Refused(error) => {
                    frame.into_iter().for_each(|frame| frame.add_taint(Taint::UNTRACKED));
                    return Poll::Ready(Err(error));
                }
                Entry::Join(joined) => {
                    self.stage = Stage::Joined(joined);
                    let Stage::Joined(joined) = &mut self.stage else { unreachable!("just set") };
                    wait(joined, context)
                }
            },
        };
        let Some((outcome, standing)) = answer else { return Poll::Pending };
        let Stage::Joined(joined) = std::mem::replace(&mut self.stage, Stage::New) else {
            unreachable!("there is an answer, so it has joined")
        };
        let standing = standing.map(|()| joined.work.id);
        joined.leave();
        if frame.is_none() && depth::is_outside() {
            // Inside of a computation, what it has read so far would be the first to go.
            crate::graph::budget::relieve(self.memo.shared());
        }
        epoch::collect_if_due();
        Poll::Ready(deliver(outcome, standing, self.memo, frame))
    }

    #[cold]
    fn leave(&mut self) {
        if let Stage::Joined(joined) = std::mem::replace(&mut self.stage, Stage::New) {
            joined.leave();
        }
    }

    /// A hit that is probed may be audited.
    fn serve_long(
        &mut self,
        value: Cached<V>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Cached<V>, Error>> {
        if !self.memo.owner.is_probed() {
            return Poll::Ready(Ok(value));
        }
        match audit::sample(self.memo, &self.key, value) {
            Ok(value) => Poll::Ready(Ok(value)),
            Err(audit) => {
                self.stage = Stage::Audit(audit);
                self.poll_slow(context)
            }
        }
    }

    /// Serves, verifies, joins or starts, in one hold of the graph lock where possible.
    fn enter(&mut self, frame: Option<&Frame>) -> Entry<K, V> {
        // Another graph's nodes have numbers of their own.
        let own = frame.filter(|frame| std::ptr::eq(frame.graph, self.memo.shared()));
        let parent = match self.stage {
            Stage::OnBehalf(parent) => parent,
            _ => own.map_or(Id::NONE, |frame| frame.node),
        };
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
        if let Some(cycle) = cycle::find(&core, parent, node.header.id) {
            core.stats.cycles += 1;
            drop(core);
            return Entry::Refused(Error::cycle(&cycle.names()));
        }
        let mut joined = Work::join(&mut core, self.memo, node, parent);
        joined.is_patient = matches!(self.stage, Stage::Patient);
        Entry::Join(joined)
    }
}

/// The value of a fresh node, under the lock and pinned.
#[allow(unsafe_code)]
fn current_value<K: Key, V: Send + Sync + 'static>(
    core: &mut Core,
    node: &Node<K, V>,
) -> Option<Entry<K, V>> {
    let head = node.header.value();
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
    Some(Entry::Hit(unsafe { Cached::pinned(head, &*line::mine()) }, id))
}

/// Polls the computation, or waits for whoever does.
fn wait<K: Key, V: Send + Sync + 'static>(
    joined: &mut Joined<K, V>,
    context: &mut Context<'_>,
) -> Option<(Outcome<V>, Result<(), Taint>)> {
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
    standing: Result<Id, Taint>,
    memo: &'static Inner<K, V>,
    frame: Option<&Frame>,
) -> Result<Cached<V>, Error> {
    if let Some(frame) = frame {
        match standing {
            Ok(id) => frame.record(memo.shared(), id, outcome.head().version()),
            Err(taint) => frame.add_taint(taint),
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
        if let Stage::Joined(_) = self.stage {
            self.leave();
        }
    }
}

impl<K: Key, V: Send + Sync + 'static> fmt::Debug for Get<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get").field("memo", &self.memo.name()).field("key", &self.key).finish()
    }
}
