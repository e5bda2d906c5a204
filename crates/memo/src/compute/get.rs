//! The future of a `get`.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::compute::attempt::Call;
use crate::compute::board::Answer;
use crate::compute::cached_value::CachedValue;
use crate::compute::capture::{self, Frame, Unread};
use crate::compute::inner::{Inner, Lookup};
use crate::compute::own::{self, Own};
use crate::compute::own_run::OwnAnswer;
use crate::compute::work::{Participant, Work};
use crate::graph::cycle;
use crate::graph::deferred::DeferredDrops;
use crate::graph::unkept::Unkept;
use crate::graph::validate::Taint;
use crate::graph::{Shared, relief};
use crate::memory::depth::{self, Level};
use crate::memory::epoch;
use crate::memory::line::{self, pin};
use crate::memory::wake::{self, quietly};
use crate::store::error::Error;
use crate::store::key::Key;
use crate::store::slots::Id;
use crate::store::value::Outcome;

/// The future of [`Memo::get`](crate::Memo::get). A hit is answered by the first poll, without an
/// allocation.
#[must_use = "futures do nothing unless polled"]
pub struct Get<K: Key, V: Send + Sync + 'static> {
    memo: &'static Inner<K, V>,
    stage: Stage<K, V>,
}

/// How far a `get` is.
enum Stage<K: Key, V: Send + Sync + 'static> {
    /// Not polled yet.
    New(K),
    Long(LongWay<K, V>),
    Over,
}

/// What is dropped by a call, so that stages without it, which most are, cost their owners no more than a look.
struct LongWay<K: Key, V: Send + Sync + 'static>(Option<Box<Long<K, V>>>);

impl<K: Key, V: Send + Sync + 'static> Drop for LongWay<K, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(long) = self.0.take() {
            drop_long(long);
        }
    }
}

#[cold]
#[inline(never)]
fn drop_long<K: Key, V: Send + Sync + 'static>(long: Box<Long<K, V>>) {
    drop(long);
}

/// What a `get` does that is no hit; boxed when it must wait, so that hits know nothing of it.
enum Long<K: Key, V: Send + Sync + 'static> {
    /// Not polled yet.
    New(K, Asking),
    /// Waits for a computation.
    Joined(Participant<K, V>),
    /// Runs the function for a caller who writes.
    Own(Box<Own<V>>),
}

/// What was found, and the pin with which it lasts.
struct PinnedLookup<'p, K, V> {
    looked: Lookup<'p, K, V>,
    pinned: line::Pin,
}

/// What a `get` answers with.
type PolledValue<V> = Poll<Result<CachedValue<V>, Error>>;

impl<K: Key, V: Send + Sync + 'static> Unpin for Get<K, V> {}

impl<K: Key, V: Send + Sync + 'static> Get<K, V> {
    #[inline(always)]
    pub(crate) fn new(memo: &'static Inner<K, V>, key: K) -> Self {
        Self { memo, stage: Stage::New(key) }
    }

    /// Waits for the end of the computation and takes no early answer.
    pub(crate) fn patient(memo: &'static Inner<K, V>, key: K) -> Self {
        let asking = Asking { parent: None, is_patient: true };
        Self { memo, stage: Stage::long(Box::new(Long::New(key, asking))) }
    }

    pub(crate) fn on_behalf_of(memo: &'static Inner<K, V>, key: K, parent: Id) -> Self {
        let asking = Asking { parent: Some(parent), is_patient: false };
        Self { memo, stage: Stage::long(Box::new(Long::New(key, asking))) }
    }
}

