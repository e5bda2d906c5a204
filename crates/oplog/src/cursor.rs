//! Where a host is in the log, and what a poll of it brings: no socket, no clock, no task.
//!
//! A poll is one statement, so its snapshot, the incarnation, the horizon and the rows are of one
//! moment. New are the rows that its snapshot sees and the last one did not see. A serial number as
//! the cursor would lose the rows of transactions that took a number early and commit late.
//!
//! | a poll shows | what follows |
//! |---|---|
//! | the first position | a batch of nothing: what was computed before is not kept |
//! | another incarnation | reset: PostgreSQL crashed, was restored or promoted; ids may come again |
//! | a snapshot that ends before the last one | reset, for the same reason |
//! | a horizon above the last position's `xmin` | reset: rows were trimmed that nobody here saw |
//! | none of these | the rows, and a new position |

use std::fmt;

use crate::change::ChangeSet;
use crate::snapshot::Snapshot;

/// How far a host has applied the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The life of the database's transaction ids: 16 random bytes that a crash ends.
    pub incarnation: Incarnation,
    /// What had been committed.
    pub snapshot: Snapshot,
}

/// See [`Position::incarnation`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub [u8; 16]);

/// What one poll of the log shows.
#[derive(Debug)]
pub(crate) struct Poll {
    pub(crate) position: Position,
    /// Rows of transactions below this are gone.
    pub(crate) horizon: u64,
    /// The rows that the last position does not contain.
    pub(crate) changes: ChangeSet,
}

/// What to do after a poll.
#[derive(Debug)]
pub(crate) enum Step {
    /// Mark what these name.
    Apply(ChangeSet),
    /// Mark everything.
    Reset(ResetReason),
}

/// Why everything was marked stale.
///
/// ```
/// # mod tidewire { pub mod oplog { pub use tidewire_oplog::*; } }
/// use tidewire::oplog::ResetReason;
///
/// assert_eq!(ResetReason::Trimmed.as_str(), "trimmed");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ResetReason {
    /// The database crashed, was promoted or restored: its transaction ids may come again.
    NewIncarnation,
    /// The database's transaction ids went back.
    WentBack,
    /// The log was trimmed further than this host has read.
    Trimmed,
    /// The log, or a part of it, is another one.
    LogReplaced,
    /// What is captured was not captured for a while.
    CaptureRestored,
}

impl ResetReason {
    /// The reason as metrics and logs name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NewIncarnation => "new_incarnation",
            Self::WentBack => "went_back",
            Self::Trimmed => "trimmed",
            Self::LogReplaced => "log_replaced",
            Self::CaptureRestored => "capture_restored",
        }
    }
}

/// The position of a host.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    position: Option<Position>,
}

impl Cursor {
    pub(crate) fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// From which transaction on all rows are new, and which earlier ones are.
    pub(crate) fn unread(&self) -> UnreadRange<'_> {
        match &self.position {
            // The first poll takes a position and reads nothing.
            None => UnreadRange { from: u64::MAX, running: &[] },
            Some(position) => {
                let snapshot = &position.snapshot;
                UnreadRange { from: snapshot.xmax(), running: snapshot.running() }
            }
        }
    }

    /// Takes the new position.
    pub(crate) fn take(&mut self, poll: Poll) -> Step {
        let last = self.position.replace(poll.position);
        let (Some(last), Some(now)) = (last, &self.position) else {
            return Step::Apply(poll.changes);
        };
        if last.incarnation != now.incarnation {
            return Step::Reset(ResetReason::NewIncarnation);
        }
        if now.snapshot.xmax() < last.snapshot.xmax() || now.snapshot.xmin() < last.snapshot.xmin()
        {
            return Step::Reset(ResetReason::WentBack);
        }
        if poll.horizon > last.snapshot.xmin() {
            return Step::Reset(ResetReason::Trimmed);
        }
        Step::Apply(poll.changes)
    }
}

/// See [`Cursor::unread`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnreadRange<'a> {
    pub(crate) from: u64,
    pub(crate) running: &'a [u64],
}

impl Incarnation {
    /// From a uuid as PostgreSQL prints it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        let mut digits = text.chars().filter(|&c| c != '-').map(|c| c.to_digit(16));
        for byte in &mut bytes {
            let high = digits.next()??;
            let low = digits.next()??;
            *byte = u8::try_from(high << 4 | low).ok()?;
        }
        digits.next().is_none().then_some(Self(bytes))
    }

    /// What a token carries of it.
    pub(crate) fn short(&self) -> [u8; 8] {
        let mut short = [0; 8];
        short.copy_from_slice(&self.0[..8]);
        short
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.incarnation, self.snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;

    fn poll(incarnation: u8, snapshot: &str, horizon: u64) -> Poll {
        let mut changes = ChangeSet::default();
        changes.add(Change { source: "rows".to_owned(), keys: None });
        let snapshot = snapshot.parse().unwrap();
        let position = Position { incarnation: Incarnation([incarnation; 16]), snapshot };
        Poll { position, horizon, changes }
    }

    fn check(first: Poll, second: Poll, expected: Option<ResetReason>) {
        let mut cursor = Cursor::default();
        assert!(matches!(cursor.take(first), Step::Apply(_)));
        let step = cursor.take(second);
        let reason = match step {
            Step::Apply(_) => None,
            Step::Reset(reason) => Some(reason),
        };
        assert_eq!(reason, expected);
    }

    #[test]
    fn a_host_begins_at_the_end_of_the_log() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.unread(), UnreadRange { from: u64::MAX, running: &[] });
        cursor.take(poll(1, "10:20:10,14", 5));
        assert_eq!(cursor.unread(), UnreadRange { from: 20, running: &[10, 14] });
    }

    #[test]
    fn any_doubt_is_a_reset() {
        let first = || poll(1, "10:20:10,14", 5);
        check(first(), poll(1, "10:20:10", 5), None);
        check(first(), poll(1, "10:20:10,14", 10), None);
        check(first(), poll(1, "30:30:", 11), Some(ResetReason::Trimmed));
        check(first(), poll(2, "30:30:", 5), Some(ResetReason::NewIncarnation));
        check(first(), poll(1, "10:19:10,14", 5), Some(ResetReason::WentBack));
        check(first(), poll(1, "9:21:9", 5), Some(ResetReason::WentBack));
    }

    #[test]
    fn an_incarnation_is_read_from_a_uuid() {
        let id = Incarnation::parse("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!(id.to_string(), "00112233445566778899aabbccddeeff");
        for text in
            ["", "00112233-4455-6677-8899-aabbccddeef", "00112233-4455-6677-8899-aabbccddeefg"]
        {
            assert_eq!(Incarnation::parse(text), None);
        }
    }
}
