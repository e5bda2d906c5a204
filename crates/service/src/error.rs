//! The error of a call: a code and a message for the caller, a cause for the log.
//!
//! The message and the details are sent; the cause never is. Metadata on an error reaches the
//! caller as headers or trailers, whichever the protocol has.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::Code;

/// Why a call failed.
///
/// One pointer wide, so that `Result<Reply, Error>` stays small.
///
/// ```
/// use tidewire_service::{Code, Error};
/// let error = Error::not_found("no contact has id 7; list them at /contacts");
/// assert_eq!(error.code(), Code::NotFound);
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    message: String,
    details: Vec<Detail>,
    headers: HeaderMap,
    trailers: HeaderMap,
    http_status: Option<StatusCode>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A protobuf message attached to an error, as `google.protobuf.Any` carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// The full name of the message, such as `google.rpc.RetryInfo`, without `type.googleapis.com/`.
    pub type_name: String,
    /// The encoded message.
    pub value: Bytes,
}

impl Detail {
    /// Encodes `message` as a detail.
    pub fn new<M: buffa::MessageName + buffa::Message>(message: &M) -> Self {
        Self { type_name: M::FULL_NAME.to_owned(), value: message.encode_to_bytes() }
    }
}

macro_rules! constructors {
    ($($name:ident $code:ident $what:literal;)*) => {
        /// One constructor a code; the message is for the caller.
        impl Error {$(
            #[doc = concat!("An error with [`Code::", stringify!($code), "`]: ", $what, ".")]
            pub fn $name(message: impl Into<String>) -> Self {
                Self::new(Code::$code, message)
            }
        )*}
    };
}

constructors! {
    canceled Canceled "the caller gave up";
    unknown Unknown "nothing better is known";
    invalid_argument InvalidArgument "the request is wrong";
    deadline_exceeded DeadlineExceeded "the deadline passed";
    not_found NotFound "what was asked for does not exist";
    already_exists AlreadyExists "what should be created exists";
    permission_denied PermissionDenied "the caller may not do this";
    resource_exhausted ResourceExhausted "a limit is reached";
    failed_precondition FailedPrecondition "the system is not in the needed state";
    aborted Aborted "a conflict, try again from a higher level";
    out_of_range OutOfRange "past the valid range";
    unimplemented Unimplemented "the method is not there";
    internal Internal "a bug";
    unavailable Unavailable "temporarily not there";
    data_loss DataLoss "data is lost for good";
    unauthenticated Unauthenticated "the caller is not known";
}

impl Error {
    /// An error with a code and a message for the caller.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            details: Vec::new(),
            headers: HeaderMap::new(),
            trailers: HeaderMap::new(),
            http_status: None,
            cause: None,
        }))
    }

    /// Adds what caused it, for the log; it is never sent to a caller.
    #[must_use]
    pub fn with_cause(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
        self.0.cause = Some(Arc::new(cause));
        self
    }

    /// Adds a detail message for the caller.
    #[must_use]
    pub fn with_detail(mut self, detail: Detail) -> Self {
        self.0.details.push(detail);
        self
    }

    /// Sets the status that protocols with HTTP statuses answer with, in place of the code's own.
    #[must_use]
    pub fn with_http_status(mut self, status: StatusCode) -> Self {
        self.0.http_status = Some(status);
        self
    }

    /// The status that protocols with HTTP statuses answer with: [`Code::http_status`] unless set.
    pub fn http_status(&self) -> StatusCode {
        self.0.http_status.unwrap_or_else(|| self.0.code.http_status())
    }

    /// Why it failed.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What the caller is told.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The detail messages for the caller.
    pub fn details(&self) -> &[Detail] {
        &self.0.details
    }

    /// Headers sent with the error where the protocol has them apart from trailers.
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// Headers, to be changed.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.0.headers
    }

    /// Trailers sent with the error.
    pub fn trailers(&self) -> &HeaderMap {
        &self.0.trailers
    }

    /// Trailers, to be changed.
    pub fn trailers_mut(&mut self) -> &mut HeaderMap {
        &mut self.0.trailers
    }

    /// The error in parts: code, message, details, headers, trailers. The cause stays behind.
    pub fn into_parts(self) -> (Code, String, Vec<Detail>, HeaderMap, HeaderMap) {
        let inner = *self.0;
        (inner.code, inner.message, inner.details, inner.headers, inner.trailers)
    }
}

impl fmt::Display for Error {
    /// Prints this level only, as `code: message`; the cause is in [`StdError::source`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("details", &self.0.details)
            .field("cause", &self.0.cause)
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_kept_apart_from_what_is_shown() {
        let error = Error::unavailable("the database does not answer")
            .with_cause(std::io::Error::other("password=hunter2"));
        assert_eq!(error.to_string(), "unavailable: the database does not answer");
        assert!(StdError::source(&error).is_some());
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
