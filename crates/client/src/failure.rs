//! What a broken connection means for a call.
//!
//! | what happened | code | what became of the call |
//! |---|---|---|
//! | `REFUSED_STREAM`, or a `GOAWAY` that does not cover the call | `unavailable` | not run |
//! | the request never left | `unavailable` | not run |
//! | another reset with a reason | as the gRPC specification maps it | unknown |
//! | anything else | `unavailable` | unknown |

use std::error::Error as StdError;
use std::fmt;

use h2::Reason;
use tidewire_service::{Code, Error, Outcome};

/// What a connection failed with.
#[derive(Debug)]
pub(crate) enum ConnectionFailure {
    Http1(hyper::Error),
    Http2(h2::Error),
}

/// Whether what came in place of a response to a call is not HTTP, or not the version of it that
/// was expected.
pub fn is_not_http(error: &Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<ConnectionFailure>());
    match cause {
        Some(ConnectionFailure::Http1(error)) => error.is_parse() || error.is_parse_too_large(),
        Some(ConnectionFailure::Http2(error)) => !error.is_remote() && error.reason().is_some(),
        None => false,
    }
}

/// Whether an error is that of a connection that failed, or of a call that a server reset.
pub fn is_broken(error: &Error) -> bool {
    error.source().is_some_and(|cause| cause.is::<ConnectionFailure>())
}

/// The error of a request whose connection failed before the response began.
pub(crate) fn broken(host: &str, broken: ConnectionFailure, is_unsent: bool) -> Error {
    let is_unsent = is_unsent || broken.is_refusal();
    let (code, text) = broken.explain(host, "before it answered");
    // A request that no server processed was not run; of any other nothing is known.
    let (code, outcome) = match is_unsent {
        true => (Code::Unavailable, Outcome::NotRun),
        false => (code, Outcome::Unknown),
    };
    Error::new(code, text).with_outcome(outcome).with_cause(broken)
}

/// The error of a response that broke off.
pub(crate) fn broken_body(host: &str, broken: ConnectionFailure) -> Error {
    let (code, text) = broken.explain(host, "in the middle of its response");
    Error::new(code, text).with_outcome(Outcome::Unknown).with_cause(broken)
}

impl ConnectionFailure {
    /// Whether it is about one call, and the connection goes on.
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self, Self::Http2(error) if error.is_reset())
    }

    /// Whether a connection of HTTP/1.1 was closed, with nothing said that is not HTTP.
    pub(crate) fn is_closed(&self) -> bool {
        let Self::Http1(error) = self else { return false };
        let is_of_socket = || error.source().is_some_and(|cause| cause.is::<std::io::Error>());
        error.is_incomplete_message() || error.is_closed() || error.is_canceled() || is_of_socket()
    }

    /// Whether the server says that it did not process the request.
    ///
    /// The library fails calls with a `GOAWAY` only where it does not cover them.
    fn is_refusal(&self) -> bool {
        let Self::Http2(error) = self else { return false };
        error.is_remote() && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM))
    }

    fn explain(&self, host: &str, what: &str) -> (Code, String) {
        match self {
            Self::Http1(error) => (Code::Unavailable, of_http1(error, host, what)),
            Self::Http2(error) => of_http2(error, host, what),
        }
    }
}

fn of_http1(error: &hyper::Error, host: &str, what: &str) -> String {
    if error.is_parse_too_large() {
        return format!("{host} answered with more than 100 headers, or a head that is too large");
    }
    if error.is_parse() {
        return format!(
            "{host} does not speak HTTP/1.1 as expected ({error}); it may want HTTP/2 or TLS"
        );
    }
    if error.is_incomplete_message() {
        return format!("{host} closed the connection {what}");
    }
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("the connection to {host} broke {what}{cause}")
}

fn of_http2(error: &h2::Error, host: &str, what: &str) -> (Code, String) {
    match error.reason() {
        Some(reason) if error.is_remote() => {
            let verb = if error.is_go_away() { "closed the connection" } else { "reset the call" };
            (code_of(reason), format!("{host} {verb} {what}: {reason}"))
        }
        Some(Reason::PROTOCOL_ERROR | Reason::FRAME_SIZE_ERROR) if error.is_go_away() => {
            let text = format!(
                "{host} does not speak HTTP/2 as expected ({error}); it may be an HTTP/1.1 server"
            );
            (Code::Unavailable, text)
        }
        Some(reason) if error.is_reset() => {
            (code_of(reason), format!("{host} broke HTTP/2 {what}: {reason}"))
        }
        _ => (Code::Unavailable, format!("the connection to {host} broke {what}: {error}")),
    }
}

/// `PROTOCOL-HTTP2.md` of gRPC, "HTTP2 Transport Mapping, Errors".
fn code_of(reason: Reason) -> Code {
    match reason {
        Reason::REFUSED_STREAM => Code::Unavailable,
        Reason::CANCEL => Code::Canceled,
        Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
        Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
        _ => Code::Internal,
    }
}

impl StdError for ConnectionFailure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Http1(error) => error.source(),
            Self::Http2(error) => error.source(),
        }
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http1(error) => error.fmt(f),
            Self::Http2(error) => error.fmt(f),
        }
    }
}
