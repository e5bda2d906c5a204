//! One connection: HTTP/1.1 or HTTP/2, whichever the client speaks, and where each request goes.
//!
//! | request | goes to |
//! |---|---|
//! | a browser's question, where other origins may call | [`Policy`] |
//! | path of a method | Connect, gRPC or gRPC-Web, by its content type |
//! | verb and path of a `google.api.http` binding | REST transcoding |
//! | path of a route or below a mount | that plain HTTP service |
//! | other path with an RPC content type | `unimplemented`, in the caller's protocol |
//! | anything else | 404 |

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use connectrpc::{ConnectRpcBody, ConnectRpcService};
use http::header::{CONTENT_TYPE, EXPECT};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tidewire_service::{
    Body, Call, Error, Gate, Head, HttpTarget, Observer, Peer, Protocol, Reply, Signal, Target,
    Upgrade,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use crate::command::Commands;
use crate::cors::{Marked, Policy};
use crate::gather::{Gather, Gathering};
use crate::head_timer::HeadTimer;
use crate::isolate::{Isolated, IsolatedPending, IsolatedProgress};
use crate::limits::Limits;
use crate::observe::{Admitted, Watched};
use crate::plain;
use crate::rest::{self, Exchange, Rest, Transcoding};
use crate::routes::{Found, Routes};
use crate::rpc::{
    Completed, Dispatch, Known, LateTrailers, Methods, refused, unknown_method,
    unsupported_compression,
};
use crate::stop::{Stage, Stop};

/// What all connections of a server share.
pub(crate) struct App {
    pub(crate) methods: Arc<Methods>,
    pub(crate) routes: Routes,
    pub(crate) rest: Rest,
    pub(crate) cors: Option<Arc<Policy>>,
    pub(crate) commands: Commands,
    pub(crate) gates: Vec<Arc<dyn Gate>>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: Stop,
    pub(crate) limits: Limits,
    pub(crate) http: auto::Builder<TokioExecutor>,
}

/// The settings of HTTP/1.1 and HTTP/2.
///
/// Not `pipeline_flush`: with it hyper 1.12 gathers frames of a response for as long as they are
/// ready, without a bound and whether or not the client reads, so that a long list fills the memory.
pub(crate) fn http_builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(HeadTimer::new(limits.header_read_timeout))
        .header_read_timeout(limits.header_read_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes)
        .max_concurrent_streams(limits.streams_max);
    builder
}

impl App {
    /// Serves one connection until it ends, a drain lets it end, or it is cut off.
    pub(crate) async fn serve(
        self: Arc<Self>,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Arc<Peer>,
        stop: Stop,
    ) {
        let (io, gathering) = Gather::new(io);
        let service = Connection::new(Arc::clone(&self), peer, gathering.clone());
        let stopping = service.stopping.clone();
        let connection = self.http.serve_connection_with_upgrades(TokioIo::new(io), service);
        let mut connection = std::pin::pin!(connection);
        let mut listener = stop.listener();
        let until_draining = poll_fn(|cx| {
            loop {
                if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                    return Poll::Ready(Some(ended));
                }
                if !gathering.has_held() {
                    return listener.poll_stage(cx).map(|_| None);
                }
            }
        });
        let ended = until_draining.await;
        gathering.end();
        stopping.fire();
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = stop.reached(Stage::CutOff) => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended with an error");
        }
    }
}

/// The hyper service of one connection.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) app: Arc<App>,
    pub(crate) peer: Arc<Peer>,
    /// Of its own, so that requests on different connections share no reference count.
    pub(crate) stopping: Signal,
    rpc: ConnectRpcService<Dispatch>,
    gathering: Gathering,
}

impl Connection {
    fn new(app: Arc<App>, peer: Arc<Peer>, gathering: Gathering) -> Self {
        let stopping = Signal::new();
        let dispatch = Dispatch {
            methods: Arc::clone(&app.methods),
            commands: app.commands.clone(),
            peer: Arc::clone(&peer),
            stopping: stopping.clone(),
        };
        let limits = connectrpc::Limits::default()
            .with_max_request_body_size(app.limits.body_bytes_max)
            .with_max_message_size(app.limits.message_bytes_max);
        let rpc = ConnectRpcService::new(dispatch).with_limits(limits);
        Self { app, peer, stopping, rpc, gathering }
    }

