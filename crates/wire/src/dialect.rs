//! The three protocols, how messages lie in a body, and the content types that say both.
//!
//! | content type | dialect | framing |
//! |---|---|---|
//! | `application/{proto,json}` | Connect | bare: the body is the message |
//! | `application/connect+{proto,json}` | Connect | envelopes |
//! | `application/grpc`, `application/grpc+{proto,json}` | gRPC | envelopes |
//! | `application/grpc-web`, `application/grpc-web+{proto,json}` | gRPC-Web | envelopes |
//! | `application/grpc-web-text`, `application/grpc-web-text+proto` | gRPC-Web | envelopes in base64 |

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tidewire_service::{Codec, Protocol, Result, StreamKind};

use crate::timeout;

/// A protocol of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// Connect, over HTTP/1.1 or HTTP/2.
    #[default]
    Connect,
    /// gRPC, over HTTP/2 only.
    Grpc,
    /// gRPC-Web, over HTTP/1.1 or HTTP/2.
    GrpcWeb,
}

/// How the messages of a call lie in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The body is the message.
    Bare,
    /// Each message has five bytes before it.
    Enveloped,
    /// The same in base64.
    Text,
}

/// What a content type says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) dialect: Dialect,
    pub(crate) framing: Framing,
    pub(crate) codec: Codec,
}

impl Dialect {
    /// The header that tells a server how long it has.
    pub fn timeout(self, left: Duration) -> (HeaderName, HeaderValue) {
        timeout::header(self, left)
    }

    /// How long a caller waits, by all values of that header; `None` if there are none.
    ///
    /// # Errors
    /// `invalid_argument` for a value that is not as specified, or more than one.
    pub fn read_timeout<'a>(
        self,
        values: impl Iterator<Item = &'a HeaderValue>,
    ) -> Result<Option<Duration>> {
        timeout::read(self, values)
    }

    /// The name: `connect`, `grpc` or `grpc-web`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Grpc => "grpc",
            Self::GrpcWeb => "grpc-web",
        }
    }

    /// The protocol as a call's context names it.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Connect => Protocol::Connect,
            Self::Grpc => Protocol::Grpc,
            Self::GrpcWeb => Protocol::GrpcWeb,
        }
    }

    pub(crate) const fn is_grpc(self) -> bool {
        !matches!(self, Self::Connect)
    }

    /// Where the compression of messages in envelopes is named.
    pub(crate) const fn encoding_header(self) -> HeaderName {
        match self {
            Self::Connect => CONNECT_ENCODING,
            Self::Grpc | Self::GrpcWeb => GRPC_ENCODING,
        }
    }

    /// Where it is said what the other side may compress messages in envelopes with.
    pub(crate) const fn accept_header(self) -> HeaderName {
        match self {
            Self::Connect => CONNECT_ACCEPT,
            Self::Grpc | Self::GrpcWeb => GRPC_ACCEPT,
        }
    }
}

impl Format {
    /// How a client speaks: text is never sent, and only Connect's unary calls are bare.
    pub(crate) fn of_call(dialect: Dialect, kind: StreamKind, codec: Codec) -> Self {
        let framing = match (dialect, kind) {
            (Dialect::Connect, StreamKind::Unary) => Framing::Bare,
            _ => Framing::Enveloped,
        };
        Self { dialect, framing, codec }
    }

    /// The content type. Each is a constant, so that nothing of it is looked at when it is written.
    pub(crate) const fn header(self) -> HeaderValue {
        match (self.dialect, self.framing, self.codec) {
            (Dialect::Connect, Framing::Bare, Codec::Proto) => PROTO,
            (Dialect::Connect, Framing::Bare, Codec::Json) => JSON,
            (Dialect::Connect, _, Codec::Proto) => CONNECT_PROTO,
            (Dialect::Connect, _, Codec::Json) => CONNECT_JSON,
            (Dialect::Grpc, _, Codec::Proto) => GRPC_PROTO,
            (Dialect::Grpc, _, Codec::Json) => GRPC_JSON,
            (Dialect::GrpcWeb, Framing::Text, _) => GRPC_WEB_TEXT,
            (Dialect::GrpcWeb, _, Codec::Proto) => GRPC_WEB_PROTO,
            (Dialect::GrpcWeb, _, Codec::Json) => GRPC_WEB_JSON,
        }
    }

    /// What a content type says; `None` if it is none of these.
    ///
    /// Types compare without regard to case (RFC 9110, section 8.3.1). Parameters are ignored, but
    /// for a charset of JSON that is not UTF-8.
    pub(crate) fn of(content_type: &[u8]) -> Option<Self> {
        let as_usual = TYPES.iter().find(|(name, _)| content_type == name.as_bytes());
        if let Some((_, format)) = as_usual {
            return Some(*format);
        }
        let essence = essence(content_type);
        let known = TYPES.iter().find(|(name, _)| essence.eq_ignore_ascii_case(name.as_bytes()));
        let (_, format) = known?;
        if format.codec == Codec::Json && !charset_is_utf8(&content_type[essence.len()..]) {
            return None;
        }
        Some(*format)
    }
}

