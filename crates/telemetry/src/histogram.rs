//! How long calls take, in buckets: 100 µs apart where calls are fast, and wider where they are
//! slow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper ends of the buckets in microseconds; what takes longer is in one more.
pub const BOUNDS: [u64; 28] = [
    100, 200, 300, 400, 500, 700, 1_000, 1_500, 2_000, 3_000, 4_000, 5_000, 7_000, 10_000, 15_000,
    20_000, 30_000, 50_000, 70_000, 100_000, 200_000, 300_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000, 30_000_000,
];

/// Durations that were counted.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    microseconds: AtomicU64,
}

/// What a histogram has, bucket by bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketCounts {
    /// How many took no longer than each of [`BOUNDS`], and then how many there are.
    pub(crate) cumulative: [u64; BOUNDS.len() + 1],
    pub(crate) microseconds: u64,
}

impl Histogram {
    pub(crate) fn count(&self, taken: Duration) {
        let taken = u64::try_from(taken.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < taken);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(taken, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> BucketCounts {
        let mut sum = 0;
        let cumulative = std::array::from_fn(|bucket| {
            sum += self.buckets[bucket].load(Ordering::Relaxed);
            sum
        });
        BucketCounts { cumulative, microseconds: self.microseconds.load(Ordering::Relaxed) }
    }
}

impl BucketCounts {
    pub(crate) fn all(&self) -> u64 {
        self.cumulative[BOUNDS.len()]
    }

    /// The upper end of the bucket in which this part of all, from 0 to 1, is reached; in
    /// microseconds.
    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.all() as f64 * part).ceil() as u64;
        let bucket = self.cumulative.partition_point(|count| *count < wanted);
        BOUNDS.get(bucket).copied().unwrap_or(BOUNDS[BOUNDS.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_that_differ_by_100_microseconds_are_told_apart_where_calls_are_fast() {
        let histogram = Histogram::default();
        for taken in [50, 100, 101, 250, 350, 450, 60_000_000] {
            histogram.count(Duration::from_micros(taken));
        }
        let counted = histogram.counted();
        assert_eq!(counted.cumulative[..6], [2, 3, 4, 5, 6, 6]);
        assert_eq!((counted.cumulative[BOUNDS.len() - 1], counted.all()), (6, 7));
        assert_eq!(counted.microseconds, 60_001_301);
        assert_eq!((counted.quantile(0.5), counted.quantile(0.1)), (300, 100));
    }
}
