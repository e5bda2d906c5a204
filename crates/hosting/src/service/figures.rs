//! What is counted of a service.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What is counted of a service.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// How often memory was short.
    pub(crate) out_of_memory: AtomicU64,
    pub(crate) crashes: AtomicU64,
    pub(crate) start_us: AtomicU64,
    pub(crate) queued: AtomicU64,
    pub(crate) queue_us: AtomicU64,
}

/// As counters have it.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
