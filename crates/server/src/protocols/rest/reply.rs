//! From a reply to an HTTP response over REST: status, headers, body.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode};
use tidewire_rest::{Binding, PrintedReply, Style};
use tidewire_service::{Body, CachedBody, HeldTags, Reply, Result};

use super::stream::Chunks;
use crate::request::single_message::message_of;
use crate::response::etag::add_etag;
use crate::response::page;

/// The response for a reply; `held` is what its caller holds, `keeper` who keeps its message.
///
/// # Errors
/// A reply that is not a message of its type; for a stream, what failed before anything was sent.
pub(crate) async fn response(
    binding: &Arc<Binding>,
    mut reply: Reply,
    style: Style,
    held: &HeldTags,
    keeper: Option<&dyn CachedBody>,
) -> Result<Response<Body>> {
    if reply.freshness.validator().is_some() || reply.is_unchanged() {
        add_etag(&mut reply, held, binding.edition());
    }
    if reply.is_unchanged() {
        return Ok(page::response(reply, |body| body));
    }
    let Reply { status, headers, body, .. } = reply;
    let status = binding.status(status);
    let PrintedBody { content_type, body } = if binding.method().kind.server_streams() {
        Box::pin(stream(binding, body, style)).await?
    } else {
        let message = match body {
            Body::Full(message) => message,
            other => Box::pin(message_of(other)).await?.0,
        };
        one(binding, message, status, keeper)?
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers_of(headers.into(), content_type);
    Ok(response)
}

/// A body as it is sent, and what it is.
struct PrintedBody {
    content_type: Option<HeaderValue>,
    body: Body,
}

/// Headers of the reply, without those that describe a body which is not sent as it was.
fn headers_of(mut headers: HeaderMap, content_type: Option<HeaderValue>) -> HeaderMap {
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    match content_type {
        Some(content_type) => headers.insert(CONTENT_TYPE, content_type),
        None => headers.remove(CONTENT_TYPE),
    };
    headers
}

fn one(
    binding: &Binding,
    message: Bytes,
    status: StatusCode,
    keeper: Option<&dyn CachedBody>,
) -> Result<PrintedBody> {
    if matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(PrintedBody { content_type: None, body: Body::Empty });
    }
    let PrintedReply { content_type, body } = match keeper {
        Some(keeper) => binding.print_kept(message, keeper)?,
        None => binding.print(message)?,
    };
    Ok(PrintedBody { content_type, body: Body::Full(body) })
}

async fn stream(binding: &Arc<Binding>, body: Body, style: Style) -> Result<PrintedBody> {
    match style {
        // Sent at once: a peer that waits for the first line may wait for the headers first.
        Style::Lines => {
            let body = Body::stream(Chunks::new(body, binding, style));
            Ok(PrintedBody { content_type: style.content_type(), body })
        }
        Style::Array => {
            let body = begin_stream(Chunks::new(body, binding, style)).await?;
            Ok(PrintedBody { content_type: style.content_type(), body })
        }
        Style::Raw => raw_stream(binding, body).await,
    }
}

/// A stream whose first chunk is there, so that an error before it is an error response.
async fn begin_stream(mut chunks: Chunks) -> Result<Body> {
    let first = chunks.next().await.transpose()?.unwrap_or_default();
    if chunks.is_done() {
        return Ok(Body::Full(first));
    }
    Ok(Body::stream(futures_util::stream::iter([Ok(first)]).chain(chunks)))
}

/// Chunks of raw bytes, of the type that the first one says.
async fn raw_stream(binding: &Arc<Binding>, body: Body) -> Result<PrintedBody> {
    let mut frames = http_body_util::BodyStream::new(body);
    let first = loop {
        match frames.next().await.transpose()? {
            None => break Bytes::new(),
            Some(frame) => {
                if let Ok(data) = frame.into_data() {
                    break data;
                }
            }
        }
    };
    let content_type = binding.print(first.clone())?.content_type;
    let rest = frames.filter_map(|frame| {
        let data = frame.map(|frame| frame.into_data().ok()).transpose();
        std::future::ready(data)
    });
    let all = Body::stream(futures_util::stream::iter([Ok(first)]).chain(rest));
    let chunks = Chunks::new(all, binding, Style::Raw);
    Ok(PrintedBody { content_type, body: begin_stream(chunks).await? })
}
