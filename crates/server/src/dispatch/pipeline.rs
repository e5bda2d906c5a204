//! The path of a request, whatever its protocol.
//!
//! ```text
//! head ─▶ find (lookup.rs) ─▶ observers ─▶ gates ─▶ call: protocols/ ─▶ response
//!              │                             │               └▶ request/run_call.rs
//!              └▶ answered without a call    └▶ refused, in the caller's protocol
//! ```
//!
//! Gates see every request by its head, before a byte of its body is read, also one that is for
//! nothing or that its protocol refuses; only a browser's question for other origins passes them
//! by, since it carries no credentials. Observers are told of the same requests and of their one
//! end. A server without gates and observers takes the shorter way. The other is not a future
//! either, unless a gate waits: what a request costs more is what is kept of it to tell its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HeaderValue};
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Response, Version};
use hyper::body::Incoming;
use tidewire_service::{Context, Error, Head, HeadParts, HttpTarget, Phase, Service, ask};
use tokio::time::Instant;

use crate::dispatch::dispatcher::Dispatcher;
use crate::dispatch::lookup::{Lookup, RequestTarget};
use crate::dispatch::response_future::ResponseFuture;
use crate::protocols::plain::{PlainHttp, PlainResponse};
use crate::protocols::rest::Transcoder;
use crate::protocols::rpc::RpcCall;
use crate::request::admission::admitted;
use crate::request::body::{RawBody, UnreadBody, check_length};
use crate::request::catch_panic::panicked;
use crate::request::host::add_host;
use crate::request::inbound::InboundRequest;
use crate::request::observe::{Watch, WatchedHttp};
use crate::request::repeat::RepeatedHead;
use crate::request::trace;
use crate::response::body::ResponseBody;
use crate::response::page::uncached;
use crate::socket::activity::Slot;
use crate::socket::body_rate::BodyRate;

impl Dispatcher {
    /// Answers a request where nobody watches.
    #[inline]
    pub(crate) fn pass(
        &self,
        request: Request<Incoming>,
        slot: Option<&Arc<Slot>>,
    ) -> ResponseFuture {
        let (mut parts, body) = request.into_parts();
        let body = self.raw_body(&mut parts, body, slot);
        let found = self.lookup().find(&parts);
        let Parts { method: verb, uri, version, headers, extensions, .. } = parts;
        let context = self.context((&found, None), &verb, headers, extensions);
        match found {
            // Nothing of it is moved about on the way to the service.
            RequestTarget::Plain(service, params, own, _) => {
                let mut target = HttpTarget::new(verb, own.map_or(uri, |own| *own));
                target.params = params;
                self.plain(&**service, target, context, (body, None))
            }
            found => {
                self.call(found, InboundRequest { verb, uri, version, context, body, watch: None })
            }
        }
    }

