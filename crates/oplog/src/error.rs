//! What can go wrong, and what to do about it.

use std::error::Error as StdError;
use std::fmt;

/// Why a log cannot be used.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

/// Whose fault an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The database cannot be reached, or ended the connection.
    Unreachable,
    /// What is to be captured cannot be: no such table, a key without a form as text.
    Capture,
    /// The log's tables or triggers are not there, and may not be made.
    NotInstalled,
    /// The database refused a statement.
    Database,
    /// The log's tables hold what no log holds.
    Corrupt,
    /// A setting cannot work.
    Settings,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cause: None }
    }

    pub(crate) fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Whose fault it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as &(dyn StdError + 'static))
    }
}

/// Why a host cannot answer from a state that includes a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatchUpError {
    /// The log was not read within `oplog.token_wait`.
    Timeout,
    /// The log is stopped.
    Stopped,
}

impl fmt::Display for CatchUpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => {
                "this host cannot read the change log now, so it cannot show the write that the \
                 request's tidewire-token names; try again"
            }
            Self::Stopped => "this host is stopping; try again",
        })
    }
}

impl StdError for CatchUpError {}
