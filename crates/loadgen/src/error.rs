//! Why a run or a comparison could not be done at all.

use std::fmt;

/// Who has to act on an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line or a file it names is wrong.
    Usage,
    /// The target cannot be reached or did not start.
    Unreachable,
    /// The target says that every request of the run is wrong.
    Refused,
    /// The machine does not allow what was asked: descriptors, files, threads.
    System,
}

/// A run or a comparison that could not be done.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

impl Error {
    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// An argument is wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, text: text.into() }
    }

    /// The target cannot be reached.
    pub fn unreachable(text: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unreachable, text: text.into() }
    }

    /// The target says that the request is wrong.
    pub fn bad_request(text: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Refused, text: text.into() }
    }

    /// The machine said no.
    pub fn system(text: impl Into<String>) -> Self {
        Self { kind: ErrorKind::System, text: text.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::system(error.to_string())
    }
}
