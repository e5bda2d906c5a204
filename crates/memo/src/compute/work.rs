//! Single flight: one computation that many callers wait for.
//!
//! A `Work` hangs off its node while it runs and is owned by its callers. Whoever polls drives; the
//! others wait. When the inner future wakes, one caller is woken (the driver), not all; the role is
//! handed over when the driver goes away, and to the next caller when a driver that was woken has not
//! come back by the next wake. The last caller that leaves cancels.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Wake, Waker};

use crate::compute::attempt::Attempt;
use crate::compute::capture::Frame;
use crate::compute::depth::{self, Deferred};
use crate::compute::inner::{Inner, Node};
use crate::graph::core::Core;
use crate::graph::event::EventKind;
use crate::graph::flight::WorkHead;
use crate::graph::owner::Owner;
use crate::graph::trash::Trash;
use crate::graph::validate::Taint;
use crate::graph::{self, Shared, budget};
use crate::store::error::Error;
use crate::store::key::Key;
use crate::store::slots::Id;
use crate::store::value::Outcome;
use tidewire_memo_memory::ambient::Ambient;
use tidewire_memo_memory::fault::{Fault, injected};
use tidewire_memo_memory::sync::Mutex;
use tidewire_memo_memory::wake::{self, quietly};

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
    /// The last caller went away; whoever polls drops the user's future.
    cancelled: AtomicBool,
    /// Polled from the queue of [`crate::compute::depth`].
    deferred: AtomicBool,
    pub(crate) board: Mutex<Board<V>>,
}

/// Where callers find out.
pub(crate) struct Board<V> {
    pub(crate) done: Option<Done<V>>,
    pub(crate) early: Option<Early<V>>,
    /// Somebody polls right now.
    pub(crate) polling: bool,
    /// The inner future woke since the last poll began.
    woken: bool,
    driver: Option<u32>,
    waiting: BTreeMap<u32, Waker>,
}

/// How a computation ended.
pub(crate) struct Done<V> {
    pub(crate) outcome: Outcome<V>,
    /// Whether others may depend on it, or why not.
    pub(crate) standing: Result<(), Taint>,
}

/// An unpublished answer for callers that joined before its attempt started.
pub(crate) struct Early<V> {
    /// The start revision of the attempt.
    pub(crate) start: u64,
    pub(crate) outcome: Outcome<V>,
    pub(crate) taint: Taint,
}

/// A caller's place in a computation.
pub(crate) struct Joined<K: 'static, V: 'static> {
    pub(crate) work: Arc<Work<K, V>>,
    /// Changes completed when the caller joined.
    pub(crate) revision: u64,
    caller: u32,
    /// Takes no early answer.
    pub(crate) is_patient: bool,
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
    pub(crate) fn join(
        core: &mut Core,
        inner: &'static Inner<K, V>,
        node: &Node<K, V>,
        parent: Id,
    ) -> Joined<K, V> {
        let revision = graph::revision();
        let running = core.flight_pointer(&node.header);
        let starts = running.is_null();
        let work = if starts {
            let attempt = Attempt::started(core, node, revision);
            let start_tick = attempt.start_tick;
            let work = Arc::new(Self::new(inner, node, attempt));
            work.head.start_tick.set(start_tick);
            core.hang(&node.header, Arc::as_ptr(&work).cast());
            work
        } else {
            core.stats.joined += 1;
            core.note(EventKind::Joined, &node.header);
            let running = running.cast::<Self>();
            // SAFETY: a running work is owned by its callers, and the pointer came from their `Arc`.
            unsafe {
                Arc::increment_strong_count(running);
                Arc::from_raw(running)
            }
        };
        let caller = work.head.enter(revision, parent);
        Joined { work, revision, caller, is_patient: false, starts }
    }

    fn new(inner: &'static Inner<K, V>, node: &Node<K, V>, attempt: Attempt<V>) -> Self {
        let id = node.header.id;
        Self {
            head: WorkHead::new(id),
            inner,
            node,
            id,
            frame: UnsafeCell::new(Frame::new(inner.owner.graph, id)),
            ambient: Ambient::current(),
            attempt: Mutex::new(attempt),
            cancelled: AtomicBool::new(false),
            deferred: AtomicBool::new(false),
            board: Mutex::new(Board {
                done: None,
                early: None,
                polling: true,
                woken: false,
                driver: None,
                waiting: BTreeMap::new(),
            }),
        }
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
    pub(crate) fn finish(&self, core: &mut Core) {
        core.land(&self.node().header);
        self.head.finish();
    }

    /// Ends a poll that is pending: the poller waits like the others, and drives.
    pub(crate) fn stay_driver(&self, caller: u32, waker: &Waker) {
        let waiting = waker.clone();
        let (old, woken) = {
            let mut board = self.board.lock();
            board.polling = false;
            board.driver = Some(caller);
            (board.wait(caller, waiting), board.woken)
        };
        drop(old);
        if woken {
            wake::wake(waker.clone());
        }
    }

    /// Wakes everyone who waits.
    pub(crate) fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.board.lock().waiting);
        waiting.into_values().for_each(wake::wake);
    }

    /// Ends the computation with an error, from under the graph lock.
    pub(crate) fn abort(&self, core: &mut Core, owner: &Owner, trash: &mut Trash) {
        self.finish(core);
        let outcome = Outcome::new(Err(Error::closed(&owner.name)));
        let mut board = self.board.lock();
        board.done = Some(Done { outcome, standing: Err(Taint::UNTRACKED) });
        trash.wakers.extend(std::mem::take(&mut board.waiting).into_values());
    }
}

