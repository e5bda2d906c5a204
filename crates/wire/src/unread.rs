//! What whoever passes a call on without reading its messages has to know of its protocol.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tidewire_service::{Error, Headers};

use crate::dialect::Dialect;
use crate::{dialect, status, timeout};

/// Where a caller of gRPC says how long it waits.
pub const GRPC_TIMEOUT: HeaderName = timeout::GRPC;
/// Where the compression of messages of gRPC is named.
pub const GRPC_ENCODING: HeaderName = dialect::GRPC_ENCODING;

/// How long a caller of gRPC, gRPC-Web or Connect says that it waits. `None` also for one that is
/// not written as specified: whoever passes the call on refuses that, or leaves it to the server
/// behind.
pub fn timeout(headers: &Headers) -> Option<Duration> {
    let of = |dialect, name| timeout::read(dialect, headers.get_all(name).iter()).ok().flatten();
    of(Dialect::Grpc, timeout::GRPC).or_else(|| of(Dialect::Connect, timeout::CONNECT))
}

/// Whether a content type is that of gRPC, with whatever codec; gRPC-Web is another.
pub fn is_grpc(content_type: &[u8]) -> bool {
    is_type(content_type, b"application/grpc")
}

/// Whether a body is messages behind one another, each with five bytes before it that say how long
/// it is: gRPC, gRPC-Web but as text, and streams of Connect, with whatever codec.
pub fn has_envelopes(content_type: &[u8]) -> bool {
    is_grpc(content_type)
        || is_type(content_type, b"application/grpc-web")
        || strip(content_type, b"application/connect+").is_some()
}

/// The trailers of gRPC that tell an error.
pub fn grpc_trailers(error: &Error) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    status::put(&mut trailers, error);
    trailers
}

/// Whether a content type is this one, perhaps with a codec or parameters.
fn is_type(content_type: &[u8], name: &[u8]) -> bool {
    let rest = strip(content_type, name);
    rest.is_some_and(|rest| rest.first().is_none_or(|byte| matches!(byte, b'+' | b';' | b' ')))
}

/// What stands behind this, whose case does not count.
fn strip<'a>(text: &'a [u8], begin: &[u8]) -> Option<&'a [u8]> {
    let (first, rest) = text.split_at_checked(begin.len())?;
    first.eq_ignore_ascii_case(begin).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_say_whether_bodies_are_envelopes() {
        for (content_type, grpc, envelopes) in [
            ("application/grpc", true, true),
            ("Application/gRPC+thrift", true, true),
            ("application/grpc;charset=utf-8", true, true),
            ("application/grpc-web+proto", false, true),
            ("application/grpc-web", false, true),
            ("application/connect+json", false, true),
            ("application/grpc-web-text+proto", false, false),
            ("application/grpc-like", false, false),
            ("application/proto", false, false),
            ("application/json", false, false),
            ("", false, false),
        ] {
            assert_eq!(is_grpc(content_type.as_bytes()), grpc, "{content_type}");
            assert_eq!(has_envelopes(content_type.as_bytes()), envelopes, "{content_type}");
        }
    }
}
