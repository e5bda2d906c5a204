//! What a trusted proxy says of its caller: `Forwarded` (RFC 7239), or `X-Forwarded-For`,
//! `X-Forwarded-Proto` and `X-Forwarded-Host`.
//!
//! Each proxy adds itself at the end of a list. So the list is read from its end, past addresses
//! that are trusted proxies themselves; the first other one is the caller, and what stands before
//! it is the caller's own invention. Scheme and host are those that the nearest proxy gives.
//!
//! A request that has both kinds of header is refused unless they name the same caller: most
//! proxies set one kind and pass the other one on as their caller sent it.

use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HOST, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{HeaderMap, Request, Uri};
use tidewire_service::{Error, Peer, Result};
use tidewire_wire::is_host;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const OF_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What is said of a request's way, the caller first.
#[derive(Debug, Default)]
struct ForwardedChain {
    /// Addresses; `None` for one that is hidden or unknown.
    hops: Vec<Option<SocketAddr>>,
    proto: Option<String>,
    host: Option<String>,
}

/// The caller of a request as the proxy at the other end of `connection` says, and the host that it
/// asked for set in the request; `None` if it says nothing.
///
/// # Errors
/// 400 for what cannot be read.
pub(super) fn caller<B>(
    request: &mut Request<B>,
    connection: &Peer,
    is_proxy: impl Fn(IpAddr) -> bool,
) -> Result<Option<Peer>> {
    let headers = request.headers();
    let is_standard = headers.contains_key(FORWARDED);
    let is_usual = [FOR, PROTO, OF_HOST].iter().any(|name| headers.contains_key(name));
    let told = match (is_standard, is_usual) {
        (false, false) => return Ok(None),
        (true, false) => standard(headers)?,
        (false, true) => usual(headers)?,
        (true, true) => {
            let standard = standard(headers)?;
            let usual = usual(headers)?;
            if first_other(&standard, &is_proxy) != first_other(&usual, &is_proxy) {
                let text = "headers forwarded and x-forwarded-for name different callers; let the \
                            proxy remove the one that it does not set";
                return Err(Error::invalid_argument(text));
            }
            ForwardedChain {
                proto: standard.proto.or(usual.proto),
                host: standard.host.or(usual.host),
                ..usual
            }
        }
    };
    let address = first_other(&told, &is_proxy).or(connection.address);
    let mut peer = connection.clone();
    peer.address = address;
    if let Some(proto) = &told.proto {
        peer.is_secure = match proto.to_ascii_lowercase().as_str() {
            "https" | "wss" => true,
            "http" | "ws" => false,
            _ => {
                let header = if is_standard { FORWARDED } else { PROTO };
                return Err(wrong(header.as_str(), proto));
            }
        };
    }
    if let Some(host) = &told.host {
        set_host(request, host)?;
    }
    Ok(Some(peer))
}

/// The last address that is not a trusted proxy, or the first of all; `None` where it is hidden, or
/// none is given.
fn first_other(told: &ForwardedChain, is_proxy: impl Fn(IpAddr) -> bool) -> Option<SocketAddr> {
    let is_other = |hop: &&Option<SocketAddr>| hop.is_none_or(|at| !is_proxy(at.ip()));
    let other = told.hops.iter().rev().find(is_other).or_else(|| told.hops.first());
    other.copied().flatten()
}

/// Reads `X-Forwarded-*`.
fn usual(headers: &HeaderMap) -> Result<ForwardedChain> {
    let last =
        |name: &HeaderName| -> Result<Option<String>> { Ok(items(headers, name, ',')?.pop()) };
    let hops = items(headers, &FOR, ',')?;
    let hops: Result<_> = hops.iter().map(|item| node(FOR.as_str(), item)).collect();
    Ok(ForwardedChain { hops: hops?, proto: last(&PROTO)?, host: last(&OF_HOST)? })
}

/// Reads `Forwarded`: `for=192.0.2.7;proto=https;host=shop.example, for="[2001:db8::7]:1234"`.
fn standard(headers: &HeaderMap) -> Result<ForwardedChain> {
    let mut told = ForwardedChain::default();
    for element in items(headers, &FORWARDED, ',')? {
        let mut hop = None;
        (told.proto, told.host) = (None, None);
        for pair in split(&element, ';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| wrong("forwarded", pair))?;
            let value = unquoted(value).ok_or_else(|| wrong("forwarded", pair))?;
            match name.to_ascii_lowercase().as_str() {
                "for" => hop = node("forwarded", &value)?,
                "proto" => told.proto = Some(value),
                "host" => told.host = Some(value),
                _ => {}
            }
        }
        told.hops.push(hop);
    }
    Ok(told)
}

/// The items of a header that is a list, over all its fields.
fn items(headers: &HeaderMap, name: &HeaderName, separator: char) -> Result<Vec<String>> {
    let mut items = Vec::new();
    for value in headers.get_all(name) {
        let text = value.to_str().map_err(|_| wrong(name.as_str(), "not text"))?;
        let some = split(text, separator).map(str::trim).filter(|item| !item.is_empty());
        items.extend(some.map(str::to_owned));
    }
    Ok(items)
}

/// Splits a text where a separator stands outside of quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    text.split(move |character| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match character {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            _ => return character == separator && !is_quoted,
        }
        false
    })
}

