//! REST as it is played here: what the crate `rest` makes of a head, a body and a reply, on the one
//! way of a request.
//!
//! A service sees a call like any other: its method, a codec, the request message. What a server
//! without annotated methods pays is one look at an empty router. A client gets gzip where it takes
//! that.

mod compress;
mod describe;
mod events;
mod reply;
mod stream;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use tidewire_rest::{Binding, Request, RestOptions};
use tidewire_service::{
    Body, CachedBody, Call, Codec, Error, Frame, Interface, Result, Service, StreamKind,
};

use self::describe::RequestRules;
use crate::app::App;
use crate::app::prepare::mark;
use crate::gate::access::AccessGate;
use crate::gate::access_error::AccessError;
use crate::limits::Limits;
use crate::request::body::{RequestBody, UnreadBody, check_length};
use crate::request::command::Command;
use crate::request::host::add_host;
use crate::request::inbound::InboundRequest;
use crate::request::run_call::{Run, run};
use crate::response::error::{error_response, error_response_in};
use crate::response::page::uncached;
use crate::socket::prepared::CachedHit;

/// The REST bindings of a server and the services behind them.
pub(crate) struct Rest {
    table: tidewire_rest::Rest,
    services: Vec<Arc<dyn Service>>,
}

/// What [`Rest::find`] came to.
pub(crate) enum RestTarget<'a> {
    /// A method and the service that has it.
    Binding(&'a Arc<Binding>, &'a Arc<dyn Service>),
    /// The OpenAPI document.
    Document,
    /// No call: the answer to a verb that the path is not known under.
    Response(Response<Body>),
    /// Not REST: plain routes, mounts, or nothing.
    Elsewhere,
}

impl Rest {
    /// The bindings of these services.
    pub(crate) fn new(
        table: tidewire_rest::Rest,
        services: &[(Interface, Arc<dyn Service>)],
    ) -> Self {
        Self { table, services: services.iter().map(|(_, service)| service.clone()).collect() }
    }

    /// Whether these rules protect what they seem to.
    ///
    /// # Errors
    /// Rules for paths that only seem to protect a method.
    pub(crate) fn check_access(&self, access: Option<&AccessGate>) -> Result<(), AccessError> {
        access.map_or(Ok(()), |gate| gate.check_paths(self.table.routes()))
    }

    /// The response that refuses a request, as this server prints errors over REST.
    pub(crate) fn refusal(&self, error: &Error) -> Response<Body> {
        refusal(self.table.options(), error)
    }

    /// Finds what a request is for.
    pub(crate) fn find(&self, verb: &Method, path: &str) -> RestTarget<'_> {
        match self.table.find(verb, path) {
            tidewire_rest::RestMatch::Binding(binding) => {
                RestTarget::Binding(binding, &self.services[binding.interface()])
            }
            tidewire_rest::RestMatch::Document => RestTarget::Document,
            tidewire_rest::RestMatch::WrongVerb(verbs) => {
                RestTarget::Response(self.wrong_verb(&verbs))
            }
            tidewire_rest::RestMatch::Elsewhere => RestTarget::Elsewhere,
        }
    }

    /// The OpenAPI document. It is made off the threads that serve: a large schema keeps them for
    /// as long as thousands of calls would.
    pub(crate) async fn document(self: Arc<Self>, app: Arc<App>) -> Response<Body> {
        let make = |rest: &Self, app: &App| {
            let served = RequestRules::new(app.access.as_deref(), app.validates);
            rest.table.document(&served)
        };
        let made = match self.table.has_document() {
            true => Ok(make(&self, &app)),
            false => tokio::task::spawn_blocking(move || make(&self, &app)).await,
        };
        let Ok(document) = made else {
            return error_response(&Error::internal("the document cannot be made"));
        };
        let mut response = Response::new(Body::Full(document));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        // It may have been asked for with a credential.
        uncached(response.headers_mut());
        response
    }

    /// The response for a path that is known under other verbs.
    fn wrong_verb(&self, allowed: &[Method]) -> Response<Body> {
        let names: Vec<_> = allowed.iter().map(Method::as_str).collect();
        let names = names.join(", ");
        let mut error = Error::unimplemented(format!("this path answers {names}"))
            .with_http_status(StatusCode::METHOD_NOT_ALLOWED);
        if let Ok(value) = HeaderValue::from_str(&names) {
            error.headers_mut().insert(ALLOW, value);
        }
        self.refusal(&error)
    }
}

