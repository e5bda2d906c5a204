//! The connections to one address: kept for the next call, bounded, closed when idle.
//!
//! ```text
//! call ─▶ a free stream of an HTTP/2 connection ─▶ lease
//!      └▶ an idle HTTP/1.1 connection ───────────▶ lease
//!      └▶ waits; a connection is opened where the bounds allow one; whichever is free first
//! ```
//!
//! A connection is opened by a task of the pool, not by the call that needs it: so a call that
//! gives up does not throw away what others wait for, and many first calls share one HTTP/2
//! connection. The pool owns its tasks; dropping it ends them. Leases keep their pool.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::uri::Authority;
use hyper::client::conn::http1;
use tidewire_service::Error;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use crate::deadline::{Phase, SharedPhase};
use crate::dial::{Address, Dialer, Log};
use crate::http2::{self, Http2};
use crate::limits::ClientLimits;
use crate::outgoing::RequestBody;
use crate::socket::{self, Driver};
use crate::trace::now;

/// The connections to one address.
pub(crate) struct Pool {
    pub(crate) target: Target,
    limits: ClientLimits,
    inner: Mutex<Inner>,
    tasks: Mutex<JoinSet<()>>,
    me: Weak<Self>,
}

/// What a pool connects to, and what requests to it say.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: Address,
    /// The address as text.
    pub(crate) to: Arc<str>,
    /// What the server is called in errors.
    pub(crate) host: Arc<str>,
    pub(crate) authority: Authority,
    pub(crate) scheme: http::uri::Scheme,
    pub(crate) prefix: Arc<str>,
    pub(crate) dialer: Dialer,
}

#[derive(Default)]
struct Inner {
    idle: Vec<IdleConnection>,
    http2: Vec<Arc<Http2>>,
    http1_open: usize,
    dialing: Vec<Arc<PendingDial>>,
    waiting: VecDeque<Waiter>,
    /// What the last connection spoke.
    is_http2: Option<bool>,
    is_swept: bool,
    runtime: Option<Handle>,
}

type Waiter = oneshot::Sender<Result<Lease, Error>>;
type Http1Sender = http1::SendRequest<RequestBody>;

struct IdleConnection {
    sender: Http1Sender,
    abort: AbortHandle,
    since: Instant,
}

/// A connection that is being opened.
pub(crate) struct PendingDial {
    pub(crate) phase: SharedPhase,
    pub(crate) log: Mutex<Log>,
}

/// The use of a connection by one call.
pub(crate) struct Lease {
    pub(crate) pool: Arc<Pool>,
    pub(crate) kind: Kind,
    /// The connection was used before.
    pub(crate) is_kept: bool,
    /// What happened when it was opened, for the call that waited for it.
    pub(crate) log: Option<Box<Log>>,
}

pub(crate) enum Kind {
    Http1 { sender: Option<Http1Sender>, abort: AbortHandle, is_reusable: bool },
    Http2 { connection: Arc<Http2>, is_complete: bool },
}

/// A connection, or the wait for one.
pub(crate) enum Checkout {
    Ready(Lease),
    Waiting(oneshot::Receiver<Result<Lease, Error>>, Option<Arc<PendingDial>>),
}

