//! When each write was acknowledged, and when it was stale on the other host.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// By row, in nanoseconds since the start; 0 is not yet.
pub(crate) struct Times {
    start: Instant,
    acknowledged: Vec<AtomicU64>,
    marked: Vec<AtomicU64>,
}

/// What a round showed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Round {
    pub(crate) writes_per_second: f64,
    /// Milliseconds; 0 where a write was stale elsewhere before its writer heard of the commit.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Acknowledged, and not stale elsewhere a second later.
    pub(crate) lost: usize,
    pub(crate) writes: usize,
}

impl Times {
    pub(crate) fn new(rows: usize) -> Self {
        let zeros = || (0..rows).map(|_| AtomicU64::new(0)).collect();
        Self { start: Instant::now(), acknowledged: zeros(), marked: zeros() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap().max(1)
    }

    pub(crate) fn acknowledge(&self, row: usize) {
        self.acknowledged[row].store(self.now(), SeqCst);
    }

    /// The first mark counts.
    pub(crate) fn mark(&self, row: usize) {
        let _ = self.marked[row].compare_exchange(0, self.now(), SeqCst, SeqCst);
    }

    pub(crate) fn mark_all(&self) {
        (0..self.marked.len()).for_each(|row| self.mark(row));
    }

    fn pending(&self) -> usize {
        let rows = self.acknowledged.iter().zip(&self.marked);
        rows.filter(|(at, mark)| at.load(SeqCst) > 0 && mark.load(SeqCst) == 0).count()
    }

    /// Waits until all is marked, for a second at most, and sums up.
    pub(crate) async fn round(&self, length: Duration, is_heard: bool) -> Round {
        let patience = Instant::now() + Duration::from_secs(1);
        while is_heard && self.pending() > 0 && Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let writes = self.acknowledged.iter().filter(|at| at.load(SeqCst) > 0).count();
        let mut delays: Vec<u64> = self
            .acknowledged
            .iter()
            .zip(&self.marked)
            .map(|(at, mark)| (at.load(SeqCst), mark.load(SeqCst)))
            .filter(|(at, mark)| *at > 0 && *mark > 0)
            .map(|(at, mark)| mark.saturating_sub(at))
            .collect();
        delays.sort_unstable();
        let at = |percent: usize| match delays.len() {
            0 => f64::NAN,
            count => delays[(count - 1) * percent / 100] as f64 / 1e6,
        };
        Round {
            writes_per_second: writes as f64 / length.as_secs_f64(),
            p50: at(50),
            p99: at(99),
            lost: if is_heard { self.pending() } else { 0 },
            writes,
        }
    }
}

/// The median of rounds, the least and the most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Self { median, least: values[0], most: *values.last().unwrap() }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { median, least, most } = self;
        let digits = match median.abs() {
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            _ => 2,
        };
        write!(f, "{median:.digits$} ({least:.digits$}–{most:.digits$})")
    }
}
