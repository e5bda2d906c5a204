//! The live protocol on the ports of the server: a connection's hello, and calls by the one way.
//!
//! | a connection | found by | goes on |
//! |---|---|---|
//! | TCP, TLS, a Unix socket | its first 16 bytes (`detect.rs`) | here |
//! | a WebSocket | its upgrade (`live/upgrade.rs`) | here, once it is handed over |
//!
//! What sessions are is the crate `live`; whose a connection is, the gates say by the headers of
//! its upgrade and its hello: a credential that they refuse refuses the connection, and a session
//! is resumed only by its own principal. Every call passes the gates again (`live/calls.rs`).

mod calls;
mod upgrade;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Uri};
use tidewire_live::{
    AnswerFuture, Arrival, BoundNames, ByteStream, Config, ConnectionEnd, Host, Identity,
    IncomingCall, Links, PATH, Reason, Transport, Violation, WebSocket, feature, random_boot,
};
use tidewire_service::{Code, Context, Error, Head, HttpTarget, Peer, Protocol, Signal, Target};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use self::calls::Calls;
pub(crate) use self::upgrade::Takeover;
use crate::control::reload::ReloadHandle;
use crate::dispatch::dispatcher::App;
use crate::dispatch::pipeline::admitted;
use crate::limits::Limits;
use crate::runtime::stop::{Stage, Stop};
use crate::services::command_keys::CommandKeys;

/// Answers calls as if they had come over the live protocol: those of processes that a server
/// hosts, by the gates and layers of every call.
#[derive(Clone)]
pub struct Callee(Arc<Calls>);

impl Host for Callee {
    fn answer(&self, call: IncomingCall) -> AnswerFuture {
        self.0.answer(call)
    }
}

impl fmt::Debug for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callee")
    }
}

/// The live protocol of a server.
pub(crate) struct Live {
    links: Links,
    /// Tells handlers of a drain.
    stopping: Signal,
    /// Which methods keep the keys of their commands.
    keys: CommandKeys,
}

impl Live {
    pub(crate) fn new(
        latest: ReloadHandle,
        limits: &Limits,
        keys: CommandKeys,
        tasks: TaskTracker,
    ) -> Self {
        let stopping = Signal::new();
        let calls = Calls { latest, stopping: stopping.clone() };
        let parked_max = limits.sessions_parked_max;
        let mut config = config(limits);
        if let Some(kept) = keys.lifetime() {
            config.features |= feature::DURABLE;
            config.keys_kept = kept;
        }
        let links = Links::new(config, Arc::new(calls), tasks, parked_max)
            .bounded(limits.sessions_parked_bytes_max, limits.reply_bytes_waiting_all_max);
        Self { links, stopping, keys }
    }

    /// Looks after sessions without a connection until the server drains; then nobody resumes them.
    pub(crate) async fn keep(&self, stop: Stop) {
        tokio::select! {
            () = self.links.keep() => {}
            () = stop.reached(Stage::Draining) => {}
        }
        self.stopping.fire();
        self.links.expire_parked();
    }
}

impl App {
    /// What processes call that this server hosts.
    pub(crate) fn callee(&self) -> Callee {
        let stopping = self.live.stopping.clone();
        Callee(Arc::new(Calls { latest: self.latest.clone(), stopping }))
    }

    /// Serves a connection that speaks the protocol from its first byte on.
    pub(crate) async fn live_stream(
        &self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send,
        first: Bytes,
        peer: Arc<Peer>,
        stop: Stop,
    ) {
        let arrival = Arrival { first, peer: Some(peer), ..Arrival::default() };
        self.live(ByteStream::new(io), arrival, stop).await;
    }

    /// Serves a WebSocket once it is handed over.
    pub(crate) async fn live_websocket(&self, taken: Takeover, stop: Stop) {
        let handed_over = tokio::time::timeout(self.limits.handshake_timeout, taken.connection);
        let Ok(Ok(connection)) = handed_over.await else { return };
        let arrival =
            Arrival { upgrade: taken.headers, peer: Some(taken.peer), ..Arrival::default() };
        let socket = WebSocket::server(hyper_util::rt::TokioIo::new(connection)).await;
        self.live(socket, arrival, stop).await;
    }

