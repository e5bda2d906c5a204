//! How much may be recorded: so many a second, and after a quiet time so many at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A token bucket as one number: the time at which everything given so far is paid for.
#[derive(Debug)]
pub(super) struct Allowance {
    begun: Instant,
    /// In nanoseconds since `begun`.
    paid_at: AtomicU64,
    /// What one costs, in nanoseconds.
    price: u64,
    /// How far ahead it may be of what is paid, in nanoseconds.
    ahead_max: u64,
}

impl Allowance {
    pub(super) fn new(per_second: u32, at_once: usize) -> Self {
        let price = nanos(Duration::from_secs(1) / per_second.max(1));
        let ahead_max = price.saturating_mul(at_once as u64);
        Self { begun: Instant::now(), paid_at: AtomicU64::new(0), price, ahead_max }
    }

    /// Whether one more may be recorded now.
    pub(super) fn take(&self) -> bool {
        self.take_at(self.begun.elapsed())
    }

    fn take_at(&self, now: Duration) -> bool {
        let now = nanos(now);
        let next = |paid_at: u64| {
            let next = paid_at.max(now).saturating_add(self.price);
            (next - now <= self.ahead_max).then_some(next)
        };
        self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_so_many_a_second() {
        let allowance = Allowance::new(500, 1024);
        let taken = |at: Duration| (0..100_000).filter(|_| allowance.take_at(at)).count();
        assert_eq!(taken(Duration::ZERO), 1024);
        assert_eq!(taken(Duration::ZERO), 0);
        assert_eq!(taken(Duration::from_millis(100)), 50);
        assert_eq!(taken(Duration::from_millis(1100)), 500);
        assert_eq!(taken(Duration::from_secs(3600)), 1024, "no more is saved up");
    }
}
