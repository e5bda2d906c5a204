//! Runs a session over one connection, from its first byte to its last.
//!
//! ```text
//!  ┌─▶ what is due ─▶ frames that came: 64 calls, or 200 µs ─▶ what is to be written ─▶ read ─┐
//!  └──────────────────────────── while anything of it went on ────────────────────────────────┘
//! ```
//!
//! A call of the peer is polled once in place, which is all that most handlers of a fast service
//! need, and goes on in a task if it has to wait. That is done for 200 µs, or 256 calls
//! (`driver/turn.rs`); then what they answered is written.
//!
//! Nothing is read while the peer does not take what is written to it, and what it does not take
//! for [`SILENCE`] ends the connection, which parks the session.

mod turn;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tidewire_live_proto::{Micros, Reason};
use tidewire_service::Peer;
use tokio::time::{Instant, Sleep};

use crate::driver::turn::{SlowMethods, Turn};
use crate::link::Link;
use crate::link::request::RequestParts;
use crate::link::shared_writer::SharedWriter;
use crate::serve::{AnswerTask, Rest, arrived};
use crate::session_clock::micros;
use crate::transport::{Transport, TransportEnd};

/// A session's connection.
pub struct Connection<T> {
    link: Link,
    transport: T,
    /// Which of the session's connections it is.
    epoch: u64,
    /// What is being written.
    out: Vec<u8>,
    /// Since when nothing of it was taken.
    stuck_since: Option<Micros>,
    sleep: Pin<Box<Sleep>>,
    due: Option<Micros>,
    slow: SlowMethods,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// It broke, or fell silent.
    Lost,
    /// Either side went away in good order.
    Drained,
    /// Another connection resumed the session.
    TakenOver,
    /// The session is over, for this reason.
    Over(Reason),
}

/// What came of reading what the peer sent.
struct Progress {
    went_on: bool,
    /// Nothing that was received is left.
    is_all: bool,
}

impl<T: Transport> Connection<T> {
    /// Runs `link`'s session over `transport` from now on; whoever ran it before lets go.
    pub(crate) fn new(link: &Link, transport: T, peer: Option<Arc<Peer>>) -> Self {
        let epoch = {
            let mut state = link.lock();
            state.epoch += 1;
            state.peer = peer;
            state.beside = SharedWriter::of(transport.at_once());
            state.epoch
        };
        let sleep = Box::pin(tokio::time::sleep(SILENCE));
        Self {
            link: link.clone(),
            transport,
            epoch,
            out: Vec::new(),
            stuck_since: None,
            sleep,
            due: None,
            slow: SlowMethods::default(),
        }
    }

