//! One connection: HTTP/1.1 or HTTP/2, whichever the client speaks, from its start to its end.
//!
//! ```text
//! bytes ─▶ detect ─┬─▶ HTTP/1.1 (http1.rs) ─┬─▶ Connection::answer: a browser's question for other
//!                  └─▶ HTTP/2   (http2.rs) ─┘   origins is answered here, all else goes its way (pipeline.rs)
//! ```
//!
//! When it ends is in `connection_driver.rs`, what its peer owes it in `activity.rs`.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidewire_service::{Error, Gate, Interface, Observer, Peer, Reply, Signal, Target, Upgrade};
use tidewire_wire::Coders;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use tokio_util::task::TaskTracker;

use crate::connection::driver::{ConnectionDriver, Tick};
use crate::connection::http1 as calls1;
use crate::connection::http2 as calls2;
use crate::control::reload::{EditionParts, Latest, ReloadHandle};
use crate::dispatch::response_future::ResponseFuture;
use crate::gate::access::AccessGate;
use crate::gate::callers::CallerAddresses;
use crate::gate::cors::{CorsFuture, Policy};
use crate::gate::hosts::Hosts;
use crate::gate::open::OpenTargets;
use crate::limits::Limits;
use crate::protocols::live::{Live, Takeover};
use crate::protocols::rest::Rest;
use crate::request::command::Commands;
use crate::request::run_call::Run;
use crate::response::body::{BoxedResponse, ResponseBody};
use crate::response::error::error_response;
use crate::response::faults as fault;
use crate::response::page::{self, Credential, callers_own};
use crate::runtime::stop::{Stage, Stop};
use crate::runtime::usage::Counters;
use crate::services::methods::Methods;
use crate::services::routes::Routes;
use crate::socket::activity::{Activity, Slot, UnreadBytes};
use crate::socket::detect::{DetectedProtocol, detect};
use crate::socket::gather::{Gather, GatherHandle};
use crate::socket::head_timer::HeadTimer;

/// What answers requests: a server by the settings that it has for now.
pub(crate) struct App {
    /// How often the settings were changed before.
    pub(crate) edition: u64,
    pub(crate) limits: Limits,
    pub(crate) cors: Option<Arc<Policy>>,
    pub(crate) callers: Option<Box<CallerAddresses>>,
    pub(crate) gates: Vec<Arc<dyn Gate>>,
    pub(crate) open: OpenTargets,
    pub(crate) access: Option<Arc<AccessGate>>,
    pub(crate) shared: Arc<Shared>,
}

impl Deref for App {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// What all connections of a server share, whatever becomes of its settings.
pub(crate) struct Shared {
    /// Leads to the settings that it has now.
    pub(crate) latest: ReloadHandle,
    pub(crate) edition_parts: EditionParts,
    pub(crate) methods: Methods,
    /// The services of the program, with their schemas.
    pub(crate) interfaces: Arc<[Interface]>,
    pub(crate) coders: Arc<Coders>,
    pub(crate) routes: Routes,
    pub(crate) rest: Rest,
    pub(crate) hosts: Hosts,
    pub(crate) commands: Commands,
    /// Whether requests are checked against the rules of their schema.
    pub(crate) validates: bool,
    /// Whether gates see the host as a header although it came otherwise: those of the program may
    /// look at it.
    pub(crate) shows_host: bool,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: Stop,
    /// Whether replies may misbehave on purpose.
    pub(crate) faults: bool,
    /// Whether routes at paths of methods take gRPC-Web with JSON.
    pub(crate) web_json_to_routes: bool,
    /// Whether methods are given the host of HTTP/2.
    pub(crate) methods_see_host: bool,
    /// Whether `/docs` is the docs page.
    pub(crate) has_docs: bool,
    /// The bytes of replies that nobody reads yet.
    pub(crate) waiting: Arc<UnreadBytes>,
    pub(crate) live: Live,
    /// Places for queries that are followed.
    pub(crate) followers: Arc<Semaphore>,
    pub(crate) counters: Arc<Counters>,
    /// The share of new traces that are sampled, where there are traces.
    pub(crate) traces: Option<f64>,
}

impl Latest {
    /// Serves one connection until it ends, a drain lets it end, or it is cut off.
    pub(crate) async fn serve(
        self: Arc<Self>,
        mut io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Arc<Peer>,
        stop: Stop,
    ) {
        let app = self.now();
        let first = tokio::select! {
            first = detect(&mut io, &app.limits) => first,
            () = given_up(&stop) => None,
        };
        let Some(first) = first else { return };
        let speaks = first.0;
        if speaks == DetectedProtocol::Live {
            let address = peer.address.map(|address| address.ip());
            if app.callers.as_ref().is_some_and(|callers| callers.check(address).is_err()) {
                return tracing::debug!(?address, "a live connection is refused by its address");
            }
            // Boxed, like all of live here, so that connections of HTTP are not the larger for it.
            return Box::pin(app.live_stream(io, first.1, peer, stop)).await;
        }
        let activity = Activity::new(Arc::clone(&app.waiting), &app.limits);
        let (io, gathering) = Gather::new(io, first, Arc::clone(&activity), &app.limits);
        let connection =
            Connection::new(Arc::clone(&self), Arc::clone(&app), peer, gathering.clone());
        let taken = Arc::clone(&connection.taken);
        let stop_live = stop.clone();
        let stopping = connection.stopping.clone();
        let goes_away = connection.goes_away.clone();
        let goes_away = app.faults.then_some(goes_away);
        let age = app.age();
        let life = ConnectionDriver {
            activity: Arc::clone(&activity),
            gathering,
            stop,
            stopping,
            goes_away,
            age,
        };
        let ended = match speaks {
            DetectedProtocol::Http1 => {
                let builder = http1_builder(HeadTimer::new(Arc::clone(&activity), &app.limits));
                let calls = calls1::Calls { connection: RefCell::new(connection), activity };
                let http = builder.serve_connection(TokioIo::new(io), calls).with_upgrades();
                life.live(pin!(http), None).await
            }
            DetectedProtocol::Http2 | DetectedProtocol::Live => {
                let (calls, streams) = calls2::calls(connection, activity);
                let builder = http2_builder(streams, &app.limits);
                let http = builder.serve_connection(TokioIo::new(io), calls);
                life.live(pin!(http), Some(Tick::new(&app.limits))).await
            }
        };
        match ended {
            Err(error) if error.is_timeout() && speaks == DetectedProtocol::Http2 => {
                let timeout = app.limits.keep_alive_timeout;
                tracing::debug!(
                    "a connection is closed after limits.keep_alive_timeout = {timeout:?}"
                );
            }
            Err(error) => tracing::debug!(error = ?error, "a connection ended with an error"),
            Ok(()) => {
                let taken = taken.lock().take();
                if let Some(taken) = taken {
                    Box::pin(self.now().live_websocket(taken, stop_live)).await;
                }
            }
        }
    }
}

impl App {
    /// The gates that a request passes.
    #[inline]
    pub(crate) fn gates_of(&self, target: &Target) -> &[Arc<dyn Gate>] {
        if self.open.has(target) { &self.open.gates } else { &self.gates }
    }

