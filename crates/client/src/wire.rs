//! The RPC protocols: from a call to an HTTP request, and from a response to a reply.
//!
//! | protocol | unary | streams |
//! |---|---|---|
//! | Connect | [`unary`]: the message is the body; trailers are headers | [`enveloped`], end in JSON |
//! | gRPC | [`enveloped`], end in HTTP trailers | the same |
//! | gRPC-Web | [`enveloped`], end in a last envelope | the same |
//!
//! Messages are bytes throughout: nothing is encoded or decoded here, so that a remote service can be
//! passed on unchanged.

#[path = "../../wire/src/compression.rs"]
pub(crate) mod compression;
#[path = "../../wire/src/end.rs"]
pub(crate) mod end;
#[path = "../../wire/src/envelope.rs"]
pub(crate) mod envelope;
#[path = "../../wire/src/read_reply.rs"]
pub(crate) mod enveloped;
#[path = "../../wire/src/error_json.rs"]
pub(crate) mod error_json;
#[path = "../../wire/src/headers.rs"]
pub(crate) mod headers;
#[path = "../../wire/src/status.rs"]
pub(crate) mod status;
#[path = "../../wire/src/connect.rs"]
pub(crate) mod unary;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};
use tidewire_service::{Code, Codec, Context, Error, Method, Reply, Result, StreamKind};

use self::compression::Compression;
use crate::Protocol;
use crate::exchange::{Outbound, Received};
use crate::trace::Trace;

/// How a client speaks.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    pub(crate) protocol: Protocol,
    pub(crate) compression: Compression,
    pub(crate) queries_by_get: bool,
    pub(crate) message_bytes_max: usize,
}

/// What of a call is needed to read its response.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) kind: StreamKind,
    pub(crate) codec: Codec,
}

/// What is sent.
pub(crate) enum Message {
    One(Bytes),
    Many(tidewire_service::Body),
}

impl Dialect {
    fn is_unary_connect(&self, kind: StreamKind) -> bool {
        self.protocol == Protocol::Connect && kind == StreamKind::Unary
    }

    /// The request for a call.
    pub(crate) fn request(
        &self,
        method: &Method,
        codec: Codec,
        context: Context,
        message: Message,
        trace: Option<&Trace>,
    ) -> Result<Outbound> {
        let (headers, _) = context.into_parts();
        let mut headers = headers::passed_on(headers);
        headers.entry(http::header::USER_AGENT).or_insert(headers::USER_AGENT);
        match message {
            Message::One(message) if self.is_unary_connect(method.kind) => {
                unary::request(self, method, codec, headers, message, trace)
            }
            message => enveloped::request(self, method, codec, headers, message, trace),
        }
    }

    /// The header that tells the server how long it has.
    pub(crate) fn timeout(&self, left: std::time::Duration) -> (HeaderName, HeaderValue) {
        match self.protocol {
            Protocol::Connect => (CONNECT_TIMEOUT, headers::connect_timeout(left)),
            _ => (GRPC_TIMEOUT, headers::grpc_timeout(left)),
        }
    }

    /// The reply that a response holds.
    pub(crate) async fn reply(&self, expected: &Expected, received: Received) -> Result<Reply> {
        if self.is_unary_connect(expected.kind) {
            return unary::reply(self, expected, received).await;
        }
        enveloped::reply(self, expected, received).await
    }
}

const CONNECT_TIMEOUT: HeaderName = headers::name("connect-timeout-ms");
const GRPC_TIMEOUT: HeaderName = headers::name("grpc-timeout");

/// The path of a method.
fn path_of(method: &Method) -> Result<PathAndQuery> {
    let path = match &method.path {
        std::borrow::Cow::Borrowed(path) => {
            PathAndQuery::from_maybe_shared(Bytes::from_static(path.as_bytes()))
        }
        std::borrow::Cow::Owned(path) => PathAndQuery::try_from(path.as_str()),
    };
    path.map_err(|error| {
        Error::invalid_argument(format!("{} is no path of a method: {error}", method.path))
    })
}

/// The code for a response that is none of the protocol's: the table that Connect and gRPC share.
fn code_of_status(status: http::StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}
