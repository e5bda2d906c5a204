//! What each bound may be.
//!
//! A window of 2 GiB is a panic on every HTTP/2 connection, one of 0 a server that starts and
//! serves nothing: such values are refused at start. A new bound is one more line of [`RANGES`].

use std::fmt;
use std::time::Duration;

use super::Limits;

/// A bound that cannot work; see [`Limits::faults`].
///
/// ```
/// # mod tidewire { pub use tidewire_server::*; pub use tidewire_service::*; }
/// use tidewire::Limits;
///
/// let mut limits = Limits::default();
/// limits.streams_max = 0;
/// assert_eq!(limits.faults()[0].key(), "limits.streams_max");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsError {
    range: &'static Range,
}

/// What one bound may be.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    key: &'static str,
    bound: Bound,
}

/// How a bound is read, the least it may be and the most.
#[derive(Debug, Clone, Copy)]
enum Bound {
    Bytes(fn(&Limits) -> u64, u64, u64),
    Count(fn(&Limits) -> u64, u64, u64),
    Time(fn(&Limits) -> Duration, Duration, Duration),
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Bound {}

/// The most bytes of an HTTP/2 window (RFC 9113, section 6.9.1).
const WINDOW_MAX: u64 = (1 << 31) - 1;
/// The most permits of the semaphores behind counts.
const COUNT_MAX: u64 = (usize::MAX >> 3) as u64;
/// A call a microsecond.
const RATE_MAX: u64 = 1_000_000;
const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// All of them.
static RANGES: &[Range] = &[
    range("limits.body_bytes_max", Bound::Bytes(|l| l.body_bytes_max as u64, 1, 1 << 40)),
    range(
        "limits.message_bytes_max",
        Bound::Bytes(|l| l.message_bytes_max as u64, 1, (1 << 32) - 1),
    ),
    range("limits.handshake_timeout", Bound::Time(|l| l.handshake_timeout, MILLISECOND, YEAR)),
    range("limits.first_byte_timeout", Bound::Time(|l| l.first_byte_timeout, MILLISECOND, YEAR)),
    range("limits.header_read_timeout", Bound::Time(|l| l.header_read_timeout, MILLISECOND, YEAR)),
    range("limits.idle_timeout", Bound::Time(|l| l.idle_timeout, MILLISECOND, YEAR)),
    range("limits.keep_alive_interval", Bound::Time(|l| l.keep_alive_interval, MILLISECOND, YEAR)),
    range("limits.keep_alive_timeout", Bound::Time(|l| l.keep_alive_timeout, MILLISECOND, YEAR)),
    range(
        "limits.body_progress_timeout",
        Bound::Time(|l| l.body_progress_timeout, MILLISECOND, YEAR),
    ),
    range(
        "limits.body_progress_bytes_min",
        Bound::Bytes(|l| l.body_progress_bytes_min as u64, 1, 1 << 40),
    ),
    range("limits.transfer_rate_min", Bound::Bytes(|l| l.transfer_rate_min as u64, 1, 1 << 40)),
    range(
        "limits.unread_body_bytes_max",
        Bound::Bytes(|l| l.unread_body_bytes_max as u64, 0, 1 << 40),
    ),
    range("limits.unread_body_timeout", Bound::Time(|l| l.unread_body_timeout, MILLISECOND, YEAR)),
    range(
        "limits.reply_progress_timeout",
        Bound::Time(|l| l.reply_progress_timeout, MILLISECOND, YEAR),
    ),
    range(
        "limits.reply_bytes_waiting_max",
        Bound::Bytes(|l| l.reply_bytes_waiting_max as u64, 1, 1 << 40),
    ),
    range(
        "limits.reply_bytes_waiting_all_max",
        Bound::Bytes(|l| l.reply_bytes_waiting_all_max as u64, 1, 1 << 50),
    ),
    range("limits.prepared_bytes_max", Bound::Bytes(|l| l.prepared_bytes_max as u64, 0, 1 << 50)),
    range("limits.commands_max", Bound::Count(|l| l.commands_max as u64, 0, COUNT_MAX)),
    range("limits.connections_max", Bound::Count(|l| l.connections_max as u64, 1, COUNT_MAX)),
    range("limits.streams_max", Bound::Count(|l| u64::from(l.streams_max), 1, u32::MAX as u64)),
    range("limits.watches_max", Bound::Count(|l| u64::from(l.watches_max), 0, WINDOW_MAX)),
    range("limits.followers_max", Bound::Count(|l| l.followers_max as u64, 0, COUNT_MAX)),
    range(
        "limits.sessions_parked_max",
        Bound::Count(|l| l.sessions_parked_max as u64, 0, COUNT_MAX),
    ),
    range(
        "limits.sessions_parked_bytes_max",
        Bound::Bytes(|l| l.sessions_parked_bytes_max as u64, 0, 1 << 50),
    ),
    range(
        "limits.stream_window_bytes",
        Bound::Bytes(|l| u64::from(l.stream_window_bytes), 1, WINDOW_MAX),
    ),
    range(
        "limits.connection_window_bytes",
        Bound::Bytes(|l| u64::from(l.connection_window_bytes), 1, WINDOW_MAX),
    ),
    range("limits.drain_timeout", Bound::Time(|l| l.drain_timeout, Duration::ZERO, YEAR)),
    range("limits.drain_grace", Bound::Time(|l| l.drain_grace, Duration::ZERO, YEAR)),
    // What is not set is as the least that it may be.
    range(
        "limits.calls_max",
        Bound::Count(|l| l.calls_max.map_or(1, |max| max as u64), 1, COUNT_MAX),
    ),
    range("limits.queue_timeout", Bound::Time(|l| l.queue_timeout, Duration::ZERO, YEAR)),
    range(
        "limits.caller_calls_max",
        Bound::Count(|l| l.caller_calls_max.map_or(1, |max| max as u64), 1, COUNT_MAX),
    ),
    range("limits.caller_rate", Bound::Count(|l| l.caller_rate.map_or(1, u64::from), 1, RATE_MAX)),
    range(
        "limits.address_rate",
        Bound::Count(|l| l.address_rate.map_or(1, u64::from), 1, RATE_MAX),
    ),
    range("limits.deadline_min", Bound::Time(|l| l.deadline_min, Duration::ZERO, YEAR)),
    range(
        "limits.deadline_max",
        Bound::Time(|l| l.deadline_max.unwrap_or(MILLISECOND), MILLISECOND, YEAR),
    ),
    range(
        "limits.deadline_default",
        Bound::Time(|l| l.deadline_default.unwrap_or(MILLISECOND), MILLISECOND, YEAR),
    ),
    range(
        "limits.address_connections_max",
        Bound::Count(|l| l.address_connections_max.map_or(1, |max| max as u64), 1, COUNT_MAX),
    ),
    range(
        "limits.connection_age_max",
        Bound::Time(|l| l.connection_age_max.unwrap_or(SECOND), SECOND, YEAR),
    ),
];

const fn range(key: &'static str, bound: Bound) -> Range {
    Range { key, bound }
}

impl Limits {
    /// The bounds that cannot work, as a server finds out at start.
    pub fn faults(&self) -> Vec<LimitsError> {
        let wrong = RANGES.iter().filter(|range| !range.bound.holds(self));
        wrong.map(|range| LimitsError { range }).collect()
    }

