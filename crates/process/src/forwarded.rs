//! What a program behind the gateway is told of the request as its caller made it.
//!
//! | header | says |
//! |---|---|
//! | `Host` | the host that the caller asked for |
//! | `X-Forwarded-For` | the caller's address |
//! | `X-Forwarded-Host` | the same |
//! | `X-Forwarded-Proto` | `https` where this server speaks TLS, else `http` |
//! | `X-Forwarded-Prefix` | what was taken off the path |
//!
//! What callers say in any header whose name begins with `X-Forwarded`, or in `Forwarded` (RFC 7239), is taken
//! out: anybody could say it. So are names with an underscore, which CGI and WSGI cannot tell from those with a
//! hyphen, and what the caller's `Connection` names, before these are set, since that would take them out again
//! on the way.

use http::header::{CONNECTION, FORWARDED, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use tidewire_service::Peer;

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
    peer: Option<&Peer>,
    is_https: bool,
    prefix: Option<&str>,
) {
    let host = host(headers, uri).and_then(|host| HeaderValue::from_str(host).ok());
    settle_connection(headers);
    take_out(headers);
    let address = peer.and_then(|peer| peer.address).map(|address| address.ip().to_string());
    let address = address.and_then(|address| HeaderValue::from_str(&address).ok());
    let prefix = prefix.and_then(|prefix| HeaderValue::from_str(prefix).ok());
    // HTTP/2 has it in the URL; the program is spoken to in HTTP/1.1.
    if let Some(host) = &host {
        headers.insert(HOST, host.clone());
    }
    let proto = Some(HeaderValue::from_static(if is_https { "https" } else { "http" }));
    for (name, value) in [(FOR, address), (OF_HOST, host), (PROTO, proto), (PREFIX, prefix)] {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
}

/// Takes out what only a proxy may say, and names that a program could take for others.
fn take_out(headers: &mut HeaderMap) {
    let is_out = |name: &HeaderName| {
        let name = name.as_str();
        name.starts_with("x-forwarded") || name == FORWARDED || name.contains('_')
    };
    let names: Vec<_> = headers.keys().filter(|name| is_out(name)).cloned().collect();
    names.iter().for_each(|name| _ = headers.remove(name));
}

/// Takes out what is of the caller's connection alone, but for its wish to become another.
fn settle_connection(headers: &mut HeaderMap) {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|names| names.split(',')).map(|name| name.trim().to_lowercase());
    let (upgrade, named): (Vec<_>, Vec<_>) = names.partition(|name| name == "upgrade");
    named.iter().for_each(|name| _ = headers.remove(name));
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
        let peer = Peer::new(std::net::SocketAddr::from(([192, 0, 2, 7], 1234)));
        set(&mut headers, &Uri::from_static("/a"), Some(&peer), true, Some("/shop"));
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(text(FOR), Some("192.0.2.7"));
        assert_eq!(text(OF_HOST), Some("shop.example"));
        assert_eq!(text(PROTO), Some("https"));
        assert_eq!(text(PREFIX), Some("/shop"));
        assert_eq!(text(FORWARDED), None);
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
        assert_eq!(names, ["x-forwarded-proto", "x-own"]);
    }

    #[test]
    fn a_caller_cannot_have_them_taken_out_on_the_way() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("X-Forwarded-For, Upgrade, x-own"));
        headers.append(CONNECTION, HeaderValue::from_static("x-forwarded-proto"));
        headers.insert("x-own", HeaderValue::from_static("a"));
        let peer = Peer::new(std::net::SocketAddr::from(([192, 0, 2, 7], 1234)));
        set(&mut headers, &Uri::from_static("http://a/b"), Some(&peer), true, None);
        let passed = tidewire_service::end_to_end(headers.clone());
        assert_eq!(passed[FOR], "192.0.2.7");
        assert_eq!(passed[PROTO], "https");
        assert_eq!(passed[HOST], "a");
        assert!(!passed.contains_key("x-own"));
        assert_eq!(headers[CONNECTION], "upgrade");
    }
}
