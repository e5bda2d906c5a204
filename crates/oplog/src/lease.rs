//! For how long a host that hears nothing from the log may trust what it has in memory.
//!
//! What was acknowledged before a poll began is in what the poll shows. So a host whose last poll
//! began at `t` knows every change up to `t`, and may answer from memory until `t + length`:
//! nothing that it says is older than `length`. The clock runs on while the machine is suspended.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// The trust of a host in its memory.
#[derive(Debug)]
pub struct Lease {
    length: Duration,
    /// Nanoseconds of the clock; 0 before the first poll.
    until: AtomicU64,
}

/// A moment on the clock of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Now.
    pub(crate) fn now() -> Self {
        let now = rustix::time::clock_gettime(CLOCK);
        let seconds = now.tv_sec.cast_unsigned();
        let nanoseconds = now.tv_nsec.cast_unsigned();
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Lease {
    pub(crate) fn new(length: Duration) -> Self {
        Self { length, until: AtomicU64::new(0) }
    }

    /// A poll that began then has been applied.
    pub(crate) fn renew(&self, begun: Moment) {
        let length = u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX);
        self.until.fetch_max(begun.0.saturating_add(length), SeqCst);
    }

    /// Nothing is trusted from now on.
    pub(crate) fn end(&self) {
        self.until.store(0, SeqCst);
    }

    /// Whether memory may be trusted now. Reads one clock.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// For how long it may be trusted, unless the log is polled meanwhile.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        Moment(self.until.load(SeqCst)).since(Moment::now())
    }

    /// The setting `oplog.lease`.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }
}

/// Where there is one, the clock that counts the time of suspension too.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_runs_from_the_begin_of_the_last_poll() {
        let lease = Lease::new(Duration::from_hours(1));
        assert!(!lease.is_valid());
        let now = Moment::now();
        lease.renew(now);
        assert!(lease.is_valid());
        assert!(lease.remaining() <= Duration::from_hours(1));
        // A poll that began earlier and ended later shortens nothing.
        lease.renew(Moment(1));
        assert!(lease.is_valid());
    }

    #[test]
    fn a_lease_that_has_ended_is_not_valid() {
        let lease = Lease::new(Duration::ZERO);
        lease.renew(Moment::now());
        assert!(!lease.is_valid());
    }
}
