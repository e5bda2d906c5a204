//! Which HTTP a client speaks.

/// The version of HTTP that a client speaks.
///
/// HTTP/2 without TLS, to a server that is known to speak it:
///
/// ```
/// # mod tidewire {
/// #     pub mod client { pub use tidewire_client::*; }
/// #     pub use tidewire_client::Client;
/// #     pub use tidewire_service::*;
/// # }
/// use tidewire::Client;
/// use tidewire::client::HttpVersion;
///
/// let client = Client::builder("http://10.0.0.7:8080").http(HttpVersion::Http2).build()?;
/// # Ok::<(), tidewire::client::BuildError>(())
/// ```
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
