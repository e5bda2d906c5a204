//! Connect, gRPC and gRPC-Web: from an agreed head to a response.
//!
//! What the protocols are as bytes is the room `wire`; here its state machines meet the HTTP library:
//! messages are read when the service asks for them, and replies written as they come.
//!
//! ```text
//! body ─▶ Messages (request.rs) ─▶ Call ─▶ run.rs ─▶ Reply ─▶ one or many (response.rs)
//! ```
//!
//! A message that came with its head is in the call at once. Over HTTP/1.1 an answer waits until the
//! request was read, since closing before that would break the client's sending.

mod methods;
mod request;
mod response;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use http::header::{CONTENT_ENCODING, VARY};
use http::{HeaderValue, Response, Version};
use tidewire_service::{Body, Call, HeldTags, Reply, Result, StreamKind};
use tidewire_wire::Exchange;

pub(crate) use self::methods::{Entry, Methods};
use self::request::Messages;
pub(crate) use self::response::{Replies, Whole, failed, gathered, whole};
use self::response::{many, one};
use crate::arriving::{Arriving, check_length, discard};
use crate::connection::App;
use crate::fault;
use crate::observe::Watch;
use crate::plain::{self, log};
use crate::response::ResponseBody;
use crate::run::run;
use crate::way::Inbound;

/// One call of a method on its way.
pub(crate) struct RpcCall {
    pub(crate) app: Arc<App>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) exchange: Exchange,
    pub(crate) request: Inbound,
}

impl RpcCall {
    /// Answers the call.
    pub(crate) async fn answer(self) -> Response<ResponseBody> {
        let Self { app, entry, exchange, request } = self;
        let Inbound { uri, version, context, body, watch, .. } = request;
        let command = app.commands.command(&entry.method);
        let mut leftover = None;
        let limits = &app.limits;
        let body = if exchange.is_get() {
            let bytes_max = limits.message_bytes_max;
            exchange.message_of_get(uri.query(), &app.coders, bytes_max).map(Body::Full)
        } else {
            match exchange.requests(limits.message_bytes_max) {
                Ok(requests) => {
                    let counter = watch.as_ref().map(|watch| watch.counter());
                    let pauses = body.pace.pauses && exchange.kind().client_streams();
                    let mut body = Arriving::new(body, counter);
                    leftover = body.leftover(version);
                    let (coders, command) = (Arc::clone(&app.coders), command.clone());
                    let messages = Messages { body, requests, coders, command, pauses };
                    at_once(exchange.kind(), messages).await
                }
                Err(error) => {
                    let readable = check_length(context.headers(), limits.body_bytes_max).is_ok();
                    if version < Version::HTTP_2 && readable {
                        Box::pin(discard(body, limits)).await;
                    }
                    Err(error)
                }
            }
        };
        let held = context.held_tags();
        let outcome = match body {
            Ok(body) => {
                let codec = exchange.codec();
                let call = Call::method(entry.method.clone(), context, codec, body);
                run(&*entry.service, call, command).outcome().await
            }
            Err(error) => Err(error),
        };
        if let Some(leftover) = leftover {
            Box::pin(leftover.discard(&app.limits)).await;
        }
        let response = match outcome {
            Ok(reply) => finish(&app, &entry, exchange, reply, (watch, held)).await,
            Err(error) => Err(error),
        };
        response.unwrap_or_else(|error| {
            log(&error, &entry.method.path);
            failed(&exchange, error)
        })
    }
}

/// The body of the call: its one message if that came with the head, and otherwise a stream.
///
/// # Errors
/// What is wrong with a message that came with the head.
async fn at_once(kind: StreamKind, mut messages: Messages) -> Result<Body> {
    if kind.client_streams() {
        return Ok(Body::frames(messages));
    }
    let first = poll_fn(|cx| Poll::Ready(messages.poll_message(cx))).await;
    match first {
        Poll::Ready(Some(message)) => message.map(Body::Full),
        Poll::Ready(None) | Poll::Pending => Ok(Body::frames(messages)),
    }
}

/// The response for a reply.
///
/// # Errors
/// Those of a body that has to be waited for.
async fn finish(
    app: &App,
    entry: &Entry,
    exchange: Exchange,
    mut reply: Reply,
    (watch, held): (Option<Arc<Watch>>, HeldTags),
) -> Result<Response<ResponseBody>> {
    let script = app.faults.then(|| reply.script().cloned()).flatten();
    let loses_end = fault::loses_trailers(script.as_ref());
    let is_get = exchange.is_get();
    if is_get {
        plain::tag(&mut reply, &held, "");
        if reply.is_unchanged() {
            // As the whole answer would (RFC 9110, section 15.4.5).
            reply.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
            return Ok(plain::response(Box::new(reply), ResponseBody::Plain));
        }
    }
    let mut response = if exchange.is_single_reply() {
        one(&exchange, reply, &app.coders, loses_end).await?
    } else {
        many(exchange, &entry.method, reply, (&app.coders, watch), loses_end)
    };
    if is_get && let Some(coding) = response.headers().get(CONTENT_ENCODING).cloned() {
        plain::tag_compressed(response.headers_mut(), coding.to_str().unwrap_or_default());
    }
    if let Some(script) = script {
        response.extensions_mut().insert(script);
    }
    Ok(response)
}
