//! One connection: HTTP/1.1 or HTTP/2, whichever the client speaks, from its start to its end.
//!
//! ```text
//! bytes ─▶ detect ─┬─▶ HTTP/1.1 (http1.rs) ─┬─▶ Dispatcher::answer (dispatch/answer.rs)
//!                  ├─▶ HTTP/2   (http2.rs) ─┘
//!                  └─▶ live     (protocols/live.rs)
//! ```
//!
//! When it ends is in `driver.rs`, what its peer owes it in `socket/activity.rs`.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidewire_service::Peer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep};

use crate::connection::driver::{ConnectionDriver, Tick};
use crate::connection::{http1, http2};
use crate::dispatch::dispatcher::Dispatcher;
use crate::dispatch::server_state::ServerState;
use crate::limits::Limits;
use crate::runtime::stop::{Stage, Stop};
use crate::socket::activity::Activity;
use crate::socket::detect::{DetectedProtocol, detect};
use crate::socket::gather::Gather;
use crate::socket::head_timer::HeadTimer;

/// Serves one connection until it ends, a drain lets it end, or it is cut off.
pub(crate) async fn serve(
    server: Arc<ServerState>,
    mut io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Arc<Peer>,
    stop: Stop,
) {
    let app = server.latest.now();
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
        return Box::pin(server.live.serve_stream(&app, io, first.1, peer, stop)).await;
    }
    let activity = Activity::new(Arc::clone(&app.waiting), &app.limits);
    // Callers may be known by their certificate, of which requests say nothing.
    let prepared = peer.certificates.is_empty().then_some((&app.prepared, &peer));
    let (io, gathering) = Gather::new(io, first, Arc::clone(&activity), &app.limits, prepared);
    let dispatcher =
        Dispatcher::new(Arc::clone(&server), Arc::clone(&app), peer, gathering.clone());
    let taken = Arc::clone(&dispatcher.taken);
    let stop_live = stop.clone();
    let stopping = dispatcher.stopping.clone();
    let goes_away = dispatcher.goes_away.clone();
    let goes_away = app.faults.then_some(goes_away);
    let age = age(&app.limits);
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
            let calls = http1::Calls { dispatcher: RefCell::new(dispatcher), activity };
            let http = builder.serve_connection(TokioIo::new(io), calls).with_upgrades();
            life.live(pin!(http), None).await
        }
        DetectedProtocol::Http2 | DetectedProtocol::Live => {
            let (calls, streams) = http2::calls(dispatcher, activity);
            let builder = http2_builder(streams, &app.limits);
            let http = builder.serve_connection(TokioIo::new(io), calls);
            life.live(pin!(http), Some(Tick::new(&app.limits))).await
        }
    };
    match ended {
        Err(error) if error.is_timeout() && speaks == DetectedProtocol::Http2 => {
            let timeout = app.limits.keep_alive_timeout;
            tracing::debug!("a connection is closed after limits.keep_alive_timeout = {timeout:?}");
        }
        Err(error) => tracing::debug!(error = ?error, "a connection ended with an error"),
        Ok(()) => {
            let taken = taken.lock().take();
            if let Some(taken) = taken {
                let app = server.latest.now();
                Box::pin(server.live.serve_websocket(&app, taken, stop_live)).await;
            }
        }
    }
}

/// When a connection that begins now is too old. Connections that began together, after a
/// restart, do not end together.
fn age(limits: &Limits) -> Option<Pin<Box<Sleep>>> {
    let most = limits.connection_age_max?;
    let less = most / 10 * (RandomState::new().hash_one(0) % 100) as u32 / 100;
    Some(Box::pin(tokio::time::sleep(most - less)))
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
fn http1_builder(timer: HeadTimer) -> conn::http1::Builder {
    let mut builder = conn::http1::Builder::new();
    builder.timer(timer).header_read_timeout(HeadTimer::TOLD);
    builder
}

/// The settings of HTTP/2.
fn http2_builder(streams: http2::Streams, limits: &Limits) -> conn::http2::Builder<http2::Streams> {
    let mut builder = conn::http2::Builder::new(streams);
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