impl<K: Key, V: Send + Sync + 'static> Future for Get<K, V> {
    type Output = Result<CachedValue<V>, Error>;

    /// The long way takes the stage and gives back the next one, so that nobody else ever has the address
    /// of a `Get` that is a hit, which then lives in registers.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Stage::New(key) = &this.stage
            && let Some(value) = this.memo.hot(key)
        {
            return Poll::Ready(Ok(value));
        }
        let stage = std::mem::replace(&mut this.stage, Stage::Over);
        let (stage, answered) = stage.go_on(this.memo, context);
        // What is there meanwhile has nothing to drop.
        std::mem::forget(std::mem::replace(&mut this.stage, stage));
        answered
    }
}

/// How a caller asks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asking {
    /// On behalf of this node, which is not the ambient one.
    pub(crate) parent: Option<Id>,
    /// By who was answered early before and would only be given the same again.
    pub(crate) is_patient: bool,
}

/// What a caller finds that is no hit of the short way.
pub(crate) enum Entry<K: Key, V: Send + Sync + 'static> {
    Join(Participant<K, V>),
    Direct(DirectAnswer<V>),
}

/// What needs no computation, or one for this caller alone.
pub(crate) enum DirectAnswer<V: Send + Sync + 'static> {
    /// A hit all the same, which is noted.
    Hit(CachedValue<V>),
    /// What turned out to be current under the lock.
    Current(CachedValue<V>, Id),
    Failure(Outcome<V>, Id),
    /// The caller writes.
    Own(Box<Own<V>>),
    Refused(Error),
}