    /// Whether anything looks at requests before they are called.
    #[inline]
    pub(crate) fn watches(&self) -> bool {
        !self.gates.is_empty() || !self.observers.is_empty() || self.traces.is_some()
    }

    /// When a connection that begins now is too old. Connections that began together, after a
    /// restart, do not end together.
    fn age(&self) -> Option<Pin<Box<Sleep>>> {
        let most = self.limits.connection_age_max?;
        let less = most / 10 * (RandomState::new().hash_one(0) % 100) as u32 / 100;
        Some(Box::pin(tokio::time::sleep(most - less)))
    }
}

/// Waits until nothing more is expected of a connection that has sent nothing: a drain began, and
/// it had time to send what was on its way when it was accepted.
async fn given_up(stop: &Stop) {
    let accepted = Instant::now();
    stop.reached(Stage::Draining).await;
    tokio::select! {
        () = tokio::time::sleep_until(accepted + ON_ITS_WAY) => {}
        () = stop.reached(Stage::CutOff) => {}
    }
}

/// How long the first byte of a connection may be on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// The settings of HTTP/1.1.
///
/// Not `pipeline_flush`: with it hyper 1.12 gathers frames of a response for as long as they are
/// ready, without a bound and whether or not the client reads, so that a long list fills the
/// memory.
fn http1_builder(timer: HeadTimer) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(timer).header_read_timeout(HeadTimer::TOLD);
    builder
}

/// The settings of HTTP/2.
fn http2_builder(streams: calls2::Streams, limits: &Limits) -> http2::Builder<calls2::Streams> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes)
        .max_concurrent_streams(limits.streams_max)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .enable_connect_protocol()
        .keep_alive_interval(limits.keep_alive_interval)
        .keep_alive_timeout(limits.keep_alive_timeout);
    builder
}

/// How much of one stream's replies HTTP/2 holds for a socket that takes no more.
const SEND_BUFFER_BYTES: usize = 128 << 10;

/// What answers the requests of one connection.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) app: Arc<App>,
    pub(crate) latest: Arc<Latest>,
    pub(crate) peer: Arc<Peer>,
    /// A separate copy, so that requests on different connections share no reference count.
    pub(crate) stopping: Signal,
    /// Says that the connection is to go away, as a reply's script may want it.
    goes_away: Signal,
    pub(crate) gathering: GatherHandle,
    /// Set when the connection, or a stream of it, is to go on as a live one.
    taken: Arc<Mutex<Option<Takeover>>>,
}

/// A request that may take its connection over.
pub(crate) struct UpgradeRequest {
    pub(crate) upgrade: OnUpgrade,
    /// It is `CONNECT`, to which 2xx means that it is taken over.
    pub(crate) is_connect: bool,
    pub(crate) credential: Option<Credential>,
}

impl Connection {
    fn new(latest: Arc<Latest>, app: Arc<App>, peer: Arc<Peer>, gathering: GatherHandle) -> Self {
        Self {
            app,
            latest,
            peer,
            stopping: Signal::new(),
            goes_away: Signal::new(),
            gathering,
            taken: Arc::default(),
        }
    }

