//! TLS as a client: whom it trusts, and who it is.
//!
//! ALPN offers what the client may speak. Verification is off only by a call that says so.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, client::Resumption,
};
use tidewire_service::Error;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::endpoint::BuildError;
use crate::http_version::HttpVersion;
use crate::trace::TlsSession;

/// Whom a client trusts, and the certificate that it shows.
///
/// ```
/// # fn example(ca_pem: &[u8], cert_pem: &[u8], key_pem: &[u8]) {
/// use tidewire_client::{Client, Tls};
/// let tls = Tls::new().authorities(ca_pem).identity(cert_pem, key_pem);
/// let client = Client::builder("https://shop.internal:8443").tls(tls).build();
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    authorities: Option<Vec<u8>>,
    identity: Option<ClientIdentity>,
    server_name: Option<String>,
    only: Option<Vec<u8>>,
    is_unverified: bool,
}

/// PEM that this client shows.
#[derive(Clone)]
struct ClientIdentity {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Trust in the authorities that the system trusts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these authorities (PEM) in place of the system's.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Shows a certificate, a PEM chain with its PEM private key, to servers that ask for one.
    #[must_use]
    pub fn identity(mut self, certificates: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(ClientIdentity { chain: certificates.into(), key: key.into() });
        self
    }

    /// Expects a certificate for this name in place of the host's.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Accepts exactly the first certificate of this PEM, in place of those of authorities: whoever
    /// signed it, whatever names it has, and also after it has expired. The server still has to
    /// show that it has the key. For whoever has that certificate from the server itself.
    #[must_use]
    pub fn only_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.only = Some(pem.into());
        self
    }

    /// Accepts any certificate: anyone on the way can read and change what is sent.
    #[must_use]
    pub fn danger_without_verification(mut self) -> Self {
        self.is_unverified = true;
        self
    }

    /// This as settings of rustls, without ALPN, for whoever does their own handshakes.
    ///
    /// # Errors
    /// Certificates that cannot be used; a system without authorities.
    pub fn config(&self) -> Result<ClientConfig, BuildError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| BuildError::new(format!("TLS versions: {error}")))?;
        let only = match &self.only {
            Some(pem) => certificates(pem, "certificate of the server")?.into_iter().next(),
            None => None,
        };
        let config = if only.is_some() || self.is_unverified {
            let verifier = WithoutAuthorities { only, provider: Arc::clone(&provider) };
            config.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        } else {
            config.with_root_certificates(self.roots()?)
        };
        match &self.identity {
            None => Ok(config.with_no_client_auth()),
            Some(ClientIdentity { chain, key }) => {
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| unusable("client key", &error))?;
                config
                    .with_client_auth_cert(certificates(chain, "client certificate")?, key)
                    .map_err(|error| unusable("client certificate and key", &error))
            }
        }
    }

    pub(crate) fn connector(
        &self,
        host: &str,
        http: HttpVersion,
        needs_http2: bool,
    ) -> Result<Connector, BuildError> {
        let mut config = self.config()?;
        config.resumption = Resumption::in_memory_sessions(64);
        config.alpn_protocols = match http {
            HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
            HttpVersion::Http2 => vec![b"h2".to_vec()],
            HttpVersion::Auto if needs_http2 => vec![b"h2".to_vec()],
            HttpVersion::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        let name = self.server_name.as_deref().unwrap_or(host);
        let server_name = match name.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(name.to_owned()).map_err(|_| {
                BuildError::new(format!("\"{name}\" is not a name that a certificate can have"))
            })?,
        };
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        Ok(Connector { connector, server_name })
    }

    fn roots(&self) -> Result<RootCertStore, BuildError> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = &self.authorities {
            for authority in certificates(pem, "authorities")? {
                roots.add(authority).map_err(|error| unusable("authorities", &error))?;
            }
            return Ok(roots);
        }
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(BuildError::new(
                "the system has no certificate authorities to trust; name some with \
                 Tls::authorities",
            ));
        }
        Ok(roots)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("server_name", &self.server_name)
            .field("only", &self.only.is_some())
            .field("is_unverified", &self.is_unverified)
            .finish_non_exhaustive()
    }
}

