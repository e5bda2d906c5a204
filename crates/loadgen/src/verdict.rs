//! Whether a complete answer succeeded: by the HTTP status, by trailers, or by the last message.

use crate::failure::Failure;
use crate::reply::{Expectation, Reply};

/// How success is told apart from failure beyond the HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The HTTP status decides; also Connect calls without streams.
    Plain,
    /// gRPC: the `grpc-status` trailer decides.
    Grpc,
    /// gRPC-Web: the trailer frame at the end of the body decides.
    GrpcWeb,
    /// A Connect stream: the end-of-stream envelope decides.
    ConnectStream,
}

/// Whether the status alone can make an answer a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnyStatus {
    /// Only 2xx is accepted.
    No,
    /// A check names the accepted status.
    Yes,
}

impl Reply {
    /// Why it is a failure, if it is one.
    pub(crate) fn failure(&self, expectation: &Expectation) -> Option<Failure> {
        if let Some(failure) = status_failure(self.status, expectation.any_status) {
            return Some(failure);
        }
        let envelopes = self.envelopes.as_ref()?;
        if !envelopes.is_complete() {
            return Some(Failure::Protocol("the last message is incomplete"));
        }
        match expectation.dialect {
            Dialect::Plain => None,
            Dialect::Grpc => grpc_failure(self.grpc_status),
            Dialect::GrpcWeb => grpc_failure(envelopes.grpc_status().or(self.grpc_status)),
            Dialect::ConnectStream => match envelopes.connect_error() {
                Some(Ok(())) => None,
                Some(Err(code)) => Some(Failure::ConnectError(code)),
                None => Some(Failure::Protocol("no end-of-stream message")),
            },
        }
    }
}

/// The failure a status means by itself.
pub(crate) fn status_failure(status: u16, any: AnyStatus) -> Option<Failure> {
    match status {
        200..=299 => None,
        _ if any == AnyStatus::Yes => None,
        300..=399 => Some(Failure::Redirect(status)),
        _ => Some(Failure::Status(status)),
    }
}

fn grpc_failure(status: Option<u16>) -> Option<Failure> {
    match status {
        Some(0) => None,
        Some(code) => Some(Failure::Grpc(code)),
        None => Some(Failure::Protocol("no grpc-status")),
    }
}
