//! When a failed call is made again: a table, a budget, and a wait.
//!
//! | the call | is made again |
//! |---|---|
//! | surely not seen by a server (refused, `GOAWAY`, `REFUSED_STREAM`) | at once, on another address; any call |
//! | `unavailable`, of a query or an `IDEMPOTENT` method, or a safe verb of plain HTTP | after a wait, within the budget |
//! | anything else | never |
//!
//! A streamed request is never made again, nor a call whose reply has begun. The wait is drawn evenly
//! from zero up to a bound that doubles ("full jitter"), so that the calls that failed together do
//! not come back together. The budget is a bucket of tokens that all calls of a client share: a retry
//! takes one, a success gives a tenth back. So a server that is down for good gets at most a tenth
//! more calls, however many there are.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidewire_service::{Code, Error, Idempotency, Method};

/// How failed calls are made again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// How often a call is made at most; 1 is never again.
    pub attempts_max: u32,
    /// The bound of the first wait; each further one doubles it.
    pub backoff: Duration,
    /// What the bound of a wait grows to.
    pub backoff_max: Duration,
    /// How many retries may come without successes between them.
    pub budget: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts_max: 3,
            backoff: Duration::from_millis(50),
            backoff_max: Duration::from_secs(1),
            budget: 10,
        }
    }
}

impl Retry {
    /// No call is made again, but those that no server has seen.
    pub fn none() -> Self {
        Self { attempts_max: 1, ..Self::default() }
    }

    /// How long to wait before the attempt after `failed` ones.
    fn wait(&self, failed: u32) -> Duration {
        let bound = self.backoff.saturating_mul(2_u32.saturating_pow(failed.saturating_sub(1)));
        let bound = bound.min(self.backoff_max);
        let random = RandomState::new().hash_one(failed);
        let share = u32::try_from(random >> 32).unwrap_or(u32::MAX);
        bound.mul_f64(f64::from(share) / f64::from(u32::MAX))
    }
}

/// The policy of a client, and what is left of its budget.
pub(crate) struct Retries {
    policy: Retry,
    tenths: AtomicI64,
}

impl Retries {
    pub(crate) fn new(policy: Retry) -> Self {
        let tenths = AtomicI64::new(i64::from(policy.budget) * TENTHS);
        Self { policy, tenths }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.policy.attempts_max > 1
    }

    /// A call came to a good end.
    pub(crate) fn succeeded(&self) {
        if self.tenths.load(Ordering::Relaxed) < i64::from(self.policy.budget) * TENTHS {
            self.tenths.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How long to wait before a call is made again; `None` if it is not.
    pub(crate) fn again(&self, error: &Error, failed: u32) -> Option<Duration> {
        if error.code() != Code::Unavailable || failed >= self.policy.attempts_max {
            return None;
        }
        let taken = self.tenths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left >= TENTHS).then_some(left - TENTHS)
        });
        taken.ok().map(|_| self.policy.wait(failed))
    }
}

const TENTHS: i64 = 10;

/// Whether a method promises that a repeated call does no more than one.
pub(crate) fn is_repeatable(method: &Method) -> bool {
    matches!(method.idempotency, Idempotency::NoSideEffects | Idempotency::Idempotent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_down_gets_no_more_than_the_budget() {
        let retries = Retries::new(Retry { budget: 2, ..Retry::default() });
        let down = Error::unavailable("down");
        let allowed = (0..100).filter(|_| retries.again(&down, 1).is_some()).count();
        assert_eq!(allowed, 2);
        (0..10).for_each(|_| retries.succeeded());
        assert!(retries.again(&down, 1).is_some(), "ten successes pay for a retry");
        assert!(retries.again(&down, 1).is_none());
    }

    #[test]
    fn only_unavailable_is_tried_again_and_not_for_ever() {
        let retries = Retries::new(Retry::default());
        assert!(retries.again(&Error::internal("bug"), 1).is_none());
        assert!(retries.again(&Error::unavailable("down"), 2).is_some());
        assert!(retries.again(&Error::unavailable("down"), 3).is_none());
    }

    #[test]
    fn waits_are_spread_below_a_bound_that_doubles() {
        let retry = Retry::default();
        for (failed, bound) in [(1, 50), (2, 100), (3, 200), (10, 1000), (u32::MAX, 1000)] {
            let waits: Vec<_> = (0..50).map(|_| retry.wait(failed)).collect();
            assert!(waits.iter().all(|wait| *wait <= Duration::from_millis(bound)), "{waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
        }
    }
}
