//! Single flight: one computation that many callers wait for.
//!
//! A `Work` hangs off its node while it runs and is owned by its callers. When the inner future wakes,
//! several callers are woken, and the first one that polls drives; the others wait again. Nobody can
//! tell a caller that will poll from one that was put away for good, so no one of them is told alone;
//! nor are ten thousand that wait for one key, unless nobody has polled since the wake before. The last
//! caller that leaves cancels.
//!
//! Most computations have one caller and are over after one poll. What they do not need costs them
//! nothing: callers share a place of the pool, the waker is the caller's own share until somebody
//! clones it, and whoever has the last share takes the outcome without a lock.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, fence};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

use crate::compute::attempt::Attempt;
use crate::compute::board::{Answer, Board, Done, Early};
use crate::compute::capture::{Asker, Frame};
use crate::compute::inner::{Inner, Node};
use crate::graph::ambient::Ambient;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::event::EventKind;
use crate::graph::flight::{Parent, WorkHead};
use crate::graph::owner::Owner;
use crate::graph::unkept::Unkept;
use crate::graph::validate::Taint;
use crate::graph::{self, Shared, relief};
use crate::memory::callers::ByCaller;
use crate::memory::depth::{self, Deferred};
use crate::memory::epoch;
use crate::memory::fault::{Fault, injected};
use crate::memory::pool;
use crate::memory::sync::Mutex;
use crate::memory::wake::{self, quietly};
use crate::store::error::Error;
use crate::store::key::Key;
use crate::store::slots::Id;
use crate::store::value::Outcome;

/// See the module documentation.
#[repr(C)]
pub(crate) struct Work<K: 'static, V: 'static> {
    pub(crate) head: WorkHead,
    pub(crate) inner: &'static Inner<K, V>,
    /// Alive until `finished`.
    node: *const Node<K, V>,
    pub(crate) id: Id,
    /// Touched by the thread that holds `attempt`.
    frame: UnsafeCell<Frame>,
    /// Of the caller that started it.
    pub(crate) ambient: Ambient,
    pub(crate) attempt: Mutex<Attempt<V>>,
    /// The last caller went away, or the graph; whoever polls or is woken drops the user's future.
    cancelled: AtomicBool,
    /// Polled from the queue of [`crate::compute::depth`].
    deferred: AtomicBool,
    pub(crate) board: Mutex<Board<V>>,
    shares: AtomicUsize,
}

/// A share of a computation, which ends with the last one.
pub(crate) struct Share<K: 'static, V: 'static>(NonNull<Work<K, V>>);

/// A caller's place in a computation.
pub(crate) struct Participant<K: Key, V: Send + Sync + 'static> {
    pub(crate) work: Share<K, V>,
    /// Changes completed when the caller joined.
    pub(crate) revision: u64,
    caller: u32,
    /// The computation that asked last, and is told when it is answered; 0 for none.
    pub(crate) asker: Asker,
    /// The run that waits for it as far as the graph knows.
    pub(crate) waiter: Asker,
    /// Takes no early answer.
    pub(crate) is_patient: bool,
    /// Asks on behalf of a computation that verifies its value: of no caller of that.
    pub(crate) is_for_all: bool,
    /// This caller made the work, which counts as being polled until it does so.
    starts: bool,
}

// SAFETY: `head` is touched under the graph lock, `frame` under the attempt lock, `node` is alive
// until `finished`, and what is behind it is shared like any node.
unsafe impl<K: Send + Sync, V: Send + Sync> Send for Work<K, V> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Work<K, V> {}

