//! When a failed call is made again: a table, a budget, and a wait.
//!
//! | the call | is made again |
//! |---|---|
//! | surely not seen by a server (refused, `GOAWAY`, `REFUSED_STREAM`) | at once, on another address; any call |
//! | a safe verb of plain HTTP without a body, whose kept connection was closed before its answer | at once, on another connection, up to three times |
//! | `unavailable`, of a query or an `IDEMPOTENT` method, or a safe verb of plain HTTP | after a wait, within the budget |
//! | anything else | never |
//!
//! A streamed request is never made again, nor a call whose reply has begun. The wait is drawn
//! evenly from zero up to a bound that doubles ("full jitter"), so that the calls that failed
//! together do not come back together. The budget is a bucket of tokens that all calls of a client
//! share: a retry takes one, a success gives a tenth back. So a server that is down for good gets
//! at most a tenth more calls, however many there are.
//!
//! A server may say how long to wait: then that long, whatever the bound, and further waits begin
//! anew (`grpc-retry-pushback-ms`, gRPC proposal A6). What it says is negative or no number where
//! the call is not to be made again; nor is it where the wait would be over `pushback_max`, since
//! nobody can tell a call that waits from one that is lost.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tidewire_service::{Code, Error, Idempotency, Method};

/// How failed calls are made again.
///
/// ```
/// # mod tidewire {
/// #     pub mod client { pub use tidewire_client::*; }
/// #     pub use tidewire_client::Client;
/// #     pub use tidewire_service::*;
/// # }
/// use std::time::Duration;
/// use tidewire::Client;
/// use tidewire::client::Retry;
///
/// let mut retry = Retry::default();
/// retry.attempts_max = 5;
/// retry.backoff_max = Duration::from_secs(2);
/// let client = Client::builder("http://10.0.0.7:8080").retry(retry).build()?;
/// # Ok::<(), tidewire::client::BuildError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// How often a call is made at most; 1 is never again.
    pub attempts_max: u32,
    /// The bound of the first wait; each further one doubles it.
    pub backoff: Duration,
    /// What the bound of a wait grows to.
    pub backoff_max: Duration,
    /// The longest wait that a server may ask for.
    pub pushback_max: Duration,
    /// How many retries may come without successes between them.
    pub budget: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts_max: 3,
            backoff: Duration::from_millis(50),
            backoff_max: Duration::from_secs(1),
            pushback_max: Duration::from_secs(60),
            budget: 10,
        }
    }
}

impl Retry {
    /// No call is made again, but those that no server has seen, and safe ones of plain HTTP whose
    /// kept connection was closed.
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

    /// How long to wait before a call that failed anew is made again; `None` if it is not.
    pub(crate) fn again(&self, error: &Error, failures: &mut Failures) -> Option<Duration> {
        failures.all += 1;
        failures.since_pushback += 1;
        if error.code() != Code::Unavailable || failures.all >= self.policy.attempts_max {
            return None;
        }
        // A trailer, or a header where there are no trailers.
        let pushback = error.trailers().get(PUSHBACK).or_else(|| error.headers().get(PUSHBACK));
        let wait = match pushback {
            Some(pushback) => {
                failures.since_pushback = 0;
                pushed_back(pushback).filter(|wait| *wait <= self.policy.pushback_max)?
            }
            None => self.policy.wait(failures.since_pushback),
        };
        let taken = self.tenths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left >= TENTHS).then_some(left - TENTHS)
        });
        taken.ok().map(|_| wait)
    }
}

const TENTHS: i64 = 10;

/// How often one call failed.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    all: u32,
    since_pushback: u32,
}

const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

fn pushed_back(value: &HeaderValue) -> Option<Duration> {
    let millis: i32 = value.to_str().ok()?.trim().parse().ok()?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}

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
        let again = || retries.again(&Error::unavailable("down"), &mut Failures::default());
        let allowed = (0..100).filter(|_| again().is_some()).count();
        assert_eq!(allowed, 2);
        (0..10).for_each(|_| retries.succeeded());
        assert!(again().is_some(), "ten successes pay for a retry");
        assert!(again().is_none());
    }

    #[test]
    fn only_unavailable_is_tried_again_and_not_for_ever() {
        let retries = Retries::new(Retry::default());
        let bug = Error::internal("bug");
        assert!(retries.again(&bug, &mut Failures::default()).is_none());
        let (down, mut failures) = (Error::unavailable("down"), Failures::default());
        assert!(retries.again(&down, &mut failures).is_some());
        assert!(retries.again(&down, &mut failures).is_some());
        assert!(retries.again(&down, &mut failures).is_none());
    }

    #[test]
    fn a_wait_that_the_server_names_is_waited_and_further_ones_begin_anew() {
        let policy =
            Retry { attempts_max: 9, backoff: Duration::from_millis(1), ..Retry::default() };
        let retries = Retries::new(policy);
        let down = Error::unavailable("down");
        let pushing = |value: &'static str| {
            let mut error = Error::unavailable("down");
            error.trailers_mut().insert(PUSHBACK, HeaderValue::from_static(value));
            error
        };
        let mut failures = Failures::default();
        (0..5).for_each(|_| assert!(retries.again(&down, &mut failures).is_some()));
        let wait = retries.again(&pushing("5000"), &mut failures);
        assert_eq!(wait, Some(Duration::from_secs(5)), "over backoff_max");
        let wait = retries.again(&down, &mut failures).unwrap();
        assert!(wait <= Duration::from_millis(1), "{wait:?}");
        for value in ["-1", "soon", "", "60001", "2147483647", "3000000000"] {
            let failures = &mut Failures::default();
            assert_eq!(retries.again(&pushing(value), failures), None, "{value:?}");
        }
        let wait = retries.again(&pushing("0"), &mut Failures::default());
        assert_eq!(wait, Some(Duration::ZERO));
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
