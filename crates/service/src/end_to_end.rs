//! Which headers belong to one connection, and stay behind where a message is passed on.
//!
//! Those that RFC 9110 (section 7.6.1) says, those that `Connection` names, and those for a proxy
//! (section 11.7), which this one is asked by. `Host` is the message's own.
//!
//! What is for all recipients stays, whoever names it in `Connection`: no sender may (section
//! 7.6.1), and `Cache-Control: private` would be lost to the caches behind this one.

use http::header;

use crate::Headers;

/// The headers of a message without those of its connection.
///
/// ```
/// use http::HeaderValue;
/// let mut headers = tidewire_service::Headers::new();
/// headers.insert("connection", HeaderValue::from_static("x-hop, close"));
/// headers.insert("x-hop", HeaderValue::from_static("1"));
/// headers.insert("host", HeaderValue::from_static("shop.example"));
/// let passed = tidewire_service::end_to_end(headers);
/// assert_eq!(passed.keys().collect::<Vec<_>>(), ["host"]);
/// ```
pub fn end_to_end(headers: Headers) -> Headers {
    headers_without(headers, is_of_connection)
}

/// The headers without what the predicate says, and without what a `Connection` header names.
pub fn headers_without(headers: Headers, is_dropped: impl Fn(&str) -> bool) -> Headers {
    // Most have nothing of the kind.
    if headers.keys().all(|name| name != header::CONNECTION && !is_dropped(name.as_str())) {
        return headers;
    }
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| !is_for_all(name))
        .collect();
    if named.is_empty() {
        return filtered(headers, is_dropped);
    }
    filtered(headers, |name| is_dropped(name) || named.iter().any(|n| n == name))
}

/// Whether a header of this name, in lower case, is for all recipients of a message, so that
/// `Connection` cannot make it one of a connection.
pub fn is_for_all(name: &str) -> bool {
    matches!(
        name,
        "age"
            | "authorization"
            | "cache-control"
            | "cdn-cache-control"
            | "content-encoding"
            | "content-length"
            | "content-range"
            | "content-type"
            | "cookie"
            | "date"
            | "etag"
            | "expires"
            | "host"
            | "last-modified"
            | "pragma"
            | "range"
            | "set-cookie"
            | "vary"
    )
}

/// Whether a header of this name, in lower case, belongs to the connection that it came by.
pub fn is_of_connection(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

fn filtered(headers: Headers, is_dropped: impl Fn(&str) -> bool) -> Headers {
    // As many names as there were fit for certain; there may be any number of values.
    let mut kept = Headers::with_capacity(headers.keys_len());
    let mut last = None;
    for (name, value) in headers {
        last = name.or(last);
        if let Some(name) = &last
            && !is_dropped(name.as_str())
        {
            kept.append(name, value);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn what_is_for_all_cannot_be_named() {
        let mut headers = Headers::new();
        let named = "Cache-Control, vary, SET-COOKIE, x-hop";
        headers.insert("connection", HeaderValue::from_static(named));
        for name in ["cache-control", "vary", "set-cookie", "x-hop"] {
            headers.insert(name, HeaderValue::from_static("a"));
        }
        let passed = end_to_end(headers);
        assert_eq!(passed.keys().collect::<Vec<_>>(), ["cache-control", "vary", "set-cookie"]);
    }

    #[test]
    fn headers_of_a_connection_stay_behind() {
        let mut headers = Headers::new();
        for (name, value) in [
            ("x-a", "1"),
            ("connection", "close, X-Hop"),
            ("connection", "x-other"),
            ("x-a", "2"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("proxy-authorization", "Basic YTpi"),
            ("host", "a"),
            ("content-type", "text/plain"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let kept = end_to_end(headers);
        assert_eq!(kept.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        let mut names: Vec<_> = kept.keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "host", "x-a"]);
    }
}