/// The type without its parameters.
pub(crate) fn essence(content_type: &[u8]) -> &[u8] {
    let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
    content_type[..end].trim_ascii_end()
}

fn charset_is_utf8(parameters: &[u8]) -> bool {
    parameters.split(|byte| *byte == b';').all(|parameter| {
        let parameter = parameter.trim_ascii();
        let Some(equals) = parameter.iter().position(|byte| *byte == b'=') else { return true };
        let name = &parameter[..equals];
        let value = &parameter[equals + 1..];
        let value = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value);
        !name.eq_ignore_ascii_case(b"charset") || value.eq_ignore_ascii_case(b"utf-8")
    })
}

const PROTO: HeaderValue = HeaderValue::from_static("application/proto");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const CONNECT_PROTO: HeaderValue = HeaderValue::from_static("application/connect+proto");
const CONNECT_JSON: HeaderValue = HeaderValue::from_static("application/connect+json");
const GRPC_PROTO: HeaderValue = HeaderValue::from_static("application/grpc+proto");
const GRPC_JSON: HeaderValue = HeaderValue::from_static("application/grpc+json");
const GRPC_WEB_TEXT: HeaderValue = HeaderValue::from_static("application/grpc-web-text+proto");
const GRPC_WEB_PROTO: HeaderValue = HeaderValue::from_static("application/grpc-web+proto");
const GRPC_WEB_JSON: HeaderValue = HeaderValue::from_static("application/grpc-web+json");

const fn format(dialect: Dialect, framing: Framing, codec: Codec) -> Format {
    Format { dialect, framing, codec }
}

/// Every content type, the most frequent first.
const TYPES: [(&str, Format); 12] = [
    ("application/grpc", format(Dialect::Grpc, Framing::Enveloped, Codec::Proto)),
    ("application/json", format(Dialect::Connect, Framing::Bare, Codec::Json)),
    ("application/proto", format(Dialect::Connect, Framing::Bare, Codec::Proto)),
    ("application/grpc+proto", format(Dialect::Grpc, Framing::Enveloped, Codec::Proto)),
    ("application/grpc+json", format(Dialect::Grpc, Framing::Enveloped, Codec::Json)),
    ("application/connect+proto", format(Dialect::Connect, Framing::Enveloped, Codec::Proto)),
    ("application/connect+json", format(Dialect::Connect, Framing::Enveloped, Codec::Json)),
    ("application/grpc-web", format(Dialect::GrpcWeb, Framing::Enveloped, Codec::Proto)),
    ("application/grpc-web+proto", format(Dialect::GrpcWeb, Framing::Enveloped, Codec::Proto)),
    ("application/grpc-web+json", format(Dialect::GrpcWeb, Framing::Enveloped, Codec::Json)),
    ("application/grpc-web-text", format(Dialect::GrpcWeb, Framing::Text, Codec::Proto)),
    ("application/grpc-web-text+proto", format(Dialect::GrpcWeb, Framing::Text, Codec::Proto)),
];

pub(crate) const CONNECT_VERSION: HeaderName = HeaderName::from_static("connect-protocol-version");
pub(crate) const CONNECT_ENCODING: HeaderName = HeaderName::from_static("connect-content-encoding");
const CONNECT_ACCEPT: HeaderName = HeaderName::from_static("connect-accept-encoding");
pub(crate) const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_ACCEPT: HeaderName = HeaderName::from_static("grpc-accept-encoding");
pub(crate) const GRPC_WEB: HeaderName = HeaderName::from_static("x-grpc-web");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_read_as_media_types_are() {
        let check = |content_type: &str, expected: Option<&'static str>| {
            let format = Format::of(content_type.as_bytes()).map(Format::header);
            assert_eq!(format, expected.map(HeaderValue::from_static), "{content_type}");
        };
        for (name, format) in TYPES {
            assert_eq!(Format::of(name.as_bytes()), Some(format));
            assert_eq!(Format::of(format.header().as_bytes()), Some(format));
        }
        check("APPLICATION/JSON", Some("application/json"));
        check("application/json; charset=utf-8", Some("application/json"));
        check("application/json ;Charset=\"UTF-8\";q=1", Some("application/json"));
        check("application/json; charset=latin1", None);
        check("application/json;", Some("application/json"));
        check("application/proto; charset=latin1", Some("application/proto"));
        check("Application/Grpc+Proto;x", Some("application/grpc+proto"));
        for unknown in ["", "application/jsonx", "application/grpc+thrift", "text/json", ";"] {
            check(unknown, None);
        }
        check("application/grpc-web-text+json", None);
    }
}