    /// Answers a request that gates or observers see.
    pub(crate) fn watched(
        &self,
        request: Request<Incoming>,
        slot: Option<&Arc<Slot>>,
    ) -> ResponseFuture {
        let (mut parts, body) = request.into_parts();
        let body = self.raw_body(&mut parts, body, slot);
        let app = &self.app;
        let found = self.lookup().find(&parts);
        let target = found.target(&parts);
        let Parts { method: verb, uri, version, headers, extensions, .. } = parts;
        let now = Instant::now();
        let mut context = self.context((&found, Some(now)), &verb, headers, extensions);
        if app.shows_host {
            add_host(&mut context, &uri);
        }
        let id = app.traces.map(|sampled| trace::mark(&mut context, sampled));
        let mut head = Head::new(target, context);
        head.set_arrived(now.into_std());
        let is_repeated = version == Version::HTTP_11 && self.gathering.is_repeated();
        let repeated = is_repeated.then(|| {
            let gates = app.gates_of(&head.target);
            RepeatedHead::of(&head, &app.observers, gates, &app.stop)
        });
        let http = WatchedHttp { id, is_head: verb == Method::HEAD };
        let watch = Watch::of_request(&app.observers, &app.stop, &mut head, http);
        watch.phase(Phase::Gates);
        let gates = app.gates_of(&head.target);
        let asked = catch_unwind(AssertUnwindSafe(|| ask(gates, &mut head)));
        match asked.unwrap_or_else(|panic| Err(panicked(&*panic))) {
            Ok(None) => {
                let HeadParts { context, permits, .. } = head.into_parts();
                watch.repeats(repeated, &context);
                let watch = Some(watch.keep(permits, context.principal()));
                self.accept(found, InboundRequest { verb, uri, version, context, body, watch })
            }
            Err(error) => {
                let HeadParts { context, permits, .. } = head.into_parts();
                let watch = Some(watch.keep(permits, context.principal()));
                let refused = InboundRequest { verb, uri, version, context, body, watch };
                self.refuse(&found, refused, error)
            }
            Ok(Some(waits)) => {
                let dispatcher = self.clone();
                let found = found.into_owned();
                ResponseFuture::Late(Box::pin(async move {
                    // Should this be dropped while it waits, its end is told before its guards go.
                    let mut head = head;
                    #[allow(clippy::redundant_locals, reason = "it is dropped before the head")]
                    let watch = watch;
                    let gates = &dispatcher.app.gates_of(&head.target)[waits..];
                    let decision = admitted(gates, &mut head, true).await;
                    let HeadParts { context, permits, .. } = head.into_parts();
                    watch.repeats(repeated, &context);
                    let watch = Some(watch.keep(permits, context.principal()));
                    let request = InboundRequest { verb, uri, version, context, body, watch };
                    let response = match decision {
                        Ok(()) => dispatcher.accept(found, request),
                        Err(error) => dispatcher.refuse(&found, request, error),
                    };
                    response.await.unwrap_or_else(|never| match never {})
                }))
            }
        }
    }

    /// Answers a request that the gates refuse.
    #[cold]
    fn refuse(
        &self,
        found: &RequestTarget<'_>,
        request: InboundRequest,
        error: Error,
    ) -> ResponseFuture {
        let InboundRequest { verb, uri, version, mut context, body, mut watch } = request;
        let (mut parts, ()) = Request::new(()).into_parts();
        (parts.method, parts.uri, parts.version) = (verb, uri, version);
        parts.headers = std::mem::take(context.headers_mut()).into();
        let refuse = || found.refusal(&self.server.rest, &parts, error);
        let mut response = Watch::within(&mut watch, refuse);
        if matches!(parts.method, Method::GET | Method::HEAD) {
            uncached(response.headers_mut());
        }
        self.after_body(version, parts.headers.get(CONTENT_LENGTH), body, response).watched(watch)
    }

    /// Answers a request that the gates let pass.
    #[inline]
    fn accept(&self, found: RequestTarget<'_>, request: InboundRequest) -> ResponseFuture {
        if let Some(watch) = &request.watch {
            watch.phase(Phase::Handler);
        }
        // A call of an RPC protocol tells of its response itself.
        if matches!(found, RequestTarget::Method(..)) {
            return self.call(found, request);
        }
        let mut watch = request.watch.clone();
        let response = Watch::within(&mut watch, || self.call(found, request));
        response.watched(watch)
    }

    #[inline(always)]
    pub(crate) fn raw_body(
        &self,
        parts: &mut Parts,
        body: Incoming,
        slot: Option<&Arc<Slot>>,
    ) -> RawBody {
        let version = parts.version;
        // Who passes the request on says in which version it came, and sees that by its target.
        let by_target =
            if parts.uri.authority().is_some() { Version::HTTP_2 } else { Version::HTTP_11 };
        if version != by_target {
            parts.extensions.insert(version);
        }
        let pace = BodyRate::new(&self.app.limits, version == Version::HTTP_2);
        RawBody::new(body, parts, pace, slot, &self.gathering)
    }

