//! The path of a request, whatever its protocol.
//!
//! ```text
//! head ─▶ find (lookup.rs) ─▶ observers ─▶ gates ─▶ call: rpc.rs, rest.rs or plain.rs ─▶ response
//!              │                             │               └▶ run_call.rs: deadline, commands, panics
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

use futures_util::FutureExt;
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tidewire_service::{
    Body, Call, Context, Error, Gate, Head, HeadParts, HttpTarget, Phase, Result, Target, admit,
    ask,
};
use tokio::time::Instant;

use crate::dispatch::dispatcher::{Connection, UpgradeRequest};
use crate::dispatch::lookup::RequestTarget;
use crate::dispatch::response_future::ResponseFuture;
use crate::protocols::rest::{Rest, Transcoder, add_host};
use crate::protocols::rpc::RpcCall;
use crate::request::body::{RawBody, RequestBody, UnreadBody, check_length};
use crate::request::catch_panic::panicked;
use crate::request::failure::EndCause;
use crate::request::observe::Watch;
use crate::request::run_call::{Run, run};
use crate::request::trace;
use crate::response::body::ResponseBody;
use crate::response::error::error_response;
use crate::response::page::{Credential, callers_own, uncached};
use crate::socket::activity::Slot;
use crate::socket::body_rate::BodyRate;

/// A request whose head was let pass.
pub(crate) struct InboundRequest {
    pub(crate) verb: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) context: Context,
    pub(crate) body: RawBody,
    pub(crate) watch: Option<Watch>,
}

