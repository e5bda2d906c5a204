//! The other side of the connection that a call arrived by.

use core::net::SocketAddr;

/// The other side of the connection that a call arrived by.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Its address; `None` for a Unix socket or a call within the process.
    pub address: Option<SocketAddr>,
    /// Its TLS certificate chain in DER, leaf first; empty without client authentication.
    pub certificates: Vec<Vec<u8>>,
    /// Whether the connection is encrypted by TLS.
    pub is_secure: bool,
}

impl Peer {
    /// A peer with an address and no certificates.
    pub fn new(address: impl Into<Option<SocketAddr>>) -> Self {
        Self { address: address.into(), certificates: Vec::new(), is_secure: false }
    }

    /// Says that the connection is encrypted by TLS.
    #[must_use]
    pub fn over_tls(mut self) -> Self {
        self.is_secure = true;
        self
    }

    /// Sets the certificate chain in DER, leaf first.
    #[must_use]
    pub fn with_certificates(mut self, certificates: Vec<Vec<u8>>) -> Self {
        self.certificates = certificates;
        self
    }
}
