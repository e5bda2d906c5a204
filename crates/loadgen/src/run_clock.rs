//! Time as the engine sees it: nanoseconds since the run began.
//!
//! Everything that decides or records takes a [`Nanos`] argument, so the same code runs under the
//! system's clock and under the virtual clock of a test. Only [`RunClock`] reads the time.

use std::time::{Duration, Instant};

/// Nanoseconds since the start of a run.
pub type Nanos = u64;

/// One second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;

/// The monotonic clock of one run, shared by its workers.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    origin: Instant,
}

impl RunClock {
    /// The clock of a run that begins now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Nanoseconds since the run began.
    pub fn now(&self) -> Nanos {
        nanos(self.origin.elapsed())
    }
}

/// A duration as [`Nanos`]; saturates after 584 years.
pub fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// [`Nanos`] as seconds.
pub fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}
