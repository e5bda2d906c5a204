//! Which headers are the caller's and which the protocol's.
//!
//! Headers of a call are passed on but for those that belong to one connection (RFC 9110, section
//! 7.6.1) or that the protocols set themselves; likewise on the way back, where headers and
//! trailers of a service are filtered by whoever writes them and by whoever reads them.
//!
//! A name that ends in `-bin` has a value of bytes in base64, on all three protocols.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use tidewire_service::{headers_without, is_of_connection};

/// The headers of a call that go to the server.
pub(crate) fn passed_on(headers: HeaderMap) -> HeaderMap {
    headers_without(headers.into(), is_request_protocol).into()
}

/// The headers or trailers of a response that are the service's own.
pub(crate) fn own(headers: HeaderMap) -> HeaderMap {
    if headers.is_empty() {
        return headers;
    }
    headers_without(headers.into(), is_response_protocol).into()
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
                | "host"
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
                | "grpc-timeout"
                | "host"
        )
        || name.starts_with(TRAILER)
}

/// More trailers than any service has; those of HTTP itself are bounded by their bytes.
pub(crate) const TRAILERS_MAX: usize = 1024;

/// What Connect's unary calls put before the name of a trailer.
pub(crate) const TRAILER: &str = "trailer-";

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
/// let value = tidewire_wire::binary_value(&[0, 255]);
/// assert_eq!(tidewire_wire::binary(&value).as_deref(), Some(&[0, 255][..]));
/// ```
pub fn binary_value(bytes: &[u8]) -> HeaderValue {
    HeaderValue::try_from(BASE64.encode(bytes)).expect("base64 is ASCII")
}

/// The bytes of a binary header, whose name ends in `-bin`; `None` if it is not base64.
pub fn binary(value: &HeaderValue) -> Option<Bytes> {
    BASE64.decode(value.as_bytes()).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let kept = passed_on(headers);
        assert_eq!(kept.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(kept.keys_len(), 1, "{kept:?}");
    }

    #[test]
    fn names_that_a_protocol_needs_are_no_metadata() {
        let mut headers = HeaderMap::new();
        for name in [
            "grpc-status",
            "grpc-message",
            "grpc-status-details-bin",
            "grpc-encoding",
            "transfer-encoding",
            "connection",
            "content-length",
            "content-type",
            "content-encoding",
            "trailer-x",
            "trailer",
            "x-named",
            "te",
        ] {
            headers.insert(name, HeaderValue::from_static("x-named"));
        }
        headers.insert("grpc-retry-pushback-ms", HeaderValue::from_static("7"));
        headers.insert("x-kept-bin", HeaderValue::from_static("AA"));
        let kept = own(headers);
        let names: Vec<_> = kept.keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ["grpc-retry-pushback-ms", "x-kept-bin"]);
    }
}
