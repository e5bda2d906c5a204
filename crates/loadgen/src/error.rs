//! Why a run or a comparison could not be done at all.

use std::fmt;

use crate::failure::Failure;
use crate::request::Protocol;

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

    /// The first answer of a run says that each of its requests is wrong.
    pub(crate) fn wrong_request(failure: &Failure, protocol: Protocol) -> Self {
        // A method that streams takes other content types than one that does not.
        let hint = match (protocol, failure) {
            (Protocol::Connect, Failure::Status(415)) => {
                ": if the method streams, give --kind server-stream, client-stream or bidi; if it \
                 does not, another --codec"
            }
            (Protocol::ConnectStream, Failure::Status(415)) => {
                ": if the method does not stream, leave --kind out; if it does, give another --codec"
            }
            _ => "",
        };
        let accepted = failure.expected().map(|status| format!(" {status}")).unwrap_or_default();
        Self::bad_request(format!(
            "the first answer says that the request is wrong: {failure}{hint}; nothing was \
             measured (try it with `tidewire call`, or accept it with --expect-status{accepted})"
        ))
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
