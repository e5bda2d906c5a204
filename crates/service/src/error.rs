//! The error of a call: a code and a message for the caller, a cause for the log.
//!
//! The message and the details are sent; the cause never is. Metadata on an error reaches the
//! caller as headers or trailers, whichever the protocol has.

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::headers::header;
use crate::{Code, Freshness, Headers, Result, ThinHeaders};

/// Why a call failed.
///
/// One pointer wide, so that `Result<Reply, Error>` stays small.
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::{Code, Error};
/// let error = Error::not_found("no contact has id 7; list them at /contacts");
/// assert_eq!(error.code(), Code::NotFound);
/// ```
///
/// `?` does not take errors of other crates, whose text is not for callers: write `.internal()?`
/// ([`ResultExt`](crate::ResultExt)), or `.map_err(|error| Error::invalid_argument(…))?` where the
/// caller is to know.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    message: String,
    details: Vec<Detail>,
    headers: ThinHeaders,
    trailers: ThinHeaders,
    http_status: Option<StatusCode>,
    freshness: Freshness,
    outcome: Outcome,
    is_upstream: bool,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What an error tells the caller; see [`Error::into_parts`].
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::{Code, Error};
///
/// let cause = std::io::Error::other("password=hunter2");
/// let parts = Error::unavailable("try again").with_cause(cause).into_parts();
/// assert_eq!((parts.code, parts.message.as_str()), (Code::Unavailable, "try again"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ErrorParts {
    /// Why the call failed.
    pub code: Code,
    /// What the caller is told.
    pub message: String,
    /// Messages for the caller's program.
    pub details: Vec<Detail>,
    /// Headers sent with the error where the protocol has them apart from trailers.
    pub headers: ThinHeaders,
    /// Trailers sent with the error.
    pub trailers: ThinHeaders,
}

/// What became of a call that ended with an error.
///
/// It decides whether a command may be sent again:
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::{Error, Outcome};
///
/// let may_be_sent_again = |error: &Error| matches!(error.outcome(), Outcome::NotRun | Outcome::Behind);
/// let refused = Error::unavailable("connection refused").with_outcome(Outcome::NotRun);
/// assert!(may_be_sent_again(&refused));
/// let lost = Error::unavailable("connection reset").with_outcome(Outcome::Unknown);
/// assert!(!may_be_sent_again(&lost));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The service answered with the error: it alone knows what it did.
    Answered,
    /// The call never reached a service; it may be made again.
    NotRun,
    /// The call was sent, and whether it ran is not known.
    Unknown,
    /// The call ran to its end, and its reply is lost.
    ReplyLost,
    /// The call did not run: the server has not reached the state that a token of the caller stands
    /// for. Another server may have.
    Behind,
}

