//! From a reply to an HTTP response: status, headers, body.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode};
use tidewire_service::{Body, Error, Reply, Result, StreamKind};

use crate::plain;
use crate::rpc::gathered;

use super::binding::{Binding, ReplyPlan};
use super::http_body;
use super::items::{Items, Style};
use super::print::Value;
use super::scan::{ScanError, Scanner};

/// The response for a reply.
///
/// # Errors
/// A reply that is no message of its type; for a stream, what failed before anything was sent.
pub(crate) async fn response(
    binding: &Arc<Binding>,
    mut reply: Reply,
    wants_lines: bool,
) -> Result<Response<Body>> {
    if reply.freshness.validator().is_some() || reply.is_unchanged() {
        plain::tag(&mut reply);
    }
    if reply.is_unchanged() {
        return Ok(plain::response(Box::new(reply), |body| body));
    }
    let Reply { status, headers, body, .. } = reply;
    let status = status_of(binding, status);
    let mut response = if binding.method.kind.server_streams() {
        Box::pin(stream(binding, body, wants_lines)).await?
    } else {
        let message = match body {
            Body::Full(message) => message,
            other => Box::pin(gathered(other)).await?.0,
        };
        one(&binding.reply, message, status)?
    };
    *response.status_mut() = status;
    add_headers(response.headers_mut(), headers.into_map());
    Ok(response)
}

/// The reply's own status, or the method's, or 200.
fn status_of(binding: &Binding, status: StatusCode) -> StatusCode {
    if status != StatusCode::OK {
        return status;
    }
    let declared = binding.method.http_status.and_then(|code| StatusCode::from_u16(code).ok());
    declared.unwrap_or(status)
}

/// Headers of the reply, without those that describe a body which is not sent as it was.
fn add_headers(headers: &mut HeaderMap, of_reply: HeaderMap) {
    if of_reply.is_empty() {
        return;
    }
    let own_type = headers.remove(CONTENT_TYPE);
    let before = std::mem::replace(headers, of_reply);
    headers.extend(before);
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, CONTENT_TYPE] {
        headers.remove(name);
    }
    if let Some(own_type) = own_type {
        headers.insert(CONTENT_TYPE, own_type);
    }
}

fn one(plan: &ReplyPlan, message: Bytes, status: StatusCode) -> Result<Response<Body>> {
    if matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(Response::new(Body::Empty));
    }
    if plan.raw {
        let (content_type, data) = http_body::from_message(plan.picked(&message)?)?;
        return Ok(with_type(Body::Full(data), content_type));
    }
    Ok(with_type(Body::Full(plan.print(message)?), Some(JSON)))
}

async fn stream(binding: &Arc<Binding>, body: Body, wants_lines: bool) -> Result<Response<Body>> {
    if binding.reply.raw {
        return raw_stream(binding, body).await;
    }
    let bidi = binding.method.kind == StreamKind::Bidi;
    if wants_lines || bidi {
        // Sent at once: a peer that waits for the first line may wait for the headers first.
        let items = Items::new(body, Arc::clone(binding), Style::Lines);
        return Ok(with_type(Body::stream(items), Some(NDJSON)));
    }
    let items = Items::new(body, Arc::clone(binding), Style::Array);
    Ok(with_type(begun(items).await?, Some(JSON)))
}

/// A stream whose first chunk is there, so that an error before it is an error response.
async fn begun(mut items: Items) -> Result<Body> {
    let first = items.next().await.transpose()?.unwrap_or_default();
    if items.is_done() {
        return Ok(Body::Full(first));
    }
    Ok(Body::stream(futures_util::stream::iter([Ok(first)]).chain(items)))
}

/// Chunks of raw bytes, of the type that the first one says.
async fn raw_stream(binding: &Arc<Binding>, body: Body) -> Result<Response<Body>> {
    let mut frames = http_body_util::BodyStream::new(body);
    let first = loop {
        match frames.next().await.transpose()? {
            None => break Bytes::from_static(b"{}"),
            Some(frame) => {
                if let Ok(data) = frame.into_data() {
                    break data;
                }
            }
        }
    };
    let (content_type, _) = http_body::from_message(binding.reply.picked(&first)?)?;
    let rest = frames.filter_map(|frame| {
        let data = frame.map(|frame| frame.into_data().ok()).transpose();
        std::future::ready(data)
    });
    let all = Body::stream(futures_util::stream::iter([Ok(first)]).chain(rest));
    let items = Items::new(all, Arc::clone(binding), Style::Raw);
    Ok(with_type(begun(items).await?, content_type))
}

fn with_type(body: Body, content_type: Option<HeaderValue>) -> Response<Body> {
    let mut response = Response::new(body);
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

impl ReplyPlan {
    /// A message as it is printed; the same bytes where nothing has to change.
    fn print(&self, message: Bytes) -> Result<Bytes> {
        if self.value == Value::Same && self.field.is_none() && !message.is_empty() {
            return Ok(message);
        }
        let mut out = Vec::with_capacity(message.len() + self.printer.growth(self.value));
        self.print_into(&message, &mut out)?;
        Ok(out.into())
    }

    /// Appends a message as it is printed.
    ///
    /// # Errors
    /// When it is no JSON.
    pub(crate) fn print_into(&self, message: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let picked = self.picked(message)?;
        self.printer.print(self.value, picked, out).map_err(broken)
    }

    /// The part of a message that is sent: all of it, or the field that `response_body` names.
    ///
    /// # Errors
    /// When it is no JSON.
    pub(crate) fn picked<'a>(&'a self, message: &'a [u8]) -> Result<&'a [u8]> {
        let message = if message.is_empty() { b"{}" } else { message };
        let Some(field) = &self.field else { return Ok(message) };
        let mut scanner = Scanner::new(message);
        scanner.expect(b'{').map_err(broken)?;
        let mut more = !scanner.take(b'}').map_err(broken)?;
        while more {
            let name = scanner.name().map_err(broken)?;
            let value = scanner.value().map_err(broken)?;
            if field.names.iter().any(|known| known.as_bytes() == &*name) {
                return Ok(value);
            }
            more = scanner.more(b'}').map_err(broken)?;
        }
        Ok(&field.missing)
    }
}

fn broken(error: ScanError) -> Error {
    Error::internal("the service's reply is not JSON; the server's log has the cause")
        .with_cause(error)
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");
