//! How a request failed: what is kept of its error for whoever observes.

use tidewire_service::{Code, EndReason, Error};

/// How a request failed, on its response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestFailure {
    pub(crate) code: Code,
    pub(crate) how: EndReason,
}

impl RequestFailure {
    pub(crate) fn new(error: &Error) -> Self {
        let cause = std::error::Error::source(error);
        let how = match cause.and_then(|cause| cause.downcast_ref()) {
            Some(EndCause::Panicked) => EndReason::Panicked,
            Some(EndCause::Deadline) => EndReason::Deadline,
            None => EndReason::Answered,
        };
        Self { code: error.code(), how }
    }
}

/// Why the server itself ended a call: the cause of the error that it then has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndCause {
    Panicked,
    Deadline,
}

impl std::fmt::Display for EndCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Panicked => "the handler panicked",
            Self::Deadline => "the deadline passed",
        })
    }
}

impl std::error::Error for EndCause {}

/// Whether an error says that the caller's deadline passed here.
pub(crate) fn is_late(error: &Error) -> bool {
    let cause = std::error::Error::source(error);
    cause.and_then(|cause| cause.downcast_ref()) == Some(&EndCause::Deadline)
}
