//! Which transactions of PostgreSQL a reader has seen: `pg_snapshot`, read from its text.
//!
//! A snapshot is `xmin:xmax:xip`. Every transaction below `xmin` has ended, every one from `xmax`
//! on had not begun, and those in `xip` were running. Ids are 64 bits wide and never wrap. A
//! transaction that has ended may have been rolled back; then it left no rows, so nobody asks about
//! it.

use std::fmt;
use std::str::FromStr;

/// A snapshot of PostgreSQL, `pg_current_snapshot()`.
///
/// ```
/// # mod tidewire { pub mod oplog { pub use tidewire_oplog::*; } }
/// use tidewire::oplog::Snapshot;
///
/// // As `pg_current_snapshot()` prints it: 12 was still running.
/// let snapshot: Snapshot = "10:20:12".parse()?;
/// assert!(snapshot.contains(11));
/// assert!(!snapshot.contains(12));
/// # Ok::<(), tidewire::oplog::SnapshotError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    xmin: u64,
    xmax: u64,
    /// Ascending.
    running: Vec<u64>,
}

impl Snapshot {
    /// Below this every transaction has ended.
    #[must_use]
    pub fn xmin(&self) -> u64 {
        self.xmin
    }

    /// From this on no transaction had begun.
    #[must_use]
    pub fn xmax(&self) -> u64 {
        self.xmax
    }

    /// The transactions between `xmin` and `xmax` that were running.
    #[must_use]
    pub fn running(&self) -> &[u64] {
        &self.running
    }

    /// Whether what the transaction committed is visible to this snapshot.
    #[must_use]
    pub fn contains(&self, xid: u64) -> bool {
        xid < self.xmin || (xid < self.xmax && self.running.binary_search(&xid).is_err())
    }
}

impl FromStr for Snapshot {
    type Err = SnapshotError;

    fn from_str(text: &str) -> Result<Self, SnapshotError> {
        let error = || SnapshotError(text.chars().take(TEXT_SHOWN).collect());
        let mut parts = text.split(':');
        let mut number = || parts.next().and_then(parse_xid).ok_or_else(error);
        let xmin = number()?;
        let xmax = number()?;
        let list = parts.next().ok_or_else(error)?;
        let mut running = Vec::new();
        if !list.is_empty() {
            for xid in list.split(',') {
                running.push(parse_xid(xid).ok_or_else(error)?);
            }
        }
        let is_sorted = running.windows(2).all(|pair| pair[0] < pair[1]);
        let is_inside = running.iter().all(|xid| (xmin..xmax).contains(xid));
        if parts.next().is_some() || xmin == 0 || xmin > xmax || !is_sorted || !is_inside {
            return Err(error());
        }
        Ok(Self { xmin, xmax, running })
    }
}

/// Decimal digits only: no sign, no blanks.
fn parse_xid(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (index, xid) in self.running.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{xid}")?;
        }
        Ok(())
    }
}

/// Text that is not a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotError(String);

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a snapshot of PostgreSQL (xmin:xmax:xip)", self.0)
    }
}

impl std::error::Error for SnapshotError {}

const TEXT_SHOWN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_read_from_its_text_and_printed_again() {
        for text in ["3:3:", "10:20:", "10:20:10,14,15", "9223372036854775807:9223372036854775807:"]
        {
            assert_eq!(text.parse::<Snapshot>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_not_a_snapshot_is_refused() {
        for text in [
            "",
            "10",
            "10:20",
            "10:20:,",
            "10:20:30",
            "10:20:5",
            "10:20:12,11",
            "10:20:12,12",
            "20:10:",
            "+1:2:",
            " 1:2:",
            "1:2::",
            "a:b:c",
            "0:1:",
            "18446744073709551616:1:",
        ] {
            assert!(text.parse::<Snapshot>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_transaction_is_visible_when_it_ended_before_the_snapshot() {
        let snapshot: Snapshot = "10:20:10,14".parse().unwrap();
        for (xid, expected) in
            [(9, true), (10, false), (11, true), (14, false), (19, true), (20, false), (21, false)]
        {
            assert_eq!(snapshot.contains(xid), expected, "{xid}");
        }
    }
}