impl<K: Key, V: Send + Sync + 'static> Work<K, V> {
    /// Starts or joins the computation of a node. Whoever starts it polls it next.
    #[inline]
    pub(crate) fn join(
        core: &mut Core,
        inner: &'static Inner<K, V>,
        node: &Node<K, V>,
        parent: Parent,
    ) -> Participant<K, V> {
        let revision = graph::revision();
        let running = core.flight_pointer(&node.header);
        if running.is_null() {
            let attempt = |core: &mut Core| Attempt::start(core, node, revision, 0, true);
            let begun = Self::begin(core, inner, node, parent, revision, attempt);
            begun.work.head.looks.set(begun.work.attempt.lock().looks());
            return begun;
        }
        core.stats.joined += 1;
        core.note(EventKind::Joined, &node.header);
        // SAFETY: a running work is owned by its callers, and the pointer came from a share of theirs.
        let work = unsafe { Share::of(running.cast()) };
        let caller = work.head.enter(revision, parent);
        Participant::new(work, revision, (caller, parent), false)
    }

    /// Starts the first computation of a node that was just made. The caller polls it next.
    #[inline(always)]
    pub(crate) fn start(
        core: &mut Core,
        inner: &'static Inner<K, V>,
        node: &Node<K, V>,
        parent: Parent,
    ) -> Participant<K, V> {
        let revision = graph::revision();
        let attempt = |core: &mut Core| Attempt::first(core, node, revision);
        Self::begin(core, inner, node, parent, revision, attempt)
    }

    #[inline(always)]
    fn begin(
        core: &mut Core,
        inner: &'static Inner<K, V>,
        node: &Node<K, V>,
        parent: Parent,
        revision: u64,
        attempt: impl FnOnce(&mut Core) -> Attempt<V>,
    ) -> Participant<K, V> {
        let work = Share::new(core, inner, node, revision, attempt);
        core.hang(&node.header, work.0.as_ptr().cast());
        work.head.begins_for(core.attempts, parent);
        Participant::new(work, revision, (0, parent), true)
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.inner.owner.graph
    }

    /// The node, while the work is not finished. Call it under the graph lock or pinned, and check
    /// [`WorkHead::is_finished`] first under that very lock or pin.
    pub(crate) fn node<'a>(&self) -> &'a Node<K, V> {
        // SAFETY: a node with a running work is not removed except by `abort`, which finishes the work.
        unsafe { &*self.node }
    }

    pub(crate) fn frame(&self) -> *mut Frame {
        self.frame.get()
    }

    /// Takes the work off its node. The caller puts the outcome on the board in the same hold.
    #[inline(always)]
    pub(crate) fn finish(&self, core: &mut Core) {
        core.land(&self.node().header);
        self.head.finish();
    }

    /// Wakes everyone who waits.
    pub(crate) fn wake_all(&self) {
        let waiting = self.board.lock().stop_waiting();
        waiting.into_values().for_each(wake::wake);
    }
}

impl<K, V> Work<K, V> {
    /// Whether it has nothing that has a destructor: most have not, and to ask costs less than to drop.
    #[inline(always)]
    fn is_plain(&mut self) -> bool {
        self.head.is_plain()
            && self.frame.get_mut().is_plain()
            && self.ambient.is_none()
            && self.attempt.get_mut().is_over()
            && self.board.get_mut().is_plain()
    }
}

impl<K: Key, V: Send + Sync + 'static> Participant<K, V> {
    #[inline(always)]
    fn new(
        work: Share<K, V>,
        revision: u64,
        (caller, parent): (u32, Parent),
        starts: bool,
    ) -> Self {
        Self {
            work,
            revision,
            caller,
            asker: 0,
            waiter: parent.run,
            is_patient: false,
            is_for_all: false,
            starts,
        }
    }

    pub(crate) fn caller(&self) -> u32 {
        self.caller
    }

    /// Whoever polls is the one who asks: a future that has moved is its new owner's question.
    pub(crate) fn asks(&mut self, frame: &Frame) {
        if frame.asker.get() != self.asker {
            frame.asks();
            self.asker = frame.asker.get();
        }
    }

    /// Whether the right to poll is this caller's from before.
    pub(crate) fn starts(&self) -> bool {
        self.starts
    }

    /// The same, asked once: the caller polls now, or says on the board that it does not.
    pub(crate) fn takes_start(&mut self) -> bool {
        std::mem::take(&mut self.starts)
    }

    /// What the board has for this caller.
    pub(crate) fn answer(&self, board: &Board<V>) -> Option<Answer<V>> {
        if let Some(Done { outcome, standing }) = &board.done {
            let (outcome, standing) = (outcome.clone(), standing.clone());
            return Some(Answer { outcome, standing, early: false });
        }
        let Early { start, next_caller, outcome, unkept } = board.early.as_ref()?;
        let was_there = self.caller.wrapping_sub(*next_caller).cast_signed() < 0;
        let arrived_early = self.revision <= *start && was_there || injected(Fault::EarlyForAnyone);
        let standing = || Err(unkept.clone());
        let answer = || Answer { outcome: outcome.clone(), standing: standing(), early: true };
        (arrived_early && !self.is_patient).then(answer)
    }

    /// What came out, after a poll that was the last, when nobody else has a share.
    #[inline]
    pub(crate) fn sole_answer(&mut self) -> Option<Answer<V>> {
        if self.work.shares.load(Acquire) != 1 {
            return None;
        }
        // SAFETY: after its last poll the work is off its node, and the hold that took it off is over:
        // nobody can make another share, and this one is not used meanwhile.
        let board = unsafe { self.work.0.as_mut() }.board.get_mut();
        let Done { outcome, standing } = board.done.take()?;
        Some(Answer { outcome, standing, early: false })
    }

    /// Has been answered: what there is to depend on, or why not.
    #[inline(always)]
    pub(crate) fn end(mut self, answer: Answer<V>) -> (Outcome<V>, Result<Id, Box<Unkept>>) {
        let standing = answer.standing.map(|()| self.work.id);
        if answer.early {
            self.leave();
        }
        // SAFETY: taken out once, and nothing else of this is left to drop.
        let work = unsafe { std::ptr::read(&raw const self.work) };
        std::mem::forget(self);
        work.give_back();
        (answer.outcome, standing)
    }

    /// Goes away; before the computation ended, as far as this caller knows.
    #[cold]
    fn leave(&mut self) {
        let work = &*self.work;
        let head = &work.head;
        let mut deferred = DeferredDrops::default();
        let mut cancelled = false;
        {
            // Whoever finishes the work looks at it to the end of its hold.
            let mut core = work.shared().core.lock();
            if head.is_finished() {
                // Everybody was or will be told by whoever finished it.
                return;
            }
            if head.leave(self.caller, self.revision) {
                cancelled = true;
                core.stats.cancelled += 1;
                let node = work.node();
                core.note(EventKind::Cancelled, &node.header);
                if work
                    .board
                    .lock()
                    .early
                    .as_ref()
                    .is_some_and(|early| early.unkept.taint.has(Taint::TOLD))
                {
                    // Somebody has a value that is not kept, so nothing will say that it changed.
                    core.notify_watchers(&node.header, &mut deferred);
                }
                work.finish(&mut core);
                work.inner.discard_empty(&mut core, node, &mut deferred);
            }
        }
        if cancelled {
            work.cancelled.store(true, SeqCst);
            work.abandon_if_cancelled();
            if depth::is_outside() {
                relief::relieve(work.shared());
            }
            // The node is gone, too, and nobody else may come by.
            epoch::collect_if_due();
        } else {
            let (own, others) = {
                let mut board = work.board.lock();
                if self.starts {
                    board.leave_poll();
                }
                board.leave(self.caller)
            };
            quietly(|| drop(own));
            others.into_values().for_each(wake::wake);
        }
    }
}

