//! TLS, with HTTP/2 and HTTP/1.1 negotiated by ALPN, and client certificates where asked for.
//!
//! | a client asks for (SNI) | is shown |
//! |---|---|
//! | a name that a certificate is for, be it by a wildcard | the first such certificate |
//! | another name, or none | the first certificate |
//!
//! What comes from files is read again when they change, at the next handshake that is a second or
//! more after the last look: connections that are open go on, new ones get the new certificates.
//! Files that do not fit together (a certificate is there, its key not yet) change nothing, and are
//! said in the log.

use parking_lot::{Mutex, RwLock};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustls::RootCertStore;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// The identity of a server, and whom it trusts.
#[derive(Clone)]
pub struct Tls(Arc<Identity>);

struct Identity {
    loaded: RwLock<LoadedIdentity>,
    watched: Option<WatchedFiles>,
}

/// An identity as it was read last.
#[derive(Clone)]
struct LoadedIdentity {
    acceptor: TlsAcceptor,
    /// The chain that is shown to clients that ask for no name, PEM.
    certificate: Arc<[u8]>,
    requires_client_certificate: bool,
}

/// Files that an identity is read from.
struct WatchedFiles {
    files: TlsFiles,
    look_interval: Duration,
    seen: Mutex<FileStamps>,
}

struct FileStamps {
    looked: Instant,
    states: Vec<Option<State>>,
}

/// What tells one state of a file from another: a file that takes its place has another number.
#[derive(Debug, PartialEq, Eq)]
struct State {
    modified: Option<SystemTime>,
    bytes: u64,
    number: u64,
}

/// PEM files of an identity, and whether clients need one.
///
/// A certificate that is renewed while the server runs:
///
/// ```
/// # mod tidewire { pub mod server { pub use tidewire_listen::{Tls, TlsFiles}; } }
/// use tidewire::server::{Tls, TlsFiles};
///
/// let files = TlsFiles {
///     certificate: "no/such/shop.pem".into(),
///     key: "no/such/shop.key".into(),
///     also: Vec::new(),
///     client_authorities: None,
///     clients_optional: false,
/// };
/// let error = Tls::of_files(files).err().expect("the files are read at once, and when they change");
/// assert!(error.to_string().contains("no/such/shop.pem"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Certificate chains and private keys for other names; clients that ask for none of them are
    /// shown the first certificate.
    pub also: Vec<(PathBuf, PathBuf)>,
    /// The authorities of client certificates; without them no client is asked for one.
    pub client_authorities: Option<PathBuf>,
    /// Whether a client may come without one.
    pub clients_optional: bool,
}