    async fn live<T: Transport>(&self, transport: T, arrival: Arrival, stop: Stop) {
        let peer = arrival.peer.clone();
        let identify = async |headers| self.identify(headers, peer).await;
        let greeted = tokio::select! {
            greeted = self.live.links.greet(transport, arrival, identify) => greeted,
            () = stop.reached(Stage::Draining) => Err(None),
        };
        let Ok((link, connection)) = greeted else { return };
        let mut runs = std::pin::pin!(connection.run());
        let ended = tokio::select! {
            ended = &mut runs => ended,
            () = stop.reached(Stage::Draining) => {
                link.drain(milliseconds(self.limits.drain_timeout), 0);
                tokio::select! {
                    ended = &mut runs => ended,
                    () = stop.reached(Stage::CutOff) => {
                        stop.cut_off(link.usage().calls_in as usize);
                        link.end(Reason::Bye, "the server stopped");
                        ConnectionEnd::Lost
                    }
                }
            }
        };
        self.live.links.left(&link, ended);
    }

    /// Whose a connection is, as the gates find out; the empty text for nobody's.
    pub(super) async fn identify(
        &self,
        headers: HeaderMap,
        peer: Option<Arc<Peer>>,
    ) -> Result<Identity, Violation> {
        let credentials = [AUTHORIZATION, COOKIE]
            .iter()
            .flat_map(|name| headers.get_all(name))
            .map(|value| value.as_bytes().to_vec())
            .collect::<Vec<_>>();
        let target = HttpTarget::new(Method::GET, Uri::from_static(PATH));
        let certificate = peer.as_ref().and_then(|peer| peer.certificates.first().cloned());
        let context = Context::new(headers).with_protocol(Protocol::Live).with_peer(peer);
        let mut head = Head::new(Target::Http(target), context);
        let admitted = admitted(&self.gates, &mut head, false).await;
        let ends = self.gates.iter().filter_map(|gate| gate.expires(&head)).min();
        let expires_in =
            ends.map(|ends| ends.duration_since(SystemTime::now()).unwrap_or_default());
        if let Err(error) = admitted
            && is_refused(&error, head.context.headers())
        {
            return Err(Violation::new(Reason::Unauthenticated, error.message().to_owned()));
        }
        let parts = match head.context.principal() {
            Some(known) => vec![known.issuer().into(), known.subject().into()],
            None => credentials,
        };
        let parts = parts.into_iter().chain(certificate);
        let parts = parts.flat_map(|part: Vec<u8>| [part.len().to_le_bytes().to_vec(), part]);
        let principal = parts.flatten().collect::<Vec<u8>>().into();
        Ok(Identity { principal, expires_in })
    }
}

/// Whether a credential is refused, and not merely missing (RFC 6750, section 3). A cookie may mean
/// nothing to anybody; a gate that means one says so call by call.
fn is_refused(error: &Error, headers: &HeaderMap) -> bool {
    let challenge = error.headers().get(WWW_AUTHENTICATE).map(HeaderValue::as_bytes);
    let is_of_credential = match challenge {
        Some(challenge) => challenge.windows(6).any(|part| part == b"error="),
        None => headers.contains_key(AUTHORIZATION),
    };
    error.code() == Code::Unauthenticated && is_of_credential
}

/// The protocol's settings.
fn config(limits: &Limits) -> Config {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Config {
        limits: tidewire_live::Limits {
            body_max: number(limits.message_bytes_max).max(BODY_MAX_FLOOR),
            calls_max: limits.streams_max,
            watches_max: limits.watches_max,
            stream_credit: limits.stream_window_bytes.into(),
            connection_credit: limits.connection_window_bytes.into(),
            ..Config::default().limits
        },
        boot: Some(random_boot()),
        agent: concat!("tidewire/", env!("CARGO_PKG_VERSION")).to_owned(),
        handshake_timeout: limits.handshake_timeout,
        output_hard_max: limits.reply_bytes_waiting_max,
        bound_names: BoundNames {
            output_hard_max: "limits.reply_bytes_waiting_max",
            output_all_max: "limits.reply_bytes_waiting_all_max",
        },
        ..Config::default()
    }
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// The least that a side may say it takes; what is over a smaller limit is refused by the call.
const BODY_MAX_FLOOR: u32 = 65_536;
