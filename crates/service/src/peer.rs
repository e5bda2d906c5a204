//! The other side of the connection that a call arrived by.

use core::net::{IpAddr, SocketAddr};
use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

use http::HeaderValue;

use crate::caller_key::CallerKey;

/// The other side of the connection that a call arrived by.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::Peer;
///
/// let peer = Peer::new("192.0.2.7:50000".parse().ok()).over_tls();
/// assert_eq!(peer.scheme(), "https");
/// assert!(peer.certificates.is_empty(), "it showed no client certificate");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Its address; `None` for a Unix socket or a call within the process.
    pub address: Option<SocketAddr>,
    /// Its TLS certificate chain in DER, leaf first; empty without client authentication.
    pub certificates: Vec<Vec<u8>>,
    /// Whether the connection is encrypted by TLS.
    pub is_secure: bool,
    kept: AttachedState,
    facts: KnownFacts,
}

/// What somebody keeps of the connection; nothing by which two peers would differ.
#[derive(Default)]
struct AttachedState(OnceLock<Box<dyn Any + Send + Sync>>);

/// What its address comes to, found once; nothing by which two peers would differ.
#[derive(Debug, Clone, Default)]
struct KnownFacts(OnceLock<AddressFacts>);

#[derive(Debug, Clone)]
struct AddressFacts {
    /// The address that they are of.
    address: IpAddr,
    header: HeaderValue,
    key: CallerKey,
}

impl Peer {
    /// A peer with an address and no certificates.
    pub fn new(address: impl Into<Option<SocketAddr>>) -> Self {
        let (certificates, kept, facts) = Default::default();
        Self { address: address.into(), certificates, is_secure: false, kept, facts }
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

    /// The scheme by which it reached the server: `https` over TLS, else `http`.
    pub const fn scheme(&self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }

    /// Its address without the port, as `X-Forwarded-For` says it; written for the first of its
    /// requests.
    pub fn address_header(&self) -> Option<HeaderValue> {
        let address = self.address?.ip();
        let facts = self.facts(address);
        Some(facts.map_or_else(|| address_header(address), |facts| facts.header.clone()))
    }

    /// Which calls come from its address, found for the first of them.
    pub(crate) fn address_key(&self) -> Option<CallerKey> {
        self.facts(self.address?.ip()).map(|facts| facts.key)
    }

    /// What is known of its address, unless it had another first.
    fn facts(&self, address: IpAddr) -> Option<&AddressFacts> {
        let facts = self.facts.0.get_or_init(|| {
            let key = CallerKey::of_address(Some(address));
            AddressFacts { address, header: address_header(address), key }
        });
        (facts.address == address).then_some(facts)
    }

    /// What a gate keeps of the connection, so that it is not found again for each of its requests;
    /// made for the first. There is one place: `None` for whoever comes second with something of
    /// another kind.
    #[inline]
    pub fn keep<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.kept.0.get_or_init(|| Box::new(make())).downcast_ref()
    }
}

fn address_header(address: IpAddr) -> HeaderValue {
    HeaderValue::try_from(address.to_string()).expect("an address is visible ASCII")
}

impl Clone for AttachedState {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for KnownFacts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KnownFacts {}

impl PartialEq for AttachedState {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for AttachedState {}

impl fmt::Debug for AttachedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_connection_is_made_once_and_is_of_one_kind() {
        let peer = Peer::new(None);
        assert_eq!(peer.keep(|| 7_u32), Some(&7));
        assert_eq!(peer.keep(|| 8_u32), Some(&7));
        assert_eq!(peer.keep(|| "another"), None);
        let same = peer.clone();
        assert_eq!((same.keep(|| 9_u32), &same), (Some(&9), &peer));
    }

    #[test]
    fn an_address_is_written_as_everywhere_and_anew_where_it_is_another() {
        for text in ["0.0.0.0", "1.10.100.255", "2001:db8::7"] {
            let mut peer = Peer::new(SocketAddr::new(text.parse().unwrap(), 7));
            assert_eq!(peer.address_header().unwrap(), text);
            assert_eq!(peer.clone().address_header().unwrap(), text);
            peer.address = "192.0.2.7:1".parse().ok();
            assert_eq!(peer.address_header().unwrap(), "192.0.2.7");
        }
        assert_eq!(Peer::new(None).address_header(), None);
    }
}
