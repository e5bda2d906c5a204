//! Which HTTP a client speaks.

/// The version of HTTP that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HttpVersion {
    /// What ALPN chooses over TLS. Without TLS HTTP/2 for gRPC, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS by prior knowledge.
    Http2,
}