/// A value without its quotes; `None` for one that is opened and not closed.
fn unquoted(value: &str) -> Option<String> {
    let Some(open) = value.strip_prefix('"') else { return Some(value.to_owned()) };
    let inner = open.strip_suffix('"')?;
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        text.push(if character == '\\' { characters.next()? } else { character });
    }
    Some(text)
}

/// An address with or without a port; `None` for `unknown` and names that hide one (`_secret`).
fn node(header: &str, text: &str) -> Result<Option<SocketAddr>> {
    if text.eq_ignore_ascii_case("unknown") || text.starts_with('_') {
        return Ok(None);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    let address = address.or_else(|_| text.parse::<SocketAddr>());
    address.map(Some).map_err(|_| wrong(header, text))
}

/// Sets the host that was asked for, where HTTP/1.1 and HTTP/2 have it.
fn set_host<B>(request: &mut Request<B>, host: &str) -> Result<()> {
    let of_proxy = || wrong("of a proxy: the host", host);
    let value = HeaderValue::from_str(host).map_err(|_| of_proxy())?;
    let authority = Authority::from_maybe_shared(bytes::Bytes::copy_from_slice(host.as_bytes()));
    let authority = authority.ok().filter(|_| is_host(host.as_bytes())).ok_or_else(of_proxy)?;
    if request.uri().authority().is_some() {
        let mut parts = request.uri().clone().into_parts();
        parts.authority = Some(authority);
        *request.uri_mut() = Uri::from_parts(parts).map_err(|_| of_proxy())?;
    }
    request.headers_mut().insert(HOST, value);
    Ok(())
}

fn wrong(header: &str, text: &str) -> Error {
    Error::invalid_argument(format!("header {header} has {text:?}, which cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a request with these headers by the proxy 10.0.0.1, where 10.0.0.0/24 is
    /// trusted: address, scheme and host.
    fn told(
        headers: &[(&str, &str)],
    ) -> std::result::Result<(String, &'static str, String), String> {
        let mut request = Request::get("/a").header(HOST, "proxy.example");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(()).unwrap();
        let connection = Peer::new(SocketAddr::from(([10, 0, 0, 1], 1234)));
        let is_proxy = |ip: IpAddr| ip.to_string().starts_with("10.0.0.");
        let peer =
            caller(&mut request, &connection, is_proxy).map_err(|it| it.message().to_owned())?;
        let peer = peer.unwrap_or(connection);
        let host = request.headers()[HOST].to_str().unwrap().to_owned();
        Ok((peer.address.unwrap().to_string(), peer.scheme(), host))
    }

    #[test]
    fn the_caller_is_the_last_address_that_is_not_a_trusted_proxy() {
        for (headers, address, scheme, host) in [
            (&[][..], "10.0.0.1:1234", "http", "proxy.example"),
            (&[("x-forwarded-for", "192.0.2.7")], "192.0.2.7:0", "http", "proxy.example"),
            (
                &[("x-forwarded-for", "6.6.6.6, 192.0.2.7, 10.0.0.9")],
                "192.0.2.7:0",
                "http",
                "proxy.example",
            ),
            (
                &[("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "192.0.2.7")],
                "192.0.2.7:0",
                "http",
                "proxy.example",
            ),
            (&[("x-forwarded-for", "10.0.0.8, 10.0.0.9")], "10.0.0.8:0", "http", "proxy.example"),
            (
                &[("x-forwarded-for", "2001:db8::7"), ("x-forwarded-proto", "https")],
                "[2001:db8::7]:0",
                "https",
                "proxy.example",
            ),
            (
                &[("x-forwarded-proto", "http, https"), ("x-forwarded-host", "shop.example:8443")],
                "10.0.0.1:1234",
                "https",
                "shop.example:8443",
            ),
            (
                &[(
                    "forwarded",
                    r#"for=6.6.6.6, For="[2001:db8::7]:99";Proto=https;host=a.example"#,
                )],
                "[2001:db8::7]:99",
                "https",
                "a.example",
            ),
            (
                &[
                    ("forwarded", r#"for=192.0.2.7;host="a,b.example""#),
                    ("forwarded", "for=10.0.0.9"),
                ],
                "192.0.2.7:0",
                "http",
                "proxy.example",
            ),
            (&[("x-forwarded-for", "")], "10.0.0.1:1234", "http", "proxy.example"),
            (&[("forwarded", "for=unknown")], "10.0.0.1:1234", "http", "proxy.example"),
            (
                &[("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "192.0.2.7")],
                "192.0.2.7:0",
                "http",
                "proxy.example",
            ),
        ] {
            let expected = (address.to_owned(), scheme, host.to_owned());
            assert_eq!(told(headers), Ok(expected), "{headers:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_header() {
        for (headers, says) in [
            (&[("x-forwarded-for", "shop.example")][..], "header x-forwarded-for"),
            (&[("forwarded", "for=\"1.2.3.4")], "header forwarded"),
            (&[("forwarded", "for")], "header forwarded"),
            (&[("x-forwarded-proto", "gopher")], "header x-forwarded-proto"),
            (&[("x-forwarded-host", "u@a")], "host"),
            (&[("x-forwarded-host", "a/b")], "host"),
            (
                &[("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "192.0.2.7")],
                "name different callers",
            ),
        ] {
            let error = told(headers).unwrap_err();
            assert!(error.contains(says), "{headers:?}: {error}");
        }
    }
}
