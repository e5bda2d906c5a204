//! The shape of offered load: when each request of an open model is meant to start.
//!
//! A schedule is a row of segments whose rate runs linearly from one value to another. Arrival
//! number `i` is due where the area under the rate reaches `i`, so a constant rate, a ramp and
//! steps are one formula, no rounding accumulates, and a Poisson process is the same walk with
//! exponential instead of unit increments.
//!
//! ```text
//! rate │      ╱▔▔▔▔│      arrivals are spaced so that each
//!      │   ╱       │▁▁▁▁  covers the same area (1 request)
//!      └──────────────── t
//! ```

use crate::run_clock::{Nanos, SECOND};

/// A stretch of time over which the rate is linear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Requests per second at its start.
    pub from: f64,
    /// Requests per second at its end.
    pub to: f64,
    /// Its length in seconds.
    pub seconds: f64,
}

impl Segment {
    fn mass(&self) -> f64 {
        (self.from + self.to) * 0.5 * self.seconds
    }

    /// The time within the segment at which `mass` requests have been due.
    fn time_of(&self, mass: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        if slope.abs() < f64::EPSILON {
            return mass / self.from;
        }
        // slope/2·t² + from·t = mass, in the form that stays exact for small slopes.
        let root = (self.from * self.from + 2.0 * slope * mass).max(0.0).sqrt();
        2.0 * mass / (self.from + root)
    }
}

/// How far apart arrivals are within the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalSpacing {
    /// Every arrival the same area apart.
    Uniform,
    /// A Poisson process with this seed.
    Poisson(u64),
}

/// The arrivals of an open model, earliest first.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    segments: Vec<Segment>,
    at: usize,
    segment_start: f64,
    mass: f64,
    random: Option<fastrand::Rng>,
    next: Option<Nanos>,
}

impl Schedule {
    pub(crate) fn new(segments: Vec<Segment>, spacing: ArrivalSpacing) -> Self {
        let random = match spacing {
            ArrivalSpacing::Uniform => None,
            ArrivalSpacing::Poisson(seed) => Some(fastrand::Rng::with_seed(seed)),
        };
        let mut schedule =
            Self { segments, at: 0, segment_start: 0.0, mass: 0.0, random, next: None };
        if schedule.random.is_some() {
            schedule.advance();
        } else {
            schedule.next = schedule.locate();
        }
        schedule
    }

    #[cfg(test)]
    pub(crate) fn constant(rate: f64, seconds: f64) -> Self {
        Self::new(vec![Segment { from: rate, to: rate, seconds }], ArrivalSpacing::Uniform)
    }

    /// When the next arrival is due; `None` after the last.
    pub(crate) fn peek(&self) -> Option<Nanos> {
        self.next
    }

    /// Moves on to the arrival after the one [`peek`](Self::peek) shows.
    pub(crate) fn advance(&mut self) {
        self.mass += match &mut self.random {
            None => 1.0,
            Some(random) => -(1.0 - random.f64()).ln(),
        };
        self.next = self.locate();
    }

    fn locate(&mut self) -> Option<Nanos> {
        while let Some(segment) = self.segments.get(self.at) {
            let mass = segment.mass();
            // An arrival exactly on a border belongs to the segment that starts there.
            if self.mass < mass * (1.0 - 1e-12) {
                let at = self.segment_start + segment.time_of(self.mass);
                return Some((at * SECOND as f64).round() as Nanos);
            }
            self.mass = (self.mass - mass).max(0.0);
            self.segment_start += segment.seconds;
            self.at += 1;
        }
        None
    }
}

impl Iterator for Schedule {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let due = self.peek()?;
        self.advance();
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_evenly_spaced_and_counts_exactly() {
        let arrivals: Vec<_> = Schedule::constant(2000.0, 21.0).collect();
        assert_eq!(arrivals.len(), 42_000);
        assert_eq!(arrivals[1], 500_000);
        assert_eq!(arrivals[41_999], 20_999_500_000);
    }

    #[test]
    fn a_ramp_reaches_its_middle_rate_in_the_middle() {
        let ramp = Segment { from: 0.0, to: 200.0, seconds: 10.0 };
        let arrivals: Vec<_> = Schedule::new(vec![ramp], ArrivalSpacing::Uniform).collect();
        assert_eq!(arrivals.len(), 1000);
        let first_half = arrivals.iter().filter(|due| **due < 5 * SECOND).count();
        assert_eq!(first_half, 250);
    }

    #[test]
    fn steps_follow_each_other_without_a_gap() {
        let steps = [10.0, 20.0].map(|rate| Segment { from: rate, to: rate, seconds: 2.0 });
        let arrivals: Vec<_> = Schedule::new(steps.to_vec(), ArrivalSpacing::Uniform).collect();
        assert_eq!(arrivals.len(), 60);
        assert_eq!(arrivals[20], 2 * SECOND);
        assert_eq!(arrivals[21] - arrivals[20], SECOND / 20);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_a_poisson_process() {
        let segment = Segment { from: 1000.0, to: 1000.0, seconds: 100.0 };
        let arrivals: Vec<_> = Schedule::new(vec![segment], ArrivalSpacing::Poisson(7)).collect();
        let gaps: Vec<f64> =
            arrivals.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "mean gap {mean} ms");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "coefficient {variance}");
    }
}
