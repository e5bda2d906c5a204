//! Where a server listens: `127.0.0.1:8080`, `[::1]:0`, `localhost:8080` or `unix:/run/shop.sock`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server listens, or listens by now.
///
/// ```
/// # mod tidewire { pub use tidewire_listen::*; }
/// use tidewire::Address;
///
/// let tcp: Address = "127.0.0.1:8080".parse()?;
/// assert!(tcp.is_local());
/// let socket: Address = "unix:/run/shop.sock".parse()?;
/// assert!(matches!(socket, Address::Unix(_)));
/// # Ok::<(), tidewire::ParseAddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP port; 0 lets the system choose one.
    Tcp(SocketAddr),
    /// A Unix socket. A socket file that nobody listens on is replaced.
    Unix(PathBuf),
}

impl Address {
    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(ParseAddressError(text.to_owned()))
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if let Some(port) = text.strip_prefix("localhost:") {
            let port = port.parse().map_err(|_| ParseAddressError(text.to_owned()))?;
            return Ok(Self::Tcp((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| ParseAddressError(text.to_owned()))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The text is not an address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseAddressError(String);

impl fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not an address to listen on; write 127.0.0.1:8080, [::1]:8080, \
             localhost:8080 or unix:/path/to.sock",
            self.0
        )
    }
}

impl std::error::Error for ParseAddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_printed() {
        for text in ["127.0.0.1:8080", "[::1]:0", "unix:/run/shop.sock", "0.0.0.0:80"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("localhost:80".parse::<Address>().unwrap().to_string(), "127.0.0.1:80");
        assert!(!"0.0.0.0:80".parse::<Address>().unwrap().is_local());
        for text in ["8080", "unix:", "localhost:http", "example.org:80"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("unix:/path"), "{error}");
        }
    }
}