    /// The answer to a request that may take its connection over.
    pub(crate) fn upgradable(
        &self,
        answer: Run,
        request: UpgradeRequest,
    ) -> BoxedResponse<ResponseBody> {
        let app = Arc::clone(&self.app);
        let UpgradeRequest { upgrade, mut is_connect, mut credential } = request;
        Box::pin(async move {
            let outcome = answer.outcome().await.map(|mut reply| {
                if let Some(taken) = reply.take_upgrade() {
                    // What follows on it belongs to nobody else.
                    (is_connect, credential) = (false, None);
                    let stop = app.stop.clone();
                    app.tasks.spawn(async move {
                        tokio::select! {
                            () = take_over(taken, upgrade) => {}
                            () = stop.reached(Stage::CutOff) => stop.cut_off(1),
                        }
                    });
                }
                reply
            });
            let mut response = match outcome {
                Ok(reply) if is_connect && is_page(&reply) => {
                    let error = not_opened(reply.status);
                    error_response(&error).map(ResponseBody::plain)
                }
                Ok(reply) => page::page(reply, ResponseBody::plain),
                Err(error) => error_response(&error).map(ResponseBody::plain),
            };
            if let Some(credential) = credential {
                callers_own(response.headers_mut(), credential);
            }
            response
        })
    }
}

impl Connection {
    /// What is to go on as a live connection: all of it, or of HTTP/2 the stream that was answered
    /// last.
    pub(crate) fn take_over(&self) -> Option<Takeover> {
        self.taken.lock().take()
    }

    /// This connection, by the settings that the server has now.
    #[inline]
    pub(crate) fn up_to_date(&mut self) -> &Self {
        if self.latest.is_after(&self.app) {
            self.app = self.latest.now();
        }
        self
    }

    /// Answers a request, of HTTP/2 with the slot of its call.
    #[inline]
    pub(crate) fn answer(
        &self,
        mut request: Request<Incoming>,
        slot: Option<&Arc<Slot>>,
    ) -> ResponseFuture {
        let told = match &self.app.callers {
            None => Ok(None),
            Some(callers) => callers.resolve(&mut request, &self.peer),
        };
        match told {
            Ok(None) => self.answer_caller(request, slot),
            Ok(Some(peer)) => Self { peer, ..self.clone() }.answer_caller(request, slot),
            Err(error) => self.refuse_head(request, slot, &error),
        }
    }

    /// Answers a request whose caller is known by its address.
    #[inline]
    fn answer_caller(
        &self,
        mut request: Request<Incoming>,
        slot: Option<&Arc<Slot>>,
    ) -> ResponseFuture {
        if let Err(error) = self.app.hosts.check(request.headers(), request.uri()) {
            return self.refuse_head(request, slot, &error);
        }
        if request.extensions().get::<OnUpgrade>().is_some()
            && let Some((response, taken)) = self.app.live_upgrade(&mut request, &self.peer)
        {
            *self.taken.lock() = taken;
            return ResponseFuture::ready(response);
        }
        let granted = match &self.app.cors {
            None => None,
            Some(policy) => match policy.preflight(&request) {
                Some(response) => return ResponseFuture::ready(response),
                None => Some((policy, policy.granted(request.headers()))),
            },
        };
        let mut response = if !self.app.watches() {
            self.pass(request, slot)
        } else {
            self.watched(request, slot)
        };
        if self.app.faults {
            response = ResponseFuture::Late(Box::pin(fault::play(
                response,
                self.goes_away.clone(),
                ResponseBody::faulty,
            )));
        }
        match granted {
            None => response,
            Some((policy, granted)) => {
                let policy = Arc::clone(policy);
                ResponseFuture::Marked(Box::new(CorsFuture { response, policy, granted }))
            }
        }
    }
}

impl Connection {
    /// Refuses a request that is for nobody here.
    #[cold]
    pub(crate) fn refuse_head(
        &self,
        request: Request<Incoming>,
        slot: Option<&Arc<Slot>>,
        error: &Error,
    ) -> ResponseFuture {
        let (parts, body) = self.split(request, slot);
        let response = error_response(error).map(ResponseBody::plain);
        self.after_body(parts.version, &parts.headers, body, response)
    }
}

/// Whether a reply is a page, which to `CONNECT` would say that what was asked for is open.
fn is_page(reply: &Reply) -> bool {
    reply.status.is_success() && !reply.body.is_end_stream()
}

#[cold]
fn not_opened(status: StatusCode) -> Error {
    let status = status.as_u16();
    let text = format!("CONNECT was answered {status} with a page; this path opens no WebSocket");
    Error::failed_precondition(text).with_http_status(StatusCode::BAD_GATEWAY)
}

/// Runs what a reply wants to run on the connection, once it is handed over.
async fn take_over(taken: Upgrade, upgrade: OnUpgrade) {
    match upgrade.await {
        Ok(connection) => taken.run(Box::pin(TokioIo::new(connection))).await,
        Err(error) => tracing::debug!(%error, "a connection was not handed over"),
    }
}