    /// What each bound may be.
    pub fn ranges() -> impl Iterator<Item = LimitRange> {
        RANGES.iter().map(|range| range.bound.range(range.key))
    }
}

/// What a bound may be, as the configuration writes it.
#[derive(Debug, Clone)]
pub struct LimitRange {
    /// The setting, `limits.streams_max`.
    pub key: &'static str,
    /// The smallest value.
    pub least: String,
    /// The largest.
    pub most: String,
}

impl LimitsError {
    /// The setting that it is about, `limits.streams_max`.
    pub fn key(&self) -> &str {
        self.range.key
    }
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has to be {}", self.range.key, self.range.bound)
    }
}

impl std::error::Error for LimitsError {}

impl Bound {
    fn holds(&self, limits: &Limits) -> bool {
        match self {
            Self::Bytes(of, least, most) | Self::Count(of, least, most) => {
                (*least..=*most).contains(&of(limits))
            }
            Self::Time(of, least, most) => (*least..=*most).contains(&of(limits)),
        }
    }

    fn range(&self, key: &'static str) -> LimitRange {
        match self {
            Self::Bytes(_, least, most) | Self::Count(_, least, most) => {
                LimitRange { key, least: least.to_string(), most: most.to_string() }
            }
            Self::Time(_, least, most) => LimitRange {
                key,
                least: format!("{}ms", least.as_millis()),
                most: format!("{}d", most.as_secs() / 86_400),
            },
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitRange { least, most, .. } = self.range("");
        let unit = if matches!(self, Self::Bytes(..)) { " bytes" } else { "" };
        write!(f, "from {least} to {most}{unit}")
    }
}
