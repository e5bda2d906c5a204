//! What the head of a request means: protocol, codec, compression, deadline; or the exact refusal.
//!
//! In this order, so that whoever asks wrongly learns the first thing to mend:
//!
//! | what is wrong | answer |
//! |---|---|
//! | a verb that the method does not have | 405 with `Allow` |
//! | a content type that is not known, or not for this kind of method | 415 with `Accept-Post` |
//! | gRPC over HTTP/1.1, which cannot carry its trailers | 505 |
//! | a version of Connect that is not known | `invalid_argument` |
//! | a compression that is not known | `unimplemented`, with what is known |
//! | a deadline that is not as specified | `invalid_argument` |
//! | a GET whose parameters are not as specified | `invalid_argument`, 415 for its encoding |
//!
//! The last ones are answered in the protocol of the request. Nothing of the body is needed.

use std::time::Duration;

use http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use tidewire_service::{Codec, Error, Spec, StreamKind};

use crate::compression::{ACCEPTED, Encoding};
use crate::dialect::{CONNECT_VERSION, Dialect, Format, Framing};
use crate::write_reply::Response;
use crate::{connect, connect_get, timeout};

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The verb.
    pub verb: &'a Method,
    /// What is after the `?` of the URL.
    pub query: Option<&'a str>,
    /// The version of HTTP.
    pub version: Version,
    /// All headers.
    pub headers: &'a HeaderMap,
}

/// What was agreed for a call: how its request is read and its reply written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    pub(crate) format: Format,
    pub(crate) kind: StreamKind,
    pub(crate) is_get: bool,
    /// How messages of the request are compressed.
    pub(crate) requests: Option<Encoding>,
    /// How those of the reply may be.
    pub(crate) replies: Option<Encoding>,
    /// The length that the request declares (`content-length`).
    pub(crate) declared_length: Option<u64>,
    timeout: Option<Duration>,
}

/// A request that is not taken: why, and what it is answered.
#[derive(Debug)]
pub struct Refusal(Box<(Error, Response)>);

impl Refusal {
    /// Why, for logs and counters.
    pub fn error(&self) -> &Error {
        &self.0.0
    }

    /// What the caller is answered; its body need not be read.
    pub fn into_response(self) -> Response {
        self.0.1
    }
}

impl Exchange {
    /// The protocol.
    pub const fn dialect(&self) -> Dialect {
        self.format.dialect
    }

    /// How messages are encoded, those of the request and of the reply.
    pub const fn codec(&self) -> Codec {
        self.format.codec
    }

    /// How long the caller waits from now on; zero is over at once, `None` is for as long as it
    /// takes.
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Whether the request is a GET, with its message in the URL.
    pub const fn is_get(&self) -> bool {
        self.is_get
    }

    /// Which sides of the call stream.
    pub const fn kind(&self) -> StreamKind {
        self.kind
    }
}

/// What a request for a method is agreed to be. Without a method, since there is none of the name,
/// nothing is refused because of it: the answer can then be written in the caller's protocol.
///
/// # Errors
/// The exact refusal.
pub fn negotiate(head: &Head<'_>, method: Option<&Spec>) -> Result<Exchange, Refusal> {
    let may_get = method.is_none_or(|spec| spec.kind == StreamKind::Unary && spec.is_query());
    if head.verb == Method::GET && may_get {
        return of_get(head);
    }
    if head.verb != Method::POST {
        return Err(wrong_verb(head.verb, may_get));
    }
    let present = PresentHeaders::of(head.headers);
    let content_type = present.content_type.map(HeaderValue::as_bytes);
    let Some(format) = content_type.and_then(Format::of) else {
        return Err(wrong_type(content_type, method));
    };
    let is_bare = format.framing == Framing::Bare;
    let is_for_unary = match format.dialect {
        Dialect::Connect => method.map(|spec| (spec.kind == StreamKind::Unary) == is_bare),
        Dialect::Grpc | Dialect::GrpcWeb => None,
    };
    if is_for_unary == Some(false) {
        return Err(wrong_type(content_type, method));
    }
    if format.dialect == Dialect::Grpc && head.version < Version::HTTP_2 {
        return Err(wrong_version());
    }
    let kind = match method {
        Some(spec) => spec.kind,
        None if is_bare => StreamKind::Unary,
        None => StreamKind::Bidi,
    };
    let mut exchange = Exchange {
        format,
        kind,
        is_get: false,
        requests: None,
        replies: None,
        declared_length: None,
        timeout: None,
    };
    agree(&mut exchange, head.headers, &present)?;
    Ok(exchange)
}

