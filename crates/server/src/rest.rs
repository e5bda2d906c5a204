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
//! A client gets gzip where it takes that.
//!
//! Rules: the comments of `google/api/http.proto`; JSON: the proto JSON mapping.

mod annotation;
mod binding;
mod check;
mod compress;
mod content;
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

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, HOST, HeaderValue};
use http::{Method, Response, Uri};
use tidewire_service::{Body, Call, Codec, Context, Error, Frame, Result};

pub use self::annotation::{Rule as RestRule, rest_rules};
pub use self::binding::RestError;
pub use self::check::{RestFinding, check_rest};
pub use self::options::{
    Defaults, ErrorFormat, FieldNames, Int64, JsonOptions, RestOptions, UnknownNames,
};
pub(crate) use self::table::{Found, Rest};

pub(crate) use self::binding::Binding;
use self::request::{Assign, BodyRule, sort};
use crate::arriving::{Arriving, check_length, discard};
use crate::command::Command;
use crate::connection::App;
use crate::run::run;
use crate::way::Inbound;

/// One request on its way to a method.
pub(crate) struct Transcoder {
    pub(crate) app: Arc<App>,
    pub(crate) binding: Arc<Binding>,
    pub(crate) options: Arc<RestOptions>,
}

impl Transcoder {
    /// Answers the request.
    pub(crate) async fn run(self, request: Inbound) -> Response<Body> {
        let head = request.verb == Method::HEAD;
        let gzip = self.options.compression && compress::accepted(request.context.headers());
        let response = match self.answer(request).await {
            Ok(response) => response,
            Err(error) => problem::response(&error, self.options.errors),
        };
        let response =
            if self.options.compression { compress::apply(response, gzip) } else { response };
        if head { without_body(response) } else { response }
    }

    async fn answer(&self, request: Inbound) -> Result<Response<Body>> {
        let Inbound { uri, version, mut context, body, watch, .. } = request;
        let limits = &self.app.limits;
        // A stream of messages is bounded message by message.
        let streams = self.binding.method.kind.client_streams();
        let body_bytes_max = if streams { usize::MAX } else { limits.body_bytes_max };
        check_length(context.headers(), body_bytes_max)?;
        let is_empty = hyper::body::Body::is_end_stream(&body);
        let values = content::check(&self.binding, context.headers(), is_empty)
            .and_then(|()| self.values(&uri).map_err(|error| located(&self.binding, error)));
        let values = match values {
            Ok(values) => values,
            Err(error) => {
                // Closing before the body is read would break the client's sending.
                Box::pin(discard(body, limits)).await;
                return Err(error);
            }
        };
        let wants_lines = content::wants_lines(context.headers());
        let command = self.app.commands.command(&self.binding.method);
        let mut arriving =
            Arriving::new(body, watch.map(|watch| watch.counter())).limit(body_bytes_max);
        let leftover = arriving.leftover(version);
        let content_type = content::content_type(context.headers()).cloned();
        let body = match at_once(&mut arriving, streams).await? {
            AtOnce::Whole(bytes) => self.whole(values, content_type.as_ref(), bytes)?,
            AtOnce::Part(first) => {
                let first = futures_util::stream::iter(first.map(|data| Ok(Frame::Data(data))));
                let body = Body::frames(first.chain(arriving));
                self.lazy(values, content_type, body, command.clone())
            }
        };
        add_host(&mut context, &uri);
        let call = Call::method(self.binding.method.clone(), context, Codec::Json, body);
        let outcome = run(&*self.binding.service, call, command).outcome().await;
        if let Some(leftover) = leftover {
            Box::pin(leftover.discard(limits)).await;
        }
        let reply = outcome?;
        let script = self.app.faults.then(|| reply.script().cloned()).flatten();
        let mut response = reply::response(&self.binding, reply, wants_lines).await?;
        if let Some(script) = script {
            response.extensions_mut().insert(script);
        }
        Ok(response)
    }

    /// The request message, or a stream of them, once somebody asks.
    fn lazy(
        &self,
        assigns: Vec<Assign<'_>>,
        content_type: Option<HeaderValue>,
        body: Body,
        command: Option<Command>,
    ) -> Body {
        let assigns: Vec<_> = assigns.into_iter().map(Assign::into_owned).collect();
        if self.binding.method.kind.client_streams() {
            return self.messages(assigns, content_type, body);
        }
        let (binding, options) = (Arc::clone(&self.binding), Arc::clone(&self.options));
        let bytes_max = self.app.limits.body_bytes_max;
        Body::stream(futures_util::stream::once(async move {
            let bytes = match binding.request.body == BodyRule::None {
                true => body.collect(0).await.map_err(|_| content::no_body()),
                false => body.collect(bytes_max).await,
            };
            let message = bytes.and_then(|bytes| {
                message(&binding, &options, &assigns, content_type.as_ref(), bytes)
            });
            let message = message.map_err(|error| located(&binding, error))?;
            if let Some(command) = &command {
                command.begin()?;
            }
            Ok(message)
        }))
    }

