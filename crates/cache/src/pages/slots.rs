//! How many commands go on without their callers.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tidewire_service::Wakers;

/// How many commands of each service go on without a caller.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    taken: Arc<Mutex<TakenSlots>>,
}

#[derive(Debug, Default)]
struct TakenSlots {
    by_service: HashMap<Arc<str>, usize>,
    /// Who waits until there are none.
    waiting: Wakers,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    service: Arc<str>,
    taken: Arc<Mutex<TakenSlots>>,
}

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    pub(super) fn take(&self, service: &Arc<str>) -> Option<Slot> {
        let mut taken = self.taken.lock();
        let count = taken.by_service.entry(Arc::clone(service)).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Slot { service: Arc::clone(service), taken: Arc::clone(&self.taken) })
    }

    pub(super) fn poll_empty(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut taken = self.taken.lock();
        if taken.by_service.is_empty() {
            return Poll::Ready(());
        }
        taken.waiting.add(cx.waker());
        Poll::Pending
    }

    pub(super) fn count(&self) -> usize {
        self.taken.lock().by_service.values().sum()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(count) = taken.by_service.get_mut(&self.service) {
            *count -= 1;
            if *count == 0 {
                taken.by_service.remove(&self.service);
            }
        }
        if taken.by_service.is_empty() {
            let waiting = std::mem::take(&mut taken.waiting);
            drop(taken);
            waiting.wake();
        }
    }
}
