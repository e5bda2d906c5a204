//! The clock of the runtime, for crates that are given the time.

use std::pin::Pin;
use std::time::Instant;

use tidewire_service::Clock;

/// Tells the time of tokio, which tests can pause.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}