impl Pool {
    pub(crate) fn new(target: Target, limits: ClientLimits) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            target,
            limits,
            inner: Mutex::default(),
            tasks: Mutex::default(),
            me: me.clone(),
        })
    }

    /// A connection for one call.
    pub(crate) fn checkout(self: &Arc<Self>) -> Result<Checkout, Error> {
        let mut inner = self.lock();
        if let Some(kind) = take_free(&mut inner, self.limits.idle_timeout) {
            return Ok(Checkout::Ready(self.lease(kind)));
        }
        if inner.waiting.len() >= self.limits.waiting_max {
            // Whoever gave up waits no more.
            inner.waiting.retain(|waiter| !waiter.is_closed());
        }
        if inner.waiting.len() >= self.limits.waiting_max {
            return Err(Error::resource_exhausted(format!(
                "{} calls wait for a connection to {} already, limits.waiting_max = {}",
                inner.waiting.len(),
                self.target.host,
                self.limits.waiting_max
            )));
        }
        let (give, take) = oneshot::channel();
        inner.waiting.push_back(give);
        inner.runtime = Some(Handle::current());
        self.dial_if_needed(&mut inner);
        Ok(Checkout::Waiting(take, inner.dialing.last().map(Arc::clone)))
    }

    fn lease(self: &Arc<Self>, kind: Kind) -> Lease {
        Lease { pool: Arc::clone(self), kind, is_kept: true, log: None }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    fn spawn(
        &self,
        runtime: &Handle,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, runtime)
    }

    /// Opens connections for those who wait, as far as the bounds allow.
    fn dial_if_needed(&self, inner: &mut Inner) {
        let Some(runtime) = inner.runtime.clone() else { return };
        let limits = &self.limits;
        loop {
            let dialing = inner.dialing.len();
            let waiting = inner.waiting.len();
            // One that takes few calls yet may take more in a moment.
            let unsettled = inner.http2.iter().filter(|http2| !http2.state.is_settled()).count();
            let (served, has_room) = if inner.is_http2 == Some(false) {
                (dialing, inner.http1_open + dialing < limits.http1_connections_max.max(1))
            } else {
                let open = inner.http2.len() + dialing;
                (
                    (dialing + unsettled) * limits.streams_of_a_connection(),
                    open < limits.http2_connections_max.max(1),
                )
            };
            if served >= waiting || !has_room {
                return;
            }
            let dialing = Arc::new(PendingDial {
                phase: SharedPhase::new(Phase::Connect),
                log: Mutex::default(),
            });
            inner.dialing.push(Arc::clone(&dialing));
            let pool = self.me.clone();
            let target = self.target.clone();
            let limits = self.limits.clone();
            self.spawn(&runtime, async move {
                let opened = open(&pool, &target, &limits, &dialing).await;
                if let Some(pool) = pool.upgrade() {
                    pool.opened(opened, &dialing);
                }
            });
        }
    }

    fn opened(self: &Arc<Self>, opened: Result<OpenResult, Error>, dialing: &Arc<PendingDial>) {
        let log = dialing.log.lock().clone();
        let mut inner = self.lock();
        inner.dialing.retain(|other| !Arc::ptr_eq(other, dialing));
        let Some(runtime) = inner.runtime.clone() else { return };
        let failed = match opened {
            Ok(OpenResult::Http1(sender, driver)) => {
                let abort = self.spawn(&runtime, driver);
                inner.is_http2 = Some(false);
                inner.http1_open += 1;
                let kind = Kind::Http1 { sender: Some(sender), abort, is_reusable: true };
                drop(inner);
                let mut lease = self.lease(kind);
                (lease.is_kept, lease.log) = (false, Some(Box::new(log)));
                self.give(lease);
                self.serve();
                return;
            }
            Ok(OpenResult::Http2(connection, driver)) => {
                self.spawn(&runtime, driver);
                inner.is_http2 = Some(true);
                let first = enter(&connection);
                inner.http2.push(connection);
                drop(inner);
                if let Some(kind) = first {
                    let mut lease = self.lease(kind);
                    lease.log = Some(Box::new(log));
                    self.give(lease);
                }
                self.serve();
                return;
            }
            Err(error) => error,
        };
        let is_alone = inner.dialing.is_empty() && inner.http2.is_empty() && inner.http1_open == 0;
        let count = if is_alone { inner.waiting.len() } else { inner.waiting.len().min(1) };
        let told: Vec<Waiter> = inner.waiting.drain(..count).collect();
        self.dial_if_needed(&mut inner);
        drop(inner);
        for waiter in told {
            // Whoever gave up needs no error.
            drop(waiter.send(Err(failed.clone())));
        }
    }

    /// Gives a lease to the first who still waits; otherwise it goes back.
    fn give(&self, lease: Lease) {
        let mut given = Some(lease);
        while let Some(lease) = given.take() {
            let Some(waiter) = self.lock().waiting.pop_front() else {
                drop(lease);
                return;
            };
            given = match waiter.send(Ok(lease)) {
                Err(Ok(lease)) => Some(lease),
                _ => None,
            };
        }
    }

    /// Gives what is free to those who wait, and opens connections for the others.
    fn serve(self: &Arc<Self>) {
        loop {
            let mut inner = self.lock();
            while inner.waiting.front().is_some_and(Waiter::is_closed) {
                inner.waiting.pop_front();
            }
            if inner.waiting.is_empty() {
                return;
            }
            let Some(kind) = take_free(&mut inner, self.limits.idle_timeout) else {
                self.dial_if_needed(&mut inner);
                return;
            };
            drop(inner);
            self.give(self.lease(kind));
        }
    }

    /// Takes back an HTTP/1.1 connection that can be used again.
    fn take_back(self: &Arc<Self>, sender: Http1Sender, abort: AbortHandle) {
        let mut inner = self.lock();
        inner.idle.push(IdleConnection { sender, abort, since: now() });
        if !inner.is_swept
            && let Some(runtime) = inner.runtime.clone()
        {
            inner.is_swept = true;
            self.spawn(&runtime, sweep(self.me.clone(), self.limits.clone()));
        }
        let is_wanted = !inner.waiting.is_empty();
        drop(inner);
        if is_wanted {
            self.serve();
        }
    }

    /// Forgets an HTTP/1.1 connection.
    fn forget(self: &Arc<Self>) {
        let mut inner = self.lock();
        inner.http1_open -= 1;
        let is_wanted = !inner.waiting.is_empty();
        drop(inner);
        if is_wanted {
            self.serve();
        }
    }

    /// An HTTP/2 connection has room for more calls, or takes none any more.
    fn changed(self: &Arc<Self>) {
        let mut inner = self.lock();
        let (gone, open) = inner.http2.drain(..).partition(|c| c.state.is_closed());
        inner.http2 = open;
        drop(inner);
        // With it go streamed requests that were not begun, which may hold leases of this pool.
        let _: Vec<Arc<Http2>> = gone;
        self.serve();
    }

    /// Closes all HTTP/1.1 connections that wait for a call.
    pub(crate) fn close_idle(&self) {
        let mut inner = self.lock();
        let idle = std::mem::take(&mut inner.idle);
        inner.http1_open -= idle.len();
        idle.iter().for_each(|idle| idle.abort.abort());
    }

    /// How many connections are open, for tests and metrics.
    pub(crate) fn open_connections(&self) -> usize {
        let inner = self.lock();
        inner.http1_open + inner.http2.len()
    }
}