    #[inline(always)]
    fn context(
        &self,
        (found, now): (&RequestTarget<'_>, Option<Instant>),
        verb: &Method,
        headers: HeaderMap,
        extensions: Extensions,
    ) -> Context {
        let deadline =
            found.timeout().and_then(|left| now.unwrap_or_else(Instant::now).checked_add(left));
        let context = match *verb {
            Method::GET | Method::HEAD => Context::new(headers).with_conditions(),
            _ => Context::new(headers),
        };
        context
            .with_extensions(extensions)
            .with_protocol(found.protocol())
            .with_deadline(deadline.map(Instant::into_std))
            .with_peer(Arc::clone(&self.peer))
            .with_stopping(self.stopping.clone())
    }

    /// Answers a request that was let pass.
    fn call(&self, found: RequestTarget<'_>, mut request: InboundRequest) -> ResponseFuture {
        match found {
            RequestTarget::Plain(service, params, uri, _) => {
                let InboundRequest { verb, uri: asked, context, body, watch, .. } = request;
                let target =
                    HttpTarget::new(verb, uri.map_or(asked, |own| *own)).with_params(params);
                self.plain(&**service, target, context, (body, watch))
            }
            RequestTarget::Method(entry, exchange) => {
                let app = Arc::clone(&self.app);
                let entry = entry.into_owned();
                if app.methods_see_host {
                    add_host(&mut request.context, &request.uri);
                }
                ResponseFuture::Rpc(RpcCall::new(app, entry, exchange, request))
            }
            RequestTarget::Binding(binding, service, _) => {
                let app = Arc::clone(&self.app);
                let binding = binding.into_owned();
                let transcoder = Transcoder { app, binding, service: service.into_owned() };
                ResponseFuture::Rest(Box::pin(transcoder.run(request)))
            }
            RequestTarget::Document => {
                let rest = Arc::clone(&self.server.rest);
                ResponseFuture::Rest(Box::pin(rest.document(Arc::clone(&self.app))))
            }
            RequestTarget::Answer(answered) => {
                let InboundRequest { verb, version, context, body, .. } = request;
                let mut response = answered.response;
                if matches!(verb, Method::GET | Method::HEAD) {
                    uncached(response.headers_mut());
                }
                self.after_body(version, context.headers().get(CONTENT_LENGTH), body, response)
            }
        }
    }

    /// Answers plain HTTP.
    #[inline]
    fn plain(
        &self,
        service: &dyn Service,
        target: HttpTarget,
        context: Context,
        (body, watch): (RawBody, Option<Watch>),
    ) -> ResponseFuture {
        let plain = PlainHttp { app: &self.app, gathering: &self.gathering, service };
        match plain.answer(target, context, body, watch) {
            PlainResponse::Ready(response) => ResponseFuture::Ready(Some(response)),
            PlainResponse::Answered(reply) => ResponseFuture::Answered(Some(reply)),
            PlainResponse::Running(call) => ResponseFuture::Plain(call),
            PlainResponse::Late(response) => ResponseFuture::Late(response),
        }
    }

    #[inline]
    fn lookup(&self) -> Lookup<'_> {
        Lookup { app: &self.app, rest: &self.server.rest }
    }

    /// Answers at once, and then reads and forgets what is left of the request's body: over
    /// HTTP/1.1 closing before that would break the client's sending, and it would never see the
    /// answer. Over HTTP/2 what it still sends is taken in with its stream
    /// (`connection/http2.rs`). After a body whose declared length is over the limit, or whose
    /// client waits to be told to send it, the connection is closed (`socket/gather.rs`).
    pub(crate) fn after_body(
        &self,
        version: Version,
        declared: Option<&HeaderValue>,
        body: RawBody,
        response: Response<ResponseBody>,
    ) -> ResponseFuture {
        let nothing_to_read = version == Version::HTTP_2
            || body.waits_to_be_asked()
            || hyper::body::Body::is_end_stream(&body)
            || check_length(declared, self.app.limits.body_bytes_max).is_err();
        if nothing_to_read {
            return ResponseFuture::Ready(Some(Box::new(response)));
        }
        let app = Arc::clone(&self.app);
        ResponseFuture::Late(Box::pin(async move {
            UnreadBody::of(body).read_on(&app.limits).await;
            response
        }))
    }
}
