//! The accepting side: who a connection is, and which session it goes on with.
//!
//! ```text
//!  connection ─▶ hello, in time ─▶ whose? ─┬─▶ new session ─────────────▶ run ─▶ lost: parked
//!                      │              │     └─▶ resumes: parked, or taken over ─┘
//!                      └─ refused ◀───┘
//! ```

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use tidewire_live_proto::{
    Acceptor, Config, Hello, Metadata, Reason, SessionId, Sessions, Violation,
};
use tidewire_service::{Headers, Peer};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::driver::{Connection, ConnectionEnd, leave};
use crate::host::{Host, Identity};
use crate::link::Link;
use crate::link::budget::Budget;
use crate::link::expiry::{CredentialLife, expires_ms};
use crate::session_clock::SessionClock;
use crate::transport::{Transport, TransportEnd};

/// All sessions of an accepting side.
pub struct Links {
    sessions: Mutex<Sessions<Link>>,
    /// A session was parked.
    parked: Notify,
    config: Config,
    clock: SessionClock,
    host: Arc<dyn Host>,
    tasks: TaskTracker,
    budget: Arc<Budget>,
}

/// What a connection says of itself before its first byte.
#[derive(Debug, Default)]
pub struct Arrival {
    /// The headers of its HTTP upgrade, if it began with one.
    pub upgrade: Headers,
    /// What was read of it already.
    pub first: Bytes,
    /// Its other side.
    pub peer: Option<Arc<Peer>>,
    /// It is a process that this side started, and is greeted before it says hello.
    pub is_started_here: bool,
}

impl Links {
    /// Sessions whose calls `host` answers, in place or in `tasks`. At most `parked_max` are kept
    /// without a connection.
    pub fn new(config: Config, host: Arc<dyn Host>, tasks: TaskTracker, parked_max: usize) -> Self {
        let sessions = Mutex::new(Sessions::new(parked_max).with_bytes_max(PARKED_BYTES_MAX));
        let clock = SessionClock::start();
        let budget = Arc::new(Budget::new(HELD_BYTES_MAX));
        Self { sessions, parked: Notify::new(), config, clock, host, tasks, budget }
    }

    /// Bounds what all sessions together hold: those without a connection `parked_bytes_max`, above
    /// which the oldest are given up; all of them `held_bytes_max` of answers that were not taken,
    /// above which streams queue a frame at a time.
    #[must_use]
    pub fn bounded(mut self, parked_bytes_max: usize, held_bytes_max: usize) -> Self {
        let sessions = self.sessions.into_inner();
        self.sessions = Mutex::new(sessions.with_bytes_max(parked_bytes_max));
        self.budget = Arc::new(Budget::new(held_bytes_max));
        self
    }

    /// Greets a connection: reads its hello, asks `identify` whose its headers are, and goes on
    /// with the session that it resumes, or a new one.
    ///
    /// # Errors
    /// Why it was refused; nothing where it is gone.
    pub async fn greet<T: Transport>(
        &self,
        mut transport: T,
        arrival: Arrival,
        identify: impl AsyncFnOnce(Headers) -> Result<Identity, Violation>,
    ) -> Result<(Link, Connection<T>), Option<Violation>> {
        let mut acceptor = Acceptor::new(self.config.clone(), self.clock.now());
        let upgrade = Metadata::from_maps(&arrival.upgrade, &Headers::new());
        acceptor.upgraded_with(upgrade);
        acceptor.input().extend_from_slice(&arrival.first);
        if arrival.is_started_here {
            let mut out = acceptor.greet_first();
            poll_fn(|cx| transport.poll_send(cx, &mut out)).await.map_err(|_| None)?;
        }
        let hello = self.hello(&mut acceptor, &mut transport).await;
        let hello = match hello.ok_or(None)? {
            Ok(hello) => hello,
            Err(violation) => return Err(Some(refuse(transport, violation).await)),
        };
        let headers = acceptor.headers_of(&hello).to_maps().headers;
        let identity = match identify(headers).await {
            Ok(identity) => identity,
            Err(violation) => return Err(Some(refuse(transport, violation).await)),
        };
        let link = self.link(acceptor, hello, identity);
        let connection = Connection::new(&link, transport, arrival.peer);
        Ok((link, connection))
    }

    /// The hello, or what is wrong with it; `None` when the connection is gone.
    async fn hello(
        &self,
        acceptor: &mut Acceptor,
        transport: &mut impl Transport,
    ) -> Option<Result<Hello, Violation>> {
        let mut sleep =
            self.clock.instant(acceptor.poll_timeout()).map(tokio::time::sleep_until).map(Box::pin);
        loop {
            match acceptor.poll(self.clock.now()) {
                Ok(Some(hello)) => return Some(Ok(hello)),
                Ok(None) => {}
                Err(violation) => return Some(Err(violation)),
            }
            let received = poll_fn(|cx| {
                if let Some(sleep) = &mut sleep
                    && sleep.as_mut().poll(cx).is_ready()
                {
                    return std::task::Poll::Ready(None);
                }
                transport.poll_receive(cx, acceptor.input()).map(Some)
            });
            match received.await {
                None => {
                    let text = "no hello within the handshake time";
                    return Some(Err(Violation::new(Reason::HandshakeTimeout, text)));
                }
                Some(Ok(1..)) => {}
                Some(Err(TransportEnd::Violation(violation))) => return Some(Err(violation)),
                Some(Ok(0) | Err(TransportEnd::Lost(_))) => return None,
            }
        }
    }

