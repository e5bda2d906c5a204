//! The live protocol on the ports of the server: a connection's hello, and calls by the one way.
//!
//! | a connection | found by | goes on |
//! |---|---|---|
//! | TCP, TLS, a Unix socket | its first 16 bytes (`socket/detect.rs`) | here |
//! | a WebSocket | its upgrade (`live/upgrade.rs`) | here, once it is handed over |
//!
//! What sessions are is the crate `live`; whose a connection is, the gates say by the headers of
//! its upgrade and its hello: a credential that they refuse refuses the connection, and a session
//! is resumed only by its own principal. Every call passes the gates again (`live/calls.rs`).

mod calls;
mod identity;
pub(crate) mod upgrade;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidewire_live::{
    AnswerFuture, Arrival, BoundNames, ByteStream, Config, ConnectionEnd, Host, IncomingCall,
    Links, Reason, Transport, WebSocket, feature, random_boot,
};
use tidewire_service::{Peer, Signal};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use self::calls::Calls;
use self::identity::identify;
use self::upgrade::Takeover;
use crate::app::{App, AppHandle};
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
    calls: Arc<Calls>,
}

impl Live {
    pub(crate) fn new(
        latest: AppHandle,
        limits: &Limits,
        keys: CommandKeys,
        tasks: TaskTracker,
    ) -> Self {
        let parked_max = limits.sessions_parked_max;
        let mut config = config(limits);
        if let Some(kept) = keys.lifetime() {
            config.features |= feature::DURABLE;
            config.keys_kept = kept;
        }
        let calls = Arc::new(Calls { latest, stopping: Signal::new(), keys });
        let host = Arc::clone(&calls);
        let links = Links::new(config, host, tasks, parked_max)
            .bounded(limits.sessions_parked_bytes_max, limits.reply_bytes_waiting_all_max);
        Self { links, calls }
    }

    /// Looks after sessions without a connection until the server drains; then nobody resumes them.
    pub(crate) async fn keep(&self, stop: Stop) {
        tokio::select! {
            () = self.links.keep() => {}
            () = stop.reached(Stage::Draining) => {}
        }
        self.calls.stopping.fire();
        self.links.expire_parked();
    }

    /// What processes call that this server hosts.
    pub(crate) fn callee(&self) -> Callee {
        Callee(Arc::clone(&self.calls))
    }

    /// Serves a connection that speaks the protocol from its first byte on.
    pub(crate) async fn serve_stream(
        &self,
        app: &App,
        io: impl AsyncRead + AsyncWrite + Unpin + Send,
        first: Bytes,
        peer: Arc<Peer>,
        stop: Stop,
    ) {
        let arrival = Arrival { first, peer: Some(peer), ..Arrival::default() };
        self.serve(app, ByteStream::new(io), arrival, stop).await;
    }

    /// Serves a WebSocket once it is handed over.
    pub(crate) async fn serve_websocket(&self, app: &App, taken: Takeover, stop: Stop) {
        let handed_over = tokio::time::timeout(app.limits.handshake_timeout, taken.connection);
        let Ok(Ok(connection)) = handed_over.await else { return };
        let arrival =
            Arrival { upgrade: taken.headers, peer: Some(taken.peer), ..Arrival::default() };
        let socket = WebSocket::server(hyper_util::rt::TokioIo::new(connection)).await;
        self.serve(app, socket, arrival, stop).await;
    }

    async fn serve<T: Transport>(&self, app: &App, transport: T, arrival: Arrival, stop: Stop) {
        let peer = arrival.peer.clone();
        let identify = async |headers| identify(app, headers, peer).await;
        let greeted = tokio::select! {
            greeted = self.links.greet(transport, arrival, identify) => greeted,
            () = stop.reached(Stage::Draining) => Err(None),
        };
        let Ok((link, connection)) = greeted else { return };
        let mut runs = std::pin::pin!(connection.run());
        let ended = tokio::select! {
            ended = &mut runs => ended,
            () = stop.reached(Stage::Draining) => {
                link.drain(milliseconds(app.limits.drain_timeout), 0);
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
        self.links.left(&link, ended);
    }
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
