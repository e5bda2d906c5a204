//! One connection: HTTP/1.1 or HTTP/2, whichever the client speaks, from its start to its end.
//!
//! A browser's question for other origins is answered here; every other request goes its way in
//! `way.rs`. A connection ends when its client ends it, when a drain lets it end, or cut off.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tidewire_service::{Gate, Observer, Peer, Signal, Upgrade};
use tidewire_wire::Coders;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use crate::command::Commands;
use crate::cors::{Marked, Policy};
use crate::gather::{Gather, Gathering};
use crate::head_timer::HeadTimer;
use crate::limits::Limits;
use crate::response::{Later, Responding, ResponseBody};
use crate::rest::Rest;
use crate::routes::Routes;
use crate::rpc::Methods;
use crate::run::Run;
use crate::stop::{Stage, Stop};
use crate::{fault, plain};

/// What all connections of a server share.
pub(crate) struct App {
    pub(crate) methods: Methods,
    pub(crate) coders: Arc<Coders>,
    pub(crate) routes: Routes,
    pub(crate) rest: Rest,
    pub(crate) cors: Option<Arc<Policy>>,
    pub(crate) commands: Commands,
    pub(crate) gates: Vec<Arc<dyn Gate>>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: Stop,
    pub(crate) limits: Limits,
    /// Whether replies may misbehave on purpose.
    pub(crate) faults: bool,
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
        let goes_away = self.faults.then(|| service.goes_away.clone());
        let connection = self.http.serve_connection_with_upgrades(TokioIo::new(io), service);
        let mut connection = std::pin::pin!(connection);
        let mut listener = stop.listener();
        let until_draining = poll_fn(|cx| {
            loop {
                if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                    return Poll::Ready(Some(ended));
                }
                if !gathering.has_held() {
                    if goes_away.as_ref().is_some_and(|signal| signal.poll_fired(cx).is_ready()) {
                        return Poll::Ready(None);
                    }
                    return listener.poll_stage(cx).map(|_| None);
                }
            }
        });
        let ended = until_draining.await;
        gathering.end();
        if stop.has_reached(Stage::Draining) {
            stopping.fire();
        }
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
    /// Says that the connection shall go away, as a reply's script may want it.
    goes_away: Signal,
    gathering: Gathering,
}

impl Connection {
    fn new(app: Arc<App>, peer: Arc<Peer>, gathering: Gathering) -> Self {
        Self { app, peer, stopping: Signal::new(), goes_away: Signal::new(), gathering }
    }

    /// The answer to a request that may take its connection over.
    pub(crate) fn upgradable(&self, answer: Run, upgrade: OnUpgrade) -> Later<ResponseBody> {
        let app = Arc::clone(&self.app);
        Box::pin(async move {
            let outcome = answer.outcome().await.map(|mut reply| {
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
            match outcome {
                Ok(reply) => plain::response(Box::new(reply), ResponseBody::Plain),
                Err(error) => plain::error_response(&error).map(ResponseBody::Plain),
            }
        })
    }
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
        let mut response = if self.app.gates.is_empty() && self.app.observers.is_empty() {
            self.pass(request)
        } else {
            Responding::Late(Box::pin(self.clone().watched(request)))
        };
        if self.app.faults {
            response = Responding::Late(fault::play(response, self.goes_away.clone()));
        }
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
