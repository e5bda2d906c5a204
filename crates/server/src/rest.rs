//! REST: HTTP requests to calls and replies to responses, by the methods' `google.api.http`.
//!
//! ```text
//! verb, path ─▶ router ─▶ binding ─┐                                    ┌▶ print ─▶ status, headers, body
//! path, query, body ───────────────┴▶ request as proto JSON ─▶ service ─┘
//! ```
//!
//! Everything that follows from descriptors and options is worked out once, at start, into
//! [`Binding`]s; faults of annotations and routes that exclude each other are reported then. A
//! service sees a call like any other: its method, JSON, the request message. What a server without
//! annotated methods pays is one look at an empty router.
//!
//! A client says how long it waits in `Connect-Timeout-Ms` and gets gzip where it takes that.
//!
//! Rules: the comments of `google/api/http.proto`; JSON: the proto JSON mapping.

mod annotation;
mod binding;
mod check;
mod compress;
mod content;
mod deadline;
mod field;
mod http_body;
mod items;
mod lines;
mod openapi;
mod options;
mod origin;
mod print;
mod problem;
mod query;
mod reply;
mod request;
mod router;
mod scan;
mod table;
mod template;
mod unknown;
mod value;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, HOST, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use tidewire_service::{Body, Call, Codec, Error, Peer, Protocol, Result, Signal, StreamKind};
use tokio::time::Instant;

pub use self::annotation::{Rule as RestRule, rest_rules};
pub use self::binding::RestError;
pub use self::check::{RestFinding, check_rest};
pub use self::options::{
    Defaults, ErrorFormat, FieldNames, Int64, JsonOptions, RestOptions, UnknownNames,
};
pub(crate) use self::table::{Found, Rest};

use self::binding::Binding;
use self::request::{Assign, BodyRule, sort};
use crate::command::Commands;
use crate::isolate::Isolated;
use crate::limits::Limits;
use crate::observe::Admitted;
use crate::plain;

/// The future of a response.
pub(crate) type Transcoding = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// One request on its way to a method.
pub(crate) struct Exchange {
    pub(crate) binding: Arc<Binding>,
    pub(crate) options: Arc<RestOptions>,
    /// For a command, which runs to completion.
    pub(crate) commands: Option<Commands>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) stopping: Signal,
    pub(crate) body_bytes_max: usize,
    pub(crate) message_bytes_max: usize,
    pub(crate) refusal_timeout: Duration,
}

impl Exchange {
    pub(crate) fn new(
        (binding, options): (&Arc<Binding>, &Arc<RestOptions>),
        commands: &Commands,
        (peer, stopping): (&Arc<Peer>, &Signal),
        limits: &Limits,
    ) -> Self {
        let method = &binding.method;
        let to_completion = method.kind == StreamKind::Unary && !method.is_query();
        Self {
            binding: Arc::clone(binding),
            options: Arc::clone(options),
            commands: to_completion.then(|| commands.clone()),
            peer: Arc::clone(peer),
            stopping: stopping.clone(),
            body_bytes_max: limits.body_bytes_max,
            message_bytes_max: limits.message_bytes_max,
            refusal_timeout: limits.header_read_timeout,
        }
    }

    /// Answers the request.
    pub(crate) fn run(self, request: Request<Incoming>) -> Transcoding {
        Box::pin(async move {
            let head = request.method() == Method::HEAD;
            let gzip = self.options.compression && compress::accepted(request.headers());
            let answer = match deadline::of(request.headers()) {
                Ok(None) => self.answer(request, None).await,
                Ok(Some(at)) => {
                    // In a box of its own, so that a call without a deadline stays small.
                    let answer = Box::pin(self.answer(request, Some(at)));
                    let answer = tokio::time::timeout_at(at, answer).await;
                    answer.unwrap_or_else(|_| Err(deadline::passed()))
                }
                Err(error) => Err(error),
            };
            let response = match answer {
                Ok(response) => response,
                Err(error) => problem::response(&error, self.options.errors),
            };
            let response =
                if self.options.compression { compress::apply(response, gzip) } else { response };
            if head { without_body(response) } else { response }
        })
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        deadline: Option<Instant>,
    ) -> Result<Response<Body>> {
        // A stream of messages is bounded message by message.
        let streams = self.binding.method.kind.client_streams();
        let body_bytes_max = if streams { usize::MAX } else { self.body_bytes_max };
        let (mut parts, body) = request.into_parts();
        let mut body = plain::body(&parts.headers, body, body_bytes_max)?;
        if let Some(admitted) = parts.extensions.get::<Admitted>() {
            body = admitted.watch.counted(body);
        }
        let wants_lines = content::wants_lines(&parts.headers);
        let values = content::check(&self.binding, &parts.headers, &body)
            .and_then(|()| self.values(&parts).map_err(|error| self.located(error)));
        let values = match values {
            Ok(values) => values,
            Err(error) => {
                // Closing before the body is read would break the client's sending.
                let discard = Box::pin(plain::discard(body));
                let _ = tokio::time::timeout(self.refusal_timeout, discard).await;
                return Err(error);
            }
        };
        let body = match body {
            Body::Stream(_) => Box::pin(self.body(&parts, values, body)).await,
            whole => self.whole(&parts, values, whole),
        };
        let body = body.map_err(|error| self.located(error))?;
        add_host(&mut parts);
        let context = plain::context(parts.headers, parts.extensions, Protocol::Rest)
            .with_peer(Arc::clone(&self.peer))
            .with_stopping(self.stopping.clone())
            .with_deadline(deadline.map(Instant::into_std));
        let context = match parts.method {
            Method::GET | Method::HEAD => context.with_conditions(),
            _ => context,
        };
        let call = Call::method(self.binding.method.clone(), context, Codec::Json, body);
        let answer = Isolated::call(&*self.binding.service, call);
        let reply = match &self.commands {
            Some(commands) => Box::pin(commands.run(answer)).await?,
            None => answer.await?,
        };
        reply::response(&self.binding, reply, wants_lines, deadline).await
    }