/// A response, and who keeps its body.
struct RestAnswer {
    response: Response<Body>,
    keeper: Option<Arc<dyn CachedBody>>,
    hit: Option<CachedHit>,
}

impl From<Response<Body>> for RestAnswer {
    fn from(response: Response<Body>) -> Self {
        Self { response, keeper: None, hit: None }
    }
}

/// One request on its way to a method.
pub(crate) struct Transcoder {
    pub(crate) app: Arc<App>,
    pub(crate) binding: Arc<Binding>,
    pub(crate) service: Arc<dyn Service>,
}

impl Transcoder {
    /// Answers the request. (Not an `async fn`, nor is [`answer`](Self::answer): those keep what
    /// they are given twice, and this is moved and allocated for each request.)
    pub(crate) fn run(self, request: InboundRequest) -> impl Future<Output = Response<Body>> {
        let is_head = request.verb == Method::HEAD;
        let is_get = is_head || request.verb == Method::GET;
        let binding = Arc::clone(&self.binding);
        let compresses = binding.options().compression;
        let gzip = compresses && compress::accepted(request.context.headers());
        self.answer(request).map(move |answered| {
            let RestAnswer { mut response, keeper, hit } =
                answered.unwrap_or_else(|error| refusal(binding.options(), &error).into());
            if is_get {
                uncached(response.headers_mut());
            }
            if compresses {
                let kept = keeper.map(|keeper| (keeper, binding.format()));
                compress::apply(&mut response, gzip, kept);
            }
            if is_head {
                leave_body_out(&mut response);
            }
            mark(&mut response, hit);
            response
        })
    }

    fn answer(self, inbound: InboundRequest) -> impl Future<Output = Result<RestAnswer>> {
        let InboundRequest { verb, uri, version, mut context, body, watch, .. } = inbound;
        async move {
            let limits = &self.app.limits;
            let method = self.binding.method();
            // A stream of messages is bounded message by message.
            let streams = method.kind.client_streams();
            let body_bytes_max = if streams { usize::MAX } else { limits.body_bytes_max };
            check_length(context.headers().get(CONTENT_LENGTH), body_bytes_max)?;
            let has_body = !hyper::body::Body::is_end_stream(&body);
            let request = match Request::new(&self.binding, &uri, context.headers(), has_body) {
                Ok(request) => request,
                Err(error) => {
                    // Closing before the body is read would break the client's sending.
                    Box::pin(UnreadBody::of(body).read_on(limits)).await;
                    return Err(error);
                }
            };
            let wants_events = self.binding.wants_events(&verb, context.headers());
            let style = self.binding.style(context.headers());
            let mut command = self.app.commands.command(method);
            let counter = watch.map(|watch| watch.counter());
            let mut leftover = None;
            let body = if !has_body && !streams {
                Body::Full(request.message(&[])?)
            } else {
                let mut arriving = RequestBody::new(body, counter).limit(body_bytes_max);
                leftover = arriving.leftover(version);
                call_body(request, arriving, limits, &mut command).await?
            };
            add_host(&mut context, &uri);
            let held = context.held_tags();
            if !held.is_empty() {
                context.set_held(held.validators(self.binding.edition()));
            }
            let call = Call::method(method.clone(), context, Codec::Proto, body);
            if wants_events {
                let events = Box::pin(events::response(&self.app, &self.binding, call));
                return Ok(events.await?.into());
            }
            let outcome = match run(&*self.service, call, command) {
                Run::Ready(outcome) => outcome.map(|reply| *reply),
                Run::Pending(waiting) => waiting.await,
            };
            if let Some(leftover) = leftover {
                Box::pin(leftover.read_on(limits)).await;
            }
            let reply = outcome?;
            let script = self.app.faults.then(|| reply.script().cloned()).flatten();
            let keeper = match &reply.body {
                Body::Full(message) => reply.freshness.keeper(message).cloned(),
                _ => None,
            };
            let hit = self.app.cached_hit(&*self.service, version, &reply.freshness);
            let kept = keeper.as_deref();
            let mut response = reply::response(&self.binding, reply, style, &held, kept).await?;
            events::vary(&self.binding, &mut response);
            if let Some(script) = script {
                response.extensions_mut().insert(script);
            }
            Ok(RestAnswer { response, keeper, hit })
        }
    }
}

