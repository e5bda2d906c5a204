//! TLS to the database, where its URL says `sslmode=require`.
//!
//! The certificate of the database has to be for the name in the URL, and of an authority that the
//! system trusts, or that the PEM file in `SSL_CERT_FILE` has. There is no way to leave that out:
//! who asks for TLS wants to know who answers.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What opens connections over TLS.
///
/// # Errors
/// No authority is trusted.
pub(super) fn connector() -> Result<MakeRustlsConnect> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    ensure!(
        !roots.is_empty(),
        "sslmode=require: no authority is trusted; name a PEM file in SSL_CERT_FILE"
    );
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS versions")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