impl Tls {
    /// A server certificate chain and its private key, both PEM.
    ///
    /// # Errors
    /// When either does not parse or the key does not belong to the certificate.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::build(&[(certificates, key)], None).map(|loaded| Self::of(loaded, None))
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
        let loaded = Self::build(&[(certificates, key)], Some((client_authorities, false)))?;
        Ok(Self::of(loaded, None))
    }

    /// An identity in files, which is read again when they change.
    ///
    /// # Errors
    /// A file that cannot be read, and those of [`new`](Self::new).
    pub fn of_files(files: TlsFiles) -> Result<Self, TlsError> {
        Self::of_files_seen_every(LOOK_INTERVAL, files)
    }

    /// The same, with the time that passes between two looks whether files changed.
    ///
    /// # Errors
    /// Those of [`of_files`](Self::of_files).
    pub fn of_files_seen_every(look_interval: Duration, files: TlsFiles) -> Result<Self, TlsError> {
        let states = files.states();
        let loaded = files.read()?;
        let seen = Mutex::new(FileStamps { looked: Instant::now(), states });
        Ok(Self::of(loaded, Some(WatchedFiles { files, look_interval, seen })))
    }

    fn of(loaded: LoadedIdentity, watched: Option<WatchedFiles>) -> Self {
        Self(Arc::new(Identity { loaded: RwLock::new(loaded), watched }))
    }

    fn build(
        pairs: &[(&[u8], &[u8])],
        authorities: Option<(&[u8], bool)>,
    ) -> Result<LoadedIdentity, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::new("TLS versions"))?;
        let config = match authorities {
            None => config.with_no_client_auth(),
            Some((authorities, is_optional)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(authorities, "client authorities")? {
                    roots.add(authority).map_err(TlsError::new("client authorities"))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(
                    Arc::new(roots),
                    Arc::clone(&provider),
                );
                let verifier =
                    if is_optional { verifier.allow_unauthenticated() } else { verifier };
                let verifier = verifier.build().map_err(TlsError::new("client authorities"))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let keys: Result<Vec<_>, _> =
            pairs.iter().map(|(cert, key)| certified(cert, key, &provider)).collect();
        let mut config = config.with_cert_resolver(Arc::new(CertificateResolver(keys?)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(LoadedIdentity {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate: pairs.first().map_or_else(Arc::default, |(pem, _)| Arc::from(*pem)),
            requires_client_certificate: authorities.is_some_and(|(_, is_optional)| !is_optional),
        })
    }

    /// What does the next handshake.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.loaded().acceptor
    }

    /// The certificate chain that is shown to a client that asks for no name, PEM: for those who
    /// call this server from its own process and trust that certificate alone.
    pub fn certificate(&self) -> Arc<[u8]> {
        self.loaded().certificate
    }

    /// The file with that chain, where it is in one.
    pub fn certificate_file(&self) -> Option<&Path> {
        self.0.watched.as_ref().map(|watched| &*watched.files.certificate)
    }

    /// Whether a client without a certificate is refused.
    pub fn requires_client_certificate(&self) -> bool {
        self.loaded().requires_client_certificate
    }

    fn loaded(&self) -> LoadedIdentity {
        if let Some(watched) = &self.0.watched
            && let Some(loaded) = watched.news()
        {
            *self.0.loaded.write() = loaded;
        }
        self.0.loaded.read().clone()
    }
}

impl WatchedFiles {
    /// The identity that the files have now, where that is another.
    fn news(&self) -> Option<LoadedIdentity> {
        let mut seen = self.seen.lock();
        if seen.looked.elapsed() < self.look_interval {
            return None;
        }
        seen.looked = Instant::now();
        let states = self.files.states();
        if states == seen.states {
            return None;
        }
        seen.states = states;
        match self.files.read() {
            Ok(loaded) => {
                tracing::info!("certificates were read again");
                Some(loaded)
            }
            Err(error) => {
                tracing::error!(%error, "certificates changed and cannot be used; the old ones stay");
                None
            }
        }
    }
}

impl TlsFiles {
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let also = self.also.iter().flat_map(|(certificate, key)| [certificate, key]);
        [&self.certificate, &self.key].into_iter().chain(also).chain(&self.client_authorities)
    }

    fn states(&self) -> Vec<Option<State>> {
        let state = |path: &PathBuf| {
            let file = std::fs::metadata(path).ok()?;
            Some(State { modified: file.modified().ok(), bytes: file.len(), number: file.ino() })
        };
        self.paths().map(state).collect()
    }

    fn read(&self) -> Result<LoadedIdentity, TlsError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| TlsError {
                what: "a file",
                why: format!("{}: {error}", path.display()),
            })
        };
        let authorities = self.client_authorities.as_ref().map(read).transpose()?;
        let authorities = authorities.as_deref().map(|pem| (pem, self.clients_optional));
        let mut pairs = vec![(read(&self.certificate)?, read(&self.key)?)];
        for (certificate, key) in &self.also {
            pairs.push((read(certificate)?, read(key)?));
        }
        let pairs: Vec<_> = pairs.iter().map(|(pem, key)| (&pem[..], &key[..])).collect();
        Tls::build(&pairs, authorities)
    }
}

/// Chooses the certificate by the name that is asked for.
#[derive(Debug)]
struct CertificateResolver(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let found = name.and_then(|name| self.0.iter().find(|key| is_for(key, &name)));
        found.or_else(|| self.0.first()).cloned()
    }
}

fn is_for(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let parsed = key.cert.first().and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
    parsed.is_some_and(|leaf| verify_server_name(&leaf, name).is_ok())
}

fn certified(
    cert: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::new("private key"))?;
    let chain = certificates(cert, "certificate")?;
    let certified = CertifiedKey::from_der(chain, key, provider)
        .map_err(TlsError::new("certificate and private key"))?;
    Ok(Arc::new(certified))
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

/// How often it is looked whether files changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
