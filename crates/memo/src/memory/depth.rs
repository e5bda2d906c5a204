//! Deep recursion without a deep stack.
//!
//! A computation that misses polls the computation of what it needs inside of its own poll: about 1 KB
//! of stack a level. Past a limit the child is queued instead, and the outermost `get` on the thread
//! polls it from there, with a fresh stack. When a queued computation is done it wakes its parent; a
//! parent that was queued itself goes back into the queue, so unwinding costs one poll a level.
//!
//! A computation that is given up drops what it waited for, which gives up that one's computation, and so
//! on: past the same limit, what is to be dropped is queued for the outermost drop.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::memory::sync;
use crate::memory::wake::quietly;

/// A computation that can be polled from the queue.
pub(crate) trait Deferred {
    /// Polls it, once.
    fn drive(self: Box<Self>);
}

/// One level of polling; levels nest.
#[derive(Debug)]
pub(crate) struct Level {
    outermost: bool,
}

impl Level {
    /// `None` when the stack is deep enough: defer instead.
    #[inline]
    #[must_use]
    pub(crate) fn enter() -> Option<Self> {
        let depth = DEPTH.with(Cell::get);
        if depth >= LIMIT && QUEUE.try_with(|_| ()).is_ok() {
            return None;
        }
        DEPTH.with(|cell| cell.set(depth + 1));
        Some(Self { outermost: depth == 0 })
    }

    /// Polls what was queued below, if this is the outermost level.
    #[inline]
    pub(crate) fn drain(&self) {
        if self.outermost && QUEUED.with(Cell::get) {
            drain();
        }
    }
}

#[cold]
fn drain() {
    // A thread that is ending has no queue any more, and nothing in it.
    let next = || QUEUE.try_with(|queue| queue.borrow_mut().pop_front()).ok().flatten();
    while let Some(work) = next() {
        work.drive();
    }
    QUEUED.with(|queued| queued.set(false));
}

impl Drop for Level {
    #[inline]
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Queues a computation for the outermost level, which is on this stack.
pub(crate) fn defer(work: Box<dyn Deferred>) {
    QUEUE.with(|queue| queue.borrow_mut().push_back(work));
    QUEUED.with(|queued| queued.set(true));
}

/// Whether nothing is being computed on this thread.
#[inline]
#[must_use]
pub(crate) fn is_outside() -> bool {
    DEPTH.with(Cell::get) == 0
}

/// Whether a computation that is woken now may be queued: somebody will drain the queue.
#[must_use]
pub(crate) fn will_drain() -> bool {
    !is_outside() && QUEUE.try_with(|_| ()).is_ok() && !YIELDING.with(Cell::get)
}

/// Runs `wake` so that it reaches the executor: a computation that yields must not be polled again
/// before other tasks were.
pub(crate) fn yielding(wake: impl FnOnce()) {
    let before = YIELDING.with(|yielding| yielding.replace(true));
    wake();
    YIELDING.with(|yielding| yielding.set(before));
}

/// Runs `drop`, which drops user code that may hold computations: now, or past the limit when the
/// outermost one on this thread has done so.
pub(crate) fn drop_nested(drop: impl FnOnce() + 'static) {
    let depth = DROPS.with(Cell::get);
    if depth >= LIMIT && DROPPED.try_with(|_| ()).is_ok() {
        return DROPPED.with(|queue| queue.borrow_mut().push(Box::new(drop)));
    }
    DROPS.with(|drops| drops.set(depth + 1));
    let _level = DropLevel { is_outermost: depth == 0 };
    drop();
}

/// One level of dropping; levels nest. The outermost one drops what was queued, also after a panic.
struct DropLevel {
    is_outermost: bool,
}

impl Drop for DropLevel {
    fn drop(&mut self) {
        if self.is_outermost {
            // A thread that is ending has no queue any more, and nothing in it.
            let next = || DROPPED.try_with(|queue| queue.borrow_mut().pop()).ok().flatten();
            while let Some(drop) = next() {
                quietly(drop);
            }
        }
        DROPS.with(|drops| drops.set(drops.get() - 1));
    }
}

/// Levels that poll, or drop, each other directly.
const LIMIT: u32 = 48;

sync::thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static YIELDING: Cell<bool> = const { Cell::new(false) };
    static DROPS: Cell<u32> = const { Cell::new(0) };
    static DROPPED: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
    /// Whether there may be something in the queue.
    static QUEUED: Cell<bool> = const { Cell::new(false) };
    static QUEUE: RefCell<VecDeque<Box<dyn Deferred>>> = const { RefCell::new(VecDeque::new()) };
}
