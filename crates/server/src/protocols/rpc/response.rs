//! Replies and errors as responses of the RPC protocols: one response whose bytes are there, or
//! many messages as they come.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response};
use tidewire_service::{Body, Error, Method, Reply, Result};
use tidewire_wire::{Coders, Exchange, Message};

use crate::request::failure::RequestFailure;
use crate::request::observe::Watch;
use crate::response::body::{Kind, ResponseBody};
use crate::response::full::FullBody;
use crate::response::replies::Replies;

/// The response for an error before anything was sent.
pub(crate) fn error_response(exchange: &Exchange, error: Error) -> Response<ResponseBody> {
    let failed = RequestFailure::new(&error);
    let mut response = whole(exchange.failed(error));
    response.extensions_mut().insert(failed);
    response
}

/// A response of the crate `wire` as the HTTP library sends it.
pub(crate) fn whole(response: tidewire_wire::Response) -> Response<ResponseBody> {
    let tidewire_wire::Response { status, headers, body: pieces, trailers } = response;
    let mut response = Response::new(ResponseBody::of(Kind::Whole(FullBody { pieces, trailers })));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The response for a reply of one message, which is there.
///
/// # Errors
/// Of a message that cannot be sent.
pub(super) fn one(
    exchange: &Exchange,
    reply: Reply,
    coders: &Coders,
    without_end: bool,
) -> Result<Response<ResponseBody>> {
    let Reply { headers, body, trailers, freshness, .. } = reply;
    let message = match body {
        Body::Full(message) if !without_end && let Some(keeper) = freshness.keeper(&message) => {
            let message = Message::cached(message, Arc::clone(keeper));
            let headers = headers.into();
            let trailers = trailers.into();
            return Ok(whole(exchange.reply(headers, message, trailers, coders)));
        }
        Body::Full(message) => message,
        Body::Empty | Body::Stream(_) => Bytes::new(),
    };
    let headers = headers.into();
    let trailers = trailers.into();
    if without_end {
        return without_trailers(exchange, headers, message, coders);
    }
    Ok(whole(exchange.reply(headers, message, trailers, coders)))
}

/// What a script asks for: everything but the end.
fn without_trailers(
    exchange: &Exchange,
    headers: HeaderMap,
    message: Bytes,
    coders: &Coders,
) -> Result<Response<ResponseBody>> {
    let mut response = exchange.reply(headers, message.clone(), HeaderMap::new(), coders);
    if response.trailers.take().is_none() && exchange.dialect() != tidewire_wire::Dialect::Connect {
        response.body = Bytes::from(exchange.message(message, coders)?.concat()).into();
    }
    Ok(whole(response))
}

/// The response for a reply of many messages.
pub(super) fn many(
    exchange: Exchange,
    method: &Method,
    reply: Reply,
    (coders, watch): (&Arc<Coders>, Option<Watch>),
    without_end: bool,
) -> Response<ResponseBody> {
    let Reply { headers, body, trailers, .. } = reply;
    let body = Replies::new(exchange, method, body, trailers.into(), coders)
        .without_end(without_end)
        .watched(watch);
    let mut response = Response::new(ResponseBody::of(Kind::Replies(Box::new(body))));
    *response.headers_mut() = exchange.head(headers.into());
    response
}