/// The body of a call: its message if that came with the head, else what it will come by.
///
/// # Errors
/// Those of what came, and of a message that does not fit.
async fn call_body(
    request: Request,
    mut arriving: RequestBody,
    limits: &Limits,
    command: &mut Option<Command>,
) -> Result<Body> {
    let kind = request.binding().method().kind;
    let first = match at_once(&mut arriving, kind).await? {
        WithHead::Whole(bytes) => return Ok(Body::Full(request.message(&bytes)?)),
        WithHead::Part(first) => first,
    };
    let first = futures_util::stream::iter(first.map(|data| Ok(Frame::Data(data))));
    let body = Body::frames(first.chain(arriving));
    if kind.client_streams() {
        return Ok(stream::messages(request, body, limits.message_bytes_max));
    }
    let command = command.as_mut().map(Command::awaited);
    Ok(one_message(request, body, limits.body_bytes_max, command))
}

/// What came of a body with its head.
enum WithHead {
    /// All of it.
    Whole(Bytes),
    /// Its beginning, if anything.
    Part(Option<Bytes>),
}

/// Looks once what came with the head; a stream of messages is not looked at, nor what the client
/// sends only once that is read.
///
/// # Errors
/// Those of the body.
async fn at_once(body: &mut RequestBody, kind: StreamKind) -> Result<WithHead> {
    if kind.client_streams() || body.waits_to_be_asked() {
        return Ok(WithHead::Part(None));
    }
    if body.is_over() {
        return Ok(WithHead::Whole(Bytes::new()));
    }
    Ok(match poll_fn(|cx| Poll::Ready(body.poll_piece(cx))).await {
        Poll::Pending => WithHead::Part(None),
        Poll::Ready(None) => WithHead::Whole(Bytes::new()),
        Poll::Ready(Some(piece)) => match piece? {
            Frame::Data(data) if body.is_over() => WithHead::Whole(data),
            Frame::Data(data) => WithHead::Part(Some(data)),
            Frame::Trailers(_) => WithHead::Whole(Bytes::new()),
        },
    })
}

/// The request message, once somebody asks.
fn one_message(
    request: Request,
    body: Body,
    bytes_max: usize,
    mut command: Option<Command>,
) -> Body {
    Body::stream(futures_util::stream::once(async move {
        let bytes = match request.takes_body() {
            Ok(()) => body.collect(bytes_max).await?,
            Err(unwanted) => body.collect(0).await.map_err(|_| unwanted)?,
        };
        let message = request.message(&bytes)?;
        if let Some(command) = &mut command {
            command.begin()?;
        }
        Ok(message)
    }))
}

/// The response that refuses a request.
fn refusal(options: &RestOptions, error: &Error) -> Response<Body> {
    error_response_in(options.errors, error)
}

/// The answer to `HEAD`: the length of what `GET` would send, and nothing of it.
fn leave_body_out(response: &mut Response<Body>) {
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.len().filter(|length| *length > 0) {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}