impl<K: Key, V: Send + Sync + 'static> Drop for Participant<K, V> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<K: Key, V: Send + Sync + 'static> Work<K, V> {
    /// Drops the user's future when nobody wants its value. Whoever polls right now does it afterwards;
    /// that may be this very thread, when a computation drops the last call of itself.
    pub(crate) fn abandon_if_cancelled(&self) {
        if !self.cancelled.load(SeqCst) {
            return;
        }
        let abandoned = self.attempt.try_lock().map(|mut attempt| attempt.abandon());
        depth::drop_nested(|| quietly(|| drop(abandoned)));
    }
}

impl<K: Key, V: Send + Sync + 'static> Share<K, V> {
    /// A computation that begins. Written where it stays: it is large, and mostly over soon.
    #[inline(always)]
    fn new(
        core: &mut Core,
        inner: &'static Inner<K, V>,
        node: &Node<K, V>,
        revision: u64,
        attempt: impl FnOnce(&mut Core) -> Attempt<V>,
    ) -> Self {
        let id = node.header.id;
        let place = pool::place::<Work<K, V>>();
        let work = place.as_ptr();
        // SAFETY: a new place, of which every part is written.
        unsafe {
            (&raw mut (*work).head).write(WorkHead::new(id, core, revision));
            (&raw mut (*work).inner).write(inner);
            (&raw mut (*work).node).write(node);
            (&raw mut (*work).id).write(id);
            Frame::write((&raw mut (*work).frame).cast(), inner.owner.graph, id);
            (&raw mut (*work).ambient).write(Ambient::current());
            (&raw mut (*work).attempt).write(Mutex::new(attempt(core)));
            (&raw mut (*work).cancelled).write(AtomicBool::new(false));
            (&raw mut (*work).deferred).write(AtomicBool::new(false));
            (&raw mut (*work).board).write(Mutex::new(Board::new()));
            (&raw mut (*work).shares).write(AtomicUsize::new(1));
        }
        Self(place)
    }

    /// One more share.
    ///
    /// # Safety
    /// The pointer came from a share, and another one lasts during the call.
    pub(crate) unsafe fn of(work: *const Work<K, V>) -> Self {
        // SAFETY: the caller says so.
        unsafe { &*work }.shares.fetch_add(1, Relaxed);
        // SAFETY: a reference was just made from it, so it is not null.
        Self(unsafe { NonNull::new_unchecked(work.cast_mut()) })
    }

    /// Ends the computation with an error, from under the graph lock. Its own waker is among those that are
    /// woken later, and drops the user's future: others may wait for what that drives.
    pub(crate) fn abort(self, core: &mut Core, owner: &Owner, deferred: &mut DeferredDrops) {
        self.finish(core);
        self.cancelled.store(true, SeqCst);
        let outcome = Outcome::new(Err(Error::closed(&owner.name)));
        let mut board = self.board.lock();
        board.end(Done { outcome, standing: Err(Unkept::new(Taint::UNTRACKED, None)) });
        deferred.wakers.extend(board.stop_waiting().into_values());
        drop(board);
        deferred.wakers.push(ManuallyDrop::into_inner(ManuallyDrop::new(self).waker()));
    }

    /// Has the attempt begin anew, from under the graph lock. Whoever polls now, or next, sees to it.
    pub(crate) fn begin_anew(&self, deferred: &mut DeferredDrops) {
        self.head.begin_anew();
        deferred.wakers.extend(self.wakes().into_values());
    }

    /// Leaves the polling to the outermost level of this thread.
    pub(crate) fn defer(&self) {
        self.deferred.store(true, SeqCst);
        depth::defer(Box::new(self.clone()));
    }

    /// A waker that lives on this share, as long as this is borrowed; its clones have shares of their own.
    pub(crate) fn waker(&self) -> ManuallyDrop<Waker> {
        let data = self.0.as_ptr().cast_const().cast();
        // SAFETY: the functions treat the pointer as a share; that of this waker is not given back.
        ManuallyDrop::new(unsafe { Waker::new(data, Self::WAKER) })
    }

    const WAKER: &RawWakerVTable = &RawWakerVTable::new(
        |data| {
            // SAFETY: the waker that is cloned has a share, or lives on one.
            std::mem::forget(unsafe { Self::of(data.cast()) });
            RawWaker::new(data, Self::WAKER)
        },
        |data| Self::of_waker(data).woke(),
        |data| ManuallyDrop::new(Self::of_waker(data)).woke(),
        |data| drop(Self::of_waker(data)),
    );

    /// The share of a waker.
    fn of_waker(data: *const ()) -> Self {
        // SAFETY: private to the functions above, whose data is a work that they have a share of.
        Self(unsafe { NonNull::new_unchecked(data.cast_mut().cast()) })
    }

    /// The inner future wants to be polled.
    fn woke(&self) {
        self.abandon_if_cancelled();
        self.wakes().into_values().for_each(wake::wake);
    }

    /// Notes that it wants to be polled. Returns who is to be told.
    fn wakes(&self) -> ByCaller<Waker> {
        let mut board = self.board.lock();
        let is_ignored = board.wake();
        if board.polling {
            return ByCaller::default();
        }
        if self.deferred.load(SeqCst) && depth::will_drain() {
            drop(board);
            depth::defer(Box::new(self.clone()));
            return ByCaller::default();
        }
        if is_ignored { board.stop_waiting() } else { board.stop_some() }
    }
}

