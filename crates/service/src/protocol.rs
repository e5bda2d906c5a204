//! The protocols that calls arrive by.

use std::fmt;

/// The protocol that a call arrived by.
///
/// A layer or an observer may treat protocols differently:
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::Protocol;
///
/// let has_trailers = |protocol| matches!(protocol, Protocol::Grpc | Protocol::GrpcWeb);
/// assert!(has_trailers(Protocol::Grpc));
/// assert_eq!(Protocol::GrpcWeb.as_str(), "grpc-web");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// Connect.
    Connect,
    /// gRPC.
    Grpc,
    /// gRPC-Web.
    GrpcWeb,
    /// REST, transcoded by `google.api.http`.
    Rest,
    /// Plain HTTP.
    Http,
    /// Tidewire's live protocol.
    Live,
}

impl Protocol {
    /// The name: `connect`, `grpc`, `grpc-web`, `rest`, `http` or `live`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Grpc => "grpc",
            Self::GrpcWeb => "grpc-web",
            Self::Rest => "rest",
            Self::Http => "http",
            Self::Live => "live",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
