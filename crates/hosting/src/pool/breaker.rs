//! How long a service rests after its process crashed, and when it is given up for a while.
//!
//! | what happened | rest |
//! |---|---|
//! | the first crash, or one after 60 s of health | evenly drawn from 0 to 100 ms |
//! | each further one | the bound doubles, up to 30 s |
//! | five within 60 s, or the program cannot be run at all | broken: calls are refused for 30 s |
//! | a start that fails after that | broken again |
//! | the end of a process in its one call, after others that it had | that of a first crash: the call is to blame, and is not counted |
//!
//! A broken service is tried again by the first call after its rest.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// The crashes of a service, and what follows of them.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    crashes: VecDeque<Instant>,
    /// Crashes without 60 s of health between them.
    in_a_row: u32,
    healthy_since: Option<Instant>,
    rests_until: Option<Instant>,
    is_broken: bool,
}

impl Breaker {
    /// A process can be called.
    pub(crate) fn started(&mut self, now: Instant) {
        self.healthy_since = Some(now);
        self.is_broken = false;
        self.rests_until = None;
    }

    /// A process crashed, or did not come so far.
    pub(crate) fn crashed(&mut self, now: Instant) {
        let healthy_since = self.healthy_since.take();
        if healthy_since.is_some_and(|since| now.duration_since(since) >= WINDOW) {
            *self = Self::default();
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.crashes.push_back(now);
        self.crashes.retain(|at| now.duration_since(*at) < WINDOW);
        let was_broken = self.rests_until.is_some() && self.is_broken;
        if was_broken || self.crashes.len() >= CRASHES_MAX {
            self.give_up(now);
        } else {
            self.rests_until = Some(now + drawn(bound(self.in_a_row)));
        }
    }

    /// A process that was in order crashed in the one call that it had.
    pub(crate) fn crashed_in_a_call(&mut self, now: Instant) {
        self.rests_until = Some(now + drawn(REST_MIN));
    }

    /// The program cannot be run: there is no sense in trying it soon.
    pub(crate) fn give_up(&mut self, now: Instant) {
        self.is_broken = true;
        self.rests_until = Some(now + REST_MAX);
    }

    /// Until when nothing is started.
    pub(crate) fn rests_until(&self, now: Instant) -> Option<Instant> {
        self.rests_until.filter(|until| *until > now)
    }

    /// Until when calls are refused.
    pub(crate) fn is_broken_until(&self, now: Instant) -> Option<Instant> {
        self.rests_until(now).filter(|_| self.is_broken)
    }
}

/// The longest rest after so many crashes in a row.
fn bound(in_a_row: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(in_a_row.saturating_sub(1));
    REST_MIN.saturating_mul(doubled).min(REST_MAX)
}

/// A duration up to `bound`, so that what crashed together is not started together.
fn drawn(bound: Duration) -> Duration {
    let random = RandomState::new().hash_one(());
    let share = u32::try_from(random >> 32).unwrap_or(u32::MAX);
    bound.mul_f64(f64::from(share) / f64::from(u32::MAX))
}

const REST_MIN: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(30);
const WINDOW: Duration = Duration::from_secs(60);
const CRASHES_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_doubles_up_to_half_a_minute() {
        let millis: Vec<_> = (1..=12).map(|crashes| bound(crashes).as_millis()).collect();
        assert_eq!(millis[..4], [100, 200, 400, 800]);
        assert_eq!(millis[8..], [25_600, 30_000, 30_000, 30_000]);
    }

    #[test]
    fn five_crashes_in_a_minute_break_it_and_one_more_after_the_rest_again() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for second in 0..4 {
            breaker.crashed(start + Duration::from_secs(second));
        }
        let now = start + Duration::from_secs(4);
        assert_eq!(breaker.is_broken_until(now), None);
        breaker.crashed(now);
        assert_eq!(breaker.is_broken_until(now), Some(now + REST_MAX));
        let now = now + Duration::from_secs(300);
        assert_eq!(breaker.is_broken_until(now), None, "it is tried again");
        breaker.crashed(now);
        assert_eq!(breaker.is_broken_until(now), Some(now + REST_MAX));
        breaker.started(now + REST_MAX);
        assert_eq!(breaker.rests_until(now + REST_MAX), None);
    }

    #[test]
    fn a_call_that_ends_processes_breaks_nothing() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..100 {
            breaker.started(now);
            breaker.crashed_in_a_call(now);
            assert_eq!(breaker.is_broken_until(now), None);
            assert!(breaker.rests_until(now).is_none_or(|until| until - now <= REST_MIN));
        }
    }

    #[test]
    fn a_minute_of_health_forgives() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 0..100 {
            breaker.started(now);
            now += WINDOW;
            breaker.crashed(now);
            let rest = breaker.rests_until(now).map_or(Duration::ZERO, |until| until - now);
            assert!(rest <= REST_MIN, "{rest:?}");
            now += REST_MIN;
        }
    }
}
