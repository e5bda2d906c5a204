//! How far the filling of a database is.

use std::time::Duration;

/// How far a fill is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Rows that are there.
    pub done: u32,
    /// Rows that will be there.
    pub rows: u32,
    /// Rows added since the start.
    pub added: u32,
    /// Time since the start.
    pub elapsed: Duration,
}

impl Progress {
    /// How much of it is done, in percent, rounded down.
    pub fn percent(&self) -> u32 {
        let percent = u64::from(self.done) * 100 / u64::from(self.rows.max(1));
        u32::try_from(percent).unwrap_or(100)
    }

    /// How fast it goes.
    pub fn rows_per_second(&self) -> f64 {
        f64::from(self.added) / self.elapsed.as_secs_f64().max(1e-9)
    }
}