/// Compression, version and deadline of a POST.
fn agree(
    exchange: &mut Exchange,
    headers: &HeaderMap,
    present: &PresentHeaders<'_>,
) -> Result<(), Refusal> {
    let Format { dialect, framing, .. } = exchange.format;
    exchange.declared_length = present.length.and_then(declared_length);
    let refused = |error| Refusal::in_protocol(exchange, error);
    if present.version && dialect == Dialect::Connect {
        let version = headers.get(CONNECT_VERSION).map(HeaderValue::as_bytes);
        connect::check_version(version, "1").map_err(refused)?;
    }
    let (encoding, accepted) = match framing {
        Framing::Bare => (CONTENT_ENCODING, ACCEPT_ENCODING),
        Framing::Enveloped | Framing::Text => (dialect.encoding_header(), dialect.accept_header()),
    };
    let unknown = |name: &HeaderName, value: &HeaderValue| {
        let asked = value.to_str().unwrap_or("that is not text");
        let mut refusal = Refusal::in_protocol(exchange, no_compression(asked, name.as_str()));
        refusal.0.1.headers.insert(&accepted, ACCEPTED);
        refusal
    };
    let requests = match present.encoding {
        false => None,
        true => {
            Encoding::from_header(headers, &encoding).map_err(|value| unknown(&encoding, value))?
        }
    };
    if present.encoding
        && framing != Framing::Bare
        && let Some(value) = headers.get(CONTENT_ENCODING)
        && !value.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        // The body as a whole: each message is compressed instead.
        return Err(unknown(&CONTENT_ENCODING, value));
    }
    let timeout = match present.timeout {
        false => None,
        true => timeout::of_request(dialect, headers).map_err(refused)?,
    };
    // Who says nothing of what it takes, takes what it sends.
    exchange.replies = match present.accepted && headers.contains_key(&accepted) {
        true => Encoding::preferred(headers, &accepted),
        false => requests,
    };
    (exchange.requests, exchange.timeout) = (requests, timeout);
    Ok(())
}

/// Which headers that matter are there, of whatever protocol, and the first value of those that
/// every request has: most requests have few of them, and one look at every name costs less than
/// looking each of them up.
#[derive(Default)]
struct PresentHeaders<'a> {
    version: bool,
    encoding: bool,
    accepted: bool,
    timeout: bool,
    content_type: Option<&'a HeaderValue>,
    length: Option<&'a HeaderValue>,
}

impl<'a> PresentHeaders<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let mut present = Self::default();
        for (name, value) in headers {
            match name.as_str() {
                "connect-protocol-version" => present.version = true,
                "content-encoding" | "connect-content-encoding" | "grpc-encoding" => {
                    present.encoding = true;
                }
                "accept-encoding" | "connect-accept-encoding" | "grpc-accept-encoding" => {
                    present.accepted = true;
                }
                "connect-timeout-ms" | "grpc-timeout" => present.timeout = true,
                "content-type" => _ = present.content_type.get_or_insert(value),
                "content-length" => _ = present.length.get_or_insert(value),
                _ => {}
            }
        }
        present
    }
}