    /// Hands a request to whoever answers it.
    #[inline]
    pub(crate) fn route(&self, request: Request<Incoming>) -> Responding {
        if let Some(known) = self.app.methods.find(request.uri().path()) {
            return self.rpc(known, request);
        }
        let (head, body) = request.into_parts();
        match self.app.rest.find(&head.method, head.uri.path()) {
            rest::Found::Elsewhere => self.plain(head, body),
            rest::Found::Response(response) => Responding::ready(response),
            rest::Found::Binding(binding, options) => {
                let App { commands, limits, .. } = &*self.app;
                let of_connection = (&self.peer, &self.stopping);
                let exchange = Exchange::new((binding, options), commands, of_connection, limits);
                Responding::Rest(exchange.run(Request::from_parts(head, body)))
            }
        }
    }

    /// By its parts and not by reference, since they end up in the call: the head is large, and each
    /// move of it costs as much as finding the route.
    #[inline]
    fn plain(&self, mut head: Parts, body: Incoming) -> Responding {
        let (service, params) = match self.app.routes.find(&head.method, &head.uri) {
            Ok(Found::Service(service, params, None)) => (service, params),
            Ok(Found::Service(service, params, Some(uri))) => {
                head.uri = uri;
                (service, params)
            }
            Ok(Found::WrongVerb(allowed)) => return Responding::ready(plain::wrong_verb(&allowed)),
            Ok(Found::Nothing) => return self.unknown(Request::from_parts(head, body)),
            Err(error) => return Responding::ready(plain::error_response(&error)),
        };
        let mut body = match plain::body(&head.headers, body, self.app.limits.body_bytes_max) {
            Ok(body) => body,
            Err(error) => return Responding::ready(plain::error_response(&error)),
        };
        let Parts { method, uri, headers, extensions, .. } = head;
        if !extensions.is_empty()
            && let Some(admitted) = extensions.get::<Admitted>()
        {
            body = admitted.watch.counted(body);
        }
        let upgrade = extensions.get::<OnUpgrade>().cloned();
        let mut context = plain::context(headers, extensions, Protocol::Http)
            .with_peer(Arc::clone(&self.peer))
            .with_stopping(self.stopping.clone());
        if matches!(method, Method::GET | Method::HEAD) {
            context = context.with_conditions();
        }
        let target = Target::Http(HttpTarget::new(method, uri).with_params(params));
        let (call, _) = Call::from_head(Head::new(target, context), body);
        let answer = Isolated::call(&**service, call);
        if let Some(upgrade) = upgrade {
            return Responding::Late(self.upgradable(answer, upgrade));
        }
        match answer.into_progress() {
            IsolatedProgress::Ready(Ok(reply)) => Responding::Answered(Some(reply)),
            IsolatedProgress::Ready(Err(error)) => Responding::ready(plain::error_response(&error)),
            IsolatedProgress::Pending(pending) => Responding::Plain(pending),
        }
    }

    /// The answer to a request that may take its connection over.
    fn upgradable(&self, answer: Isolated, upgrade: OnUpgrade) -> ResponseFuture<ResponseBody> {
        let app = Arc::clone(&self.app);
        Box::pin(async move {
            let outcome = answer.await.map(|mut reply| {
                if let Some(taken) = reply.take_upgrade() {
                    let stop = app.stop.clone();
                    app.tasks.spawn(async move {
                        tokio::select! {
                            () = take_over(taken, upgrade) => {}
                            () = stop.reached(Stage::CutOff) => {}
                        }
                    });
                }
                reply
            });
            Ok(match outcome {
                Ok(reply) => plain::response(Box::new(reply), ResponseBody::Plain),
                Err(error) => plain::error_response(&error).map(ResponseBody::Plain),
            })
        })
    }

