//! What was unlinked under the graph lock and must be dropped or woken after it is released.

use std::task::Waker;

use crate::memory::wake;
use crate::store::edges::Edges;

/// Declare it before the lock guard, so that it is dropped after the guard.
#[derive(Default)]
pub(crate) struct DeferredDrops {
    pub(crate) edges: Vec<Edges>,
    pub(crate) wakers: Vec<Waker>,
}

impl DeferredDrops {
    /// Adds what somebody else left, to be dropped with this.
    pub(crate) fn take(&mut self, other: &mut Self) {
        self.edges.append(&mut other.edges);
        self.wakers.append(&mut other.wakers);
    }
}

impl Drop for DeferredDrops {
    fn drop(&mut self) {
        self.wakers.drain(..).for_each(wake::wake);
    }
}
