//! What a broken connection means for a call.
//!
//! HTTP/2 resets with a reason become codes as the gRPC specification maps them; anything else that
//! happens to a connection is `unavailable`, unless what came in was no HTTP.

use std::error::Error as StdError;

use h2::Reason;
use tidewire_service::{Code, Error, Outcome};

/// The error of a request whose connection failed before the response began.
pub(crate) fn broken(host: &str, error: hyper::Error) -> Error {
    let what = "before it answered";
    explain(host, what, error)
}

/// The error of a response that broke off.
pub(crate) fn broken_body(host: &str, error: hyper::Error) -> Error {
    explain(host, "in the middle of its response", error)
}

fn explain(host: &str, what: &str, error: hyper::Error) -> Error {
    let (code, why) = if let Some(h2) = http2_error(&error) {
        match h2.reason() {
            Some(reason) if h2.is_remote() || h2.is_reset() => {
                let verb = if h2.is_go_away() { "closed the connection" } else { "reset the call" };
                (code_of(reason), format!("{host} {verb} {what}: {reason}"))
            }
            Some(Reason::PROTOCOL_ERROR | Reason::FRAME_SIZE_ERROR) => (
                Code::Unavailable,
                format!(
                    "{host} does not speak HTTP/2 as expected ({error}); it may be an HTTP/1.1 server"
                ),
            ),
            _ => (Code::Unavailable, format!("the connection to {host} broke {what}: {h2}")),
        }
    } else if error.is_parse() {
        (
            Code::Unavailable,
            format!(
                "{host} does not speak HTTP/1.1 as expected ({error}); it may want HTTP/2 or TLS"
            ),
        )
    } else if error.is_incomplete_message() {
        (Code::Unavailable, format!("{host} closed the connection {what}"))
    } else {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        (Code::Unavailable, format!("the connection to {host} broke {what}{cause}"))
    };
    // A request that no server processed was not run; of any other nothing is known.
    let outcome = if is_refused(&error) { Outcome::NotRun } else { Outcome::Unknown };
    Error::new(code, why).with_outcome(outcome).with_cause(error)
}

/// Whether the request was surely not processed, so that it may be sent again.
pub(crate) fn is_unsent(error: &hyper::Error) -> bool {
    error.is_canceled() || is_refused(error)
}

/// Whether the server says that it did not process the request.
fn is_refused(error: &hyper::Error) -> bool {
    http2_error(error).is_some_and(|error| {
        error.reason() == Some(Reason::REFUSED_STREAM)
            || (error.is_go_away() && error.reason() == Some(Reason::NO_ERROR))
    })
}

fn http2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(h2) = error.downcast_ref() {
            return Some(h2);
        }
        cause = error.source();
    }
    None
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
