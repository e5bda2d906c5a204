//! What a failure on the way to a server behind is told as: a status and `Proxy-Status` (RFC 9209).
//!
//! | what happened | status | `error` |
//! |---|---|---|
//! | its name is not known | 502 | `dns_error` |
//! | it refuses connections, or cannot be reached | 502 | `connection_refused`, `destination_unavailable` |
//! | there is no connection in time | 504 | `connection_timeout` |
//! | the connection broke before the response | 502 | `connection_terminated` |
//! | what came is not HTTP | 502 | `http_protocol_error` |
//! | no response in time | 504 | `http_response_timeout` |
//!
//! What is the caller's own doing, such as a body that is too long, is told as it is. A caller is
//! told the name of the service; where it is, and what the system said, is in the log.

use std::error::Error as _;
use std::io;

use http::{HeaderName, HeaderValue, StatusCode};
use tidewire_service::{Code, Error, Outcome};

/// Why there is no response of the server behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyError {
    /// Its name has no address.
    Dns,
    /// It refuses connections.
    ConnectionRefused,
    /// It cannot be reached.
    DestinationUnavailable,
    /// There was no connection in time.
    ConnectionTimeout,
    /// The connection broke before the response.
    ConnectionTerminated,
    /// What came is not HTTP.
    HttpProtocol,
    /// There was no response in time.
    HttpResponseTimeout,
}

impl ProxyError {
    /// What an error of a client means; `None` for one that is not of the way to the server.
    pub fn of(error: &Error) -> Option<Self> {
        match error.code() {
            Code::DeadlineExceeded if error.http_status() == StatusCode::GATEWAY_TIMEOUT => {
                Some(match error.outcome() {
                    Outcome::NotRun => Self::ConnectionTimeout,
                    _ => Self::HttpResponseTimeout,
                })
            }
            Code::Internal if error.http_status() == StatusCode::BAD_GATEWAY => {
                Some(Self::HttpProtocol)
            }
            Code::Unavailable if tidewire_client::is_not_http(error) => Some(Self::HttpProtocol),
            Code::Unavailable if error.message().starts_with(NO_NAME) => Some(Self::Dns),
            Code::Unavailable if error.outcome() == Outcome::NotRun => Some(not_reached(error)),
            Code::Unavailable => Some(Self::ConnectionTerminated),
            _ => None,
        }
    }

    /// The error as the caller of the service `name` is told it.
    #[must_use]
    pub fn tell(self, name: &str, error: Error) -> Error {
        let (code, what) = match self {
            Self::Dns => (Code::Unavailable, "has no address"),
            Self::ConnectionRefused => (Code::Unavailable, "refused the connection"),
            Self::DestinationUnavailable => (Code::Unavailable, "cannot be reached"),
            Self::ConnectionTimeout => (Code::DeadlineExceeded, "took too long to connect"),
            Self::ConnectionTerminated => {
                (Code::Unavailable, "broke the connection off before it answered")
            }
            Self::HttpProtocol => (Code::Unavailable, "answered with what is not HTTP"),
            Self::HttpResponseTimeout => (Code::DeadlineExceeded, "did not answer in time"),
        };
        let told = Error::new(code, format!("{name} {what}")).with_outcome(error.outcome());
        self.mark(told.with_http_status(self.status()).with_cause(error))
    }

    /// The same error with the header `Proxy-Status`.
    #[must_use]
    pub fn mark(self, mut error: Error) -> Error {
        error.headers_mut().insert(PROXY_STATUS, HeaderValue::from_static(self.text()));
        error
    }

    fn status(self) -> StatusCode {
        match self {
            Self::ConnectionTimeout | Self::HttpResponseTimeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Dns => "tidewire; error=dns_error",
            Self::ConnectionRefused => "tidewire; error=connection_refused",
            Self::DestinationUnavailable => "tidewire; error=destination_unavailable",
            Self::ConnectionTimeout => "tidewire; error=connection_timeout",
            Self::ConnectionTerminated => "tidewire; error=connection_terminated",
            Self::HttpProtocol => "tidewire; error=http_protocol_error",
            Self::HttpResponseTimeout => "tidewire; error=http_response_timeout",
        }
    }
}

/// Why there is no connection.
fn not_reached(error: &Error) -> ProxyError {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let kind = causes.filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind())).next();
    match kind {
        Some(io::ErrorKind::ConnectionRefused) => ProxyError::ConnectionRefused,
        Some(io::ErrorKind::TimedOut) => ProxyError::ConnectionTimeout,
        None if error.message().starts_with("no connection within") => {
            ProxyError::ConnectionTimeout
        }
        _ => ProxyError::DestinationUnavailable,
    }
}

/// How the client begins to say that a name has no address.
const NO_NAME: &str = "the name ";

/// Says what went wrong on the way (RFC 9209).
const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
