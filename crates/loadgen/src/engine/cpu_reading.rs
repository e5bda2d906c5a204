//! How much of its core a worker uses.

use rustix::time::{ClockId, clock_gettime};

use crate::run_clock::{Nanos, SECOND};

/// What the thread had used of its core at a moment.
#[derive(Clone, Copy)]
pub(super) struct CpuReading {
    pub(super) at: Nanos,
    pub(super) used: Nanos,
}

impl CpuReading {
    /// What this thread has used up to `now`.
    pub(super) fn take(now: Nanos) -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let used = time.tv_sec as u64 * SECOND + time.tv_nsec as u64;
        Self { at: now, used }
    }
}