impl<K: Key, V: Send + Sync + 'static> Stage<K, V> {
    fn long(long: Box<Long<K, V>>) -> Self {
        Self::Long(LongWay(Some(long)))
    }

    #[cold]
    #[inline(never)]
    fn go_on(
        self,
        memo: &'static Inner<K, V>,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        match self {
            Self::New(key) => Self::begin(memo, key, context),
            Self::Long(mut way) => {
                let long = way.0.take().expect("taken once");
                Self::go_on_long(long, memo, context)
            }
            Self::Over => panic!("a `get` was polled after it had answered"),
        }
    }

    #[inline(never)]
    fn go_on_long(
        mut long: Box<Long<K, V>>,
        memo: &'static Inner<K, V>,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        match &mut *long {
            Long::Joined(joined) => {
                if let Some(frame) = capture::current() {
                    let waiter = frame.parent().run;
                    if std::mem::replace(&mut joined.waiter, waiter) != waiter
                        && let Some(cycle) = moved_into(frame, memo, joined)
                    {
                        frame.add_taint(Taint::UNTRACKED);
                        return (Self::Over, Poll::Ready(Err(cycle)));
                    }
                    joined.asks(frame);
                }
                let Some(answer) = wait(joined, context) else {
                    return match alone(memo, joined) {
                        None => (Self::long(long), Poll::Pending),
                        Some(Err(error)) => (Self::Over, Poll::Ready(Err(error))),
                        Some(Ok(own)) => Self::go_on_long(Box::new(Long::Own(own)), memo, context),
                    };
                };
                let Long::Joined(joined) = *long else { unreachable!("it was a moment ago") };
                (Self::Over, Poll::Ready(end(memo, joined, answer)))
            }
            Long::Own(own) => match own.poll(context) {
                Poll::Pending => (Self::long(long), Poll::Pending),
                Poll::Ready(OwnAnswer { outcome, reads }) => {
                    let frame = capture::current();
                    // It is not kept, and held like what the function has read itself.
                    frame.into_iter().for_each(|frame| frame.record_all(memo.shared(), &reads));
                    settle(memo.shared(), frame);
                    (Self::Over, Poll::Ready(answer(outcome)))
                }
            },
            Long::New(..) => {
                let Long::New(key, asking) = *long else { unreachable!("it was a moment ago") };
                Self::begin_long(memo, key, asking, context)
            }
        }
    }

    #[inline(always)]
    fn begin(
        memo: &'static Inner<K, V>,
        key: K,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        let frame = capture::current();
        let unread = frame.map(Unread);
        let pinned = pin();
        let looked = memo.look_up(&key, frame);
        if looked.node.is_err() && !memo.shared().has_writes() {
            // Mostly a miss is of a key that is new.
            let parent = memo.parent_of(frame);
            if let Some((mut core, node)) = memo.add(&key, &looked) {
                let joined = Work::start(&mut core, memo, node, parent);
                drop(core);
                std::mem::forget(unread);
                // The node has a key of its own.
                let call = memo.name_function().map(|function| Call { key, function });
                drop(pinned);
                return Self::poll_new(memo, joined, call, frame, context);
            }
        }
        std::mem::forget(unread);
        Self::begin_known(memo, key, PinnedLookup { looked, pinned }, Asking::default(), context)
    }

    #[inline(never)]
    fn begin_long(
        memo: &'static Inner<K, V>,
        key: K,
        asking: Asking,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        let pinned = pin();
        let frame = capture::current();
        let unread = frame.map(Unread);
        let looked = memo.look_up(&key, frame);
        std::mem::forget(unread);
        Self::begin_known(memo, key, PinnedLookup { looked, pinned }, asking, context)
    }

    #[inline(always)]
    fn begin_known(
        memo: &'static Inner<K, V>,
        key: K,
        looked: PinnedLookup<'_, K, V>,
        asking: Asking,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        let frame = capture::current();
        let PinnedLookup { looked, pinned } = looked;
        let unread = frame.map(Unread);
        let entry = memo.enter(&key, looked, asking, frame);
        drop(pinned);
        // Its destructor may panic, so not when there is something to return already.
        drop(key);
        std::mem::forget(unread);
        let mut joined = match entry {
            Entry::Join(joined) => joined,
            Entry::Direct(answer) => return Self::direct(answer, memo, frame, context),
        };
        joined.is_patient = asking.is_patient;
        joined.is_for_all = asking.parent.is_some();
        Self::join(memo, joined, frame, context)
    }

    #[inline(never)]
    fn join(
        memo: &'static Inner<K, V>,
        mut joined: Participant<K, V>,
        frame: Option<&Frame>,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        if joined.starts() {
            return Self::poll_new(memo, joined, None, frame, context);
        }
        frame.into_iter().for_each(|frame| joined.asks(frame));
        Self::wait(memo, joined, context)
    }

    #[inline(always)]
    fn direct(
        answer: DirectAnswer<V>,
        memo: &'static Inner<K, V>,
        frame: Option<&Frame>,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        let answer = match answer {
            DirectAnswer::Hit(value) => {
                if memo.owner.is_probed() {
                    memo.shared().audits.poll();
                }
                Ok(value)
            }
            DirectAnswer::Current(value, id) => {
                if let Some(frame) = frame {
                    frame.record(memo.shared(), id, value.version());
                }
                Ok(value)
            }
            DirectAnswer::Failure(outcome, id) => deliver(outcome, Ok(id), memo, frame),
            DirectAnswer::Own(own) => {
                return Self::go_on_long(Box::new(Long::Own(own)), memo, context);
            }
            DirectAnswer::Refused(error) => {
                frame.into_iter().for_each(|frame| frame.add_taint(Taint::UNTRACKED));
                Err(error)
            }
        };
        (Self::Over, Poll::Ready(answer))
    }

    /// Polls a computation that this caller starts, with its first call if that is prepared.
    #[inline(always)]
    fn poll_new(
        memo: &'static Inner<K, V>,
        mut joined: Participant<K, V>,
        mut call: Option<Call<K, V>>,
        frame: Option<&Frame>,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        frame.into_iter().for_each(|frame| joined.asks(frame));
        let Some(level) = Level::enter() else {
            drop(call);
            return Self::wait(memo, joined, context);
        };
        joined.takes_start();
        let waker = joined.work.waker();
        let polled = joined.work.poll_first(&mut call, &mut Context::from_waker(&waker));
        if polled.is_ready()
            && let Some(answer) = joined.sole_answer()
        {
            level.drain();
            drop(level);
            return (Self::Over, Poll::Ready(end(memo, joined, answer)));
        }
        Self::go_on_waiting(memo, joined, level, polled.is_ready(), context)
    }

    /// After a first poll that was not the last, or beside others.
    #[inline(never)]
    fn go_on_waiting(
        memo: &'static Inner<K, V>,
        mut joined: Participant<K, V>,
        level: Level,
        is_ready: bool,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        let answer = after_poll(&joined, is_ready, context);
        level.drain();
        drop(level);
        let waits = answer.is_none() && is_ready;
        let answer = if waits { wait(&mut joined, context) } else { answer };
        Self::waited(memo, joined, answer)
    }

    #[inline(never)]
    fn wait(
        memo: &'static Inner<K, V>,
        mut joined: Participant<K, V>,
        context: &mut Context<'_>,
    ) -> (Self, PolledValue<V>) {
        let answer = wait(&mut joined, context);
        Self::waited(memo, joined, answer)
    }

    fn waited(
        memo: &'static Inner<K, V>,
        joined: Participant<K, V>,
        answer: Option<Answer<V>>,
    ) -> (Self, PolledValue<V>) {
        match answer {
            Some(answer) => (Self::Over, Poll::Ready(end(memo, joined, answer))),
            None => (Self::long(Box::new(Long::Joined(joined))), Poll::Pending),
        }
    }
}

