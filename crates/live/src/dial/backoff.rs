//! How long to wait before a lost connection is dialed again.
//!
//! The wait is a random part of a time that doubles from 0.5 s to 30 s, so that the clients of a
//! server that comes back do not all arrive at the same moment. It begins anew with each session
//! that was connected.

use std::time::Duration;

const MIN: Duration = Duration::from_millis(500);
const MAX: Duration = Duration::from_secs(30);

/// The waits between attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    upper: Duration,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { upper: MIN }
    }

    /// A connection was there: the next attempt is soon.
    pub(crate) fn reset(&mut self) {
        self.upper = MIN;
    }

    /// The wait before the next attempt: `after`, which a peer asked for, and a random part.
    pub(crate) fn next_wait(&mut self, after: Duration) -> Duration {
        let wait = after + self.upper.mul_f64(fastrand::f64());
        self.upper = (self.upper * 2).min(MAX);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_a_random_part_of_a_time_that_doubles_to_30_seconds() {
        let mut backoff = Backoff::new();
        for upper in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            assert_eq!(backoff.upper, Duration::from_millis(upper));
            assert!(backoff.next_wait(Duration::ZERO) <= Duration::from_millis(upper));
        }
        let asked_for = Duration::from_secs(7);
        assert!(backoff.next_wait(asked_for) >= asked_for);
        backoff.reset();
        assert_eq!(backoff.upper, MIN);
    }
}