    fn rpc(&self, known: Known, mut request: Request<Incoming>) -> Responding {
        if let Some(response) = unsupported_compression(request.headers()) {
            return self.after_body(request, response.map(ResponseBody::rpc));
        }
        let mut rpc = self.rpc.clone();
        if known == Known::Streams {
            let late = LateTrailers::default();
            request.extensions_mut().insert(late.clone());
            let response = tower_service::Service::call(&mut rpc, request);
            return Responding::Streaming(response, Some(late));
        }
        Responding::Rpc(tower_service::Service::call(&mut rpc, request))
    }

    fn unknown(&self, request: Request<Incoming>) -> Responding {
        let path = request.uri().path();
        let response = if is_rpc(request.method(), path, request.headers()) {
            unknown_method(&self.app.methods, path, request.headers()).map(ResponseBody::rpc)
        } else {
            plain::not_found(path).map(ResponseBody::Plain)
        };
        self.after_body(request, response)
    }

    /// Whether a request for a path that nothing is at expects an answer in an RPC protocol.
    pub(crate) fn is_rpc(&self, head: &Parts) -> bool {
        is_rpc(&head.method, head.uri.path(), &head.headers)
    }

    /// Refuses a request by its head, in the caller's protocol.
    pub(crate) fn refuse(
        &self,
        head: Parts,
        body: Incoming,
        protocol: Protocol,
        error: &Error,
    ) -> Responding {
        let response = match protocol {
            Protocol::Rest => self.app.rest.refusal(error).map(ResponseBody::Plain),
            Protocol::Http => plain::error_response(error).map(ResponseBody::Plain),
            _ => refused(error, &head.headers).map(ResponseBody::rpc),
        };
        self.after_body(Request::from_parts(head, body), response)
    }

    /// Answers once the request's body is read: over HTTP/1.1, closing before that would break the
    /// client's sending, and it would never see the answer. HTTP/2 answers at once, since there a
    /// client may go on sending for as long as it waits for a reply.
    fn after_body(
        &self,
        request: Request<Incoming>,
        response: Response<ResponseBody>,
    ) -> Responding {
        // Who waits to be told to go on with the body has not begun to send it.
        let waits = request.headers().contains_key(EXPECT);
        if waits || request.version() == Version::HTTP_2 {
            return Responding::Ready(Some(Box::new(response)));
        }
        let (head, body) = request.into_parts();
        let body = match plain::body(&head.headers, body, self.app.limits.body_bytes_max) {
            Ok(body) if !body.is_empty() => body,
            _ => return Responding::Ready(Some(Box::new(response))),
        };
        let timeout = self.app.limits.header_read_timeout;
        Responding::Late(Box::pin(async move {
            let _ = tokio::time::timeout(timeout, plain::discard(body)).await;
            Ok(response)
        }))
    }
}

/// Whether a request for an unknown path expects an answer in an RPC protocol.
fn is_rpc(verb: &Method, path: &str, headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    content_type.starts_with(b"application/grpc")
        || content_type.starts_with(b"application/connect+")
        || content_type.starts_with(b"application/proto")
        || headers.contains_key("connect-protocol-version")
        || (verb == Method::POST
            && content_type.starts_with(b"application/json")
            && path.trim_matches('/').split('/').count() == 2)
}

impl hyper::service::Service<Request<Incoming>> for Connection {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Responding;

    fn call(&self, request: Request<Incoming>) -> Responding {
        if request.extensions().get::<OnUpgrade>().is_some() {
            // Whoever takes the connection over may wait for the client, and it for the answer.
            self.gathering.end();
        }
        let granted = match &self.app.cors {
            None => None,
            Some(policy) => match policy.preflight(&request) {
                Some(response) => return Responding::ready(response),
                None => Some((policy, policy.granted(request.headers()))),
            },
        };
        let response = if self.app.gates.is_empty() && self.app.observers.is_empty() {
            self.route(request)
        } else {
            Responding::Late(Box::pin(self.clone().enter(request)))
        };
        match granted {
            None => response,
            Some((policy, granted)) => {
                let policy = Arc::clone(policy);
                Responding::Marked(Box::new(Marked { response, policy, granted }))
            }
        }
    }
}

