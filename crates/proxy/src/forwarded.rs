//! What a program behind the gateway is told of the request as its caller made it.
//!
//! | header | says |
//! |---|---|
//! | `Host` | the host that the caller asked for, empty where it named none |
//! | `X-Forwarded-For` | the caller's address |
//! | `X-Forwarded-Host` | the same |
//! | `X-Forwarded-Proto` | `https` where the caller came by TLS, else `http` |
//! | `X-Forwarded-Prefix` | what was taken off the path |
//!
//! What callers say in any header whose name begins with `X-Forwarded`, or in `Forwarded` (RFC
//! 7239), is taken out: anybody could say it. So are names with an underscore, which CGI and WSGI
//! cannot tell from those with a hyphen, and what the caller's `Connection` names, before these are
//! set, since that would take them out again on the way. So are headers by which frameworks serve
//! another path or host than the request names ([`OVERRIDES`]), since access rules and routes are
//! about what it names.

use std::net::{IpAddr, SocketAddr};

use bytes::{BufMut, BytesMut};
use http::header::{CONNECTION, FORWARDED, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use tidewire_service::is_for_all;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const OF_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The host that a request asks for.
pub(crate) fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let of_uri = uri.authority().map(http::uri::Authority::as_str);
    of_uri.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok()))
}

/// Sets these headers; `prefix` was taken off the path.
pub(crate) fn set(
    headers: &mut HeaderMap,
    uri: &Uri,
    address: Option<SocketAddr>,
    is_https: bool,
    prefix: Option<&str>,
) {
    let of_uri = uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    let is_of_uri = of_uri.is_some();
    let host = of_uri.or_else(|| headers.get(HOST).cloned());
    settle_connection(headers);
    take_out(headers);
    // HTTP/2 has it in the URL; the program is spoken to in HTTP/1.1.
    if is_of_uri || !headers.contains_key(HOST) {
        // Without one HTTP/1.1 has an empty field: RFC 9112, section 3.2.
        let host = host.clone().unwrap_or_else(|| HeaderValue::from_static(""));
        headers.insert(HOST, host);
    }
    let address = address.and_then(|address| forwarded_address(address.ip()));
    let prefix = prefix.and_then(|prefix| HeaderValue::from_str(prefix).ok());
    headers.reserve(4);
    let proto = Some(HeaderValue::from_static(if is_https { "https" } else { "http" }));
    for (name, value) in [(FOR, address), (OF_HOST, host), (PROTO, proto), (PREFIX, prefix)] {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
}

/// An address as a header; those of four numbers, of which most are, without what formats anything.
fn forwarded_address(address: IpAddr) -> Option<HeaderValue> {
    let IpAddr::V4(address) = address else {
        return HeaderValue::from_str(&address.to_string()).ok();
    };
    let mut text = BytesMut::with_capacity(15);
    for (place, number) in address.octets().into_iter().enumerate() {
        if place > 0 {
            text.put_u8(b'.');
        }
        for (least, digit) in [(100, number / 100), (10, number / 10 % 10), (0, number % 10)] {
            if number >= least {
                text.put_u8(b'0' + digit);
            }
        }
    }
    HeaderValue::from_maybe_shared(text.freeze()).ok()
}

/// Takes out what only a proxy may say, and names that a program could take for others.
fn take_out(headers: &mut HeaderMap) {
    let is_out = |name: &str| is_of_proxy(name) || name.contains(['_', '.']);
    let names: Vec<_> = headers.keys().filter(|name| is_out(name.as_str())).cloned().collect();
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

/// Whether only a proxy may say it.
pub fn is_of_proxy(name: &str) -> bool {
    name.starts_with("x-forwarded") || name == FORWARDED || OVERRIDES.contains(&name)
}

/// Takes out what is of the caller's connection alone, but for its wish to become another.
pub(crate) fn settle_connection(headers: &mut HeaderMap) {
    if !headers.contains_key(CONNECTION) {
        return;
    }
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|names| names.split(',')).map(|name| name.trim().to_lowercase());
    let (upgrade, named): (Vec<_>, Vec<_>) = names.partition(|name| name == "upgrade");
    let named = named.iter().filter(|name| !is_for_all(name));
    named.for_each(|name| _ = headers.remove(name));
    headers.remove(CONNECTION);
    if !upgrade.is_empty() {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callers_say_of_themselves_is_replaced() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("shop.example"));
        headers.insert(FOR, HeaderValue::from_static("10.0.0.1"));
        headers.insert(FORWARDED, HeaderValue::from_static("for=10.0.0.1"));
        let address = SocketAddr::from(([192, 0, 2, 7], 1234));
        set(&mut headers, &Uri::from_static("/a"), Some(address), true, Some("/shop"));
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(text(FOR), Some("192.0.2.7"));
        assert_eq!(text(OF_HOST), Some("shop.example"));
        assert_eq!(text(PROTO), Some("https"));
        assert_eq!(text(PREFIX), Some("/shop"));
        assert_eq!(text(FORWARDED), None);
    }

    #[test]
    fn no_header_makes_a_program_serve_another_path_or_host_than_was_judged() {
        let mut headers = HeaderMap::new();
        for name in OVERRIDES {
            headers.insert(name, HeaderValue::from_static("/admin"));
        }
        headers.insert("x-original-file", HeaderValue::from_static("a.txt"));
        set(&mut headers, &Uri::from_static("/a"), None, false, None);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["host", "x-forwarded-proto", "x-original-file"]);
    }

    #[test]
    fn addresses_are_written_as_everywhere() {
        for text in ["0.0.0.0", "1.10.100.255", "9.99.199.200", "2001:db8::7"] {
            assert_eq!(forwarded_address(text.parse().unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn no_name_that_a_program_could_take_for_one_of_a_proxy_passes() {
        let mut headers = HeaderMap::new();
        for name in [
            "x-forwarded-ssl",
            "x-forwarded-user",
            "x-forwarded",
            "x_forwarded_for",
            "x-forwarded_host",
            "content_length",
            "x-own",
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("evil"));
        }
        set(&mut headers, &Uri::from_static("/a"), None, false, None);
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["host", "x-forwarded-proto", "x-own"]);
    }

    #[test]
    fn a_caller_cannot_have_them_taken_out_on_the_way() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("X-Forwarded-For, Upgrade, x-own"));
        headers.append(CONNECTION, HeaderValue::from_static("x-forwarded-proto"));
        headers.insert("x-own", HeaderValue::from_static("a"));
        let address = SocketAddr::from(([192, 0, 2, 7], 1234));
        set(&mut headers, &Uri::from_static("http://a/b"), Some(address), true, None);
        let passed = tidewire_service::end_to_end(headers.clone());
        assert_eq!(passed[FOR], "192.0.2.7");
        assert_eq!(passed[PROTO], "https");
        assert_eq!(passed[HOST], "a");
        assert!(!passed.contains_key("x-own"));
        assert_eq!(headers[CONNECTION], "upgrade");
    }
}
