//! The URL of a server, read once: `http://host:port`, `https://host`, `ws://host:port`,
//! `wss://host`, `tcp://host:port`, `unix:/run/shop.sock`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use http::Uri;
use http::uri::{Authority, Scheme};

/// A server as its URL names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) place: ServerPlace,
    pub(crate) is_tls: bool,
    /// What its scheme says of the protocol: `http` and `unix` leave it open.
    pub(crate) is_live: bool,
    pub(crate) speaks: Opening,
    /// What requests name as their host.
    pub(crate) authority: Authority,
    /// The path before that of a method, without a slash at its end.
    pub(crate) prefix: String,
}

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// HTTP, which live goes over as a WebSocket.
    Http,
    /// Frames of the live protocol, or HTTP on a Unix socket.
    Frames,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerPlace {
    /// A name or an address, to be resolved.
    Host { host: String, port: u16 },
    /// A Unix socket.
    Unix(PathBuf),
}

/// A client that cannot be built.
///
/// ```
/// # mod tidewire { pub use tidewire_client::Client; pub use tidewire_service::*; }
/// use tidewire::Client;
///
/// let error = Client::builder("ftp://10.0.0.7").build().unwrap_err();
/// assert!(error.to_string().contains("ftp"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError(String);

impl BuildError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BuildError {}

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, BuildError> {
        if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(no_url(url));
            }
            return Ok(Self {
                place: ServerPlace::Unix(path.into()),
                is_tls: false,
                is_live: false,
                speaks: Opening::Frames,
                authority: Authority::from_static("localhost"),
                prefix: String::new(),
            });
        }
        // Without a scheme it is the plain one.
        let with_scheme = match url.contains("://") || url.is_empty() {
            true => url.to_owned(),
            false => format!("http://{url}"),
        };
        let uri: Uri = with_scheme.parse().map_err(|_| no_url(url))?;
        let (is_live, is_tls, speaks) = match uri.scheme_str() {
            Some("http") => (false, false, Opening::Http),
            Some("https") => (false, true, Opening::Http),
            Some("ws") => (true, false, Opening::Http),
            Some("wss") => (true, true, Opening::Http),
            Some("tcp") => (true, false, Opening::Frames),
            _ => return Err(no_url(url)),
        };
        let authority = uri.authority().ok_or_else(|| no_url(url))?;
        if authority.as_str().contains('@') {
            return Err(BuildError::new(format!(
                "\"{url}\" holds a user name; send credentials in the header authorization"
            )));
        }
        if uri.query().is_some() {
            return Err(BuildError::new(format!("\"{url}\" has a query; leave it out")));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self {
            place: ServerPlace::Host { host, port },
            is_tls,
            is_live,
            speaks,
            authority: authority.clone(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// How errors name it: `127.0.0.1:8080`, `unix:/run/shop.sock`.
    pub(crate) fn name(&self) -> String {
        match &self.place {
            ServerPlace::Host { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            ServerPlace::Host { host, port } => format!("{host}:{port}"),
            ServerPlace::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Whether no network is on the way to it.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        match &self.place {
            ServerPlace::Unix(_) => true,
            ServerPlace::Host { host, .. } => {
                let address = host.parse::<IpAddr>();
                host == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
        }
    }

    pub(crate) fn scheme(&self) -> Scheme {
        if self.is_tls { Scheme::HTTPS } else { Scheme::HTTP }
    }
}

fn no_url(text: &str) -> BuildError {
    BuildError::new(format!(
        "\"{text}\" is not the URL of a server; write http://127.0.0.1:8080, https://example.org, \
         ws://127.0.0.1:8080, tcp://127.0.0.1:8080 or unix:/path/to.sock"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_with_their_defaults() {
        for (url, name, is_tls, prefix) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", false, ""),
            ("https://example.org", "example.org:443", true, ""),
            ("http://example.org/api/v1/", "example.org:80", false, "/api/v1"),
            ("127.0.0.1:8080", "127.0.0.1:8080", false, ""),
            ("http://[::1]:80", "[::1]:80", false, ""),
            ("unix:/run/a.sock", "unix:/run/a.sock", false, ""),
            ("ws://127.0.0.1:8080", "127.0.0.1:8080", false, ""),
            ("wss://example.org/live", "example.org:443", true, "/live"),
            ("tcp://127.0.0.1:7000", "127.0.0.1:7000", false, ""),
        ] {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!(endpoint.name(), name);
            assert_eq!((endpoint.is_tls, endpoint.prefix.as_str()), (is_tls, prefix), "{url}");
        }
        let near = ["http://127.0.0.9:80", "https://[::1]", "http://localhost:1", "unix:/a"];
        for (urls, is_near) in
            [(near, true), (["http://10.0.0.1", "a.b", "[::2]:1", "localhost.a"], false)]
        {
            for url in urls {
                assert_eq!(Endpoint::parse(url).unwrap().is_on_this_machine(), is_near, "{url}");
            }
        }
        for url in ["ftp://a", "unix:", "", "http://", "http://a?b=c"] {
            let error = Endpoint::parse(url).unwrap_err().to_string();
            assert!(error.contains(url), "{error}");
        }
    }
}
