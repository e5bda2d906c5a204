//! Which calls are of one caller, for whoever shares something out among callers.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::OnceLock;

use crate::Context;
use crate::peer::Peer;
use crate::principal::Principal;

/// Tells callers apart without saying who they are: by their principal, or, where nobody knows it,
/// by their address. Of IPv6 that is the network of 64 bits that a subscriber has; all that have no
/// address (Unix sockets, calls within the process) are one.
///
/// Two callers have one key by chance only (64 bits, hashed with a secret of this process).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerKey(u64);

/// What is known of each caller; its keys are hashes already.
pub type CallerMap<T> = HashMap<CallerKey, T, BuildHasherDefault<CallerKeyHasher>>;

/// Takes the key for its hash.
#[derive(Debug, Default)]
pub struct CallerKeyHasher(u64);

impl Hasher for CallerKeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Context {
    /// Which calls are of the same caller. It does not make a cached reply one of this caller: it
    /// is for those who share something out among callers.
    pub fn caller_key(&self) -> CallerKey {
        CallerKey::new(self.known_principal(), self.known_peer())
    }

    /// Which calls come from the same address, whoever makes them.
    pub fn address_key(&self) -> CallerKey {
        CallerKey::new(None, self.known_peer())
    }
}

impl CallerKey {
    /// Its number, for tables that are split by it.
    pub fn number(self) -> u64 {
        self.0
    }

    fn new(principal: Option<&Principal>, peer: Option<&Peer>) -> Self {
        if let Some(known) = principal {
            return Self::of((1, known.issuer(), known.subject()));
        }
        let address = || peer.and_then(|peer| peer.address).map(|address| address.ip());
        let known = peer.and_then(Peer::address_key);
        known.unwrap_or_else(|| Self::of_address(address()))
    }

    /// That of whoever calls from this address, and is known by it.
    pub(crate) fn of_address(address: Option<IpAddr>) -> Self {
        Self::of((0, address.map(network)))
    }

    fn of(parts: impl Hash) -> Self {
        static SECRET: OnceLock<RandomState> = OnceLock::new();
        Self(SECRET.get_or_init(RandomState::new).hash_one(parts))
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> CallerKey {
        CallerKey::new(None, Some(&Peer::new(Some(address.parse().unwrap()))))
    }

    #[test]
    fn callers_are_told_apart_by_principal_or_by_network() {
        assert_eq!(at("192.0.2.1:1"), at("192.0.2.1:2"));
        assert_eq!(at("192.0.2.1:1"), at("[::ffff:192.0.2.1]:1"), "as a socket of both tells it");
        assert_ne!(at("192.0.2.1:1"), at("192.0.2.2:1"));
        assert_eq!(at("[2001:db8::1]:1"), at("[2001:db8::ffff:2]:1"), "one household");
        assert_ne!(at("[2001:db8::1]:1"), at("[2001:db8:0:1::1]:1"));
        let known = |subject: &str, address: &str| {
            let principal = Principal::new("keys", subject);
            CallerKey::new(Some(&principal), Some(&Peer::new(Some(address.parse().unwrap()))))
        };
        assert_eq!(known("ada", "192.0.2.1:1"), known("ada", "192.0.2.9:1"));
        assert_ne!(known("ada", "192.0.2.1:1"), known("bob", "192.0.2.1:1"));
        assert_eq!(CallerKey::new(None, None), CallerKey::new(None, None));
    }
}