    /// The session that a hello resumes, or a new one.
    fn link(&self, mut acceptor: Acceptor, hello: Hello, identity: Identity) -> Link {
        let now = self.clock.now();
        let Identity { principal, expires_in } = identity;
        acceptor.expires(expires_ms(expires_in));
        let life = CredentialLife::new(expires_in, now);
        let mut sessions = self.lock();
        let resumed = sessions.take(&hello, &principal).filter(|link| {
            let is_known = !link.lock().credential.is_unknown();
            if !is_known {
                link.end(Reason::TakenOver, "its credential was not known yet");
            }
            is_known
        });
        let link = match resumed {
            Some(link) => {
                let mut state = link.lock();
                let mut farewell = Vec::new();
                state.session.take_over(now, &mut farewell);
                state.hear_all(&link);
                state.farewell = farewell;
                // What changed meanwhile is known before the peer lists what it watches; so is that
                // it shows another credential now.
                state.tell_stale(&link);
                state.life = life;
                let before = state.session.accepted_headers().to_maps().headers;
                let now_shown = acceptor.headers_of(&hello).to_maps().headers;
                if before != now_shown {
                    state.ask_anew(&link, &before, &now_shown);
                }
                acceptor.resume(&mut state.session, hello, now);
                state.epoch += 1;
                state.wake();
                drop(state);
                link
            }
            None => {
                let session = acceptor.accept(hello, random_id(), now);
                let host = Arc::clone(&self.host);
                let tasks = self.tasks.clone();
                let link = Link::accepted(session, self.clock, host, tasks, &self.budget);
                link.lock().life = life;
                link
            }
        };
        let ticket = {
            let mut state = link.lock();
            state.principal = principal.clone();
            state.session.ticket()
        };
        if let Some(ticket) = ticket {
            sessions.hold(ticket, principal, link.clone());
        }
        link
    }

    /// A connection ended: its session is parked, or forgotten.
    pub fn left(&self, link: &Link, ended: ConnectionEnd) {
        if ended == ConnectionEnd::TakenOver {
            return;
        }
        if link.lock().credential.is_unknown() {
            link.expire();
        }
        let id = link.lock().session.session_id().map(|session| session.id);
        let is_over = link.is_over();
        let mut sessions = self.lock();
        let dropped = match id {
            Some(id) if is_over => {
                sessions.remove(&id);
                Vec::new()
            }
            // It may be connected anew already.
            Some(id) if !link.lock().session.is_connected() => {
                sessions.park(&id, link.held_bytes(), self.clock.now())
            }
            _ => Vec::new(),
        };
        drop(sessions);
        self.parked.notify_one();
        dropped.iter().for_each(Link::expire);
    }

    /// Gives up sessions that were not resumed in time; never ends.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn keep(&self) {
        loop {
            let due = self.lock().poll_timeout();
            // Their calls go on, so what they hold is looked at again.
            let look = self.clock.now().saturating_add(LOOK_AGAIN);
            let due = due.and_then(|due| self.clock.instant(due.min(look)));
            tokio::select! {
                () = self.parked.notified() => {}
                () = until(due) => {}
            }
            let mut sessions = self.lock();
            let mut expired = sessions.expire(self.clock.now());
            expired.extend(sessions.measure(Link::held_bytes));
            drop(sessions);
            expired.iter().for_each(Link::expire);
        }
    }

    /// Gives up all sessions without a connection.
    pub fn expire_parked(&self) {
        let expired = self.lock().expire(u64::MAX);
        expired.iter().for_each(Link::expire);
    }

    /// How many bytes the sessions hold that wait to be resumed, when last looked at.
    pub fn parked_bytes(&self) -> usize {
        self.lock().parked_bytes()
    }

    /// How many sessions wait to be resumed.
    pub fn parked(&self) -> usize {
        self.lock().parked()
    }

    fn lock(&self) -> MutexGuard<'_, Sessions<Link>> {
        self.sessions.lock()
    }
}

async fn until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn refuse(mut transport: impl Transport, violation: Violation) -> Violation {
    tracing::debug!(%violation, "a live connection is refused");
    let mut out = Acceptor::refuse(&violation);
    leave(&mut transport, &mut out, violation.reason).await;
    violation
}

/// # Panics
/// When the system has no randomness, without which secrets could be guessed.
fn random_id() -> SessionId {
    let mut id = SessionId { id: [0; 16], secret: [0; 32] };
    getrandom::fill(&mut id.id).expect("the system has randomness");
    getrandom::fill(&mut id.secret).expect("the system has randomness");
    id
}

/// Names the start of a process.
///
/// # Panics
/// When the system has no randomness.
pub fn random_boot() -> [u8; 16] {
    random_id().id
}

/// What all sessions without a connection hold, unless told otherwise.
const PARKED_BYTES_MAX: usize = 64 << 20;
/// What all sessions hold of answers that were not taken, unless told otherwise.
const HELD_BYTES_MAX: usize = 1 << 30;
/// After how many microseconds it is looked again at what sessions without a connection hold.
const LOOK_AGAIN: u64 = 1_000_000;

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").field("parked", &self.parked()).finish_non_exhaustive()
    }
}
