//! How many calls run at once, and how long another waits for a place: `limits.calls_max` and
//! `limits.queue_timeout`.
//!
//! A call that found no place in time is refused, since who waits behind it would wait for longer
//! still: under more load than a server can take, those that are answered are answered soon.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tidewire_service::{Admission, Error, Gate, GateFuture, Head, PermitSource, Phase, Result};
use tokio::sync::Semaphore;

use super::{is_health, later};
use crate::limits::Limits;
use crate::usage::{Bound, Counters};

pub(super) struct Calls {
    places: Arc<CallSlots>,
    calls_max: usize,
    queue_timeout: Duration,
    counters: Arc<Counters>,
}

/// Places for calls, which are in the order in which they came.
struct CallSlots(Semaphore);

impl PermitSource for CallSlots {
    fn take_back(&self) {
        self.0.add_permits(1);
    }
}

impl Calls {
    pub(super) fn new(limits: &Limits, counters: &Arc<Counters>) -> Option<Self> {
        limits.calls_max.map(|calls_max| Self {
            places: Arc::new(CallSlots(Semaphore::new(calls_max))),
            calls_max,
            queue_timeout: limits.queue_timeout,
            counters: Arc::clone(counters),
        })
    }

    async fn place(&self, head: &mut Head) -> Result<()> {
        head.context.phase(Phase::Queued);
        let _waiting = self.counters.waiting();
        let place = self.places.0.acquire();
        if let Ok(Ok(place)) = tokio::time::timeout(self.queue_timeout, place).await {
            place.forget();
            head.owe(Arc::clone(&self.places) as Arc<dyn PermitSource>);
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
        match self.places.0.try_acquire() {
            Ok(place) => {
                place.forget();
                head.owe(Arc::clone(&self.places) as Arc<dyn PermitSource>);
                Admission::Ready(Ok(()))
            }
            Err(_) if self.queue_timeout.is_zero() => Admission::Ready(Err(self.refusal())),
            Err(_) => Admission::Waits,
        }
    }

    fn wait<'a>(&'a self, head: &'a mut Head) -> GateFuture<'a> {
        Box::pin(self.place(head))
    }
}
