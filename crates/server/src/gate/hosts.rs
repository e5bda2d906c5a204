//! Which hosts a server answers for: a page whose name was made to point here is told 421.
//!
//! A browser lets a page talk to the host that the page came from. Whoever owns a name can let it
//! point at an address of the reader's own machine or network ("DNS rebinding"), and the page then
//! talks to a server that only trusts its surroundings. Such a request names a host that the server
//! does not have.
//!
//! | listed | answers for |
//! |---|---|
//! | nothing | any host |
//! | [`Hosts::local`] | literal loopback addresses, `localhost`, `*.localhost` |
//! | names | these too, with any port; `*.shop.example` for all below one |
//!
//! A request without a host (HTTP/1.0) is answered: no browser sends one. One whose host has no
//! name (`Host:`, `Host: :80`) asks for none of those that are listed.

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Uri};
use tidewire_service::{Error, Result};

/// The hosts that a server answers for; any by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// `None` is any.
    names: Option<Vec<String>>,
}

impl Hosts {
    /// Any host.
    pub fn any() -> Self {
        Self::default()
    }

    /// Names of this machine alone: literal loopback addresses, `localhost` and what ends in
    /// `.localhost`.
    pub fn local() -> Self {
        Self { names: Some(Vec::new()) }
    }

    /// Adds a host without a port, `shop.example`, or all below one, `*.shop.example`.
    #[must_use]
    pub fn and(mut self, name: &str) -> Self {
        self.names.get_or_insert_default().push(name.to_ascii_lowercase());
        self
    }

    /// Lets a request pass that asks for one of these hosts.
    ///
    /// # Errors
    /// 421 for another.
    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<()> {
        let Some(names) = &self.names else { return Ok(()) };
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let Some(host) = uri.authority().map(Authority::as_str).or(host) else { return Ok(()) };
        let name = without_port(host);
        if is_local(name) || names.iter().any(|known| is_named(known, name)) {
            return Ok(());
        }
        let name = name.to_ascii_lowercase();
        let text = format!("this server is not {name:?}; add it to server.hosts");
        Err(Error::failed_precondition(text)
            .with_http_status(http::StatusCode::MISDIRECTED_REQUEST))
    }
}

fn is_local(name: &str) -> bool {
    if name.eq_ignore_ascii_case("localhost") || is_below(name, ".localhost") {
        return true;
    }
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    literal.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn is_named(known: &str, name: &str) -> bool {
    match known.strip_prefix('*') {
        Some(above) if above.starts_with('.') => is_below(name, above),
        _ => known.eq_ignore_ascii_case(name),
    }
}

/// Whether a name ends in `above`, a dot and a name, with something before it.
fn is_below(name: &str, above: &str) -> bool {
    let begins = name.len().checked_sub(above.len()).filter(|length| *length > 0);
    let end = begins.and_then(|length| name.get(length..));
    end.is_some_and(|end| end.eq_ignore_ascii_case(above))
}

/// `host` without `:port` and the dot of the root; an IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_local_server_answers_for_names_of_this_machine_and_those_that_are_listed() {
        let hosts = Hosts::local().and("Shop.example").and("*.tenants.example");
        for (host, passes) in [
            ("127.0.0.1:8080", true),
            ("127.1.2.3", true),
            ("[::1]:8080", true),
            ("[::ffff:127.0.0.1]:8080", true),
            ("[::ffff:10.0.0.1]:8080", false),
            (".localhost", false),
            ("localhost", true),
            ("localhost.:80", true),
            ("shop.localhost:3000", true),
            ("shop.example:443", true),
            ("SHOP.EXAMPLE", true),
            ("a.tenants.example", true),
            ("tenants.example", false),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1", false),
            ("", false),
            (":8080", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            let outcome = hosts.check(&headers, &Uri::from_static("/"));
            assert_eq!(outcome.is_ok(), passes, "{host}");
        }
        assert!(Hosts::any().check(&HeaderMap::new(), &Uri::from_static("http://a.b/")).is_ok());
    }
}
