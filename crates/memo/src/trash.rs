//! What was unlinked under the graph lock and must be dropped or woken after it is released.

use std::task::Waker;

use crate::edges::Edges;

/// Declare it before the lock guard, so that it is dropped after the guard.
#[derive(Default)]
pub(crate) struct Trash {
    pub(crate) edges: Vec<Edges>,
    pub(crate) wakers: Vec<Waker>,
}

impl Trash {
    pub(crate) fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }
}

impl Drop for Trash {
    fn drop(&mut self) {
        self.wake();
    }
}