impl<K, V> Deref for Share<K, V> {
    type Target = Work<K, V>;

    #[inline]
    fn deref(&self) -> &Work<K, V> {
        // SAFETY: alive as long as there are shares.
        unsafe { self.0.as_ref() }
    }
}

impl<K: Key, V: Send + Sync + 'static> Clone for Share<K, V> {
    fn clone(&self) -> Self {
        // SAFETY: this share lasts.
        unsafe { Self::of(self.0.as_ptr()) }
    }
}

impl<K, V> Share<K, V> {
    #[inline(always)]
    fn give_back(self) {
        ManuallyDrop::new(self).end();
    }

    /// Ends this share, which is not used again.
    #[inline(always)]
    fn end(&mut self) {
        if self.shares.fetch_sub(1, Release) != 1 {
            return;
        }
        fence(Acquire);
        // SAFETY: the last share is gone, and a running work has one; its place is of the pool.
        unsafe {
            if self.0.as_mut().is_plain() {
                pool::destroy(self.0.cast::<ManuallyDrop<Work<K, V>>>());
            } else {
                let place = self.0;
                depth::drop_nested(move || pool::destroy(place));
            }
        }
    }
}

impl<K, V> Drop for Share<K, V> {
    fn drop(&mut self) {
        self.end();
    }
}

// SAFETY: shares a `Work`, which is `Sync`, and may be the one that drops it.
unsafe impl<K: Send + Sync, V: Send + Sync> Send for Share<K, V> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Share<K, V> {}

impl<K: Key, V: Send + Sync + 'static> Deferred for Share<K, V> {
    fn drive(self: Box<Self>) {
        {
            let mut board = self.board.lock();
            if !board.is_due() {
                return;
            }
            board.start_polling();
        }
        let polled = self.poll(&mut Context::from_waker(&self.waker()));
        let waiting = self.board.lock().stop_polling();
        let wakes = || waiting.into_values().for_each(wake::wake);
        if polled.is_ready() { wakes() } else { depth::yielding(wakes) }
    }
}
