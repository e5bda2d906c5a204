//! What a host says of its log: for `tidewire inspect`, the admin listener and metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cursor::ResetReason;

/// How a host stands to the log.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Status {
    /// Incarnation and snapshot; `None` before the first poll.
    pub position: Option<String>,
    /// Whether nothing is answered from memory: before the first poll, or when the lease has ended.
    pub is_suspended: bool,
    /// Why the log cannot be read.
    pub problem: Option<String>,
    /// How long ago the last poll began: no change that is older is missing here.
    pub lag: Option<Duration>,
    /// How long the last poll took.
    pub poll_time: Option<Duration>,
    /// For how long memory is trusted without another poll.
    pub lease_remaining: Duration,
    /// How many hosts read the log, as the database knows.
    pub hosts: Option<u64>,
    /// About how many rows the log has.
    pub rows: Option<u64>,
    /// The sources that the log may name.
    pub sources: Vec<SourceStatus>,
    /// What has happened since the start.
    pub counts: Counts,
}

/// A source, and what captures its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// The tables whose triggers name it; none where only this program's writes do.
    pub tables: Vec<String>,
    /// Why its changes are not captured; then it is suspended.
    pub problem: Option<String>,
}

/// What has happened since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Polls that were applied.
    pub polls: u64,
    /// Polls, or attempts to connect, that failed.
    pub failures: u64,
    /// Polls that showed changes.
    pub batches: u64,
    /// Keys that were marked.
    pub keys: u64,
    /// Sources that were marked as a whole.
    pub whole_sources: u64,
    /// Changes of sources that this program does not have.
    pub unknown_sources: u64,
    /// Keys that their source could not read.
    pub unreadable_keys: u64,
    /// Times that everything was marked, by reason.
    pub resets: BTreeMap<ResetReason, u64>,
    /// Times that the lease ended.
    pub lapses: u64,
    /// Requests that waited for another poll.
    pub barriers: u64,
}

impl Status {
    /// One line for the start: which sources are captured, and which are not.
    #[must_use]
    pub fn summary(&self) -> String {
        let is_fresh = |source: &&SourceStatus| source.problem.is_none();
        let (captured, own): (Vec<_>, Vec<_>) =
            self.sources.iter().filter(is_fresh).partition(|source| !source.tables.is_empty());
        let names = |sources: &[&SourceStatus]| {
            sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let mut line = match captured.is_empty() {
            true => "change log: no table is captured".to_owned(),
            false => format!("change log: fresh whoever writes: {}", names(&captured)),
        };
        if !own.is_empty() {
            line.push_str(&format!(
                "; fresh only where a program that uses the log says what it writes: {}",
                names(&own)
            ));
        }
        for source in self.sources.iter().filter(|source| source.problem.is_some()) {
            let problem = source.problem.as_deref().unwrap_or_default();
            line.push_str(&format!("; {} is not cached ({problem})", source.name));
        }
        line
    }
}
