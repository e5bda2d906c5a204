//! A histogram of latencies that many tasks write to: 64 steps to each power of two, so 1.6 % wide
//! at most.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const STEPS_BITS: u32 = 6;

pub struct Latencies {
    counts: Vec<AtomicU64>,
    nanos: AtomicU64,
}

impl Latencies {
    pub fn new() -> Self {
        let places = (64 - STEPS_BITS as usize + 1) << STEPS_BITS;
        Self { counts: (0..places).map(|_| AtomicU64::new(0)).collect(), nanos: AtomicU64::new(0) }
    }

    pub fn record(&self, latency: Duration) {
        let nanos = latency.as_nanos() as u64;
        self.counts[place(nanos)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Seconds: the mean, and what a share of them was not above; nothing if there are none.
    pub fn summary(&self) -> serde_json::Value {
        let counts: Vec<u64> = self.counts.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return serde_json::Value::Null;
        }
        let quantile = |share: f64| {
            let rank = (share * total as f64).ceil() as u64;
            let mut seen = 0;
            let at = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            at.map_or(0.0, |at| most(at) as f64 / 1e9)
        };
        let mean = self.nanos.load(Ordering::Relaxed) as f64 / total as f64 / 1e9;
        serde_json::json!({
            "mean": mean, "p50": quantile(0.5), "p90": quantile(0.9), "p95": quantile(0.95), "p99": quantile(0.99),
        })
    }
}

fn place(nanos: u64) -> usize {
    let power = 63_u32.saturating_sub(nanos.leading_zeros()).max(STEPS_BITS) - STEPS_BITS;
    ((power as usize) << STEPS_BITS) + (nanos >> power) as usize
}

/// The most that has this place.
fn most(place: usize) -> u64 {
    let steps = 1_usize << STEPS_BITS;
    let power = (place >> STEPS_BITS).saturating_sub(1);
    let step = place - (power << STEPS_BITS);
    debug_assert!(step < 2 * steps);
    ((step as u64 + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_what_is_in_it_and_no_more_than_a_64th_beside() {
        for nanos in (0..200_000).chain([1 << 40, (1 << 40) + 12345, u64::MAX >> 1]) {
            let most = most(place(nanos));
            assert!(most >= nanos && most - nanos <= nanos / 64, "{nanos}: {most}");
        }
    }
}
