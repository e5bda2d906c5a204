//! What is called, as it is written on the command line.
//!
//! | written | is |
//! |---|---|
//! | `localhost:8080`, `:8080`, `[::1]:80` | TCP; whether TLS is spoken is found out |
//! | `example.org` | the same, at port 443 with TLS or port 80 without |
//! | `http://host`, `https://host` | TCP without and with TLS |
//! | `ws://host`, `wss://host`, `tcp://host:port` | the live protocol, over a WebSocket or TCP |
//! | `unix:/run/shop.sock` | a Unix socket |
//! | any of them with a path after it | a plain HTTP request, or a method: `host:80/shop.v1.Items/Get` |

use std::fmt;

use anyhow::bail;

/// A server, and what of it is called if that is part of the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// `None` where it is to be found out.
    scheme: Option<Scheme>,
    /// `host:port`, or the path of a Unix socket.
    place: String,
    /// Path and query, without an only slash.
    pub(crate) path: Option<String>,
}

/// How the bytes are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
    Ws,
    Wss,
    Tcp,
    Unix,
}

impl Target {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        if let Some(socket) = text.strip_prefix("unix:") {
            let place = socket.strip_prefix("//").unwrap_or(socket).to_owned();
            if place.is_empty() {
                bail!("{text} names no socket; write unix:/run/shop.sock");
            }
            return Ok(Self { scheme: Some(Scheme::Unix), place, path: None });
        }
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Some(Scheme::Http), rest),
            Some(("https", rest)) => (Some(Scheme::Https), rest),
            Some(("ws", rest)) => (Some(Scheme::Ws), rest),
            Some(("wss", rest)) => (Some(Scheme::Wss), rest),
            Some(("tcp", rest)) => (Some(Scheme::Tcp), rest),
            Some((other, _)) => {
                bail!(
                    "{other}:// is not known; write http://, https://, ws://, wss://, tcp:// or \
                     unix:/path"
                )
            }
            None => (None, text),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (place, path) = rest.split_at(end);
        let place =
            if place.starts_with(':') { format!("localhost{place}") } else { place.to_owned() };
        if place.is_empty() || place.contains(char::is_whitespace) {
            bail!(
                "{text} is not a server; write localhost:8080, https://example.org or unix:/run/shop.sock"
            );
        }
        if port(&place).is_some_and(|port| port.parse::<u16>().is_err()) {
            bail!("{place} has no port from 1 to 65535 behind its colon");
        }
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        Ok(Self { scheme, place, path: Some(path).filter(|path| path.len() > 1) })
    }

    /// Whether a word is meant as a server rather than a path of files.
    pub(crate) fn is_meant(word: &str) -> bool {
        let place = word.split(['/', '?']).next().unwrap_or_default();
        let is_place = port(place).is_some() && Self::parse(word).is_ok();
        word.contains("://") || word.starts_with("unix:") || place == "localhost" || is_place
    }

    /// The URLs that it may have, the likelier one first.
    pub(crate) fn urls(&self) -> Vec<String> {
        let of = |scheme: Scheme| match scheme {
            Scheme::Unix => format!("unix:{}", self.place),
            scheme => format!("{scheme}://{}", self.place),
        };
        match self.scheme {
            Some(scheme) => vec![of(scheme)],
            None if self.place.ends_with(":443") || port(&self.place).is_none() => {
                vec![of(Scheme::Https), of(Scheme::Http)]
            }
            None => vec![of(Scheme::Http), of(Scheme::Https)],
        }
    }

    /// Whether the port is that of its scheme.
    pub(crate) fn has_no_port(&self) -> bool {
        self.scheme != Some(Scheme::Unix) && port(&self.place).is_none()
    }

    /// Without TLS, whatever was left open.
    ///
    /// # Errors
    /// An `https` URL.
    pub(crate) fn without_tls(&mut self) -> anyhow::Result<()> {
        match self.scheme {
            Some(scheme @ (Scheme::Https | Scheme::Wss)) => {
                bail!("{scheme}:// and --plaintext exclude each other")
            }
            None => self.scheme = Some(Scheme::Http),
            Some(_) => {}
        }
        Ok(())
    }

    /// Makes the path a part of the server, before the paths of its methods.
    pub(crate) fn keep_path_as_prefix(&mut self) {
        if let Some(path) = self.path.take() {
            self.place.push_str(path.trim_end_matches('/'));
        }
    }

    /// Whether its URL says that the live protocol is spoken.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.scheme, Some(Scheme::Ws | Scheme::Wss | Scheme::Tcp))
    }

    /// Whether its URL is known without asking.
    pub(crate) fn is_certain(&self) -> bool {
        self.scheme.is_some()
    }

    /// The method that the path is, where it looks like one: `/shop.v1.Items/Get`.
    pub(crate) fn method(&self) -> Option<&str> {
        let path = self.path.as_deref()?.trim_start_matches('/');
        let (service, method) = path.split_once('/')?;
        let is_name = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let is_service = service.contains('.') && service.split('.').all(is_name);
        let first = method.chars().next()?;
        (is_service && is_name(method) && first.is_ascii_uppercase()).then_some(path)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Ws => "ws",
            Self::Wss => "wss",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
        })
    }
}

/// What is behind the colon of `host:port`.
fn port(place: &str) -> Option<&str> {
    let after = place.rfind(']').map_or(0, |end| end + 1);
    place[after..].rsplit_once(':').map(|(_, port)| port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_with_what_is_left_out() {
        let check = |text: &str, urls: &[&str], path: Option<&str>| {
            let target = Target::parse(text).unwrap();
            assert_eq!(target.urls(), urls, "{text}");
            assert_eq!(target.path.as_deref(), path, "{text}");
        };
        check("localhost:8080", &["http://localhost:8080", "https://localhost:8080"], None);
        check(":8080", &["http://localhost:8080", "https://localhost:8080"], None);
        check("[::1]:80/", &["http://[::1]:80", "https://[::1]:80"], None);
        check("a.org:443", &["https://a.org:443", "http://a.org:443"], None);
        check("https://a.org", &["https://a.org"], None);
        check("a.org/x", &["https://a.org", "http://a.org"], Some("/x"));
        check("http://a.org/x/y?z=1", &["http://a.org"], Some("/x/y?z=1"));
        check("http://a.org?z=1", &["http://a.org"], Some("/?z=1"));
        check("unix:/run/a.sock", &["unix:/run/a.sock"], None);
        check("ws://a.org/shop.v1.Items/Get", &["ws://a.org"], Some("/shop.v1.Items/Get"));
        check("tcp://a.org:1", &["tcp://a.org:1"], None);
    }

    #[test]
    fn what_is_no_server_is_refused_with_what_would_be_one() {
        for (text, expected) in [
            ("ftp://a", "ftp:// is not known"),
            ("unix:", "names no socket"),
            ("a:b", "no port"),
            ("", "is not a server"),
        ] {
            let error = Target::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(!Target::is_meant("protos"));
        assert!(!Target::is_meant("protos/shop"));
        assert!(Target::is_meant("localhost:1"));
    }

    #[test]
    fn a_method_in_the_path_is_told_from_other_paths() {
        let method = |text: &str| Target::parse(text).unwrap().method().map(str::to_owned);
        assert_eq!(method("a:1/shop.v1.Items/Get").as_deref(), Some("shop.v1.Items/Get"));
        assert_eq!(method("a:1/contacts/7"), None);
        assert_eq!(method("a:1/v1.0/items"), None);
        assert_eq!(method("a:1"), None);
    }
}