/// The end of a computation for one of its callers.
#[inline(always)]
fn end<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    joined: Participant<K, V>,
    answer: Answer<V>,
) -> Result<CachedValue<V>, Error> {
    let asker = joined.asker;
    let (outcome, standing) = joined.end(answer);
    let frame = capture::current();
    if let Some(frame) = frame.filter(|frame| frame.asker.get() == asker) {
        frame.is_answered();
    }
    settle(memo.shared(), frame);
    deliver(outcome, standing, memo, frame)
}

/// Looks after what a call may have left too much of.
#[inline(always)]
fn settle(shared: &'static Shared, frame: Option<&Frame>) {
    match frame {
        // Inside of a computation, what it has read so far would be the first to go.
        None if depth::is_outside() => relief::relieve(shared),
        Some(frame) if !std::ptr::eq(frame.graph, shared) => relief::relieve_foreign(shared),
        _ => {}
    }
    epoch::collect_if_due();
}

/// A run of its own for a caller who has begun to write since he asked: what he waits for may be held until
/// his write is announced. What verifies a value is nobody's but the computation's.
#[inline]
fn alone<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    joined: &Participant<K, V>,
) -> Option<Result<Box<Own<V>>, Error>> {
    let shared = memo.shared();
    if !shared.has_writes() || joined.is_for_all || !shared.is_writing(capture::asker()) {
        return None;
    }
    let key = {
        let _pin = pin();
        if joined.work.head.is_finished() {
            return None;
        }
        joined.work.node().key.clone()
    };
    Some(own::begin(memo, &key).map(Box::new))
}

/// The cycle that a computation closes by going on with another's `get`, if what is asked for waits for it;
/// else it is the one who waits from now on.
///
/// If nobody else waited, the computation would own itself, and would neither go on nor end.
#[cold]
fn moved_into<K: Key, V: Send + Sync + 'static>(
    frame: &Frame,
    memo: &'static Inner<K, V>,
    joined: &Participant<K, V>,
) -> Option<Error> {
    let _pin = pin();
    let mut deferred = DeferredDrops::default();
    let mut core = memo.shared().core.lock();
    let is_elsewhere = !std::ptr::eq(frame.graph, memo.shared());
    let is_answered = || joined.answer(&joined.work.board.lock()).is_some();
    if is_elsewhere || joined.work.head.is_finished() || is_answered() {
        return None;
    }
    let node = &joined.work.node().header;
    let Some(cycle) = cycle::find_current(&core, frame.parent(), node, &mut deferred) else {
        joined.work.head.waits(joined.caller(), frame.parent());
        return None;
    };
    core.stats.cycles += 1;
    drop(core);
    Some(Error::cycle(&cycle.names()))
}