/// A connection with room for a call, that was used no longer ago than `idle_timeout`: whether or
/// not the sweep has come by, the server may be about to close it.
fn take_free(inner: &mut Inner, idle_timeout: Duration) -> Option<Kind> {
    if let Some(kind) = inner.http2.iter().find_map(enter) {
        return Some(kind);
    }
    let present = now();
    while let Some(idle) = inner.idle.pop() {
        let unused = present.saturating_duration_since(idle.since);
        if idle.sender.is_closed() || unused >= idle_timeout {
            idle.abort.abort();
            inner.http1_open -= 1;
            continue;
        }
        let IdleConnection { sender, abort, .. } = idle;
        return Some(Kind::Http1 { sender: Some(sender), abort, is_reusable: true });
    }
    None
}

/// The use of a connection, if it has room.
fn enter(connection: &Arc<Http2>) -> Option<Kind> {
    let is_complete = false;
    connection
        .state
        .enter()
        .then(|| Kind::Http2 { connection: Arc::clone(connection), is_complete })
}

enum OpenResult {
    Http1(Http1Sender, Driver),
    Http2(Arc<Http2>, Driver),
}

async fn open(
    pool: &Weak<Pool>,
    target: &Target,
    limits: &ClientLimits,
    dialing: &PendingDial,
) -> Result<OpenResult, Error> {
    let mut log = Log::default();
    let work = async {
        let dialed = target.dialer.dial(&target.address, &dialing.phase, &mut log).await?;
        if !dialed.is_http2 {
            let http1 = socket::http1(dialed.socket).await;
            let (sender, driver) = http1.map_err(|error| not_started("HTTP/1.1", target, error))?;
            return Ok(OpenResult::Http1(sender, driver));
        }
        dialing.phase.set(Phase::Http2);
        let pool = pool.clone();
        let changed = Arc::new(move || {
            if let Some(pool) = pool.upgrade() {
                pool.changed();
            }
        });
        let http2 = http2::http2(dialed.socket, limits, changed).await;
        let (connection, driver) = http2.map_err(|error| not_started("HTTP/2", target, error))?;
        Ok(OpenResult::Http2(connection, driver))
    };
    let outcome = tokio::time::timeout(limits.connect_timeout, work).await;
    let outcome = outcome.unwrap_or_else(|_| {
        Err(Error::unavailable(format!(
            "no connection within limits.connect_timeout = {:?}, {} {}",
            limits.connect_timeout,
            dialing.phase.phase(),
            target.host
        )))
    });
    *dialing.log.lock() = log;
    outcome
}

fn not_started(
    what: &str,
    target: &Target,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    Error::unavailable(format!("{what} could not be started with {}", target.host))
        .with_cause(error)
}

/// Closes idle HTTP/1.1 connections, as long as there are any.
async fn sweep(pool: Weak<Pool>, limits: ClientLimits) {
    let mut wait = limits.idle_timeout;
    loop {
        tokio::time::sleep(wait).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut inner = pool.lock();
        let present = now();
        let before = inner.idle.len();
        inner.idle.retain(|idle| {
            let is_kept = present.saturating_duration_since(idle.since) < limits.idle_timeout
                && !idle.sender.is_closed();
            if !is_kept {
                idle.abort.abort();
            }
            is_kept
        });
        inner.http1_open -= before - inner.idle.len();
        let Some(oldest) = inner.idle.iter().map(|idle| idle.since).min() else {
            inner.is_swept = false;
            return;
        };
        wait = limits.idle_timeout.saturating_sub(present.saturating_duration_since(oldest));
    }
}

impl Lease {
    /// The response was read to its end: the connection can be used again.
    pub(crate) fn complete(&mut self, is_request_sent: bool) {
        match &mut self.kind {
            Kind::Http1 { is_reusable, .. } => *is_reusable = is_request_sent,
            Kind::Http2 { is_complete, .. } => *is_complete = is_request_sent,
        }
    }

    /// A request goes out: until the response is complete, the connection is of no use to others.
    pub(crate) fn begin(&mut self) {
        if let Kind::Http1 { is_reusable, .. } = &mut self.kind {
            *is_reusable = false;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match &mut self.kind {
            Kind::Http2 { connection, is_complete } => {
                connection.state.leave(*is_complete);
                if connection.state.is_closed() {
                    self.pool.changed();
                } else if !self.pool.lock().waiting.is_empty() {
                    self.pool.serve();
                }
            }
            Kind::Http1 { sender, abort, is_reusable } => match sender.take() {
                Some(sender) if *is_reusable && !sender.is_closed() => {
                    self.pool.take_back(sender, abort.clone());
                }
                _ => {
                    abort.abort();
                    self.pool.forget();
                }
            },
        }
    }
}
