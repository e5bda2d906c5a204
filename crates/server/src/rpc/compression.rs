//! The answer to a request that is compressed in a way the server does not know.
//!
//! The library refuses it too, but does not say what it does know.

use connectrpc::{ConnectError, ConnectRpcBody};
use http::header::{CONTENT_ENCODING, HeaderName, HeaderValue};
use http::{HeaderMap, Response};

/// The response, in the protocol that the request's headers speak; `None` when all is well.
pub(crate) fn unsupported_compression(headers: &HeaderMap) -> Option<Response<ConnectRpcBody>> {
    let (name, value) =
        ENCODINGS.into_iter().find_map(|name| headers.get(&name).map(|value| (name, value)))?;
    if value.is_empty() || KNOWN.iter().any(|known| value == known) {
        return None;
    }
    let asked = value.to_str().unwrap_or("that is not text");
    let message = format!("no compression {asked}; {name} is one of {}", KNOWN.join(", "));
    let mut response = ConnectError::unimplemented(message).into_http_response(headers);
    let accepted = HeaderValue::from_static("gzip,zstd");
    if name == GRPC_ENCODING {
        response.headers_mut().insert(HeaderName::from_static("grpc-accept-encoding"), accepted);
    }
    Some(response)
}

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// Where Connect unary, Connect streams and gRPC name the compression of what they send.
const ENCODINGS: [HeaderName; 3] =
    [CONTENT_ENCODING, HeaderName::from_static("connect-content-encoding"), GRPC_ENCODING];
const KNOWN: [&str; 3] = ["gzip", "zstd", "identity"];
