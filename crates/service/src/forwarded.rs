//! What whoever is behind a gateway is told of a request as its caller made it.
//!
//! | header | says |
//! |---|---|
//! | `X-Forwarded-For` | the caller's address |
//! | `X-Forwarded-Host` | the host that the caller asked for |
//! | `X-Forwarded-Proto` | `https` where the caller came by TLS, else `http` |
//! | `X-Forwarded-Prefix` | what was taken off the path |
//!
//! What callers say in any header whose name begins with `X-Forwarded`, or in `Forwarded` (RFC
//! 7239), is taken out: anybody could say it. So are headers by which frameworks serve another path
//! or host than the request names ([`OVERRIDES`]), since access rules and routes are about what it
//! names. CGI and WSGI cannot tell an underscore in a name from a hyphen, so another sign in its
//! place changes nothing.

use http::{HeaderName, HeaderValue};

use crate::Headers;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const OF_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// What is known of a request as its caller made it.
#[derive(Debug, Clone, Default)]
pub struct Forwarded<'a> {
    /// The caller's address: [`Peer::address_header`](crate::Peer::address_header).
    pub address: Option<HeaderValue>,
    /// The host that it asked for.
    pub host: Option<HeaderValue>,
    /// Whether it came by TLS.
    pub is_https: Option<bool>,
    /// What was taken off the path.
    pub prefix: Option<&'a str>,
}

impl Forwarded<'_> {
    /// Says it in headers, in place of what callers say in such headers.
    pub fn tell(self, headers: &mut Headers) {
        remove_proxy_headers(headers);
        let prefix = self.prefix.and_then(|prefix| HeaderValue::from_str(prefix).ok());
        let scheme = |is_https| HeaderValue::from_static(if is_https { "https" } else { "http" });
        let proto = self.is_https.map(scheme);
        headers.reserve(4);
        for (name, value) in
            [(FOR, self.address), (OF_HOST, self.host), (PROTO, proto), (PREFIX, prefix)]
        {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
    }
}

/// Removes the headers that only a proxy may say.
fn remove_proxy_headers(headers: &mut Headers) {
    let names: Vec<_> = headers.keys().filter(|name| is_of_proxy(name.as_str())).cloned().collect();
    names.iter().for_each(|name| _ = headers.remove(name));
}

/// By the first two IIS, Symfony and Zend serve another path, by the next three some take another
/// host. CGI hands `Proxy` on as the variable by which clients find their proxy (httpoxy).
const OVERRIDES: [&str; 6] = [
    "x-original-url",
    "x-rewrite-url",
    "x-original-host",
    "x-host",
    "x-http-host-override",
    "proxy",
];

/// Whether only a proxy may say a header of this name, in lower case, whichever signs stand for the
/// hyphens in it.
pub fn is_of_proxy(name: &str) -> bool {
    // Most names begin otherwise.
    if !name.starts_with(['x', 'f', 'p']) {
        return false;
    }
    let is_named = |known: &&str| name.len() == known.len() && begins_like(name, known);
    begins_like(name, "x-forwarded") || name == "forwarded" || OVERRIDES.iter().any(is_named)
}

fn begins_like(name: &str, start: &str) -> bool {
    let is_like = |(byte, wanted): (u8, u8)| match wanted {
        b'-' => !byte.is_ascii_alphanumeric(),
        _ => byte == wanted,
    };
    name.len() >= start.len() && name.bytes().zip(start.bytes()).all(is_like)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callers_say_is_replaced_by_what_is_known() {
        let mut headers = Headers::new();
        for name in OVERRIDES.into_iter().chain(["forwarded", "x-forwarded-for", "x-own"]) {
            headers.insert(name, HeaderValue::from_static("evil"));
        }
        let host = Some(HeaderValue::from_static("shop.example"));
        let address = Some(HeaderValue::from_static("192.0.2.7"));
        let known = Forwarded { address, host, is_https: Some(true), prefix: Some("/shop") };
        known.tell(&mut headers);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let lines = headers.iter().map(|(name, value)| format!("{name}: {}", text(value)));
        let mut lines: Vec<_> = lines.collect();
        lines.sort_unstable();
        let told = [
            "x-forwarded-for: 192.0.2.7",
            "x-forwarded-host: shop.example",
            "x-forwarded-prefix: /shop",
            "x-forwarded-proto: https",
            "x-own: evil",
        ];
        assert_eq!(lines, told);
        Forwarded::default().tell(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-own"]);
    }

    #[test]
    fn no_way_to_write_a_name_of_a_proxy_is_a_callers() {
        for name in [
            "x_forwarded_for",
            "x.forwarded.for",
            "x-forwarded_host",
            "x-forwarded",
            "x_forwarded",
            "x-forwarded-user",
            "x_original_url",
            "x.rewrite-url",
            "x~host",
            "proxy",
            "forwarded",
        ] {
            assert!(is_of_proxy(name), "{name}");
        }
        for name in ["x-original-file", "x_own", "x-hosts", "proxys", "xforwarded", "forwarded-x"] {
            assert!(!is_of_proxy(name), "{name}");
        }
    }
}
