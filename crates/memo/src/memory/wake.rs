//! Waking without recursion, and user code that may panic without harm.
//!
//! The waker of a computation wakes its driver, which may be a computation itself, and so on up a chain
//! of any length. The first wake on a thread therefore works through a queue. A waker, and a destructor
//! that runs where nobody could handle its panic, is kept from unwinding through the graph.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use crate::memory::sync;

/// Wakes, or queues when this thread is inside of a wake. Call it with no lock held.
pub(crate) fn wake(waker: Waker) {
    let nested = WAKING.with(|waking| waking.replace(true));
    let mut next = Some(waker);
    if nested {
        let queue = |queue: &RefCell<Vec<Waker>>| queue.borrow_mut().extend(next.take());
        let _ = QUEUE.try_with(queue);
        // A thread that is ending has no queue any more.
        next.into_iter().for_each(|waker| quietly(|| waker.wake()));
        return;
    }
    while let Some(waker) = next {
        quietly(|| waker.wake());
        next = QUEUE.try_with(|queue| queue.borrow_mut().pop()).ok().flatten();
    }
    WAKING.with(|waking| waking.set(false));
}

/// Runs user code whose panic is nobody's to handle; counts and swallows it.
pub(crate) fn quietly(run: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        PANICKED.fetch_add(1, Relaxed);
        // What a panic carries may itself panic when it is dropped.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
    }
}

/// How many destructors and wakers panicked where nobody could handle it.
pub(crate) fn swallowed_panics() -> u64 {
    PANICKED.load(Relaxed)
}

static PANICKED: AtomicU64 = AtomicU64::new(0);

sync::thread_local! {
    static WAKING: Cell<bool> = const { Cell::new(false) };
    static QUEUE: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}
