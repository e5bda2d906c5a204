//! How many calls run at once, and how long another waits for a place: `limits.calls_max` and
//! `limits.queue_timeout`.
//!
//! A call that found no place in time is refused, since who waits behind it would wait for longer
//! still: under more load than a server can take, those that are answered are answered soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tidewire_service::{Admission, Error, Gate, GateFuture, Head, PermitSource, Phase, Result};
use tokio::sync::Semaphore;

use super::refusal::{is_health, later};
use crate::limits::Limits;
use crate::runtime::usage::{Bound, Counters};

pub(super) struct Calls {
    slots: Arc<CallSlots>,
    calls_max: usize,
    queue_timeout: Duration,
    counters: Arc<Counters>,
}

/// Permits of calls, in the order in which the calls came. Their number may change while calls run.
pub(super) struct CallSlots {
    free: Semaphore,
    count: Mutex<usize>,
    /// So many permits end when calls give them back, since the limit was lowered.
    surplus: AtomicUsize,
}

impl Default for CallSlots {
    fn default() -> Self {
        Self { free: Semaphore::new(0), count: Mutex::default(), surplus: AtomicUsize::new(0) }
    }
}

impl CallSlots {
    fn resize(&self, count: usize) {
        let mut now = self.count.lock();
        if let Some(fewer) = now.checked_sub(count) {
            self.surplus.fetch_add(fewer, Ordering::Relaxed);
            let gone = self.free.forget_permits(fewer);
            self.free.add_permits(gone - self.settle(gone));
        } else {
            let more = count - *now;
            self.free.add_permits(more - self.settle(more));
        }
        *now = count;
    }

    /// Takes up to so many permits off the surplus; returns how many.
    fn settle(&self, permits: usize) -> usize {
        let less = |surplus: usize| Some(surplus.saturating_sub(permits));
        let before = self.surplus.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.unwrap_or_else(|same| same).min(permits)
    }
}

impl PermitSource for CallSlots {
    fn take_back(&self) {
        if self.surplus.load(Ordering::Relaxed) == 0 || self.settle(1) == 0 {
            self.free.add_permits(1);
        }
    }
}

impl Calls {
    /// Sets the number of slots, where there is a limit.
    pub(super) fn new(
        limits: &Limits,
        slots: &Arc<CallSlots>,
        counters: &Arc<Counters>,
    ) -> Option<Self> {
        let calls_max = limits.calls_max?;
        slots.resize(calls_max);
        Some(Self {
            slots: Arc::clone(slots),
            calls_max,
            queue_timeout: limits.queue_timeout,
            counters: Arc::clone(counters),
        })
    }

    async fn place(&self, head: &mut Head) -> Result<()> {
        head.context.phase(Phase::Queued);
        let _waiting = self.counters.waiting();
        let place = self.slots.free.acquire();
        if let Ok(Ok(place)) = tokio::time::timeout(self.queue_timeout, place).await {
            place.forget();
            head.owe(Arc::clone(&self.slots) as Arc<dyn PermitSource>);
            return Ok(());
        }
        Err(self.refusal())
    }

    fn refusal(&self) -> Error {
        self.counters.reach(Bound::Calls);
        let text = format!(
            "limits.calls_max = {} calls run, and none ended within limits.queue_timeout = {:?}",
            self.calls_max, self.queue_timeout
        );
        later(StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(1), text)
    }
}

impl Gate for Calls {
    fn admit(&self, head: &mut Head) -> Admission {
        if is_health(head) {
            return Admission::Ready(Ok(()));
        }
        match self.slots.free.try_acquire() {
            Ok(place) => {
                place.forget();
                head.owe(Arc::clone(&self.slots) as Arc<dyn PermitSource>);
                Admission::Ready(Ok(()))
            }
            Err(_) if self.queue_timeout.is_zero() => Admission::Ready(Err(self.refusal())),
            Err(_) => Admission::Waits,
        }
    }

    /// An answer from memory takes no place that anybody could wait for.
    fn admits_again(&self, head: &Head) -> bool {
        is_health(head) || self.slots.free.available_permits() > 0
    }

    fn wait<'a>(&'a self, head: &'a mut Head) -> GateFuture<'a> {
        Box::pin(self.place(head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_run_count_when_the_limit_changes() {
        let slots = CallSlots::default();
        let take = || slots.free.try_acquire().map(tokio::sync::SemaphorePermit::forget).is_ok();
        slots.resize(3);
        assert!(take() && take() && take() && !take());
        slots.resize(1);
        slots.take_back();
        assert!(!take(), "two run, and one may");
        slots.take_back();
        assert!(!take(), "one runs");
        slots.resize(2);
        assert!(take() && !take());
        slots.resize(0);
        slots.resize(2);
        assert!(!take(), "two run as before");
        slots.take_back();
        assert!(take() && !take());
    }
}