/// A GET, whose message and codec are in the URL.
fn of_get(head: &Head<'_>) -> Result<Exchange, Refusal> {
    let format = Format { dialect: Dialect::Connect, framing: Framing::Bare, codec: Codec::Proto };
    let mut exchange = Exchange {
        format,
        kind: StreamKind::Unary,
        is_get: true,
        requests: None,
        replies: Encoding::preferred(head.headers, &ACCEPT_ENCODING),
        declared_length: None,
        timeout: None,
    };
    let asked = connect_get::parse_query(head.query).map_err(|refused| match refused {
        connect_get::GetRefusal::Codec(name) => {
            let text = format!("no encoding {name}; encoding is proto or json");
            let error = Error::unimplemented(text);
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            Refusal::in_protocol(&exchange, error.with_http_status(status))
        }
        connect_get::GetRefusal::Compression(name) => {
            Refusal::in_protocol(&exchange, no_compression(&name, "compression"))
        }
        connect_get::GetRefusal::Invalid(error) => Refusal::in_protocol(&exchange, error),
    })?;
    exchange.format.codec = asked.codec;
    exchange.requests = asked.compression;
    let timeout = timeout::of_request(Dialect::Connect, head.headers);
    exchange.timeout = timeout.map_err(|error| Refusal::in_protocol(&exchange, error))?;
    Ok(exchange)
}

/// Which protocol a request is in, by its head alone: for a path where there is no method.
///
/// A GET is not a call there, nor is a POST of plain JSON that says no more of itself.
pub fn speaks(head: &Head<'_>) -> Option<Dialect> {
    if head.verb != Method::POST {
        return None;
    }
    let content_type = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let format = content_type.and_then(Format::of)?;
    let is_plain = format.framing == Framing::Bare && format.codec == Codec::Json;
    (!is_plain || head.headers.contains_key(CONNECT_VERSION)).then_some(format.dialect)
}

fn declared_length(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.parse().ok()
}

impl Refusal {
    fn in_protocol(exchange: &Exchange, error: Error) -> Self {
        let why = error.clone();
        Self(Box::new((why, exchange.failed(error))))
    }

    /// Without a protocol: a status, a header that says what would be right, and a text.
    fn plain(status: StatusCode, error: Error, right: Option<(HeaderName, HeaderValue)>) -> Self {
        let mut response = Response::text(status, error.message().to_owned());
        response.headers.extend(right);
        Self(Box::new((error.with_http_status(status), response)))
    }
}

fn no_compression(asked: &str, name: &str) -> Error {
    Error::unimplemented(format!("no compression {asked}; {name} is one of gzip, zstd, identity"))
}

fn wrong_verb(verb: &Method, may_get: bool) -> Refusal {
    let allowed = if may_get { "GET, POST" } else { "POST" };
    let text = format!("no {verb} of this method; it answers {allowed}");
    let right = (ALLOW, HeaderValue::from_static(allowed));
    Refusal::plain(StatusCode::METHOD_NOT_ALLOWED, Error::unimplemented(text), Some(right))
}

fn wrong_type(content_type: Option<&[u8]>, method: Option<&Spec>) -> Refusal {
    let right = match method.map(|spec| spec.kind) {
        Some(StreamKind::Unary) => FOR_UNARY,
        Some(_) => FOR_STREAMS,
        None => FOR_ANY,
    };
    let asked = String::from_utf8_lossy(content_type.unwrap_or_default());
    let text = format!("no content type {asked:?} for this method; it takes {right}");
    let right = (HeaderName::from_static("accept-post"), HeaderValue::from_static(right));
    // The status alone is sent; this is what figures count it as.
    Refusal::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, Error::invalid_argument(text), Some(right))
}

fn wrong_version() -> Refusal {
    let text = "gRPC needs HTTP/2; over HTTP/1.1 there are gRPC-Web and Connect";
    Refusal::plain(StatusCode::HTTP_VERSION_NOT_SUPPORTED, Error::unimplemented(text), None)
}

macro_rules! with_grpc {
    ($connect:literal) => {
        concat!(
            $connect,
            ", application/grpc, application/grpc+proto, application/grpc+json, \
             application/grpc-web, application/grpc-web+proto, application/grpc-web+json, \
             application/grpc-web-text"
        )
    };
}

const FOR_UNARY: &str = with_grpc!("application/json, application/proto");
const FOR_STREAMS: &str = with_grpc!("application/connect+json, application/connect+proto");
const FOR_ANY: &str = with_grpc!(
    "application/connect+json, application/connect+proto, application/json, application/proto"
);
