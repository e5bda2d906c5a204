//! The dialing side: a session that is connected again and again, for as long as somebody calls on
//! it, and a new one after it.
//!
//! | after | dialed again |
//! |---|---|
//! | a connection that was lost, or taken over by a late hello of this side's own | after a random wait that doubles, see `dial/backoff.rs` |
//! | a drain | the same, after what the peer asked for |
//! | a refusal that only another credential mends | not: calls end, and later ones begin a new session |
//!
//! While it is not connected, calls wait; those that were never sent end with the first attempt
//! that fails, since a caller without a deadline would wait for ever for a server that is not
//! there. What was sent waits to be resumed, for as long as the peer keeps the session.

mod backoff;

use parking_lot::Mutex;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tidewire_live_proto::{Config, Micros, Reason, Session, Violation};
use tidewire_service::{Call, Code, Error, Outcome, Reply};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::dial::backoff::Backoff;
use crate::driver::{Connection, ConnectionEnd};
use crate::host::Host;
use crate::link::Link;
use crate::session_clock::SessionClock;
use crate::transport::Transport;

/// Opens connections to one server.
pub trait Dial: Send + Sync + 'static {
    /// Opens a connection.
    ///
    /// # Errors
    /// Why there is none; its message names the server.
    fn dial(&self) -> impl Future<Output = Result<Box<dyn Transport>, Error>> + Send;
}

/// A server, as its caller has it: its session is begun by the first call, and ended, with word to
/// the server, when this is dropped. A session that is over is followed by a new one with the next
/// call.
pub struct Remote<D> {
    dial: Arc<D>,
    config: Config,
    host: Option<Arc<dyn Host>>,
    tasks: TaskTracker,
    session: Mutex<Option<Link>>,
}

impl<D: Dial> Remote<D> {
    /// A server that `dial` connects to. `host` answers what it calls; what keeps the session
    /// connected runs in `tasks`, and ends with the session.
    pub fn new(dial: D, config: Config, host: Option<Arc<dyn Host>>, tasks: TaskTracker) -> Self {
        Self { dial: Arc::new(dial), config, host, tasks, session: Mutex::default() }
    }

    /// The session that there is, or a new one.
    pub fn link(&self) -> Link {
        let mut session = self.session.lock();
        if let Some(link) = session.as_ref().filter(|link| !link.is_over()) {
            return link.clone();
        }
        // Each asks again at its own moments, or the clients of a restarted server come as a herd.
        let config = Config { seed: fastrand::u64(..), ..self.config.clone() };
        let dialed = Session::dialer(config);
        let tasks = self.tasks.clone();
        let link = Link::new(dialed, SessionClock::start(), self.host.clone(), tasks);
        let dialer = Dialer { link: link.clone(), dial: Arc::clone(&self.dial) };
        self.tasks.spawn(dialer.run());
        *session = Some(link.clone());
        link
    }

    /// Makes a call: [`Link::call`].
    ///
    /// # Errors
    /// Those of the call.
    pub async fn call(&self, call: Call) -> Result<Reply, Error> {
        self.link().call(call).await
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        let session = self.session.lock();
        session.as_ref().is_some_and(Link::is_connected)
    }
}

impl<D> Drop for Remote<D> {
    /// The server need not keep the session.
    fn drop(&mut self) {
        let session = self.session.get_mut();
        if let Some(link) = session.take() {
            link.end(Reason::Bye, "");
        }
    }
}

impl<D> fmt::Debug for Remote<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Keeps a session connected.
struct Dialer<D> {
    link: Link,
    dial: Arc<D>,
}

impl<D: Dial> Dialer<D> {
    /// Connects the session until it is over.
    async fn run(self) {
        let mut backoff = Backoff::new();
        let mut alone_since = Instant::now();
        while !self.link.is_over() {
            match self.once().await {
                Ok(was_connected) => {
                    if was_connected {
                        backoff.reset();
                        alone_since = Instant::now();
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "no live connection");
                    self.link.fail_unsent(&error);
                }
            }
            if self.link.is_over() {
                return;
            }
            if alone_since.elapsed() > self.patience() {
                return self.link.expire();
            }
            let after = Duration::from_millis(self.link.lock().after_ms);
            self.meanwhile(tokio::time::sleep(backoff.next_wait(after))).await;
        }
    }

    /// One connection, from dialing to its end: whether the session was connected by it.
    async fn once(&self) -> Result<bool, Error> {
        let Some(transport) = self.meanwhile(self.dial.dial()).await else { return Ok(false) };
        let transport = transport?;
        let now = self.link.0.clock.now();
        let before = {
            let mut state = self.link.lock();
            state.session.connect(now);
            state.connections
        };
        let ended = Connection::new(&self.link, transport, None).run().await;
        let state = self.link.lock();
        let was_connected = state.connections != before;
        let refused = state.ended.clone();
        drop(state);
        match refused {
            Some(violation) if ended == ConnectionEnd::Lost && !was_connected => {
                if !comes_back(violation.reason) {
                    self.link.fail_unsent(&refusal(&violation));
                    self.link.expire();
                }
                Err(refusal(&violation))
            }
            None if ended == ConnectionEnd::Lost && !was_connected => {
                Err(Error::unavailable("the connection ended before the server said hello"))
            }
            _ => Ok(was_connected),
        }
    }

    /// Waits for something without a connection: deadlines of calls pass all the same. `None` when
    /// the session is over before.
    async fn meanwhile<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        while !self.link.is_over() {
            let due = self.link.lock().session.poll_timeout();
            let due = due.and_then(|due| self.link.0.clock.instant(due));
            tokio::select! {
                done = &mut what => return Some(done),
                () = self.link.is_due(due) => {}
            }
        }
        None
    }

    /// For how long what was sent waits to be resumed.
    fn patience(&self) -> Duration {
        Duration::from_millis(self.link.lock().session.peer().retain_ms)
    }
}

impl Link {
    /// Waits until something is due, or somebody did something; then does what is due.
    async fn is_due(&self, due: Option<Instant>) {
        let mut sleep = pin!(async {
            match due {
                Some(due) => tokio::time::sleep_until(due + Duration::from_millis(1)).await,
                None => std::future::pending().await,
            }
        });
        let mut is_first = true;
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            state.connection = Some(cx.waker().clone());
            state.let_go(self, Some(cx.waker()));
            let is_due = sleep.as_mut().poll(cx).is_ready() || !std::mem::take(&mut is_first);
            if !is_due {
                return std::task::Poll::Pending;
            }
            let now: Micros = self.0.clock.now();
            state.session.handle_timeout(now);
            state.hear_all(self);
            std::task::Poll::Ready(())
        })
        .await;
    }
}

/// Whether dialing again may help after a connection that ended so.
fn comes_back(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Drain
            | Reason::HandshakeTimeout
            | Reason::KeepAlive
            | Reason::Internal
            | Reason::TakenOver
    )
}

/// What calls end with whose server refuses the connection.
fn refusal(violation: &Violation) -> Error {
    let code = match violation.reason {
        Reason::Unauthenticated => Code::Unauthenticated,
        reason if comes_back(reason) => Code::Unavailable,
        _ => Code::FailedPrecondition,
    };
    let text = format!("the server refused the connection: {violation}");
    Error::new(code, text).with_outcome(Outcome::NotRun)
}
