//! Where requests go: the parts of a URL and the address behind it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// An address to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// A target: address, host as the target should see it, path with query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What to connect to.
    pub address: Address,
    /// Host and port as the URL has them.
    pub authority: String,
    /// Path with query.
    pub path: String,
    /// `ws://` or `wss://` was given.
    pub websocket: bool,
    /// `https://` or `wss://` was given.
    pub secure: bool,
}

impl Target {
    /// Parses `http://host:port/path`, `https://…`, `ws://…` or `wss://…`; without a scheme it is
    /// `http`. `unix` replaces the address by a socket's path.
    pub fn parse(url: &str, unix: Option<&Path>) -> Result<Self, Error> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let (websocket, secure) = match scheme {
            "http" => (false, false),
            "https" => (false, true),
            "ws" => (true, false),
            "wss" => (true, true),
            _ => return Err(Error::usage(format!("target {url:?}: unknown scheme {scheme:?}"))),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        if authority.is_empty() {
            return Err(Error::usage(format!("target {url:?} names no host")));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let address = match unix {
            Some(socket) => Address::Unix(socket.to_owned()),
            None => Address::Tcp(resolve(authority, if secure { 443 } else { 80 })?),
        };
        Ok(Self { address, authority: authority.to_owned(), path, websocket, secure })
    }

    /// The host without its port, as certificates name it.
    pub fn host(&self) -> &str {
        let host = match self.authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => &self.authority,
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// How the target was named.
    pub fn url(&self) -> String {
        let scheme = match (self.websocket, self.secure) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "ws",
            (true, true) => "wss",
        };
        format!("{scheme}://{}{}", self.authority, self.path)
    }
}

fn resolve(authority: &str, port: u16) -> Result<SocketAddr, Error> {
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    let full = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
    let addresses: Vec<SocketAddr> = full
        .to_socket_addrs()
        .map_err(|error| Error::usage(format!("host {authority:?} cannot be resolved: {error}")))?
        .collect();
    // `localhost` is often both, and most servers under test listen on 127.0.0.1 only.
    let preferred =
        addresses.iter().find(|address| address.is_ipv4()).or_else(|| addresses.first());
    preferred.copied().ok_or_else(|| Error::usage(format!("host {authority:?} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let target = Target::parse("http://127.0.0.1:8080/a?b=c#d", None).unwrap();
        assert_eq!(target.address.to_string(), "127.0.0.1:8080");
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("127.0.0.1:8080", "/a?b=c"));
        assert_eq!(Target::parse("http://127.0.0.1", None).unwrap().path, "/");
        let unix = Target::parse("http://app/x", Some(Path::new("/run/app.sock"))).unwrap();
        assert_eq!(unix.address, Address::Unix("/run/app.sock".into()));
        assert!(Target::parse("ws://127.0.0.1:1/", None).unwrap().websocket);
        assert_eq!(Target::parse("127.0.0.1:1/x", None).unwrap().url(), "http://127.0.0.1:1/x");
        let secure = Target::parse("https://127.0.0.1/a", None).unwrap();
        assert_eq!(secure.address.to_string(), "127.0.0.1:443");
        assert_eq!((secure.host(), secure.url().as_str()), ("127.0.0.1", "https://127.0.0.1/a"));
        assert_eq!(Target::parse("wss://[::1]:9/", None).unwrap().host(), "::1");
    }

    #[test]
    fn a_bad_url_says_what_to_write() {
        for (url, needle) in [("ftp://x/", "unknown scheme"), ("http:///x", "no host")] {
            let error = Target::parse(url, None).unwrap_err();
            assert!(error.to_string().contains(needle), "{error}");
        }
    }
}