    /// [`lazy`](Self::lazy) where there is nothing to wait for.
    fn whole(
        &self,
        assigns: Vec<Assign<'_>>,
        content_type: Option<&HeaderValue>,
        bytes: Bytes,
    ) -> Result<Body> {
        if self.binding.method.kind.client_streams() {
            let assigns = assigns.into_iter().map(Assign::into_owned).collect();
            return Ok(self.messages(assigns, content_type.cloned(), Body::Full(bytes)));
        }
        let bytes = match self.binding.request.body == BodyRule::None && !bytes.is_empty() {
            true => Err(content::no_body()),
            false => Ok(bytes),
        };
        bytes
            .and_then(|bytes| message(&self.binding, &self.options, &assigns, content_type, bytes))
            .map(Body::Full)
            .map_err(|error| located(&self.binding, error))
    }

    /// The values that path and query give, in order.
    fn values<'a>(&'a self, uri: &'a Uri) -> Result<Vec<Assign<'a>>> {
        let Binding { request, template, .. } = &*self.binding;
        let mut assigns = request.path_values(template, uri.path())?;
        if let Some(query) = uri.query().filter(|query| !query.is_empty()) {
            let RestOptions { unknown_parameters, query_parameters_max, .. } = &*self.options;
            query::parse(request, query, *unknown_parameters, *query_parameters_max, &mut assigns)?;
        }
        sort(&mut assigns);
        Ok(assigns)
    }

    /// One message a line, or a chunk of a raw body; path and query are the same for each.
    fn messages(
        &self,
        assigns: Vec<Assign<'static>>,
        content_type: Option<HeaderValue>,
        body: Body,
    ) -> Body {
        let binding = Arc::clone(&self.binding);
        if binding.raw_request {
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
        let lines = lines::Lines::new(body, self.app.limits.message_bytes_max);
        let strict = self.options.unknown_members == UnknownNames::Refused;
        Body::stream(lines.map(move |line| {
            let (number, line) = line?;
            let names = if strict { binding.request.check_names(&line) } else { Ok(()) };
            let message = names.and_then(|()| binding.request.message(&assigns, line));
            message.map_err(|error| prefixed(error, &format!("line {number}: ")))
        }))
    }
}

/// What came of a body with its head.
enum AtOnce {
    /// All of it.
    Whole(Bytes),
    /// Its beginning, if anything.
    Part(Option<Bytes>),
}

/// Looks once what came with the head.
///
/// # Errors
/// Those of the body.
async fn at_once(body: &mut Arriving, streams: bool) -> Result<AtOnce> {
    if body.is_over() {
        return Ok(AtOnce::Whole(Bytes::new()));
    }
    if streams {
        return Ok(AtOnce::Part(None));
    }
    Ok(match poll_fn(|cx| Poll::Ready(body.poll_piece(cx))).await {
        Poll::Pending => AtOnce::Part(None),
        Poll::Ready(None) => AtOnce::Whole(Bytes::new()),
        Poll::Ready(Some(piece)) => match piece? {
            Frame::Data(data) if body.is_over() => AtOnce::Whole(data),
            Frame::Data(data) => AtOnce::Part(Some(data)),
            Frame::Trailers(_) => AtOnce::Whole(Bytes::new()),
        },
    })
}

/// The request message.
fn message(
    binding: &Binding,
    options: &RestOptions,
    assigns: &[Assign<'_>],
    content_type: Option<&HeaderValue>,
    bytes: Bytes,
) -> Result<Bytes> {
    let bytes = match binding.raw_request {
        true => http_body::to_message(content_type, &bytes),
        false => bytes,
    };
    if options.unknown_members == UnknownNames::Refused {
        binding.request.check_names(&bytes)?;
    }
    binding.request.message(assigns, bytes)
}

/// An error of the request with the template that the request matched.
fn located(binding: &Binding, error: Error) -> Error {
    if error.code() != tidewire_service::Code::InvalidArgument {
        return error;
    }
    let message = format!("{} ({})", error.message(), binding.route());
    replaced(error, message)
}

/// HTTP/2 has the host in its target; a handler that makes a URL reads the header.
fn add_host(context: &mut Context, uri: &Uri) {
    if let Some(authority) = uri.authority()
        && !context.headers().contains_key(HOST)
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        context.headers_mut().insert(HOST, host);
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
