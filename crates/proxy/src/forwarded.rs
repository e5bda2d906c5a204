//! What a program behind the gateway is told of the request as its caller made it: `Host`, and
//! [`Forwarded`].
//!
//! `Host` is the host that the caller asked for, empty where it named none. Names with an
//! underscore or a dot are taken out, which CGI, WSGI and PHP cannot tell from those with a hyphen.
//! So is what the caller's `Connection` names, before these are set, since that would take them out
//! again on the way.

use http::header::{CONNECTION, HOST};
use http::{HeaderName, HeaderValue, Uri};
use tidewire_service::{Forwarded, Headers, is_for_all};

/// The host that a request asks for.
pub(crate) fn host<'a>(headers: &'a Headers, uri: &'a Uri) -> Option<&'a str> {
    let of_uri = uri.authority().map(http::uri::Authority::as_str);
    of_uri.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok()))
}

/// Sets these headers; `prefix` was taken off the path.
pub(crate) fn set(
    headers: &mut Headers,
    uri: &Uri,
    address: Option<HeaderValue>,
    is_https: bool,
    prefix: Option<&str>,
) {
    settle_connection(headers);
    take_out(headers);
    // HTTP/2 has it in the URL; the program is spoken to in HTTP/1.1.
    let of_uri = uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    let host = match of_uri {
        Some(host) => {
            headers.insert(HOST, host.clone());
            Some(host)
        }
        None => headers.get(HOST).cloned(),
    };
    if host.is_none() {
        // Without one HTTP/1.1 has an empty field: RFC 9112, section 3.2.
        headers.insert(HOST, HeaderValue::from_static(""));
    }
    Forwarded { address, host, is_https: Some(is_https), prefix }.tell(headers);
}

/// Takes out names that a program could take for others.
fn take_out(headers: &mut Headers) {
    let is_out = |name: &HeaderName| name.as_str().bytes().any(|byte| matches!(byte, b'_' | b'.'));
    let names: Vec<_> = headers.keys().filter(|name| is_out(name)).cloned().collect();
    names.iter().for_each(|name| _ = headers.remove(name));
}

/// Takes out what is of the caller's connection alone, but for its wish to become another.
pub(crate) fn settle_connection(headers: &mut Headers) {
    // Few names are compared sooner than this one is hashed.
    if headers.keys().all(|name| *name != CONNECTION) {
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
    use http::header::FORWARDED;

    use super::*;

    const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
    const OF_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
    const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
    const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

    #[test]
    fn what_callers_say_of_themselves_is_replaced() {
        let mut headers = Headers::new();
        headers.insert(HOST, HeaderValue::from_static("shop.example"));
        headers.insert(FOR, HeaderValue::from_static("10.0.0.1"));
        headers.insert(FORWARDED, HeaderValue::from_static("for=10.0.0.1"));
        let address = HeaderValue::from_static("192.0.2.7");
        set(&mut headers, &Uri::from_static("/a"), Some(address), true, Some("/shop"));
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(text(FOR), Some("192.0.2.7"));
        assert_eq!(text(OF_HOST), Some("shop.example"));
        assert_eq!(text(PROTO), Some("https"));
        assert_eq!(text(PREFIX), Some("/shop"));
        assert_eq!(text(FORWARDED), None);
    }

    #[test]
    fn no_name_that_a_program_could_take_for_one_of_a_proxy_passes() {
        let mut headers = Headers::new();
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
        let mut headers = Headers::new();
        headers.insert(CONNECTION, HeaderValue::from_static("X-Forwarded-For, Upgrade, x-own"));
        headers.append(CONNECTION, HeaderValue::from_static("x-forwarded-proto"));
        headers.insert("x-own", HeaderValue::from_static("a"));
        let address = HeaderValue::from_static("192.0.2.7");
        set(&mut headers, &Uri::from_static("http://a/b"), Some(address), true, None);
        let passed = tidewire_service::end_to_end(headers.clone());
        assert_eq!(passed[FOR], "192.0.2.7");
        assert_eq!(passed[PROTO], "https");
        assert_eq!(passed[HOST], "a");
        assert!(!passed.contains_key("x-own"));
        assert_eq!(headers[CONNECTION], "upgrade");
    }
}
