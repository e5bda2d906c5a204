//! One open connection: its task, and the handle that sends requests on it.
//!
//! The task of a connection does everything on it: reading, writing, sending the bodies of requests.
//! The HTTP/2 library wants tasks of its own for that; they are given to [`Inside`], a set that the
//! connection's task polls itself, so that ending that one task ends everything.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::Sleep;

use crate::dial::Socket;
use crate::limits::ClientLimits;
use crate::outgoing::Outgoing;
use crate::trace::now;

/// The task of a connection, to be spawned by its owner.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An HTTP/2 connection that many calls share.
pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<Outgoing>,
    pub(crate) state: Arc<State>,
}

/// What the calls on a connection and its task know of each other.
pub(crate) struct State {
    /// Calls that run now.
    calls: AtomicUsize,
    /// How many the server allows at once.
    streams_max: AtomicUsize,
    is_closed: AtomicBool,
    idle_since: Mutex<Instant>,
}

impl State {
    fn new(streams_max: usize) -> Self {
        Self {
            calls: AtomicUsize::new(0),
            streams_max: AtomicUsize::new(streams_max),
            is_closed: AtomicBool::new(false),
            idle_since: Mutex::new(now()),
        }
    }

    /// Counts a call in, if there is room for it.
    pub(crate) fn enter(&self) -> bool {
        if self.is_closed.load(Ordering::Acquire) {
            return false;
        }
        let max = self.streams_max.load(Ordering::Relaxed);
        let entered = self.calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, |calls| {
            (calls < max).then_some(calls + 1)
        });
        entered.is_ok()
    }

    /// Counts a call out.
    pub(crate) fn leave(&self) {
        if self.calls.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = now();
        }
    }

    /// Takes no further calls: the peer said goodbye, or the connection is gone.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// How long nothing has been going on; `None` while there are calls.
    fn idle_for(&self) -> Option<Duration> {
        if self.calls.load(Ordering::Acquire) > 0 {
            return None;
        }
        let since = *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        Some(now().saturating_duration_since(since))
    }
}

/// Starts HTTP/1.1 on a socket.
pub(crate) async fn http1(socket: Socket) -> hyper::Result<(http1::SendRequest<Outgoing>, Driver)> {
    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    let driver = Box::pin(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an HTTP/1.1 connection ended");
        }
    });
    Ok((sender, driver))
}

/// Starts HTTP/2 on a socket. `ended` is called when its task ends.
pub(crate) async fn http2(
    socket: Socket,
    limits: &ClientLimits,
    ended: impl FnOnce() + Send + 'static,
) -> hyper::Result<(Arc<Http2>, Driver)> {
    let inside = Inside::default();
    let (sender, connection) = http2::Builder::new(inside.clone())
        .timer(TokioTimer::new())
        .initial_stream_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes)
        .keep_alive_interval(limits.keep_alive_interval)
        .keep_alive_timeout(limits.keep_alive_timeout)
        .max_header_list_size(64 << 10)
        .handshake(TokioIo::new(socket))
        .await?;
    let state = Arc::new(State::new(limits.http2_streams_max));
    let driver = Drive {
        connection: Box::pin(connection),
        inside,
        running: FuturesUnordered::new(),
        state: Arc::clone(&state),
        streams_max: limits.http2_streams_max,
        idle_timeout: limits.idle_timeout,
        idle: Box::pin(tokio::time::sleep(limits.idle_timeout)),
    };
    let closed = Arc::clone(&state);
    let driver = Box::pin(async move {
        driver.await;
        closed.close();
        ended();
    });
    Ok((Arc::new(Http2 { sender, state }), driver))
}

/// Where the HTTP/2 library puts the tasks of a connection.
#[derive(Clone, Default)]
struct Inside(Arc<Mutex<Vec<Task>>>);

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Inside {
    fn execute(&self, task: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(task));
    }
}

type Connection = http2::Connection<TokioIo<Socket>, Outgoing, Inside>;

/// The task of an HTTP/2 connection: ends when the connection does, or was idle for too long.
struct Drive {
    connection: Pin<Box<Connection>>,
    inside: Inside,
    running: FuturesUnordered<Task>,
    state: Arc<State>,
    streams_max: usize,
    idle_timeout: Duration,
    idle: Pin<Box<Sleep>>,
}

impl Drive {
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.idle.as_mut().poll(cx).is_ready() {
            let idle_for = self.state.idle_for().unwrap_or_default();
            if idle_for >= self.idle_timeout {
                self.state.close();
                // A call may have come in between; it is let run.
                if self.state.idle_for().is_some() {
                    return Poll::Ready(());
                }
            }
            let left = self.idle_timeout.saturating_sub(idle_for).max(Duration::from_millis(1));
            self.idle.as_mut().reset(tokio::time::Instant::now() + left);
        }
        Poll::Pending
    }
}

impl Future for Drive {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            if let Poll::Ready(outcome) = this.connection.as_mut().poll(cx) {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "an HTTP/2 connection ended");
                }
                return Poll::Ready(());
            }
            let new =
                std::mem::take(&mut *this.inside.0.lock().unwrap_or_else(PoisonError::into_inner));
            let any_new = !new.is_empty();
            this.running.extend(new);
            while let Poll::Ready(Some(())) = this.running.poll_next_unpin(cx) {}
            if !any_new {
                break;
            }
        }
        let allowed = this.connection.current_max_send_streams().min(this.streams_max);
        this.state.streams_max.store(allowed, Ordering::Relaxed);
        this.poll_idle(cx)
    }
}
