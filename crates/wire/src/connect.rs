//! Connect's unary calls: the message is the body of the request, the reply that of the response.
//!
//! A failed call has an HTTP status and a body of JSON. Trailers are headers that start with
//! `trailer-`. A query may go as GET, with its message in the query.

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{HeaderMap, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tidewire_service::{Body, Codec, Error, Method, Reply, Result};

use super::compression::{Encoding, too_large};
use super::{Dialect, Expected, error_json, headers};
use crate::exchange::{Inbound, Outbound, Received};
use crate::outgoing::Outgoing;
use crate::trace::{Step, Trace, tell};

const CONNECT_VERSION: HeaderName = headers::name("connect-protocol-version");

pub(super) fn request(
    dialect: &Dialect,
    method: &Method,
    codec: Codec,
    mut headers: HeaderMap,
    message: Bytes,
    trace: Option<&Trace>,
) -> Result<Outbound> {
    if let Some(accepted) = dialect.compression.accepted() {
        headers.insert(ACCEPT_ENCODING, accepted);
    }
    if dialect.queries_by_get && method.is_query() {
        let url = get(&method.path, codec, &message)?;
        if url.as_str().len() <= URL_BYTES_MAX {
            let body = Outgoing::empty(trace.cloned());
            return Ok(Outbound {
                method: http::Method::GET,
                path: url,
                headers,
                body,
                cancel: None,
            });
        }
    }
    headers.insert(CONNECT_VERSION, HeaderValue::from_static("1"));
    headers.insert(CONTENT_TYPE, content_type(codec));
    let message = match dialect.compression.for_message(message.len()) {
        None => message,
        Some(encoding) => {
            headers.insert(CONTENT_ENCODING, encoding.value());
            encoding.compress(&message)?
        }
    };
    let body = Outgoing::whole(Bytes::new(), message, trace.cloned());
    let path = super::path_of(method)?;
    Ok(Outbound { method: http::Method::POST, path, headers, body, cancel: None })
}

const fn content_type(codec: Codec) -> HeaderValue {
    HeaderValue::from_static(match codec {
        Codec::Proto => "application/proto",
        Codec::Json => "application/json",
    })
}

/// A longer URL goes as POST: servers and what is between refuse it.
const URL_BYTES_MAX: usize = 8 << 10;

/// The URL of a query; parameters in the order of the Connect specification.
fn get(path: &str, codec: Codec, message: &[u8]) -> Result<PathAndQuery> {
    use base64::Engine as _;
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    let url = match codec {
        Codec::Json => {
            let text = String::from_utf8_lossy(message);
            let text = utf8_percent_encode(&text, KEPT);
            format!("{path}?connect=v1&encoding=json&message={text}")
        }
        Codec::Proto => {
            let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(message);
            format!("{path}?connect=v1&base64=1&encoding=proto&message={text}")
        }
    };
    PathAndQuery::from_maybe_shared(Bytes::from(url))
        .map_err(|error| Error::invalid_argument(format!("{path} is no path: {error}")))
}

pub(super) async fn reply(
    dialect: &Dialect,
    expected: &Expected,
    received: Received,
) -> Result<Reply> {
    let Received { head, mut body } = received;
    let host = body.host().clone();
    let content_type = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = essence(content_type.unwrap_or_default());
    if head.status != StatusCode::OK && essence != b"application/json" {
        return Err(with_metadata(error_json::of_status(head.status, &host), head.headers));
    }
    if head.status == StatusCode::OK {
        check_type(essence, expected.codec, &host)?;
    }
    let encoding = Encoding::of_response(head.headers.get(CONTENT_ENCODING), &host)?;
    let trace = body.take_trace();
    let data = collect(&mut body, dialect.message_bytes_max).await?;
    let wire_bytes = data.len();
    tell(trace.as_ref(), || Step::MessageReceived { wire_bytes });
    tell(trace.as_ref(), || Step::Done);
    let data = match encoding {
        None => data,
        Some(encoding) => encoding.decompress(&data, dialect.message_bytes_max, &host)?,
    };
    if head.status != StatusCode::OK {
        return Err(with_metadata(error_json::of_body(&data, head.status, &host), head.headers));
    }
    let (headers, trailers) = split(head.headers);
    let mut reply = Reply::new(Body::Full(data));
    (reply.headers, reply.trailers) = (headers, trailers.into());
    Ok(reply)
}

/// The type without its parameters.
pub(super) fn essence(content_type: &[u8]) -> &[u8] {
    content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

fn check_type(essence: &[u8], codec: Codec, host: &str) -> Result<()> {
    let wanted = content_type(codec);
    if essence == wanted.as_bytes() {
        return Ok(());
    }
    let text = format!(
        "{host} answered with content-type {:?} where {wanted:?} is expected; it may not speak \
         Connect",
        String::from_utf8_lossy(essence),
    );
    let is_connect =
        essence.starts_with(b"application/") && !essence.starts_with(b"application/grpc");
    Err(if is_connect { Error::internal(text) } else { Error::unknown(text) })
}

/// Reads a body to its end, up to a limit.
pub(super) async fn collect(body: &mut Inbound, bytes_max: usize) -> Result<Bytes> {
    if body.declared_length().is_some_and(|length| length > bytes_max as u64) {
        return Err(too_large(body.host(), bytes_max));
    }
    let Some(first) = body.next_data().await? else { return Ok(Bytes::new()) };
    let mut rest = BytesMut::new();
    while let Some(data) = body.next_data().await? {
        if rest.is_empty() {
            rest.extend_from_slice(&first);
        }
        if rest.len() + data.len() > bytes_max {
            return Err(too_large(body.host(), bytes_max));
        }
        rest.extend_from_slice(&data);
    }
    if rest.is_empty() {
        if first.len() > bytes_max {
            return Err(too_large(body.host(), bytes_max));
        }
        return Ok(first);
    }
    Ok(rest.freeze())
}

fn with_metadata(mut error: Error, headers: HeaderMap) -> Error {
    (*error.headers_mut(), *error.trailers_mut()) = split(headers);
    error
}

/// The service's own headers, and its trailers among them.
fn split(headers: HeaderMap) -> (HeaderMap, HeaderMap) {
    let headers = headers::own(headers);
    if !headers.keys().any(|name| name.as_str().starts_with(TRAILER)) {
        return (headers, HeaderMap::new());
    }
    let (mut kept, mut trailers) = (HeaderMap::new(), HeaderMap::new());
    for (name, value) in &headers {
        let trailer = name.as_str().strip_prefix(TRAILER);
        match trailer.and_then(|name| HeaderName::try_from(name).ok()) {
            Some(name) => trailers.append(name, value.clone()),
            None => kept.append(name.clone(), value.clone()),
        };
    }
    (kept, trailers)
}

const TRAILER: &str = "trailer-";