    /// Runs it to its end.
    pub async fn run(mut self) -> ConnectionEnd {
        let ended = poll_fn(|cx| self.poll(cx)).await;
        let reason = match ended {
            ConnectionEnd::Lost => return ended,
            ConnectionEnd::Drained => Reason::Drain,
            ConnectionEnd::TakenOver => Reason::TakenOver,
            ConnectionEnd::Over(reason) => reason,
        };
        let Self { transport, out, .. } = &mut self;
        leave(transport, out, reason).await;
        ended
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionEnd> {
        loop {
            let now = self.link.0.clock.now();
            if let Some(ended) = self.look(cx, now) {
                return Poll::Ready(ended);
            }
            let Progress { went_on, is_all: may_read } = self.answer(cx, now);
            let wrote = match self.write(cx, now) {
                Ok(wrote) => wrote,
                Err(error) => return Poll::Ready(self.lost(&error)),
            };
            let read = match self.read(cx, may_read) {
                Poll::Ready(Ok(0)) => return Poll::Ready(self.lost(&"its peer ended it")),
                Poll::Ready(Ok(_)) => true,
                Poll::Ready(Err(TransportEnd::Lost(error))) => {
                    return Poll::Ready(self.lost(&error));
                }
                Poll::Ready(Err(TransportEnd::Violation(violation))) => {
                    self.link.end(violation.reason, violation.message);
                    true
                }
                Poll::Pending => false,
            };
            if !(went_on || wrote || read || self.poll_due(cx).is_ready()) {
                return Poll::Pending;
            }
        }
    }

    /// Does what is due, and finds out whether the connection is over.
    fn look(&mut self, cx: &mut Context<'_>, now: Micros) -> Option<ConnectionEnd> {
        let link = self.link.clone();
        let mut state = link.lock();
        if state.epoch != self.epoch {
            self.out.append(&mut state.farewell);
            return Some(ConnectionEnd::TakenOver);
        }
        if !state.connection.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            state.connection = Some(cx.waker().clone());
        }
        state.let_go(&link, Some(cx.waker()));
        state.watches.wakes(cx.waker());
        state.tell_stale(&link);
        if state.session.poll_timeout().is_some_and(|due| due <= now) {
            state.session.handle_timeout(now);
        }
        if self.stuck_since.is_some_and(|since| now.saturating_sub(since) >= micros(SILENCE)) {
            tracing::debug!("a live connection whose peer takes nothing is closed");
            state.session.connection_lost(now);
        }
        if state.session.is_connected() {
            let leaves = state.session.is_draining() && state.session.is_drained();
            let is_writing = !self.out.is_empty() || state.beside.is_busy();
            if !leaves || is_writing || state.session.poll_output(now, &mut self.out) {
                return None;
            }
            state.session.connection_lost(now);
            state.hear_all(&link);
            return Some(ConnectionEnd::Drained);
        }
        state.beside.by = None;
        self.out.append(&mut state.beside.left);
        state.session.poll_output(now, &mut self.out);
        state.hear_all(&link);
        match &state.ended {
            Some(violation) if state.session.is_closed() => {
                Some(ConnectionEnd::Over(violation.reason))
            }
            _ => Some(ConnectionEnd::Lost),
        }
    }

    /// Reads what came, and begins to answer calls.
    fn answer(&mut self, cx: &mut Context<'_>, now: Micros) -> Progress {
        let mut went_on = false;
        let mut turn = None::<Turn>;
        while turn.as_ref().is_none_or(Turn::takes_more) {
            let Some(mut state) = self.link.lock_for(self.epoch) else {
                return Progress { went_on: true, is_all: false };
            };
            let (taken, peer) = loop {
                match state.hear(&self.link, now) {
                    Some(Some(taken)) => break (taken, state.peer.clone()),
                    Some(None) => went_on = true,
                    None => return Progress { went_on, is_all: true },
                }
            };
            drop(state);
            went_on = true;
            self.begin(cx, taken, peer, turn.get_or_insert_with(Turn::begin));
        }
        Progress { went_on, is_all: false }
    }

    /// Begins to answer a call: in place, or in a task.
    fn begin(
        &mut self,
        cx: &mut Context<'_>,
        taken: RequestParts,
        peer: Option<Arc<Peer>>,
        turn: &mut Turn,
    ) {
        let Some(host) = self.link.0.host.clone() else { return };
        let call = taken.call;
        let number = taken.number;
        let in_place = turn.call() && !self.slow.has(number);
        let watch = taken.watch;
        let arrived = arrived(taken, &self.link, peer);
        let runs_on = host.runs_on(&arrived);
        let serving = AnswerTask::of(&self.link, (call, watch), &arrived);
        let rest = match in_place {
            true => serving.begin(cx, host, arrived),
            false => Some(Box::pin(serving.run(host, arrived)) as Rest),
        };
        if in_place {
            self.slow.took(number, turn.look());
        }
        let Some(rest) = rest else { return };
        let mut state = self.link.lock();
        if !(runs_on || state.session.is_open(call)) {
            // Its caller gave up meanwhile. What it has may want the lock when it is dropped.
            drop(state);
            return drop(rest);
        }
        let task = self.link.0.tasks.spawn(rest).abort_handle();
        state.exchanges.entry(call).or_default().task = (!runs_on).then_some(task);
    }

