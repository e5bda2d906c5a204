//! A session and everybody who has a part in it: who runs its connection, who answers calls of the
//! peer, who calls.
//!
//! ```text
//!  connection (driver.rs) ─ bytes ─▶ session ─ events ─▶ exchanges ─▶ handlers (serve.rs), callers (call.rs)
//!             ◀──────────────── bytes ─────────── actions ◀──────────────┘
//! ```
//!
//! The session is behind a lock, which is held for as long as the session computes and never across
//! an `await`. A link outlives its connections: handlers run on while the session waits to be
//! resumed.
//!
//! What a link keeps is in the folder beside this: calls (`exchange.rs`), answers of the peer that
//! are held (`watcher.rs`), answers that the peer holds (`watch.rs`), credentials, items.

pub(crate) mod budget;
pub(crate) mod call_map;
pub(crate) mod credential;
pub(crate) mod exchange;
pub(crate) mod expiry;
pub(crate) mod partial_items;
pub(crate) mod request;
pub(crate) mod shared_writer;
pub(crate) mod watch;
pub(crate) mod watcher;

use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tidewire_live_proto::{CallId, Event, Metadata, Reason, Session, Usage, Violation};
use tidewire_service::{Error, Headers, Outcome, Peer, Wakers};
use tokio_util::task::TaskTracker;

use crate::host::{Host, ProcessMessage};
use crate::link::budget::Budget;
use crate::link::call_map::CallMap;
use crate::link::credential::NewCredential;
use crate::link::exchange::{CallEvent, Exchange};
use crate::link::expiry::CredentialLife;
use crate::link::partial_items::{Next, PartialItems};
use crate::link::request::RequestParts;
use crate::link::shared_writer::SharedWriter;
use crate::link::watch::Watches;
use crate::link::watcher::{AnswerState, DroppedGuards};
use crate::session_clock::SessionClock;

/// One end of a live session; clones share it.
#[derive(Clone)]
pub struct Link(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) clock: SessionClock,
    /// Who answers calls of the peer; nobody on a side that only calls.
    pub(crate) host: Option<Arc<dyn Host>>,
    /// Owns what does not end in place.
    pub(crate) tasks: TaskTracker,
    /// Holds that nobody keeps any more.
    pub(crate) dropped: DroppedGuards,
    /// This side is a hosted process.
    pub(crate) is_process: bool,
    /// What all sessions of its acceptor hold.
    budget: Option<Arc<Budget>>,
}

/// What the lock is around.
pub(crate) struct State {
    pub(crate) session: Session,
    pub(crate) exchanges: CallMap<Exchange>,
    /// Items of the peer that are being put together.
    pub(crate) unfinished: PartialItems,
    /// What is counted of this session in the budget of all.
    counted: usize,
    /// Answers of this side that the peer is told about.
    pub(crate) watches: Watches,
    /// Who wait for room for another call.
    pub(crate) waiting: Wakers,
    /// Who runs the connection.
    pub(crate) connection: Option<Waker>,
    /// Who else writes to it.
    pub(crate) beside: SharedWriter,
    /// Counts connections: who runs an earlier one lets go.
    pub(crate) epoch: u64,
    /// What the connection before has to write before it ends.
    pub(crate) farewell: Vec<u8>,
    /// The other side of the connection.
    pub(crate) peer: Option<Arc<Peer>>,
    /// Whose the session is.
    pub(crate) principal: Bytes,
    /// What of the peer's is looked at in place of its credential.
    pub(crate) credential: NewCredential,
    /// Until when the one in force is good.
    pub(crate) life: CredentialLife,
    /// Why the session, or the last attempt at a connection, ended.
    pub(crate) ended: Option<Violation>,
    /// A handshake was done on the connection that there is.
    pub(crate) is_greeted: bool,
    /// How often one was done.
    pub(crate) connections: u64,
    /// When the peer said that it goes away: how long after that it wants to be asked again.
    pub(crate) after_ms: u64,
}

impl Link {
    pub(crate) fn new(
        session: Session,
        clock: SessionClock,
        host: Option<Arc<dyn Host>>,
        tasks: TaskTracker,
    ) -> Self {
        Self::with_budget(session, clock, host, tasks, false, None)
    }

    /// A session of an acceptor, whose sessions share a budget.
    pub(crate) fn accepted(
        session: Session,
        clock: SessionClock,
        host: Arc<dyn Host>,
        tasks: TaskTracker,
        budget: &Arc<Budget>,
    ) -> Self {
        Self::with_budget(session, clock, Some(host), tasks, false, Some(Arc::clone(budget)))
    }

