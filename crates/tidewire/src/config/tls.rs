//! `[server.tls]`: certificates.

use std::path::PathBuf;

use serde::Deserialize;
use tidewire_server::Builder;

use super::ConfigError;

/// `[server.tls]`: PEM files.
///
/// ```
/// use tidewire::config::Config;
///
/// let text = "[server.tls]\ncertificate = \"shop.pem\"\nkey = \"shop.key\"\n";
/// let tls = Config::parse(text, "tidewire.toml")?.server.tls.expect("it is there");
/// assert_eq!(tls.certificate.to_str(), Some("shop.pem"));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsConfig {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Authorities of client certificates; with it every client must show one.
    pub client_authorities: Option<PathBuf>,
    /// Whether a client may come without one.
    pub clients_optional: Option<bool>,
    /// `[[server.tls.also]]`: certificates for other names.
    #[serde(default)]
    pub also: Vec<TlsPair>,
}

/// `[[server.tls.also]]`: PEM files of one more certificate, for the names that it has.
///
/// ```
/// use tidewire::config::Config;
///
/// let text = r#"
/// [server.tls]
/// certificate = "shop.pem"
/// key = "shop.key"
///
/// [[server.tls.also]]
/// certificate = "tenants.pem"
/// key = "tenants.key"
/// "#;
/// let tls = Config::parse(text, "tidewire.toml")?.server.tls.expect("it is there");
/// assert_eq!(tls.also[0].key.to_str(), Some("tenants.key"));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsPair {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

#[cfg(feature = "tls")]
impl TlsConfig {
    pub(super) fn apply(&self, builder: Builder) -> Result<Builder, ConfigError> {
        use tidewire_server::{Tls, TlsFiles};
        let tls = Tls::of_files(TlsFiles {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            also: self.also.iter().map(|it| (it.certificate.clone(), it.key.clone())).collect(),
            client_authorities: self.client_authorities.clone(),
            clients_optional: self.clients_optional.unwrap_or(false),
        });
        Ok(builder.tls(tls.map_err(|error| ConfigError::new(format!("server.tls: {error}")))?))
    }
}

#[cfg(not(feature = "tls"))]
impl TlsConfig {
    pub(super) fn apply(&self, _: Builder) -> Result<Builder, ConfigError> {
        Err(ConfigError::new("server.tls: this program was built without the feature tls".into()))
    }
}