    /// The request message, or a stream of them.
    async fn body(&self, parts: &Parts, assigns: Vec<Assign<'_>>, body: Body) -> Result<Body> {
        if self.binding.method.kind.client_streams() {
            return Ok(self.messages(parts, assigns, body));
        }
        let bytes = if self.binding.request.body == BodyRule::None {
            body.collect(0).await.map_err(|_| content::no_body())?
        } else {
            body.collect(self.body_bytes_max).await?
        };
        self.whole(parts, assigns, Body::Full(bytes))
    }

    /// [`body`](Self::body) where there is nothing to wait for.
    fn whole(&self, parts: &Parts, assigns: Vec<Assign<'_>>, body: Body) -> Result<Body> {
        if self.binding.method.kind.client_streams() {
            return Ok(self.messages(parts, assigns, body));
        }
        let plan = &self.binding.request;
        let bytes = match body {
            Body::Full(bytes) => bytes,
            _ => Bytes::new(),
        };
        let bytes = match self.binding.raw_request {
            true => http_body::to_message(content::content_type(&parts.headers), &bytes),
            false => bytes,
        };
        if self.options.unknown_members == UnknownNames::Refused {
            plan.check_names(&bytes)?;
        }
        plan.message(&assigns, bytes).map(Body::Full)
    }

    /// The values that path and query give, in order.
    fn values<'a>(&'a self, parts: &'a Parts) -> Result<Vec<Assign<'a>>> {
        let Binding { request, template, .. } = &*self.binding;
        let mut assigns = request.path_values(template, parts.uri.path())?;
        if let Some(query) = parts.uri.query().filter(|query| !query.is_empty()) {
            let RestOptions { unknown_parameters, query_parameters_max, .. } = &*self.options;
            query::parse(request, query, *unknown_parameters, *query_parameters_max, &mut assigns)?;
        }
        sort(&mut assigns);
        Ok(assigns)
    }

    /// One message a line, or a chunk of a raw body; path and query are the same for each.
    fn messages(&self, parts: &Parts, assigns: Vec<Assign<'_>>, body: Body) -> Body {
        let assigns: Vec<_> = assigns.into_iter().map(Assign::into_owned).collect();
        let binding = Arc::clone(&self.binding);
        if binding.raw_request {
            let content_type = content::content_type(&parts.headers).cloned();
            let chunks = http_body_util::BodyStream::new(body);
            return Body::stream(chunks.filter_map(move |frame| {
                let data = frame.map(|frame| frame.into_data().ok()).transpose();
                let message = data.map(|data| {
                    let message = http_body::to_message(content_type.as_ref(), &data?);
                    binding.request.message(&assigns, message)
                });
                std::future::ready(message)
            }));
        }
        let lines = lines::Lines::new(body, self.message_bytes_max);
        let strict = self.options.unknown_members == UnknownNames::Refused;
        Body::stream(lines.map(move |line| {
            let (number, line) = line?;
            let names = if strict { binding.request.check_names(&line) } else { Ok(()) };
            let message = names.and_then(|()| binding.request.message(&assigns, line));
            message.map_err(|error| prefixed(error, &format!("line {number}: ")))
        }))
    }

    /// An error of the request with the template that the request matched.
    fn located(&self, error: Error) -> Error {
        if error.code() != tidewire_service::Code::InvalidArgument {
            return error;
        }
        let message = format!("{} ({})", error.message(), self.binding.route());
        replaced(error, message)
    }
}

/// HTTP/2 has the host in its target; a handler that makes a URL reads the header.
fn add_host(parts: &mut Parts) {
    if let Some(authority) = parts.uri.authority()
        && !parts.headers.contains_key(HOST)
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        parts.headers.insert(HOST, host);
    }
}

fn prefixed(error: Error, prefix: &str) -> Error {
    let message = format!("{prefix}{}", error.message());
    replaced(error, message)
}

/// The same error with another message.
fn replaced(error: Error, message: String) -> Error {
    let status = error.http_status();
    Error::new(error.code(), message).with_http_status(status)
}

/// The answer to `HEAD`: the length of what `GET` would send, and nothing of it.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.len().filter(|length| *length > 0) {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}