impl Connection {
    /// Answers a request where nobody watches.
    #[inline]
    pub(crate) fn pass(
        &self,
        request: Request<Incoming>,
        slot: Option<&Arc<Slot>>,
    ) -> ResponseFuture {
        let (parts, body) = self.split(request, slot);
        let found = self.app.find(&parts);
        let Parts { method: verb, uri, version, headers, extensions, .. } = parts;
        let context = self.context((&found, None), &verb, headers, extensions);
        match found {
            // Nothing of it is moved about on the way to the service.
            RequestTarget::Plain(service, params, own, _) => {
                let target = HttpTarget::new(verb, own.unwrap_or(uri)).with_params(params);
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
        let (parts, body) = self.split(request, slot);
        let app = &self.app;
        let found = app.find(&parts);
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
        let is_head = verb == Method::HEAD;
        let watch = Watch::of_request(&app.observers, &app.stop, &mut head, (id, is_head));
        watch.phase(Phase::Gates);
        let gates = app.gates_of(&head.target);
        let asked = catch_unwind(AssertUnwindSafe(|| ask(gates, &mut head)));
        match asked.unwrap_or_else(|panic| Err(panicked(&*panic))) {
            Ok(None) => {
                let HeadParts { context, permits, .. } = head.into_parts();
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
                let connection = self.clone();
                let found = found.into_owned();
                ResponseFuture::Late(Box::pin(async move {
                    // Should this be dropped while it waits, its end is told before its guards go.
                    let mut head = head;
                    #[allow(clippy::redundant_locals, reason = "it is dropped before the head")]
                    let watch = watch;
                    let gates = &connection.app.gates_of(&head.target)[waits..];
                    let decision = admitted(gates, &mut head, true).await;
                    let HeadParts { context, permits, .. } = head.into_parts();
                    let watch = Some(watch.keep(permits, context.principal()));
                    let request = InboundRequest { verb, uri, version, context, body, watch };
                    let response = match decision {
                        Ok(()) => connection.accept(found, request),
                        Err(error) => connection.refuse(&found, request, error),
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
        parts.headers = std::mem::take(context.headers_mut());
        let refuse = || found.refusal(&self.app, &parts, error);
        let mut response = Watch::within(&mut watch, refuse);
        if matches!(parts.method, Method::GET | Method::HEAD) {
            uncached(response.headers_mut());
        }
        self.after_body(version, &parts.headers, body, response).watched(watch)
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

    #[inline]
    pub(crate) fn split(
        &self,
        request: Request<Incoming>,
        slot: Option<&Arc<Slot>>,
    ) -> (Parts, RawBody) {
        let (mut parts, body) = request.into_parts();
        let version = parts.version;
        // Who passes the request on says in which version it came, and sees that by its target.
        let by_target =
            if parts.uri.authority().is_some() { Version::HTTP_2 } else { Version::HTTP_11 };
        if version != by_target {
            parts.extensions.insert(version);
        }
        let pace = BodyRate::new(&self.app.limits, version == Version::HTTP_2);
        let body = RawBody::new(body, &parts, pace, slot, &self.gathering);
        (parts, body)
    }

    #[inline]
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
                let target = HttpTarget::new(verb, uri.unwrap_or(asked)).with_params(params);
                self.plain(&**service, target, context, (body, watch))
            }
            RequestTarget::Method(entry, exchange) => {
                let app = Arc::clone(&self.app);
                let entry = entry.into_owned();
                if app.methods_see_host {
                    add_host(&mut request.context, &request.uri);
                }
                ResponseFuture::Rpc(Box::new(RpcCall::new(app, entry, exchange, request)))
            }
            RequestTarget::Binding(binding, service, _) => {
                let app = Arc::clone(&self.app);
                let binding = binding.into_owned();
                let transcoder = Transcoder { app, binding, service: service.into_owned() };
                ResponseFuture::Rest(Box::pin(transcoder.run(request)))
            }
            RequestTarget::Document => {
                let app = Arc::clone(&self.app);
                ResponseFuture::Rest(Box::pin(Rest::document(app)))
            }
            RequestTarget::Answer(answered) => {
                let InboundRequest { verb, version, context, body, .. } = request;
                let mut response = answered.response;
                if matches!(verb, Method::GET | Method::HEAD) {
                    uncached(response.headers_mut());
                }
                self.after_body(version, context.headers(), body, response)
            }
        }
    }

    /// Answers plain HTTP.
    #[inline]
    fn plain(
        &self,
        service: &dyn tidewire_service::Service,
        target: HttpTarget,
        mut context: Context,
        (body, watch): (RawBody, Option<Watch>),
    ) -> ResponseFuture {
        let mut unread = None;
        let is_http11 = body.version == Version::HTTP_11;
        let body = if hyper::body::Body::is_end_stream(&body) {
            Body::Empty
        } else {
            let bytes_max = self.app.limits.body_bytes_max;
            if let Err(error) = check_length(context.headers(), bytes_max) {
                return ResponseFuture::ready(error_response(&error));
            }
            let version = body.version;
            let counter = watch.map(|watch| watch.counter());
            let mut body = RequestBody::new(body, counter).limit(bytes_max);
            unread = body.leftover(version);
            Body::frames(body)
        };
        let upgrade = context.extensions().get::<OnUpgrade>().cloned();
        if is_http11 && upgrade.is_none() {
            context.set_interim(self.gathering.interim_sender());
        }
        let credential = Credential::of(&context);
        let is_connect = target.method == Method::CONNECT;
        let call = Call::of_target(Target::Http(target), context, body);
        let answer = run(service, call, None);
        if let Some(upgrade) = upgrade {
            return ResponseFuture::Late(
                self.upgradable(answer, UpgradeRequest { upgrade, is_connect, credential }),
            );
        }
        let response = match answer {
            Run::Ready(Ok(reply)) => ResponseFuture::Answered(Some(reply)),
            Run::Ready(Err(error)) => ResponseFuture::ready(error_response(&error)),
            Run::Pending(waiting) => ResponseFuture::Plain(waiting),
        };
        let response = match credential {
            None => response,
            Some(credential) => ResponseFuture::Late(Box::pin(async move {
                let mut response = response.await.unwrap_or_else(|never| match never {});
                callers_own(response.headers_mut(), credential);
                response
            })),
        };
        match unread {
            None => response,
            Some(unread) => {
                let app = Arc::clone(&self.app);
                ResponseFuture::Late(Box::pin(async move {
                    let response = response.await.unwrap_or_else(|never| match never {});
                    unread.discard_what_came(&app.limits).await;
                    response
                }))
            }
        }
    }

    /// Answers at once, and then reads and forgets what is left of the request's body: over
    /// HTTP/1.1 closing before that would break the client's sending, and it would never see the
    /// answer. Over HTTP/2 what it still sends is taken in with its stream (`http2.rs`). After a
    /// body whose declared length is over the limit, or whose client waits to be told to send it,
    /// the connection is closed (`gather.rs`).
    pub(crate) fn after_body(
        &self,
        version: Version,
        headers: &HeaderMap,
        body: RawBody,
        response: Response<ResponseBody>,
    ) -> ResponseFuture {
        let nothing_to_read = version == Version::HTTP_2
            || body.waits_to_be_asked()
            || hyper::body::Body::is_end_stream(&body)
            || check_length(headers, self.app.limits.body_bytes_max).is_err();
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

/// Asks the gates, of which the first has said that it waits if it is `waiting`: no longer than the
/// caller waits, and a panic refuses.
pub(crate) async fn admitted(
    gates: &[Arc<dyn Gate>],
    head: &mut Head,
    waiting: bool,
) -> Result<()> {
    if gates.is_empty() {
        return Ok(());
    }
    let deadline = head.context.deadline();
    let asked = AssertUnwindSafe(admit(gates, head, waiting)).catch_unwind();
    let asked = async { asked.await.unwrap_or_else(|panic| Err(panicked(&*panic))) };
    match deadline {
        None => asked.await,
        Some(at) => tokio::time::timeout_at(at.into(), asked).await.unwrap_or_else(|_| {
            Err(Error::deadline_exceeded("the deadline passed while a gate decided")
                .with_cause(EndCause::Deadline))
        }),
    }
}
