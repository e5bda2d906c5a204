//! Something that happens once: a drain that begins, an answer that becomes stale.
//!
//! Any number of tasks may wait for it, on any runtime. Waiting costs one lock; asking whether it
//! happened costs one load.

use parking_lot::Mutex;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use crate::{Staleness, Wakers};

/// Something that happens once; clones share it.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::Signal;
/// let signal = Signal::new();
/// let waiting = signal.clone();
/// signal.fire();
/// assert!(waiting.has_fired());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<State>);

#[derive(Debug, Default)]
struct State {
    fired: AtomicBool,
    waiting: Mutex<Wakers>,
}

impl Signal {
    /// A signal that has not fired.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets it happen and wakes whoever waits; later calls do nothing.
    pub fn fire(&self) {
        if self.0.fired.swap(true, Ordering::AcqRel) {
            return;
        }
        let waiting = std::mem::take(&mut *self.waiting());
        waiting.wake();
    }

    /// Whether it happened.
    pub fn has_fired(&self) -> bool {
        self.0.fired.load(Ordering::Acquire)
    }

    /// Ready once it happened; until then the task is woken when it does.
    pub fn poll_fired(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_fired() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting();
        // Under the lock: who fires takes it after the flag, so no waker is left behind.
        if self.has_fired() {
            return Poll::Ready(());
        }
        waiting.add(cx.waker());
        Poll::Pending
    }

    /// Waits until it happened.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost with the future.
    pub fn fired(&self) -> impl Future<Output = ()> + Send + use<> {
        let signal = self.clone();
        poll_fn(move |cx| signal.poll_fired(cx))
    }

    fn waiting(&self) -> parking_lot::MutexGuard<'_, Wakers> {
        self.0.waiting.lock()
    }
}

impl Staleness for Signal {
    fn is_stale(&self) -> bool {
        self.has_fired()
    }

    fn poll_stale(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_fired(cx)
    }
}
