//! What can go wrong with one request, as a reader of the report should see it.

use std::fmt;

use tidewire_service::Code;

/// Why a request does not count as answered. Never part of a throughput figure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The connection could not be opened.
    Connect(rustix::io::Errno),
    /// TLS was not agreed on, or broke.
    Tls(String),
    /// The connection ended before the answer was complete.
    Closed,
    /// Reading or writing failed.
    Broken(rustix::io::Errno),
    /// No complete answer within the time limit.
    Timeout,
    /// The request waited for a free connection longer than the time limit.
    Unsent,
    /// The run was stopped before the answer came.
    Abandoned,
    /// An HTTP status outside the accepted ones.
    Status(u16),
    /// A redirect, which is never followed.
    Redirect(u16),
    /// A gRPC status other than OK.
    Grpc(u16),
    /// A Connect stream that ended with an error.
    ConnectError(String),
    /// A call of the live protocol that ended with an error, by its code.
    Code(String),
    /// A check of headers or body that did not hold.
    Check(String),
    /// An HTTP/2 stream reset by the target, with its code.
    StreamReset(u32),
    /// Bytes that do not follow the protocol.
    Protocol(&'static str),
    /// A value to be extracted from the answer was not there.
    Extract(String),
}

impl Failure {
    /// Whether the target would not have the connection at all.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Tls(_))
    }

    /// The code that a call ended with.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Self::Grpc(number) => Code::from_number((*number).into()),
            Self::ConnectError(code) | Self::Code(code) => code.parse().ok(),
            _ => None,
        }
    }

    /// What `--expect-status` accepts it by.
    pub(crate) fn expected(&self) -> Option<String> {
        match self {
            Self::Status(status) | Self::Redirect(status) => Some(status.to_string()),
            _ => self.code().map(|code| code.to_string()),
        }
    }

    /// Whether the target says that the request is wrong, so that the next one like it will be too.
    pub(crate) fn blames_request(&self) -> bool {
        match self {
            Self::Status(status) => {
                (400..500).contains(status) && ![408, 425, 429].contains(status)
            }
            Self::Redirect(_) => true,
            // INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED.
            Self::Grpc(code) => [3, 5, 7, 12, 16].contains(code),
            Self::ConnectError(code) | Self::Code(code) => [
                "invalid_argument",
                "not_found",
                "permission_denied",
                "unimplemented",
                "unauthenticated",
            ]
            .contains(&code.as_str()),
            _ => false,
        }
    }

    /// Whether the target answered, if not as it should.
    pub fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Status(_)
                | Self::Redirect(_)
                | Self::Grpc(_)
                | Self::ConnectError(_)
                | Self::Code(_)
                | Self::Check(_)
                | Self::Extract(_)
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(errno) => write!(out, "connect: {}", describe(*errno)),
            Self::Tls(why) => write!(out, "TLS: {why}"),
            Self::Closed => out.write_str("closed before the answer was complete"),
            Self::Broken(errno) => write!(out, "connection: {}", describe(*errno)),
            Self::Timeout => out.write_str("timeout"),
            Self::Unsent => out.write_str("timeout before a connection was free"),
            Self::Abandoned => out.write_str("unanswered when the run ended"),
            Self::Status(status) => write!(out, "status {status}"),
            Self::Redirect(status) => write!(out, "status {status} (redirects are not followed)"),
            Self::Grpc(code) => write!(out, "grpc-status {code}"),
            Self::ConnectError(code) => write!(out, "connect error {code}"),
            Self::Code(code) => write!(out, "error {code}"),
            Self::Check(check) => write!(out, "check: {check}"),
            Self::StreamReset(code) => write!(out, "stream reset with code {code}"),
            Self::Protocol(what) => write!(out, "protocol: {what}"),
            Self::Extract(name) => write!(out, "nothing to extract for {name}"),
        }
    }
}

/// An error of the operating system in words.
pub(crate) fn describe(errno: rustix::io::Errno) -> String {
    let text = std::io::Error::from(errno).to_string().to_lowercase();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