/// Polls the computation, or waits for whoever does.
#[inline(never)]
fn wait<K: Key, V: Send + Sync + 'static>(
    joined: &mut Participant<K, V>,
    context: &mut Context<'_>,
) -> Option<Answer<V>> {
    loop {
        let level = Level::enter();
        // Cloned and dropped outside of the lock: both may be user code.
        let waker = context.waker().clone();
        let unused = {
            let starts = joined.takes_start();
            let work = &joined.work;
            let mut board = work.board.lock();
            if let Some(answer) = joined.answer(&board) {
                drop(board);
                quietly(|| drop(waker));
                return Some(answer);
            }
            if starts {
                board.leave_poll();
            }
            let is_due = board.is_due();
            if !is_due || level.is_none() {
                let old = board.wait(joined.caller(), waker);
                drop(board);
                quietly(|| drop(old));
                if is_due {
                    work.defer();
                }
                return None;
            }
            board.start_polling();
            waker
        };
        quietly(|| drop(unused));
        let waker = joined.work.waker();
        let polled = joined.work.poll(&mut Context::from_waker(&waker));
        let sole = if polled.is_ready() { joined.sole_answer() } else { None };
        let answer = sole.or_else(|| after_poll(joined, polled.is_ready(), context));
        level.iter().for_each(Level::drain);
        if answer.is_some() || polled.is_pending() {
            return answer;
        }
    }
}

/// Ends a poll of a computation that others may wait for.
#[cold]
fn after_poll<K: Key, V: Send + Sync + 'static>(
    joined: &Participant<K, V>,
    is_ready: bool,
    context: &Context<'_>,
) -> Option<Answer<V>> {
    // Cloned and dropped outside of the lock: both may be user code.
    let clone = || catch_unwind(AssertUnwindSafe(|| context.waker().clone()));
    let mut waker = (!is_ready).then(clone);
    let mut board = joined.work.board.lock();
    let answer = joined.answer(&board);
    let waits = waker.take_if(|_| answer.is_none()).transpose();
    if let Err(panic) = waits {
        // This caller goes, and somebody else is to poll.
        board.leave_poll();
        let waiting = board.stop_waiting();
        drop(board);
        waiting.into_values().for_each(wake::wake);
        resume_unwind(panic);
    }
    let old = waits.ok().flatten().and_then(|waker| board.wait(joined.caller(), waker));
    let waiting = board.stop_polling();
    drop(board);
    quietly(|| drop((old, waker)));
    waiting.into_values().for_each(wake::wake);
    answer
}

/// Hands an outcome to the caller and tells the frame what was used.
#[inline(always)]
fn deliver<K: Key, V: Send + Sync + 'static>(
    outcome: Outcome<V>,
    standing: Result<Id, Box<Unkept>>,
    memo: &'static Inner<K, V>,
    frame: Option<&Frame>,
) -> Result<CachedValue<V>, Error> {
    if let Some(frame) = frame {
        match standing {
            Ok(id) => frame.record(memo.shared(), id, outcome.head().version()),
            Err(unkept) => frame.add_unkept(memo.shared(), unkept),
        }
    }
    answer(outcome)
}

#[inline(always)]
fn answer<V: Send + Sync + 'static>(outcome: Outcome<V>) -> Result<CachedValue<V>, Error> {
    match outcome.result() {
        Ok(_) => Ok(CachedValue::counted(outcome)),
        Err(error) => Err(error.clone()),
    }
}

impl<K: Key, V: Send + Sync + 'static> fmt::Debug for Get<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match &self.stage {
            Stage::New(key) => Some(key),
            _ => None,
        };
        f.debug_struct("Get").field("memo", &self.memo.name()).field("key", &key).finish()
    }
}
