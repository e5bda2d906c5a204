//! Waking without recursion.
//!
//! The waker of a computation wakes its driver, which may be a computation itself, and so on up a chain
//! of any length. The first wake on a thread therefore works through a queue.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use crate::sync;

/// Wakes, or queues when this thread is inside of a wake.
pub(crate) fn wake(waker: Waker) {
    let nested = WAKING.with(|waking| waking.replace(true));
    if nested {
        QUEUE.with(|queue| queue.borrow_mut().push(waker));
        return;
    }
    let _reset = Reset;
    let mut next = Some(waker);
    while let Some(waker) = next {
        waker.wake();
        next = QUEUE.with(|queue| queue.borrow_mut().pop());
    }
}

struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        WAKING.with(|waking| waking.set(false));
    }
}

sync::thread_local! {
    static WAKING: Cell<bool> = const { Cell::new(false) };
    static QUEUE: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}
