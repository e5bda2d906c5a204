//! How many connections each address has open: `limits.address_connections_max`.
//!
//! Without that setting nothing is counted. Connections by Unix sockets have no address, and no
//! bound but that of all connections.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::listener::AcceptedSocket;

/// The connections of each address; clones share them.
#[derive(Clone, Debug)]
pub struct Addresses(Option<Arc<AddressCount>>);

#[derive(Debug)]
struct AddressCount {
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection's place among those of its address.
#[derive(Debug)]
pub struct AddressPermit(Option<(Arc<AddressCount>, IpAddr)>);

impl Addresses {
    /// Bounded at `most` an address, where there is a bound.
    pub fn new(most: Option<usize>) -> Self {
        Self(most.map(|most| Arc::new(AddressCount { most, open: Mutex::default() })))
    }

    /// The place of a connection; `None` where its address has as many as it may have.
    pub fn enter(&self, accepted: &AcceptedSocket) -> Option<AddressPermit> {
        let (Some(counted), AcceptedSocket::Tcp(_, peer)) = (&self.0, accepted) else {
            return Some(AddressPermit(None));
        };
        let address = network(Some(peer.ip()))?;
        let mut open = counted.open.lock();
        let connections = open.entry(address).or_default();
        if *connections >= counted.most {
            return None;
        }
        *connections += 1;
        Some(AddressPermit(Some((Arc::clone(counted), address))))
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Some((counted, address)) = &self.0 else { return };
        let mut open = counted.open.lock();
        if let Some(connections) = open.get_mut(address) {
            *connections -= 1;
            if *connections == 0 {
                open.remove(address);
            }
        }
    }
}

/// The address that callers are told apart by: of IPv6, the network of 64 bits that a subscriber
/// has.
fn network(address: Option<IpAddr>) -> Option<IpAddr> {
    match address? {
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => Some(address.into()),
            None => {
                let network = address.to_bits() >> 64 << 64;
                Some(std::net::Ipv6Addr::from_bits(network).into())
            }
        },
        address => Some(address),
    }
}
