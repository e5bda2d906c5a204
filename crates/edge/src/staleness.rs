//! Tells when an answer from memory stops being true: when its key is marked in the graph.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::Stream;
use tidewire_memo::{Memo, Notify};
use tidewire_service::{Staleness, Wakers};

use crate::kept::Kept;
use crate::key::Key;

/// Watches one version of one key.
pub(crate) struct Tracked {
    memo: Memo<Key, Kept>,
    key: Key,
    version: u64,
    /// What the answer said of itself.
    own: Option<Arc<dyn Staleness>>,
    is_stale: AtomicBool,
    waiting: Arc<Waiting>,
    notify: Mutex<Option<Notify<Key, Kept>>>,
}

/// All who wait; one ring wakes them.
#[derive(Default)]
struct Waiting(Mutex<Wakers>);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.wake();
    }
}

impl Waiting {
    fn add(&self, waker: &Waker) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(waker);
    }
}

impl Tracked {
    pub(crate) fn new(
        memo: Memo<Key, Kept>,
        key: Key,
        version: u64,
        own: Option<Arc<dyn Staleness>>,
    ) -> Self {
        let (is_stale, waiting) = (AtomicBool::new(false), Arc::default());
        Self { memo, key, version, own, is_stale, waiting, notify: Mutex::new(None) }
    }

    fn look(&self) -> bool {
        let is_stale = !self.memo.validate(&self.key, self.version)
            || self.own.as_ref().is_some_and(|own| own.is_stale());
        if is_stale {
            // Once stale it stays so, whatever is computed for the key later.
            self.is_stale.store(true, Ordering::Release);
        }
        is_stale
    }
}

impl Staleness for Tracked {
    fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Acquire) || self.look()
    }

    fn poll_stale(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waiting.add(cx.waker());
        if let Some(own) = &self.own
            && own.poll_stale(cx).is_ready()
        {
            self.is_stale.store(true, Ordering::Release);
        }
        let mut notify = self.notify.lock().unwrap_or_else(PoisonError::into_inner);
        // Hung up before the look, so that a mark after the look rings.
        let notify = notify.get_or_insert_with(|| self.memo.notify(self.key.clone()));
        let waker = Waker::from(Arc::clone(&self.waiting));
        let mut everyone = Context::from_waker(&waker);
        while Pin::new(&mut *notify).poll_next(&mut everyone).is_ready() {
            if self.is_stale() {
                return Poll::Ready(());
            }
        }
        if self.is_stale() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl fmt::Debug for Tracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracked").field("version", &self.version).finish_non_exhaustive()
    }
}
