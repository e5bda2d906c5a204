//! The identity of a client certificate: a name that it is valid for.
//!
//! The chain was verified in the handshake; here it is only read. A certificate for a URI (SPIFFE)
//! is that URI's, one for DNS names its first name's, and any other is known by the SHA-256 of it.

use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use tidewire_service::{Peer, Principal};

/// Who showed a certificate on this connection; `None` without one.
pub(crate) fn principal(peer: &Peer) -> Option<Principal> {
    let leaf = peer.certificates.first()?;
    Some(Principal::new(ISSUER, name(leaf).unwrap_or_else(|| fingerprint(leaf))))
}

/// The issuer of principals that are known by their certificates.
const ISSUER: &str = "mtls";

fn name(leaf: &[u8]) -> Option<String> {
    let der = CertificateDer::from(leaf);
    let certificate = webpki::EndEntityCert::try_from(&der).ok()?;
    let uri = certificate.valid_uri_names().next();
    uri.or_else(|| certificate.valid_dns_names().next()).map(str::to_owned)
}

fn fingerprint(leaf: &[u8]) -> String {
    let digits = Sha256::digest(leaf);
    let digits = digits.iter().map(|byte| format!("{byte:02x}"));
    format!("sha256:{}", digits.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_is_known_by_its_hash() {
        let peer = Peer::new(None).with_certificates(vec![b"no certificate".to_vec()]);
        let principal = principal(&peer).unwrap();
        assert_eq!(principal.issuer(), "mtls");
        assert!(principal.subject().starts_with("sha256:"), "{principal:?}");
        assert_eq!(principal.subject().len(), 7 + 64);
        assert!(super::principal(&Peer::new(None)).is_none());
    }
}