/// A protobuf message attached to an error, as `google.protobuf.Any` carries it.
///
/// Any generated message is a detail:
///
/// ```
/// # mod tidewire {
/// #     pub use tidewire_service::*;
/// #     pub mod types { pub use tidewire_service::generated::buffa_types::google::protobuf::*; }
/// # }
/// use tidewire::types::Timestamp;
/// use tidewire::{Detail, Error};
///
/// let opens_at = Timestamp { seconds: 1_800_000_000, ..Default::default() };
/// let error = Error::failed_precondition("the shop is closed").with_detail(Detail::new(&opens_at));
/// assert_eq!(error.details()[0].type_name, "google.protobuf.Timestamp");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// The full name of the message, such as `google.rpc.RetryInfo`, without
    /// `type.googleapis.com/`.
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
    unimplemented Unimplemented "the method does not exist";
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
            headers: ThinHeaders::default(),
            trailers: ThinHeaders::default(),
            http_status: None,
            freshness: Freshness::default(),
            outcome: Outcome::Answered,
            is_upstream: false,
            cause: None,
        }))
    }

    /// Adds what caused it, for the log; it is never sent to a caller.
    #[must_use]
    pub fn with_cause(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
        self.0.cause = Some(Arc::new(cause));
        self
    }

    /// The same, of any kind.
    pub(crate) fn with_boxed_cause(mut self, cause: Box<dyn StdError + Send + Sync>) -> Self {
        self.0.cause = Some(Arc::from(cause));
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
    pub fn headers(&self) -> &Headers {
        &self.0.headers
    }

    /// Headers, to be changed.
    pub fn headers_mut(&mut self) -> &mut ThinHeaders {
        &mut self.0.headers
    }

    /// Sets a header in place of earlier ones of the same name.
    ///
    /// # Errors
    /// [`Code::Internal`](crate::Code::Internal) where the name or the value cannot be one of a
    /// header, such as a text with a line feed.
    pub fn set_header<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.0.headers.insert(name, value);
        Ok(())
    }

    /// Adds a header behind earlier ones of the same name.
    ///
    /// # Errors
    /// As of [`set_header`](Self::set_header).
    pub fn append_header<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.0.headers.append(name, value);
        Ok(())
    }

    /// The same with a header, as of [`set_header`](Self::set_header).
    ///
    /// # Errors
    /// As there.
    pub fn with_header<N, V>(mut self, name: N, value: V) -> Result<Self>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        self.set_header(name, value)?;
        Ok(self)
    }

    /// Trailers sent with the error.
    pub fn trailers(&self) -> &Headers {
        &self.0.trailers
    }

    /// Trailers, to be changed.
    pub fn trailers_mut(&mut self) -> &mut ThinHeaders {
        &mut self.0.trailers
    }

    /// Sets how long the error stays true: a `not_found` may be kept and watched like any answer.
    #[must_use]
    pub fn with_freshness(mut self, freshness: Freshness) -> Self {
        self.0.freshness = freshness;
        self
    }

    /// How long the error stays true.
    pub fn freshness(&self) -> &Freshness {
        &self.0.freshness
    }

    /// Says what became of the call.
    #[must_use]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    /// What became of the call that ended with this error: may a command be sent again?
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Marks the error as the answer to a call that was made on behalf of another.
    #[must_use]
    pub fn from_upstream(mut self) -> Self {
        self.0.is_upstream = true;
        self
    }

    /// Whether it came from an upstream and nobody decided that the caller is to have it as it is.
    pub fn is_upstream(&self) -> bool {
        self.0.is_upstream
    }

    /// Decides that the caller is to have an upstream's error as it is: what a proxy does.
    ///
    /// Otherwise a handler that ends with an upstream's error by `?` fails with `internal` where
    /// the upstream's code would blame the caller for a request that the caller did not write.
    #[must_use]
    pub fn passed_on(mut self) -> Self {
        self.0.is_upstream = false;
        self
    }

    /// What a caller is told when a handler ends with this error.
    ///
    /// An upstream that says `invalid_argument`, `failed_precondition`, `out_of_range`,
    /// `unauthenticated`, `permission_denied` or `unimplemented` speaks of the handler's own
    /// request, so to the handler's caller that is `internal`, with the upstream's error as its
    /// cause. Other codes (`not_found`, `unavailable`, …) mean the same to both.
    #[must_use]
    pub fn seen_by_caller(self) -> Self {
        let blames_its_caller = matches!(
            self.0.code,
            Code::InvalidArgument
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unauthenticated
                | Code::PermissionDenied
                | Code::Unimplemented
        );
        if !(self.0.is_upstream && blames_its_caller) {
            return self;
        }
        let message = "a service that this one calls refused its request; the log has the cause";
        Self::internal(message).with_cause(self)
    }

    /// The error in parts; the cause stays behind.
    pub fn into_parts(self) -> ErrorParts {
        let Inner { code, message, details, headers, trailers, .. } = *self.0;
        ErrorParts { code, message, details, headers, trailers }
    }
}

impl Display for Error {
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