impl<V> Board<V> {
    /// Begins a poll. The caller holds the board.
    pub(crate) fn start_polling(&mut self) {
        self.polling = true;
        self.woken = false;
        self.driver = None;
    }

    /// Ends a poll after which the outcome is there; returns who is to be told.
    pub(crate) fn stop_polling(&mut self) -> BTreeMap<u32, Waker> {
        self.polling = false;
        std::mem::take(&mut self.waiting)
    }

    /// Waits for somebody else's poll. Returns the waker that this one replaces.
    pub(crate) fn wait(&mut self, caller: u32, waker: Waker) -> Option<Waker> {
        self.waiting.insert(caller, waker)
    }

    fn driver_waker(&self) -> Option<Waker> {
        self.waiting.get(&self.driver?).cloned()
    }

    /// Makes another caller the driver and returns its waker.
    fn next_driver(&mut self) -> Option<Waker> {
        let after = self.driver.and_then(|driver| self.waiting.range(driver + 1..).next());
        let (&caller, waker) = after.or_else(|| self.waiting.first_key_value())?;
        self.driver = Some(caller);
        Some(waker.clone())
    }

    /// Returns the waker of the caller that goes, and that of whoever drives in its place.
    fn leave(&mut self, caller: u32) -> (Option<Waker>, Option<Waker>) {
        let own = self.waiting.remove(&caller);
        let idle = !self.polling && self.done.is_none();
        let orphaned = self.driver.is_none_or(|driver| driver == caller);
        (own, if idle && orphaned { self.next_driver() } else { None })
    }
}

impl<K: Key, V: Send + Sync + 'static> Joined<K, V> {
    pub(crate) fn caller(&self) -> u32 {
        self.caller
    }

    /// Whether the right to poll is this caller's from before; asked once.
    pub(crate) fn takes_start(&mut self) -> bool {
        std::mem::take(&mut self.starts)
    }

    /// What the board has for this caller.
    pub(crate) fn answer(&self, board: &Board<V>) -> Option<(Outcome<V>, Result<(), Taint>)> {
        if let Some(done) = &board.done {
            return Some((done.outcome.clone(), done.standing));
        }
        let Early { start, outcome, taint } = board.early.as_ref()?;
        let arrived_early = self.revision <= *start || injected(Fault::EarlyForAnyone);
        (arrived_early && !self.is_patient).then(|| (outcome.clone(), Err(*taint)))
    }

    /// Goes away before the computation ended.
    pub(crate) fn leave(self) {
        let work = &*self.work;
        let head = &work.head;
        if head.is_finished() {
            // Everybody was or will be told by whoever finished it.
            return;
        }
        let mut trash = Trash::default();
        let mut cancelled = false;
        {
            let mut core = work.shared().core.lock();
            if !head.is_finished() && head.leave(self.caller) {
                cancelled = true;
                core.stats.cancelled += 1;
                let node = work.node();
                core.note(EventKind::Cancelled, &node.header);
                if work.board.lock().early.as_ref().is_some_and(|early| early.taint.outdated) {
                    // Somebody has a value that is not kept, so nothing will say that it changed.
                    core.ring(&node.header, &mut trash);
                }
                work.finish(&mut core);
                work.inner.discard_empty(&mut core, node, &mut trash);
            }
        }
        if cancelled {
            work.cancelled.store(true, SeqCst);
            work.abandon_if_cancelled();
            if depth::is_outside() {
                budget::relieve(work.shared());
            }
        } else {
            let (own, next) = work.board.lock().leave(self.caller);
            drop(own);
            next.into_iter().for_each(wake::wake);
        }
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
        quietly(|| drop(abandoned));
    }

    /// Leaves the polling to the outermost level of this thread.
    pub(crate) fn defer(self: &Arc<Self>) {
        self.deferred.store(true, SeqCst);
        depth::defer(self.clone());
    }
}

impl<K: Key, V: Send + Sync + 'static> Wake for Work<K, V> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waker = {
            let mut board = self.board.lock();
            let ignored = std::mem::replace(&mut board.woken, true);
            if board.polling {
                return;
            }
            if self.deferred.load(SeqCst) && depth::will_drain() {
                drop(board);
                depth::defer(self.clone());
                return;
            }
            // A driver that was woken before and has not polled since may never do so.
            if ignored { board.next_driver() } else { board.driver_waker() }
        };
        waker.into_iter().for_each(wake::wake);
    }
}

impl<K: Key, V: Send + Sync + 'static> Deferred for Work<K, V> {
    fn drive(self: Arc<Self>) {
        {
            let mut board = self.board.lock();
            if board.polling || board.done.is_some() {
                return;
            }
            board.start_polling();
        }
        let waker = Waker::from(self.clone());
        let polled = self.poll(&mut Context::from_waker(&waker));
        let yielded = {
            let mut board = self.board.lock();
            board.polling = false;
            let next = if polled.is_pending() { board.next_driver() } else { None };
            next.filter(|_| board.woken)
        };
        if polled.is_ready() {
            self.wake_all();
        }
        if let Some(waker) = yielded {
            depth::yielding(|| wake::wake(waker));
        }
    }
}
