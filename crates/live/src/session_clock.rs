//! Time as a session counts it: microseconds since a moment of tokio's clock, which tests can
//! pause.

use std::time::{Duration, Instant as StdInstant};

use tidewire_live_proto::Micros;
use tokio::time::Instant;

/// Counts from when it was made; copies agree.
#[derive(Debug, Clone, Copy)]
pub struct SessionClock(Instant);

impl SessionClock {
    /// Counts from now on.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What it is now.
    pub fn now(self) -> Micros {
        self.micros(Instant::now().into_std())
    }

    /// A moment as a session counts it.
    pub(crate) fn micros(self, at: StdInstant) -> Micros {
        let passed = at.saturating_duration_since(self.0.into_std());
        Micros::try_from(passed.as_micros()).unwrap_or(Micros::MAX)
    }

    /// The moment that a session counts so; `None` for one beyond what the clock can tell.
    pub(crate) fn instant(self, at: Micros) -> Option<Instant> {
        self.0.checked_add(Duration::from_micros(at))
    }
}

/// A time as a session counts it.
pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}
