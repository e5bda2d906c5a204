//! One row per second of a run: what was offered, answered and refused, and how fast.

use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, Sparse};

/// One second of the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Second {
    /// Seconds from the start of the measured part to the start of this row.
    pub at: u64,
    /// Requests that were due (open model) or started (closed model).
    pub offered: u64,
    /// Requests answered well.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Arrivals dropped at the in-flight cap.
    pub dropped: u64,
    /// Bytes received.
    pub bytes: u64,
    /// The most requests under way or waiting at once.
    pub in_flight_max: u64,
    /// Connections in use at its end.
    pub connections: u64,
    /// Corrected latency in seconds: median.
    pub p50: f64,
    /// Corrected latency in seconds: 99th percentile.
    pub p99: f64,
    /// Corrected latency in seconds: largest.
    pub max: f64,
    /// Corrected latencies of the answers of this second, coarsened to about 1 %.
    pub histogram: Sparse,
}

/// The row being filled.
#[derive(Debug)]
pub(crate) struct Current {
    pub offered: u64,
    pub ok: u64,
    pub failed: u64,
    pub dropped: u64,
    pub bytes: u64,
    pub in_flight_max: usize,
    pub connections: usize,
    pub raw: Histogram,
    pub corrected: Option<Histogram>,
}

impl Current {
    pub(crate) fn new(corrected: Option<Histogram>) -> Self {
        Self {
            offered: 0,
            ok: 0,
            failed: 0,
            dropped: 0,
            bytes: 0,
            in_flight_max: 0,
            connections: 0,
            raw: Histogram::new(),
            corrected,
        }
    }

    /// The finished row; the counters start again from zero.
    pub(crate) fn take(&mut self, at: u64) -> Second {
        let latency = self.corrected.as_ref().unwrap_or(&self.raw);
        let row = Second {
            at,
            offered: self.offered,
            ok: self.ok,
            failed: self.failed,
            dropped: self.dropped,
            bytes: self.bytes,
            in_flight_max: self.in_flight_max as u64,
            connections: self.connections as u64,
            p50: latency.quantile(0.50),
            p99: latency.quantile(0.99),
            max: latency.quantile(1.0),
            histogram: latency.coarse(),
        };
        self.raw.clear();
        if let Some(corrected) = &mut self.corrected {
            corrected.clear();
        }
        (self.offered, self.ok, self.failed, self.dropped, self.bytes) = (0, 0, 0, 0, 0);
        self.in_flight_max = 0;
        row
    }
}

/// Adds the rows of another worker, second by second.
pub(crate) fn merge(rows: &mut Vec<Second>, others: Vec<Second>) {
    for other in others {
        match rows.iter_mut().find(|row| row.at == other.at) {
            Some(row) => add(row, other),
            None => rows.push(other),
        }
    }
    rows.sort_by_key(|row| row.at);
}

fn add(row: &mut Second, other: Second) {
    row.offered += other.offered;
    row.ok += other.ok;
    row.failed += other.failed;
    row.dropped += other.dropped;
    row.bytes += other.bytes;
    row.in_flight_max += other.in_flight_max;
    row.connections += other.connections;
    let mut buckets = std::collections::BTreeMap::new();
    for (value, count) in row.histogram.0.drain(..).chain(other.histogram.0) {
        *buckets.entry(value).or_insert(0) += count;
    }
    row.histogram = Sparse(buckets.into_iter().collect());
    row.p50 = row.histogram.quantile(0.50);
    row.p99 = row.histogram.quantile(0.99);
    row.max = row.max.max(other.max);
}
