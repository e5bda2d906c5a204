//! TLS, with HTTP/2 and HTTP/1.1 negotiated by ALPN, and client certificates where asked for.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

/// The identity of a server, and whom it trusts.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// A server certificate chain and its private key, both PEM.
    ///
    /// # Errors
    /// When either does not parse or the key does not belong to the certificate.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::build(certificates, key, None)
    }

    /// The same, and every client must show a certificate that `client_authorities` (PEM) signed.
    ///
    /// # Errors
    /// When one of them does not parse or the key does not belong to the certificate.
    pub fn with_client_authorities(
        certificates: &[u8],
        key: &[u8],
        client_authorities: &[u8],
    ) -> Result<Self, TlsError> {
        Self::build(certificates, key, Some(client_authorities))
    }

    fn build(cert: &[u8], key: &[u8], authorities: Option<&[u8]>) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::new("TLS versions"))?;
        let config = match authorities {
            None => config.with_no_client_auth(),
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(authorities, "client authorities")? {
                    roots.add(authority).map_err(TlsError::new("client authorities"))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(TlsError::new("client authorities"))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::new("private key"))?;
        let mut config = config
            .with_single_cert(certificates(cert, "certificate")?, key)
            .map_err(TlsError::new("certificate and private key"))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.0
    }
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(TlsError::new(what))?;
    if found.is_empty() {
        return Err(TlsError { what, why: "no PEM certificate found".to_owned() });
    }
    Ok(found)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// A certificate or key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError {
    what: &'static str,
    why: String,
}

impl TlsError {
    fn new<E: fmt::Display>(what: &'static str) -> impl Fn(E) -> Self {
        move |why| Self { what, why: why.to_string() }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be used: {}", self.what, self.why)
    }
}

impl std::error::Error for TlsError {}
