//! Which headers are the caller's and which the protocol's.
//!
//! Headers of a call are passed on but for those that belong to one connection (RFC 9110, section
//! 7.6.1) or that the protocols set themselves; likewise on the way back.

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, header};

/// The headers of a call that go to the server.
pub(crate) fn passed_on(headers: HeaderMap) -> HeaderMap {
    filtered(headers, is_request_protocol)
}

/// The headers or trailers of a response that are the service's own.
pub(crate) fn own(headers: HeaderMap) -> HeaderMap {
    filtered(headers, is_response_protocol)
}

/// The headers of a plain HTTP message without those of its connection.
pub(crate) fn end_to_end(headers: HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    if named.is_empty() {
        return filtered(headers, is_of_connection);
    }
    filtered(headers, |name| is_of_connection(name) || named.iter().any(|n| n == name))
}

fn filtered(headers: HeaderMap, is_dropped: impl Fn(&str) -> bool) -> HeaderMap {
    if headers.keys().all(|name| !is_dropped(name.as_str())) {
        return headers;
    }
    let mut kept = HeaderMap::with_capacity(headers.len() + 8);
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

fn is_of_connection(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "host"
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

fn is_request_protocol(name: &str) -> bool {
    is_of_connection(name)
        || name.starts_with("grpc-")
        || name.starts_with(':')
        || matches!(
            name,
            "accept-encoding"
                | "connect-accept-encoding"
                | "connect-content-encoding"
                | "connect-protocol-version"
                | "connect-timeout-ms"
                | "content-encoding"
                | "content-length"
                | "content-type"
                | "expect"
                | "x-grpc-web"
        )
}

fn is_response_protocol(name: &str) -> bool {
    is_of_connection(name)
        || matches!(
            name,
            "accept-encoding"
                | "connect-accept-encoding"
                | "connect-content-encoding"
                | "content-encoding"
                | "content-length"
                | "content-type"
                | "grpc-accept-encoding"
                | "grpc-encoding"
                | "grpc-message"
                | "grpc-status"
                | "grpc-status-details-bin"
        )
}

/// `connect-timeout-ms`: at most ten digits.
pub(crate) fn connect_timeout(left: Duration) -> HeaderValue {
    let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(9_999_999_999);
    HeaderValue::from(millis)
}

/// `grpc-timeout`: at most eight digits, with the finest unit that fits.
pub(crate) fn grpc_timeout(left: Duration) -> HeaderValue {
    const DIGITS_MAX: u128 = 99_999_999;
    let units = [
        (left.as_nanos(), 'n'),
        (left.as_micros(), 'u'),
        (left.as_millis(), 'm'),
        (u128::from(left.as_secs()), 'S'),
        (u128::from(left.as_secs() / 60), 'M'),
    ];
    let fit = units.into_iter().find(|(value, _)| *value <= DIGITS_MAX);
    let (value, unit) =
        fit.unwrap_or_else(|| (u128::from(left.as_secs() / 3600).min(DIGITS_MAX), 'H'));
    HeaderValue::try_from(format!("{value}{unit}")).unwrap_or(HeaderValue::from_static("0n"))
}

/// Base64 as binary headers have it: written without padding, read with or without.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The value of a binary header, whose name ends in `-bin`.
///
/// ```
/// let value = tidewire_client::binary_value(&[0, 255]);
/// assert_eq!(tidewire_client::binary(&value).as_deref(), Some(&[0, 255][..]));
/// ```
pub fn binary_value(bytes: &[u8]) -> HeaderValue {
    HeaderValue::try_from(BASE64.encode(bytes)).expect("base64 is ASCII")
}

/// The bytes of a binary header, whose name ends in `-bin`; `None` if it is not base64.
pub fn binary(value: &HeaderValue) -> Option<Bytes> {
    BASE64.decode(value.as_bytes()).ok().map(Bytes::from)
}

pub(crate) const fn name(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

/// What clients of this library call themselves.
pub(crate) const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("tidewire/", env!("CARGO_PKG_VERSION")));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_use_the_finest_unit_that_fits() {
        for (left, connect, grpc) in [
            (Duration::ZERO, "0", "0n"),
            (Duration::from_millis(99), "99", "99000000n"),
            (Duration::from_millis(1500), "1500", "1500000u"),
            (Duration::from_secs(3600), "3600000", "3600000m"),
            (Duration::from_secs(u64::MAX), "9999999999", "99999999H"),
        ] {
            assert_eq!(connect_timeout(left), connect);
            assert_eq!(grpc_timeout(left), grpc);
        }
    }

    #[test]
    fn headers_of_a_connection_and_of_a_protocol_stay_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-a", "1"),
            ("connection", "x-hop, close"),
            ("x-a", "2"),
            ("x-hop", "1"),
            ("host", "a"),
            ("content-type", "text/plain"),
            ("grpc-timeout", "1S"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let kept = end_to_end(headers.clone());
        assert_eq!(kept.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(kept.len(), 4, "{kept:?}");
        let kept = passed_on(headers);
        assert_eq!(kept.get_all("x-a").iter().count(), 2);
        assert!(!kept.contains_key("content-type") && !kept.contains_key("grpc-timeout"));
    }
}
