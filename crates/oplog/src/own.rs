//! Commits of this process: their rows need no second mark, once their guards have marked.
//!
//! When a commit is acknowledged the counters of changes are noted. A row of it whose key was
//! announced later than that was announced after its commit, by whomever, and is passed over. A key
//! that nobody announced, as one that a trigger of the application wrote, is marked as anybody's.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;

use crate::change::Change;
use crate::cursor::Position;
use crate::registry::{Registry, Ticks};

/// Commits that were acknowledged and whose rows may be still to come.
#[derive(Debug, Default)]
pub(crate) struct OwnCommits {
    transactions: HashMap<(Incarnation, u64), Ticks>,
    rows: VecDeque<(RangeInclusive<i64>, Ticks)>,
    /// Those that hold nothing but what was marked before.
    published: HashSet<(Incarnation, u64)>,
    published_rows: VecDeque<RangeInclusive<i64>>,
}

type Incarnation = [u8; 8];

impl OwnCommits {
    /// A transaction of PostgreSQL was acknowledged.
    pub(crate) fn add_transaction(&mut self, incarnation: Incarnation, xid: u64, now: Ticks) {
        if self.transactions.len() >= KEPT_MAX {
            // Then they are marked twice.
            self.transactions.clear();
        }
        self.transactions.insert((incarnation, xid), now);
    }

    /// Rows of a SQLite file were acknowledged.
    pub(crate) fn add_rows(&mut self, rows: RangeInclusive<i64>, now: Ticks) {
        if self.rows.len() >= KEPT_MAX {
            self.rows.clear();
        }
        self.rows.push_back((rows, now));
    }

    /// A transaction of PostgreSQL is about to be committed, all of whose rows were marked before.
    pub(crate) fn add_published(&mut self, incarnation: Incarnation, xid: u64) {
        if self.published.len() >= KEPT_MAX {
            self.published.clear();
        }
        self.published.insert((incarnation, xid));
    }

    /// The same, of rows of a SQLite file.
    pub(crate) fn add_published_rows(&mut self, rows: RangeInclusive<i64>) {
        if self.published_rows.len() >= KEPT_MAX {
            self.published_rows.clear();
        }
        self.published_rows.push_back(rows);
    }

    /// Whether a row of this transaction was marked before it was written.
    pub(crate) fn is_published(&self, incarnation: Incarnation, xid: u64) -> bool {
        self.published.contains(&(incarnation, xid))
    }

    /// The same, of a row of a SQLite file.
    pub(crate) fn is_published_row(&self, row: i64) -> bool {
        self.published_rows.iter().any(|rows| rows.contains(&row))
    }

    /// Takes away what was announced already, of a row of this transaction.
    pub(crate) fn strip(
        &self,
        registry: &Registry,
        change: &mut Change,
        incarnation: Incarnation,
        xid: u64,
    ) {
        if let Some(ticks) = self.transactions.get(&(incarnation, xid)) {
            registry.unannounced(change, ticks);
        }
    }

    /// The same, of this row of a SQLite file.
    pub(crate) fn strip_row(&self, registry: &Registry, change: &mut Change, row: i64) {
        if let Some((_, ticks)) = self.rows.iter().find(|(rows, _)| rows.contains(&row)) {
            registry.unannounced(change, ticks);
        }
    }

    /// Forgets what this position contains.
    pub(crate) fn forget(&mut self, position: &Position) {
        let incarnation = position.incarnation.short();
        self.transactions
            .retain(|(of, xid), _| *of == incarnation && !position.snapshot.contains(*xid));
        self.published.retain(|(of, xid)| *of == incarnation && !position.snapshot.contains(*xid));
    }

    /// Forgets rows up to this one.
    pub(crate) fn forget_rows(&mut self, last: i64) {
        while self.rows.front().is_some_and(|(rows, _)| *rows.end() <= last) {
            self.rows.pop_front();
        }
        while self.published_rows.front().is_some_and(|rows| *rows.end() <= last) {
            self.published_rows.pop_front();
        }
    }
}

/// More commits than a host can make between two polls.
const KEPT_MAX: usize = 10_000;