    /// Writes what is to be written; whether the session may have more.
    fn write(&mut self, cx: &mut Context<'_>, now: Micros) -> io::Result<bool> {
        if self.out.is_empty() {
            let Some(mut state) = self.link.lock_for(self.epoch) else { return Ok(true) };
            if state.beside.is_writing {
                return Ok(false);
            }
            self.out.append(&mut state.beside.left);
            if !state.session.poll_output(now, &mut self.out) && self.out.is_empty() {
                return Ok(false);
            }
            state.settle(&self.link);
            state.beside.is_writing = state.beside.by.is_some();
        }
        let before = self.out.len();
        match self.transport.poll_send(cx, &mut self.out) {
            Poll::Ready(Ok(())) => {
                self.stuck_since = None;
                if let Some(mut state) = self.link.lock_for(self.epoch) {
                    state.beside.is_writing = false;
                }
                Ok(true)
            }
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => {
                if self.stuck_since.is_none() || self.out.len() != before {
                    self.stuck_since = Some(now);
                }
                Ok(false)
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, may_read: bool) -> Poll<Result<usize, TransportEnd>> {
        let Some(mut state) = self.link.lock_for(self.epoch) else { return Poll::Pending };
        if !may_read || !state.session.wants_read() {
            return Poll::Pending;
        }
        self.transport.poll_receive(cx, state.session.input())
    }

    /// Ready when something is due.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let stuck = self.stuck_since.map(|since| since.saturating_add(micros(SILENCE)));
        let (due, ends) = {
            let mut state = self.link.lock();
            let due = state.session.poll_timeout();
            state.beside.looks_at = due;
            let ends = state.watches.poll_timeout().into_iter().chain(state.life.poll_timeout());
            (due, ends.min())
        };
        let due = due.into_iter().chain(stuck).chain(ends).min();
        let Some(at) = due.and_then(|due| self.link.0.clock.instant(due)) else {
            return Poll::Pending;
        };
        if self.due != due {
            self.due = due;
            // The timer counts milliseconds: one early would be asked for again and again.
            self.sleep.as_mut().reset(at + Duration::from_millis(1));
        }
        let is_due = self.sleep.as_mut().poll(cx);
        if is_due.is_ready() {
            self.due = None;
        }
        is_due
    }

    fn lost(&mut self, why: &dyn fmt::Display) -> ConnectionEnd {
        tracing::debug!(%why, "a live connection is lost");
        let mut state = self.link.lock();
        if state.epoch != self.epoch {
            return ConnectionEnd::TakenOver;
        }
        state.session.connection_lost(self.link.0.clock.now());
        state.hear_all(&self.link);
        match &state.ended {
            Some(violation) if state.session.is_closed() => ConnectionEnd::Over(violation.reason),
            _ => ConnectionEnd::Lost,
        }
    }
}

impl<T> Drop for Connection<T> {
    /// Whoever runs it gave up: for the session it is lost.
    fn drop(&mut self) {
        let mut state = self.link.lock();
        if state.epoch == self.epoch {
            state.beside.by = None;
        }
        if state.epoch == self.epoch && state.session.is_connected() {
            state.session.connection_lost(self.link.0.clock.now());
            state.hear_all(&self.link);
        }
    }
}

/// Writes the last bytes and ends the connection, after the peer has read them: closing with unread
/// data could discard them. Takes at most [`CLOSE_GRACE`].
pub(crate) async fn leave(transport: &mut impl Transport, out: &mut Vec<u8>, reason: Reason) {
    let close = async {
        poll_fn(|cx| transport.poll_send(cx, out)).await?;
        poll_fn(|cx| transport.poll_close(cx, Some(reason.number()))).await?;
        let mut rest = BytesMut::new();
        while let Ok(1..) = poll_fn(|cx| transport.poll_receive(cx, &mut rest)).await {
            rest.clear();
        }
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout_at(Instant::now() + CLOSE_GRACE, close).await;
}

impl<T> fmt::Debug for Connection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// How long a peer may take nothing of what is written to it.
const SILENCE: Duration = Duration::from_secs(25);
/// How long a peer may take to read the last bytes.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