/// Runs what a reply wants to run on the connection, once it is handed over.
async fn take_over(taken: Upgrade, upgrade: OnUpgrade) {
    match upgrade.await {
        Ok(connection) => taken.run(Box::pin(TokioIo::new(connection))).await,
        Err(error) => tracing::debug!(%error, "a connection was not handed over"),
    }
}

/// The future of a response: small, since the library moves it about.
pub(crate) enum Responding {
    Ready(Option<Box<Response<ResponseBody>>>),
    Answered(Option<Box<Reply>>),
    Plain(IsolatedPending),
    Rest(Transcoding),
    Rpc(ResponseFuture<ConnectRpcBody>),
    Streaming(ResponseFuture<ConnectRpcBody>, Option<LateTrailers>),
    Late(ResponseFuture<ResponseBody>),
    Marked(Box<Marked<Self>>),
}

type ResponseFuture<B> = Pin<Box<dyn Future<Output = Result<Response<B>, Infallible>> + Send>>;

impl Responding {
    fn ready(response: Response<Body>) -> Self {
        Self::Ready(Some(Box::new(response.map(ResponseBody::Plain))))
    }
}

const TAKEN: &str = "a response is polled until it is ready, once";

impl Future for Responding {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(response) => Poll::Ready(Ok(*response.take().expect(TAKEN))),
            Self::Answered(reply) => {
                let reply = reply.take().expect(TAKEN);
                Poll::Ready(Ok(plain::response(reply, ResponseBody::Plain)))
            }
            Self::Plain(answer) => Pin::new(answer).poll(cx).map(|outcome| {
                Ok(match outcome {
                    Ok(reply) => plain::response(Box::new(reply), ResponseBody::Plain),
                    Err(error) => plain::error_response(&error).map(ResponseBody::Plain),
                })
            }),
            Self::Rest(response) => {
                response.as_mut().poll(cx).map(|response| Ok(response.map(ResponseBody::Plain)))
            }
            Self::Late(response) => response.as_mut().poll(cx),
            Self::Marked(response) => Pin::new(&mut **response).poll(cx),
            Self::Streaming(response, late) => response.as_mut().poll(cx).map_ok(|response| {
                let late = late.take().unwrap_or_default();
                response.map(|body| ResponseBody::Streaming(Box::new(Completed::new(body, late))))
            }),
            Self::Rpc(response) => {
                response.as_mut().poll(cx).map_ok(|response| response.map(ResponseBody::rpc))
            }
        }
    }
}

/// The body of a response.
pub(crate) enum ResponseBody {
    Plain(Body),
    /// Boxed, since it is several times as large and every response is moved about.
    Rpc(Box<ConnectRpcBody>),
    Streaming(Box<Completed>),
    Watched(Box<Watched<Self>>),
}

impl ResponseBody {
    pub(crate) fn watched(body: Watched<Self>) -> Self {
        Self::Watched(Box::new(body))
    }

    fn rpc(body: ConnectRpcBody) -> Self {
        Self::Rpc(Box::new(body))
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Plain(body) => Pin::new(body).poll_frame(cx),
            Self::Watched(body) => Pin::new(&mut **body).poll_frame(cx),
            Self::Rpc(body) => Pin::new(&mut **body).poll_frame(cx).map_err(|never| match never {}),
            Self::Streaming(body) => {
                Pin::new(&mut **body).poll_frame(cx).map_err(|never| match never {})
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Watched(body) => body.is_end_stream(),
            Self::Rpc(body) => body.is_end_stream(),
            Self::Streaming(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Watched(body) => body.size_hint(),
            Self::Streaming(_) => http_body::SizeHint::default(),
            Self::Rpc(body) => match &**body {
                // The library's own body hides this, and with it the content length.
                ConnectRpcBody::Full(body) => body.size_hint(),
                other => other.size_hint(),
            },
        }
    }
}
