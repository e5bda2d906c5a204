//! Plain HTTP: from a request to a [`Call`] and from a [`Reply`] to a response.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tidewire_service::{Body, Context, Error, Frame, Protocol, Reply};

/// The request's body, bounded.
///
/// # Errors
/// When the length that the head declares is over the limit.
#[inline]
pub(crate) fn body(
    headers: &HeaderMap,
    body: Incoming,
    body_bytes_max: usize,
) -> Result<Body, Error> {
    if body.is_end_stream() { Ok(Body::Empty) } else { bounded(headers, body, body_bytes_max) }
}

fn bounded(headers: &HeaderMap, body: Incoming, body_bytes_max: usize) -> Result<Body, Error> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > body_bytes_max) {
        return Err(Error::resource_exhausted(format!(
            "request body is {} bytes, over limits.body_bytes_max = {body_bytes_max}; send less \
             or raise the limit",
            declared.unwrap_or_default()
        ))
        .with_http_status(StatusCode::PAYLOAD_TOO_LARGE));
    }
    let body = Body::wrap_with(body, |cause| {
        Error::canceled("the request body ended before it was complete").with_cause(cause)
    });
    body.limit(body_bytes_max)
}

/// Reads a body to its end and forgets it.
pub(crate) async fn discard(body: Body) {
    let Body::Stream(mut frames) = body else { return };
    while futures_util::StreamExt::next(&mut frames).await.is_some_and(|frame| frame.is_ok()) {}
}

/// The context of a plain HTTP request.
#[inline]
pub(crate) fn context(headers: HeaderMap, extensions: http::Extensions) -> Context {
    Context::new(headers).with_extensions(extensions).with_protocol(Protocol::Http)
}

/// The response for a reply, around what `wrap` makes of its body.
#[inline]
pub(crate) fn response<B>(reply: Box<Reply>, wrap: impl FnOnce(Body) -> B) -> Response<B> {
    let Reply { status, headers, body, trailers, .. } = *reply;
    let body = if trailers.is_empty() { body } else { with_trailers(body, trailers.into_map()) };
    let mut response = Response::new(wrap(body));
    *response.status_mut() = status;
    // The map that was there is empty and owns nothing; its destructor would look for what it owns.
    std::mem::forget(std::mem::replace(response.headers_mut(), headers));
    response
}

fn with_trailers(body: Body, trailers: HeaderMap) -> Body {
    let end = futures_util::stream::once(async { Ok(Frame::Trailers(trailers)) });
    let frames = http_body_util::BodyStream::new(body);
    Body::frames(futures_util::StreamExt::chain(
        futures_util::StreamExt::filter_map(frames, async |frame| match frame {
            Ok(frame) => frame.into_data().ok().map(|data| Ok(Frame::Data(data))),
            Err(error) => Some(Err(error)),
        }),
        end,
    ))
}

/// The response for an error: its status and, as JSON, its code and message.
///
/// The body has the shape of a Connect error, so a client handles both alike.
pub(crate) fn error_response(error: &Error) -> Response<Body> {
    log(error, "http");
    let mut response = Response::new(Body::Full(error_json(error)));
    *response.status_mut() = error.http_status();
    *response.headers_mut() = error.headers().clone();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The response for a path that is known under other verbs.
pub(crate) fn wrong_verb(allowed: &str) -> Response<Body> {
    let mut error = Error::unimplemented(format!("this path answers {allowed}"))
        .with_http_status(StatusCode::METHOD_NOT_ALLOWED);
    if let Ok(value) = HeaderValue::from_str(allowed) {
        error.headers_mut().insert(ALLOW, value);
    }
    error_response(&error)
}

/// The response for a path that nothing is at.
pub(crate) fn not_found(path: &str) -> Response<Body> {
    error_response(&Error::not_found(format!("nothing is at {path}")))
}

/// An error as Connect has it in JSON.
pub(crate) fn error_json(error: &Error) -> Bytes {
    use base64::Engine as _;
    let encode = |bytes: &Bytes| base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes);
    let details: Vec<_> = error
        .details()
        .iter()
        .map(|detail| serde_json::json!({"type": detail.type_name, "value": encode(&detail.value)}))
        .collect();
    let mut json = serde_json::json!({"code": error.code().as_str(), "message": error.message()});
    if !details.is_empty() {
        json["details"] = details.into();
    }
    json.to_string().into()
}

/// Logs an error that is the server's own fault, with its cause; others are the caller's business.
pub(crate) fn log(error: &Error, target: &str) {
    use tidewire_service::Code;
    if matches!(error.code(), Code::Internal | Code::Unknown | Code::DataLoss)
        || std::error::Error::source(error).is_some()
    {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(call = target, %error, cause, "a call failed");
    }
}