fn certificates(
    pem: &[u8],
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, BuildError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| unusable(what, &error))?;
    if found.is_empty() {
        return Err(unusable(what, &"no PEM certificate found"));
    }
    Ok(found)
}

fn unusable(what: &str, why: &dyn fmt::Display) -> BuildError {
    BuildError::new(format!("TLS {what} cannot be used: {why}"))
}

/// Does the handshakes of one client.
#[derive(Clone)]
pub(crate) struct Connector {
    connector: tokio_rustls::TlsConnector,
    server_name: ServerName<'static>,
}

impl Connector {
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> Result<(TlsStream<TcpStream>, TlsSession), Error> {
        let stream = self
            .connector
            .connect(self.server_name.clone(), stream)
            .await
            .map_err(|error| handshake_failed(host, &error))?;
        let (_, session) = stream.get_ref();
        let text = |value: &dyn fmt::Debug| format!("{value:?}");
        let secured = TlsSession {
            version: session.protocol_version().map(|v| text(&v)).unwrap_or_default(),
            cipher: session
                .negotiated_cipher_suite()
                .map(|suite| text(&suite.suite()))
                .unwrap_or_default(),
            alpn: session.alpn_protocol().map(|p| String::from_utf8_lossy(p).into_owned()),
            certificates: session
                .peer_certificates()
                .unwrap_or_default()
                .iter()
                .map(|certificate| certificate.to_vec())
                .collect(),
        };
        Ok((stream, secured))
    }
}

/// What a failed handshake means, as far as it can be told.
fn handshake_failed(host: &str, error: &std::io::Error) -> Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match tls {
        Some(rustls::Error::InvalidMessage(_)) => {
            "the server does not speak TLS on this port; use http://".to_owned()
        }
        Some(rustls::Error::NoApplicationProtocol) => {
            "the server speaks none of the wanted HTTP versions over TLS".to_owned()
        }
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)) => {
            "the server speaks none of the wanted HTTP versions over TLS".to_owned()
        }
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired)) => {
            "the server asks for a client certificate".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("its certificate is not accepted: {}", refusal(host, why))
        }
        Some(other) => other.to_string(),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the server closed the connection; it may not speak TLS on this port".to_owned()
        }
        None => error.to_string(),
    };
    Error::unavailable(format!("the TLS handshake with {host} failed: {why}"))
        .with_cause(std::io::Error::other(error.to_string()))
}

/// Why a certificate is refused, and what to do. Which authority signed it is nobody's business
/// here; what is known is that none of those that are trusted did.
fn refusal(host: &str, why: &rustls::CertificateError) -> String {
    use rustls::CertificateError::{
        ApplicationVerificationFailure, BadSignature, Expired, ExpiredContext, NotValidForName,
        NotValidForNameContext, NotValidYet, NotValidYetContext, Other, UnknownIssuer,
        UnsupportedSignatureAlgorithmForPublicKeyContext,
    };
    match why {
        // The last two: one that is trusted has the name of who signed it, and another key.
        UnknownIssuer | BadSignature | UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "no authority that is trusted signed it; if it is self-signed, or of an \
                          authority of your own, trust that (--cacert FILE)"
                .to_owned()
        }
        Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is self-signed as an authority, which no server may be; make one that is not \
             (openssl req -x509 -addext basicConstraints=critical,CA:FALSE), or let the authority \
             sign one for the server"
                .to_owned()
        }
        NotValidForName | NotValidForNameContext { .. } => {
            format!("it is not for {host}; ask by a name that is in it")
        }
        Expired | ExpiredContext { .. } => "it has expired; renew it".to_owned(),
        NotValidYet | NotValidYetContext { .. } => {
            "it is not valid yet; look at the clocks of both machines".to_owned()
        }
        ApplicationVerificationFailure => {
            "it is not the one certificate that is trusted".to_owned()
        }
        other => other.to_string(),
    }
}

/// Accepts one certificate, or any where none is named; signatures are checked in both cases.
#[derive(Debug)]
struct WithoutAuthorities {
    only: Option<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for WithoutAuthorities {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.only {
            Some(only) if only != shown => Err(rustls::Error::InvalidCertificate(
                rustls::CertificateError::ApplicationVerificationFailure,
            )),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
