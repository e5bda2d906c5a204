//! Stalls: stretches in which requests were waiting and the target answered none of them.
//!
//! In a closed model a stall hides: the clients wait with it, so one slow request per connection
//! is all that reaches a percentile. The gap between two answers cannot hide. Gaps of 100 ms and
//! more are kept while running; which of them are stalls is decided at the end, when the ordinary
//! latency is known.

use serde::{Deserialize, Serialize};

use crate::run_clock::{Nanos, SECOND, seconds};

const GAP_MIN: Nanos = SECOND / 10;
const GAPS_MAX: usize = 10_000;
/// A gap is a stall from this many median latencies on.
const MEDIANS: f64 = 10.0;

/// A stretch without any answer although requests were waiting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Stall {
    /// Seconds from the start of the measured part to the start of the stall.
    pub at: f64,
    /// Its length in seconds.
    pub seconds: f64,
}

/// Collects gaps between answers.
#[derive(Debug, Clone, Default)]
pub struct Gaps {
    waiting_since: Option<Nanos>,
    found: Vec<(Nanos, Nanos)>,
}

impl Gaps {
    /// A request starts; `waiting` requests were under way before it.
    pub fn began(&mut self, now: Nanos) {
        if self.waiting_since.is_none() {
            self.waiting_since = Some(now);
        }
    }

    /// Something came back; `remaining` requests are still under way.
    pub fn on_reply(&mut self, now: Nanos, remaining: usize) {
        if let Some(since) = self.waiting_since
            && now.saturating_sub(since) >= GAP_MIN
            && self.found.len() < GAPS_MAX
        {
            self.found.push((since, now));
        }
        self.waiting_since = if remaining == 0 { None } else { Some(now) };
    }

    /// The time in which every worker saw a gap.
    pub fn intersect(&mut self, other: &Self) {
        let mut both = Vec::new();
        for mine in &self.found {
            for theirs in &other.found {
                let from = mine.0.max(theirs.0);
                let to = mine.1.min(theirs.1);
                if to.saturating_sub(from) >= GAP_MIN {
                    both.push((from, to));
                }
            }
        }
        self.found = both;
    }

    /// The gaps that are stalls, given the median latency in seconds, measured from `origin`.
    pub fn stalls(&self, median: f64, origin: Nanos) -> Vec<Stall> {
        let shortest = (median * MEDIANS).max(seconds(GAP_MIN));
        self.found
            .iter()
            .filter(|(from, to)| *from >= origin && seconds(to - from) >= shortest)
            .map(|(from, to)| Stall { at: seconds(from - origin), seconds: seconds(to - from) })
            .collect()
    }
}

impl Stall {
    /// Stalls as one phrase: `2 × 1.0 s`, or `3 × 0.5–1.2 s`.
    #[must_use]
    pub fn phrase(stalls: &[Self]) -> String {
        let shortest = stalls.iter().map(|stall| stall.seconds).fold(f64::INFINITY, f64::min);
        let longest = stalls.iter().map(|stall| stall.seconds).fold(0.0, f64::max);
        let low = format!("{shortest:.1}");
        let high = format!("{longest:.1}");
        if low == high {
            format!("{} × {high} s", stalls.len())
        } else {
            format!("{} × {low}–{high} s", stalls.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_only_while_something_waits() {
        let mut gaps = Gaps::default();
        gaps.began(0);
        gaps.on_reply(SECOND / 1000, 0);
        gaps.began(5 * SECOND);
        gaps.on_reply(6 * SECOND, 0);
        let stalls = gaps.stalls(0.001, 0);
        assert_eq!(stalls, [Stall { at: 5.0, seconds: 1.0 }]);
        assert_eq!(Stall::phrase(&stalls), "1 × 1.0 s");
    }

    #[test]
    fn a_target_that_is_always_slow_does_not_stall() {
        let mut gaps = Gaps::default();
        for second in 0..5 {
            gaps.began(second * SECOND);
            gaps.on_reply(second * SECOND + SECOND / 2, 0);
        }
        assert_eq!(gaps.stalls(0.5, 0), []);
    }

    #[test]
    fn a_stall_of_one_worker_alone_is_not_a_stall_of_the_target() {
        let gap = |from, to| Gaps { waiting_since: None, found: vec![(from, to)] };
        let mut first = gap(SECOND, 2 * SECOND);
        first.intersect(&gap(3 * SECOND, 4 * SECOND));
        assert_eq!(first.stalls(0.0, 0), []);
    }
}
