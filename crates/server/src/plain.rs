//! Plain HTTP: from a request to a [`Call`] and from a [`Reply`] to a response.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tidewire_service::{Body, Context, Error, Frame, Headers, Phase, Protocol, Reply};

use crate::observe::{Admitted, Ended, Failed};

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

/// The context of a request: what gates made of it, if it passed any.
#[inline]
pub(crate) fn context(
    headers: HeaderMap,
    mut extensions: http::Extensions,
    protocol: Protocol,
) -> Context {
    match extensions.remove::<Admitted>() {
        None => Context::new(headers).with_extensions(extensions).with_protocol(protocol),
        Some(Admitted { mut context, .. }) => {
            *context.headers_mut() = headers;
            *context.extensions_mut() = extensions;
            context.phase(Phase::Handler);
            context
        }
    }
}

/// The response for a reply, around what `wrap` makes of its body.
#[inline]
pub(crate) fn response<B>(mut reply: Box<Reply>, wrap: impl FnOnce(Body) -> B) -> Response<B> {
    if reply.freshness.validator().is_some() || reply.is_unchanged() {
        tag(&mut reply);
    }
    let Reply { status, headers, body, trailers, .. } = *reply;
    let body = if trailers.is_empty() { body } else { with_trailers(body, trailers) };
    let mut response = Response::new(wrap(body));
    *response.status_mut() = status;
    // The map that was there is empty and owns nothing; its destructor would look for what it owns.
    std::mem::forget(std::mem::replace(response.headers_mut(), headers.into_map()));
    response
}

/// Names the content of a reply for whoever asks again (`If-None-Match`): RFC 9110, section 8.8.3.
///
/// The validator names the bytes as the service gave them, so it stands for that one representation;
/// what is compressed on the way gets a weak tag there.
pub(crate) fn tag(reply: &mut Reply) {
    if let Some(validator) = reply.freshness.validator()
        && !reply.headers.contains_key(ETAG)
        && let Ok(value) = HeaderValue::from_str(&format!("\"{validator}\""))
    {
        reply.headers.insert(ETAG, value);
    }
    if reply.is_unchanged() {
        reply.status = StatusCode::NOT_MODIFIED;
        reply.body = Body::Empty;
    }
}

fn with_trailers(body: Body, trailers: Headers) -> Body {
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
    *response.headers_mut() = error.headers().clone().into_map();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.extensions_mut().insert(Failed::new(error));
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
    let cause = std::error::Error::source(error);
    // A panic was logged where it happened, and a deadline is the caller's own.
    if cause.is_some_and(|cause| cause.is::<Ended>()) {
        return;
    }
    if matches!(error.code(), Code::Internal | Code::Unknown | Code::DataLoss) || cause.is_some() {
        let cause = cause.map(ToString::to_string);
        tracing::error!(call = target, %error, cause, "a call failed");
    }
}
