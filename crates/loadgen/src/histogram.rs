//! Latency histograms: HDR buckets with three significant digits, from 100 ns to one hour.
//!
//! A value is off by at most 0.1 %, whatever its size, and recording costs one increment. The
//! per-second copies kept for the timeline are coarsened to two digits ([`Sparse`]), because a
//! long run keeps hundreds of them; the totals are not.

use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Serialize};

use crate::run_clock::{Nanos, SECOND, seconds};

const LOWEST: u64 = 100;
const HIGHEST: u64 = 3600 * SECOND;

/// A histogram of latencies.
#[derive(Debug, Clone)]
pub struct Histogram {
    hdr: Hdr<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Self {
        let hdr = Hdr::new_with_bounds(LOWEST, HIGHEST, 3).expect("the bounds are valid");
        Self { hdr }
    }

    /// Counts one latency.
    pub fn record(&mut self, latency: Nanos) {
        self.hdr.saturating_record(latency);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.hdr.add(&other.hdr).expect("both have the same bounds");
    }

    pub(crate) fn clear(&mut self) {
        self.hdr.clear();
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.hdr.len()
    }

    /// The latency in seconds below which `quantile` (0 to 1) of the values lie; 0 when empty.
    pub fn quantile(&self, quantile: f64) -> f64 {
        seconds(self.hdr.value_at_quantile(quantile).min(self.hdr.max()))
    }

    /// The buckets that hold anything, at full precision.
    pub fn sparse(&self) -> Sparse {
        Sparse(
            self.hdr
                .iter_recorded()
                .map(|at| (at.value_iterated_to(), at.count_at_value()))
                .collect(),
        )
    }

    /// The buckets coarsened to about 1 %.
    pub fn coarse(&self) -> Sparse {
        let mut buckets: Vec<(Nanos, u64)> = Vec::new();
        for at in self.hdr.iter_recorded() {
            let value = coarsen(at.value_iterated_to());
            match buckets.last_mut() {
                Some(last) if last.0 == value => last.1 += at.count_at_value(),
                _ => buckets.push((value, at.count_at_value())),
            }
        }
        Sparse(buckets)
    }

    /// The figures a reader wants first.
    pub fn summary(&self) -> Summary {
        Summary {
            count: self.count(),
            mean: self.hdr.mean() / SECOND as f64,
            min: if self.hdr.is_empty() { 0.0 } else { seconds(self.hdr.min()) },
            p50: self.quantile(0.50),
            p75: self.quantile(0.75),
            p90: self.quantile(0.90),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            p99_9: self.quantile(0.999),
            p99_99: self.quantile(0.9999),
            max: seconds(self.hdr.max()),
            histogram: self.sparse(),
        }
    }
}

/// Latency figures in seconds, with the histogram they come from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Summary {
    /// How many latencies were recorded.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// 99.99th percentile.
    pub p99_99: f64,
    /// Largest.
    pub max: f64,
    /// Every bucket that holds anything.
    pub histogram: Sparse,
}

/// A histogram as rising pairs of latency in nanoseconds and count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Sparse(pub Vec<(u64, u64)>);

impl Sparse {
    /// The latency in seconds below which `quantile` of the values lie; 0 when empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> f64 {
        let total: u64 = self.0.iter().map(|(_, count)| count).sum();
        let rank = ((quantile * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (value, count) in &self.0 {
            seen += count;
            if seen >= rank {
                return seconds(*value);
            }
        }
        0.0
    }
}

fn coarsen(value: Nanos) -> Nanos {
    let shift = (64 - value.leading_zeros()).saturating_sub(8);
    value >> shift << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_distribution_are_within_a_tenth_of_a_percent() {
        let mut histogram = Histogram::new();
        for step in 1..=100_000_u64 {
            histogram.record(step * 10_000);
        }
        for (quantile, truth) in [(0.5, 0.5), (0.9, 0.9), (0.99, 0.99), (0.999, 0.999)] {
            let measured = histogram.quantile(quantile);
            assert!((measured / truth - 1.0).abs() < 0.0011, "{quantile}: {measured} for {truth}");
        }
        let sparse = histogram.sparse();
        assert!((sparse.quantile(0.99) / 0.99 - 1.0).abs() < 0.0011);
    }

    #[test]
    fn a_coarse_copy_keeps_every_count_and_one_percent_of_precision() {
        let mut histogram = Histogram::new();
        for step in 1..=10_000_u64 {
            histogram.record(step * step * 100);
        }
        let coarse = histogram.coarse();
        assert_eq!(coarse.0.iter().map(|(_, count)| count).sum::<u64>(), 10_000);
        assert!((coarse.quantile(0.9) / histogram.quantile(0.9) - 1.0).abs() < 0.01);
        assert!(coarse.0.len() < histogram.sparse().0.len());
    }
}