    /// The side of a hosted process.
    pub(crate) fn of_process(
        session: Session,
        clock: SessionClock,
        host: Arc<dyn Host>,
        tasks: TaskTracker,
    ) -> Self {
        Self::with_budget(session, clock, Some(host), tasks, true, None)
    }

    fn with_budget(
        session: Session,
        clock: SessionClock,
        host: Option<Arc<dyn Host>>,
        tasks: TaskTracker,
        is_process: bool,
        budget: Option<Arc<Budget>>,
    ) -> Self {
        let unfinished = PartialItems::new(session.items_put_together_max());
        let state = State {
            session,
            unfinished,
            counted: 0,
            exchanges: CallMap::default(),
            watches: Watches::default(),
            waiting: Wakers::default(),
            connection: None,
            beside: SharedWriter::default(),
            epoch: 0,
            farewell: Vec::new(),
            peer: None,
            principal: Bytes::new(),
            credential: NewCredential::default(),
            life: CredentialLife::default(),
            ended: None,
            connections: 0,
            is_greeted: false,
            after_ms: 0,
        };
        let dropped = DroppedGuards::default();
        let state = Mutex::new(state);
        Self(Arc::new(Shared { state, clock, host, tasks, dropped, is_process, budget }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// The session for the connection of this `epoch`; none when another has taken it over. Then
    /// nothing of it is for the old one, and nothing that still comes there is for the session.
    pub(crate) fn lock_for(&self, epoch: u64) -> Option<MutexGuard<'_, State>> {
        let state = self.lock();
        (state.epoch == epoch).then_some(state)
    }

    /// Whether the session is over.
    pub fn is_over(&self) -> bool {
        self.lock().session.is_closed()
    }

    /// Why it is over, or why the last attempt at a connection failed.
    pub fn why_over(&self) -> Option<Violation> {
        self.lock().ended.clone()
    }

    /// Whether the session has a connection.
    pub fn is_connected(&self) -> bool {
        self.lock().is_greeted
    }

    /// Calls, watches and bytes that the session holds.
    pub fn usage(&self) -> Usage {
        let mut state = self.lock();
        state.let_go(self, None);
        state.session.usage()
    }

    /// Takes no new calls; open ones may end within `grace_ms`, 0 for no limit. The peer may come
    /// back after `after_ms`.
    pub fn drain(&self, grace_ms: u32, after_ms: u64) {
        let mut state = self.lock();
        state.session.drain(grace_ms, after_ms);
        state.wake();
    }

    /// Ends the session, and tells the peer why where there is a connection.
    pub fn end(&self, reason: Reason, message: impl Into<Cow<'static, str>>) {
        let mut state = self.lock();
        state.session.end(reason, message);
        state.hear_all(self);
        state.wake();
    }

    /// The session is not resumed any more: its queries and streams stop, its commands run on.
    pub(crate) fn expire(&self) {
        let mut state = self.lock();
        state.session.expire();
        state.hear_all(self);
        state.wake();
    }

    /// Ends calls that were made without a connection and not sent, since there is none to be had.
    pub(crate) fn fail_unsent(&self, error: &Error) {
        let mut state = self.lock();
        let State { session, exchanges, .. } = &mut *state;
        for (call, exchange) in exchanges.iter_mut().filter(|(_, exchange)| exchange.is_unsent) {
            session.cancel(*call);
            let error = error.clone().with_outcome(Outcome::NotRun);
            exchange.hear(CallEvent::Failed(error, Vec::new()));
        }
    }

    /// What was heard next of a call; its end once nobody is told of it any more.
    pub(crate) fn poll_heard(&self, call: CallId, cx: &mut Context<'_>) -> Poll<CallEvent> {
        match self.lock().exchanges.get_mut(&call) {
            Some(exchange) => exchange.poll_heard(cx),
            None => Poll::Ready(CallEvent::given_up()),
        }
    }

    /// A piece of an item was taken, and others follow: the peer may send as much again, of this
    /// item if it is its turn (`link/partial_items.rs`).
    pub(crate) fn took_piece(&self, call: CallId, bytes: usize) {
        let mut state = self.lock();
        if state.unfinished.take(call, bytes) == Next::GoesOn {
            state.session.consumed(call, bytes as u64);
        } else {
            state.session.put_aside(call, bytes as u64);
        }
        if state.session.has_control() {
            state.wake();
        }
    }

    /// The last piece of an item was taken, of which so many bytes were put together before.
    pub(crate) fn took_last_piece(&self, call: CallId, bytes: usize, before: usize) {
        let mut state = self.lock();
        state.session.consumed(call, bytes as u64);
        state.end_item(call, before);
    }

    /// An item of which so many bytes were put together is not wanted any more.
    pub(crate) fn drop_item(&self, call: CallId, bytes: usize) {
        self.lock().end_item(call, bytes);
    }

    /// Bytes that the session holds for its peer.
    pub(crate) fn held_bytes(&self) -> usize {
        let state = self.lock();
        let received = state.session.usage().received_bytes as usize;
        state.session.held_bytes() + state.unfinished.bytes() + received
    }

    /// Items were taken: the peer may send as many again.
    pub(crate) fn consumed(&self, call: CallId, bytes: u64) {
        let mut state = self.lock();
        state.session.consumed(call, bytes);
        if state.session.has_control() {
            state.wake();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let counted = self.state.get_mut().counted;
        if let Some(budget) = &self.budget {
            budget.settle(counted, 0);
        }
    }
}

impl State {
    /// Counts what the session holds among what all of its acceptor do, and lets it know whether
    /// that is too much.
    pub(crate) fn settle(&mut self, link: &Link) {
        let Some(budget) = &link.0.budget else { return };
        let held = self.session.held_bytes() + self.unfinished.bytes();
        if held != self.counted {
            budget.settle(self.counted, held);
            self.counted = held;
        }
        // Others may have let go, or taken more.
        self.session.set_over_budget(budget.is_over_budget());
    }

    /// An item of which so many bytes were put together is complete, or not wanted any more.
    fn end_item(&mut self, call: CallId, bytes: usize) {
        self.unfinished.let_go(call, bytes);
        self.session.take_more(call);
        while let Some(next) = self.unfinished.next() {
            self.session.take_more(next);
        }
        if self.session.has_control() {
            self.wake();
        }
    }

    /// Lets the connection look at the session again.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &self.connection {
            waker.wake_by_ref();
        }
    }

    /// Lets a caller know when there may be room for its call.
    pub(crate) fn wait(&mut self, cx: &Context<'_>) {
        self.waiting.add(cx.waker());
    }

    /// Lets those try again who wait for room.
    pub(crate) fn wake_waiting(&mut self) {
        std::mem::take(&mut self.waiting).wake();
    }

    /// A handshake is done.
    fn connected(&mut self, link: &Link, resumed: bool) {
        self.exchanges.values_mut().for_each(|exchange| exchange.connected(resumed));
        self.ended = None;
        self.connections += 1;
        self.is_greeted = true;
        self.after_ms = 0;
        if link.0.is_process {
            self.session.ready();
        }
        self.wake_waiting();
    }

    /// The connection is lost, and with it word of what becomes stale.
    fn lost(&mut self, word: AnswerState) {
        self.is_greeted = false;
        self.exchanges.values_mut().for_each(|exchange| exchange.tell(word));
        self.wake_waiting();
    }

    /// Ends what is held by nobody any more; the next hold that is dropped wakes `waker`.
    pub(crate) fn let_go(&mut self, link: &Link, waker: Option<&Waker>) {
        for call in link.0.dropped.take(waker) {
            self.session.cancel(call);
            self.exchanges.remove(&call);
        }
    }

    fn tell(&mut self, call: CallId, word: AnswerState) {
        self.exchanges.get_mut(&call).into_iter().for_each(|exchange| exchange.tell(word));
    }

    /// Makes room for the items of a request, and forgets the name that it gives to a method which
    /// nobody has.
    fn note_request(&mut self, link: &Link, request: &RequestParts) {
        if request.is_streaming() {
            self.exchanges.insert(request.call, Exchange::default());
        }
        if let (Some(number), Some(host)) = (request.named, &link.0.host)
            && !request.is_known_to(&**host)
        {
            self.session.forget_method(number);
        }
    }

    /// Hears everything that the session has to tell without a connection.
    pub(crate) fn hear_all(&mut self, link: &Link) {
        let now = link.0.clock.now();
        while self.hear(link, now).is_some() {}
    }

    /// Hears the session's next event: `None` when there is none, a call of the peer if that is
    /// what it is.
    pub(crate) fn hear(&mut self, link: &Link, now: u64) -> Option<Option<RequestParts>> {
        let Self { session, exchanges, .. } = self;
        let event = session.poll_event(now)?;
        match event {
            Event::Request(request) => {
                let taken = RequestParts::of(&request).with_headers(&self.session);
                self.note_request(link, &taken);
                return Some(link.0.host.is_some().then_some(taken));
            }
            Event::Reply(reply) => {
                if let Some(exchange) = exchanges.get_mut(&reply.call) {
                    exchange.hear_reply(&reply);
                }
            }
            Event::Items { call, items } => match exchanges.get_mut(&call) {
                Some(exchange) => exchange.hear(CallEvent::Items(items.keep())),
                None => {
                    let bytes = items.bytes();
                    self.session.consumed(call, bytes);
                }
            },
            Event::Piece { call, piece } => match exchanges.get_mut(&call) {
                Some(exchange) => exchange.hear(CallEvent::Piece(piece)),
                None => self.session.consumed(call, piece.bytes.len() as u64),
            },
            Event::End { call, metadata } => {
                if let Some(exchange) = exchanges.get_mut(&call) {
                    exchange.hear(CallEvent::End(Box::new(trailers(&metadata))));
                }
            }
            Event::Failed { call, error, metadata, .. } => {
                if let Some(exchange) = exchanges.get_mut(&call) {
                    exchange.fail(error, &metadata);
                }
            }
            Event::Recompute { call, change } => self.make_again(link, call, change),
            Event::Stale { call } => self.tell(call, AnswerState::Stale),
            Event::Suspect { call } => self.tell(call, AnswerState::Suspect),
            Event::Confirmed { call } => self.tell(call, AnswerState::Confirmed),
            Event::Cancelled { call } => {
                self.watches.remove(call);
                if let Some(mut exchange) = exchanges.remove(&call) {
                    exchange.stop();
                }
            }
            Event::Writable { call } | Event::StopSending { call } => {
                exchanges.get_mut(&call).into_iter().for_each(Exchange::room);
            }
            Event::Connected { resumed } => self.connected(link, resumed),
            Event::Draining { after_ms, .. } => {
                self.after_ms = after_ms;
                link.0.host.iter().for_each(|host| host.hear(ProcessMessage::Leaves));
            }
            Event::Auth => self.look_at_credential(link),
            Event::Refused(violation) => self.ended = Some(violation),
            Event::Closed(violation) => {
                self.ended = Some(violation);
                self.watches.clear();
                self.lost(AnswerState::Suspect);
            }
            Event::Lost => self.lost(AnswerState::Unconfirmed),
            Event::Room => self.wake_waiting(),
            event => link
                .0
                .host
                .iter()
                .zip(process_message(event))
                .for_each(|(host, said)| host.hear(said)),
        }
        Some(None)
    }
}

/// What a hosted process says of itself.
fn process_message(event: Event<'_>) -> Option<ProcessMessage> {
    Some(match event {
        Event::Ready => ProcessMessage::Ready,
        Event::Busy(jobs) => ProcessMessage::Busy(jobs),
        Event::Log { level, text, metadata } => {
            ProcessMessage::Log { level, text, fields: metadata.to_maps().headers }
        }
        Event::Changed(changed) => ProcessMessage::Changed(changed),
        Event::Descriptors(descriptors) => ProcessMessage::Descriptors(descriptors),
        _ => return None,
    })
}

/// What an `end` says beside that it is one: the session hands trailers out as headers.
fn trailers(metadata: &Metadata) -> Headers {
    if metadata.is_empty() { Headers::new() } else { metadata.to_maps().headers }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("session", &self.lock().session).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tidewire_live_proto::Config;

    use super::*;

    #[test]
    fn a_session_that_holds_nothing_hears_what_others_hold_and_that_they_let_go() {
        let budget = Arc::new(Budget::new(100));
        let session = Session::dialer(Config::default());
        let (clock, tasks) = (SessionClock::start(), TaskTracker::new());
        let link = Link::with_budget(session, clock, None, tasks, false, Some(Arc::clone(&budget)));
        let is_over_budget = || {
            let mut state = link.lock();
            state.settle(&link);
            state.session.is_over_budget()
        };
        budget.settle(0, 200);
        assert!(is_over_budget());
        budget.settle(200, 0);
        assert!(!is_over_budget());
    }
}
