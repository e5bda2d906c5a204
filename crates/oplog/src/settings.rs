//! The settings of a log, `[oplog]` of `tidewire.toml`.

use std::time::Duration;

use crate::error::{Error, ErrorKind};

/// How a host follows the log.
///
/// ```
/// # mod tidewire { pub mod oplog { pub use tidewire_oplog::*; } }
/// use std::time::Duration;
/// use tidewire::oplog::Settings;
///
/// let mut settings = Settings::default();
/// settings.poll = Duration::from_millis(100);
/// assert_eq!(settings.fault(), None);
/// settings.schema = String::new();
/// assert!(settings.fault().is_some(), "it says which setting is wrong");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The schema of the log's tables in PostgreSQL: hosts with the same one tell each other.
    pub schema: String,
    /// Whether tables and triggers are made where they are missing. Otherwise a start without them
    /// fails and names the DDL.
    pub install: bool,
    /// The pause between polls of the log.
    pub poll: Duration,
    /// Whether hosts wake each other after a commit, and do not wait for the next poll.
    pub wake: bool,
    /// For how long a host that cannot poll the log trusts its memory.
    pub lease: Duration,
    /// How long a request with a token waits.
    pub token_wait: Duration,
    /// For how long rows of the log are kept.
    pub keep: Duration,
    /// A statement that changes more rows than this makes whole sources stale.
    pub keys_max: u32,
    /// A key that is longer than this, as text, makes its whole source stale.
    pub key_bytes_max: u32,
    /// How many rows of the log a SQLite file keeps.
    pub rows_max: u32,
    /// The pause between checks that every trigger is in place.
    pub check: Duration,
}

impl Settings {
    /// What of it cannot work, by the name in `tidewire.toml`.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let length = self.schema.len();
        let fits = (1..=SCHEMA_BYTES_MAX).contains(&length);
        (!fits).then(|| format!("oplog.schema has {length} bytes; 1 to {SCHEMA_BYTES_MAX} fit"))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.fault().map_or(Ok(()), |fault| Err(Error::new(ErrorKind::Settings, fault)))
    }
}

/// Names of triggers begin with the schema, and PostgreSQL cuts names after 63 bytes.
const SCHEMA_BYTES_MAX: usize = 32;

impl Default for Settings {
    fn default() -> Self {
        Self {
            schema: "tidewire".to_owned(),
            install: true,
            poll: Duration::from_millis(25),
            wake: true,
            lease: Duration::from_secs(5),
            token_wait: Duration::from_secs(1),
            keep: Duration::from_mins(10),
            keys_max: 1000,
            key_bytes_max: 1024,
            rows_max: 100_000,
            check: Duration::from_secs(10),
        }
    }
}
