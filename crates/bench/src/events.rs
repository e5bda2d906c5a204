//! Progress for a program to read: a line of JSON a second.
//!
//! Counts are of the whole run so far, percentiles of the last whole second.

use std::io;

use serde::Serialize;

/// How far a run is.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Event {
    /// Seconds from the start of the measured part; 0 before that.
    pub(crate) at: f64,
    /// Answered well.
    pub(crate) ok: u64,
    /// Not answered well.
    pub(crate) failed: u64,
    /// Never sent because the in-flight cap was reached.
    pub(crate) dropped: u64,
    /// Seconds from the intended start to the answer: median.
    pub(crate) p50: f64,
    /// The same: 99th percentile.
    pub(crate) p99: f64,
}

impl Event {
    /// The line, without its end.
    pub(crate) fn line(&self) -> io::Result<String> {
        serde_json::to_string(self).map_err(io::Error::other)
    }
}
