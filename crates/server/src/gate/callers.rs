//! From which addresses calls are taken, and whom to believe about them.
//!
//! ```text
//! request ─▶ its connection's address is a trusted proxy? ─▶ what that says of the caller (forwarded.rs)
//!         ─▶ address on the list of denied ones? on that of allowed ones, if there is one? ─▶ 403
//! ```
//!
//! What is believed holds for all that comes after: the host that is asked for, the scheme, and the
//! [`Peer`] that limits, logs, handlers and hosted programs see. Its certificates stay those of the
//! connection. Without settings nothing is looked at, and nothing that a caller says of itself is
//! believed. A Unix socket has no address: it is on no list, and its file says who may connect.

mod forwarded;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Request;
use ipnet::IpNet;
use tidewire_service::{Error, Peer, Result};

/// From which addresses calls are taken, and which proxies are believed.
///
/// ```
/// use tidewire_server::CallerAddresses;
/// let callers = CallerAddresses::default()
///     .trust(["10.0.0.7", "unix"])?
///     .allow(["10.0.0.0/8", "2001:db8::/32"])?
///     .deny(["10.6.6.6"])?;
/// # Ok::<(), tidewire_server::NetworkError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "addresses do nothing until a server has them"]
pub struct CallerAddresses {
    allowed: Vec<IpNet>,
    denied: Vec<IpNet>,
    proxies: Vec<IpNet>,
    trusts_unix: bool,
}

impl CallerAddresses {
    /// Takes calls from these addresses and networks, and from no others.
    ///
    /// # Errors
    /// What is not an address or a network.
    pub fn allow<'a>(
        mut self,
        networks: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, NetworkError> {
        for text in networks {
            self.allowed.push(network(text)?);
        }
        Ok(self)
    }

    /// Takes no calls from these addresses and networks, whatever is allowed.
    ///
    /// # Errors
    /// What is not an address or a network.
    pub fn deny<'a>(
        mut self,
        networks: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, NetworkError> {
        for text in networks {
            self.denied.push(network(text)?);
        }
        Ok(self)
    }

    /// Believes what proxies at these addresses and networks say of their callers: `Forwarded`, or
    /// `X-Forwarded-For`, `-Proto` and `-Host`. `unix` is whoever connects to a Unix socket.
    ///
    /// A trusted proxy has to set these headers, or take them out: what a caller sends and a proxy
    /// passes on is believed too.
    ///
    /// # Errors
    /// What is not an address or a network.
    pub fn trust<'a>(
        mut self,
        networks: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, NetworkError> {
        for text in networks {
            match text {
                "unix" => self.trusts_unix = true,
                text => self.proxies.push(network(text)?),
            }
        }
        Ok(self)
    }

    /// `None` if there is nothing to look at.
    pub(crate) fn if_any(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Finds out who calls, and lets it; what a trusted proxy says of a request is set in it.
    ///
    /// # Errors
    /// 403 for an address that may not call; 400 for headers of a proxy that cannot be read.
    pub(crate) fn resolve<B>(
        &self,
        request: &mut Request<B>,
        connection: &Peer,
    ) -> Result<Option<Arc<Peer>>> {
        let is_proxy = match connection.address {
            Some(address) => is_in(&self.proxies, address.ip()),
            None => self.trusts_unix,
        };
        let told = match is_proxy {
            true => forwarded::caller(request, connection, |ip| is_in(&self.proxies, ip))?,
            false => None,
        };
        let peer = told.as_ref().unwrap_or(connection);
        self.check(peer.address.map(|address| address.ip()))?;
        Ok(told.map(Arc::new))
    }

    /// Lets an address call.
    ///
    /// # Errors
    /// 403.
    pub(crate) fn check(&self, address: Option<IpAddr>) -> Result<()> {
        let Some(address) = address else { return Ok(()) };
        let (setting, is_denied) = match is_in(&self.denied, address) {
            true => ("server.deny", true),
            false => ("server.allow", !self.allowed.is_empty() && !is_in(&self.allowed, address)),
        };
        if !is_denied {
            return Ok(());
        }
        let text =
            format!("calls from {} are not taken here; see {setting}", address.to_canonical());
        Err(Error::permission_denied(text))
    }
}

fn is_in(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

fn network(text: &str) -> Result<IpNet, NetworkError> {
    let address = || text.parse::<IpAddr>().map(|ip| IpNet::from(ip.to_canonical()));
    text.parse().or_else(|_| address()).map_err(|_| NetworkError(text.to_owned()))
}

/// What is not an address or a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkError(String);

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(
            f,
            "{text:?} is not an address or a network; write 10.0.0.7, 10.0.0.0/8 or 2001:db8::/32"
        )
    }
}

impl std::error::Error for NetworkError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_addresses_count_before_allowed_ones_and_no_list_is_everybody() {
        let (none, both) = (
            CallerAddresses::default(),
            CallerAddresses::default()
                .allow(["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"])
                .and_then(|callers| callers.deny(["10.6.0.0/16"]))
                .unwrap(),
        );
        for (address, passes) in [
            ("10.0.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("10.6.6.6", false),
            ("::ffff:10.6.6.6", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("2001:db8::7", true),
            ("2001:db9::7", false),
        ] {
            let address = Some(address.parse().unwrap());
            assert_eq!(both.check(address).is_ok(), passes, "{address:?}");
            assert!(none.check(address).is_ok());
        }
        assert!(both.check(None).is_ok(), "a Unix socket");
        let error = both.check(Some("10.6.6.6".parse().unwrap())).unwrap_err();
        assert_eq!(error.message(), "calls from 10.6.6.6 are not taken here; see server.deny");
    }

    #[test]
    fn what_is_not_a_network_is_named() {
        for text in ["", "10.0.0.0/33", "shop.example", "10.0.0", "::/129"] {
            let error = CallerAddresses::default().deny([text]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is not an address")), "{error}");
        }
    }
}
