//! One end of a session: the state machine and its contract with whoever owns the socket.
//!
//! Sans-IO, after the contract of quinn-proto:
//!
//! | the owner | calls |
//! |---|---|
//! | read bytes | puts them into [`Session::input`], then [`Session::poll_event`] until `None` |
//! | may write | [`Session::poll_output`]: takes what is queued, and writes all of it before asking again |
//! | waits | until [`Session::poll_timeout`], then [`Session::handle_timeout`] |
//! | lost the connection | [`Session::connection_lost`]; later [`Session::connect`] or a resuming acceptor |
//! | acts | [`call`](Session::call), [`reply`](Session::reply), [`push`](Session::push), ...; then `poll_output` |
//!
//! Nothing here blocks, allocates per small call, reads a clock or spawns. State is bounded by
//! [`Limits`](crate::hello::Limits) and the byte limits of [`Config`].
//!
//! ```text
//!  Idle --connect/accept--> Greeting --hello--> Open --goaway/violation--> Closed
//!    ^                                           |
//!    `------------------ connection_lost --------'   (only when the session can be resumed)
//! ```

use std::collections::VecDeque;
use std::fmt;

use bytes::{Bytes, BytesMut};
use tidewire_service::Codec;

use crate::callee::PeerCall;
use crate::caller::OwnCall;
use crate::command_ids::CommandIds;
use crate::command_window::CommandWindow;
use crate::compress::Compression;
use crate::config::{Config, Micros, SessionId, micros};
use crate::credit::{ReceiveWindow, SendWindow};
use crate::event::{Event, IncomingReply, IncomingRequest, Items};
use crate::fields::Fields;
use crate::frame::{self, Kind};
use crate::hello::{Hello, Limits, feature};
use crate::message::MethodId;
use crate::metadata::Metadata;
use crate::methods::{OwnMethods, PeerMethod, PeerMethods};
use crate::output::{OUTPUT_BYTES, Output};
use crate::pending_calls::PendingCalls;
use crate::reader::Reader;
use crate::slots::{CallId, FreeSlots, Slots};
use crate::stream::Pool;

/// One end of a session.
pub struct Session {
    pub(crate) config: Config,
    pub(crate) dialer: bool,
    pub(crate) phase: Phase,
    pub(crate) now: Micros,
    pub(crate) id: Option<SessionId>,
    pub(crate) peer: Hello,
    /// How many calls and watches each side may have at a time.
    pub(crate) slots_out: u32,
    pub(crate) slots_in: u32,
    pub(crate) peer_headers: Metadata,
    /// Those before an `auth` that is not answered yet.
    pub(crate) headers_before: Option<Metadata>,
    /// Those of this side before each `auth` that the peer has not answered yet.
    pub(crate) own_headers_before: VecDeque<Metadata>,
    /// What the connection itself says of the peer, such as the headers of a WebSocket's upgrade.
    pub(crate) upgrade: Metadata,
    /// The consistency token that the peer gave last.
    pub(crate) token: Bytes,
    pub(crate) features: u64,
    /// Calls of the peer may be answered; false while resuming.
    pub(crate) incoming_live: bool,
    /// Calls of this side may be sent; false while resuming.
    pub(crate) outgoing_live: bool,
    pub(crate) drain_sent: bool,
    pub(crate) drain_received: bool,
    pub(crate) reader: Reader,
    pub(crate) output: Output,
    pub(crate) events: VecDeque<Event<'static>>,
    /// The call of the reader's frame, if that is handed out.
    pub(crate) received: CallId,
    /// What the metadata of the frame says that is handled, or was last.
    pub(crate) fields: Fields,
    /// Its payload, if that came compressed.
    pub(crate) unpacked: Bytes,
    pub(crate) called: OwnMethods,
    pub(crate) named: PeerMethods,
    pub(crate) outgoing: Slots<OwnCall>,
    pub(crate) free: FreeSlots,
    /// Calls of this side that count against the peer's `calls_max`.
    pub(crate) calls_out: u32,
    pub(crate) commands: CommandIds,
    /// How often a command of this side was sent or ended.
    pub(crate) writes: u64,
    /// Requests sent and received in this session: they tell a call from an earlier one that was in
    /// its slot. Agreed on again by every `resume`.
    pub(crate) requests_out: u32,
    pub(crate) requests_in: u32,
    /// Calls that wait to be sent.
    pub(crate) again: PendingCalls,
    /// What the `resume` on its way lists: slot and entry type.
    pub(crate) listed: Vec<(u32, u8)>,
    /// What came of a frame that goes on in the next one of its kind.
    pub(crate) part: Vec<u8>,
    pub(crate) part_kind: Option<Kind>,
    pub(crate) wants_room: bool,
    pub(crate) incoming: Slots<PeerCall>,
    pub(crate) calls_in: u32,
    pub(crate) watches_in: u32,
    pub(crate) window: CommandWindow,
    /// Commands that run though their call is over, by the handle that the application has.
    pub(crate) orphans: Vec<(CallId, u64)>,
    pub(crate) send_window: SendWindow,
    pub(crate) receive_window: ReceiveWindow,
    pub(crate) pool: Pool,
    /// What all sessions hold together is too much: streams queue a frame at a time.
    pub(crate) is_over_budget: bool,
    pub(crate) compression: Compression,
    /// The smallest payload worth compressing; the largest number when that is not in force.
    pub(crate) compress_min: usize,
    /// No call of this side has a deadline before this.
    pub(crate) earliest_deadline: Micros,
    pub(crate) last_received: Micros,
    pub(crate) greeting_due: Micros,
    pub(crate) pinged: bool,
    /// Bytes of a frame that is not complete: they are heard, too.
    pub(crate) heard: usize,
    /// How often this side woke, and until when the peer must answer to that.
    pub(crate) wakes: u64,
    pub(crate) wake_due: Micros,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No connection.
    Idle,
    /// Hello sent, the peer's not received.
    Greeting,
    Open,
    Closed,
}

/// What [`Session::poll_event`] is to hand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextEvent {
    Nothing,
    /// The first of the queued events.
    Queued,
    /// The reader's frame, which is of the call `received`.
    Request,
    Reply,
    Items,
}

impl Session {
    /// The side that dials. Nothing happens before [`connect`](Self::connect); calls made before
    /// wait.
    pub fn dialer(config: Config) -> Self {
        Self::new(config, true)
    }

    pub(crate) fn new(config: Config, dialer: bool) -> Self {
        let limits = &config.limits;
        Self {
            dialer,
            phase: Phase::Idle,
            now: 0,
            id: None,
            peer: Hello { keys_ms: u64::MAX, ..Hello::default() },
            slots_out: Limits::default().slots(),
            slots_in: limits.slots(),
            peer_headers: Metadata::default(),
            headers_before: None,
            own_headers_before: VecDeque::new(),
            upgrade: Metadata::default(),
            token: Bytes::new(),
            features: 0,
            incoming_live: false,
            outgoing_live: false,
            drain_sent: false,
            drain_received: false,
            reader: Reader::new(limits.metadata_max),
            output: Output::default(),
            events: VecDeque::new(),
            received: CallId::NONE,
            fields: Fields::default(),
            unpacked: Bytes::new(),
            called: OwnMethods::default(),
            named: PeerMethods::default(),
            outgoing: Slots::default(),
            free: FreeSlots::default(),
            calls_out: 0,
            commands: CommandIds::default(),
            writes: 0,
            requests_out: 0,
            requests_in: 0,
            again: PendingCalls::new(config.seed, config.again_per_second),
            listed: Vec::new(),
            part: Vec::new(),
            part_kind: None,
            wants_room: false,
            incoming: Slots::default(),
            calls_in: 0,
            watches_in: 0,
            window: Self::new_window(&config),
            orphans: Vec::new(),
            send_window: SendWindow::new(0, 0),
            receive_window: ReceiveWindow::new(limits.connection_credit),
            pool: Pool::default(),
            is_over_budget: false,
            compression: Compression::new(),
            compress_min: usize::MAX,
            earliest_deadline: Micros::MAX,
            last_received: 0,
            greeting_due: Micros::MAX,
            pinged: false,
            heard: 0,
            wakes: 0,
            wake_due: Micros::MAX,
            config,
        }
    }

    pub(crate) fn new_window(config: &Config) -> CommandWindow {
        let limits = &config.limits;
        CommandWindow::new(limits.replies_kept_max, limits.calls_max, config.command_bytes_max)
    }

    /// Where the owner puts the bytes that it read.
    pub fn input(&mut self) -> &mut BytesMut {
        self.reader.input()
    }

    /// Whether the owner should read. False while the peer does not take its answers, so that it
    /// cannot make this side grow; a side that waits for answers itself always reads, since two
    /// sides that both stopped would wait for each other.
    pub fn wants_read(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Greeting) && !self.is_congested()
    }

    fn is_congested(&self) -> bool {
        self.output.main.len() > self.config.output_soft_max && self.outgoing.open() == 0
    }

    /// The next event, if any. Handles received frames one by one.
    #[inline]
    pub fn poll_event(&mut self, now: Micros) -> Option<Event<'_>> {
        let next = self.next_event(now);
        let call = self.received;
        match next {
            NextEvent::Nothing => None,
            NextEvent::Queued => self.events.pop_front(),
            NextEvent::Request => Some(Event::Request(IncomingRequest { call, session: self })),
            NextEvent::Reply => Some(Event::Reply(IncomingReply { call, session: self })),
            NextEvent::Items => Some(Event::Items { call, items: Items(self.received_payload()) }),
        }
    }

    /// Whether there is an event that no frame has to be handled for.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    fn next_event(&mut self, now: Micros) -> NextEvent {
        self.now = self.now.max(now);
        if !self.unpacked.is_empty() {
            self.unpacked = Bytes::new();
        }
        loop {
            if !self.events.is_empty() {
                return NextEvent::Queued;
            }
            if !self.wants_read() {
                return NextEvent::Nothing;
            }
            if !self.reader.has_next() && !self.fill() {
                // What is wrong with the next frame is an event.
                return if self.events.is_empty() { NextEvent::Nothing } else { NextEvent::Queued };
            }
            self.last_received = self.now;
            self.pinged = false;
            self.reader.next();
            let next = self.receive();
            if next != NextEvent::Nothing {
                return next;
            }
        }
    }

    /// Looks for whole frames in the input.
    #[inline(never)]
    fn fill(&mut self) -> bool {
        self.reader.fill().unwrap_or_else(|violation| {
            self.close(violation);
            false
        })
    }

    /// Moves what is queued to `out`, which should be empty; false when there is nothing.
    ///
    /// The owner writes all of it before it asks again: what is not taken counts as untaken output.
    pub fn poll_output(&mut self, now: Micros, out: &mut Vec<u8>) -> bool {
        self.now = self.now.max(now);
        let before = out.len();
        if self.phase == Phase::Idle {
            return false;
        }
        out.append(&mut self.output.control);
        self.tell_writer();
        let Output { main, unwatch, seen, pong, .. } = &mut self.output;
        Output::put_list(main, Kind::Cancel, 0, unwatch);
        Output::put_list(main, Kind::Seen, 0, seen);
        if let Some(payload) = pong.take() {
            // After all that is known to be stale: who slept relies on it.
            frame::put(main, Kind::Pong, 0, 0, &payload);
        }
        if out.is_empty() {
            std::mem::swap(out, &mut self.output.main);
        } else {
            out.append(&mut self.output.main);
        }
        // A turn of one stream at least, however much went before it.
        let enough = before.max(out.len().saturating_sub(OUTPUT_BYTES - 1)) + OUTPUT_BYTES;
        while out.len() < enough
            && let Some(stream) = self.output.line.pop_front()
        {
            if !self.write_stream(stream, out) {
                break;
            }
        }
        out.len() > before
    }

    /// When [`handle_timeout`](Self::handle_timeout) should be called next.
    pub fn poll_timeout(&self) -> Option<Micros> {
        let mut due = self.earliest_deadline;
        match self.phase {
            Phase::Closed => return None,
            Phase::Idle => {}
            Phase::Greeting => due = due.min(self.greeting_due),
            Phase::Open => {
                let silence =
                    if self.pinged { self.config.silence_max } else { self.config.ping_after };
                due = due.min(self.last_received.saturating_add(micros(silence)));
                due = due.min(self.wake_due);
                if self.outgoing_live {
                    due = due.min(self.again.next_due().unwrap_or(Micros::MAX));
                }
            }
        }
        (due != Micros::MAX).then_some(due)
    }

    /// Does what is due: deadlines, keep-alive, asking again.
    pub fn handle_timeout(&mut self, now: Micros) {
        self.now = self.now.max(now);
        if self.now >= self.earliest_deadline {
            self.end_late_calls();
        }
        match self.phase {
            Phase::Greeting if self.now >= self.greeting_due => self.connection_lost(now),
            Phase::Open => {
                self.keep_alive();
                self.send_waiting();
            }
            _ => {}
        }
    }

    fn keep_alive(&mut self) {
        let heard = self.reader.buffered();
        if heard != std::mem::replace(&mut self.heard, heard) {
            self.last_received = self.now;
        }
        let silent = self.now.saturating_sub(self.last_received);
        if silent >= micros(self.config.silence_max) || self.now >= self.wake_due {
            self.connection_lost(self.now);
        } else if silent >= micros(self.config.ping_after) && !self.pinged {
            self.pinged = true;
            frame::put(&mut self.output.control, Kind::Ping, 0, 0, &[]);
        }
    }

    /// This side may have slept (a laptop was closed, a page frozen): what it reads now may be old.
    /// Until the peer is heard to answer, every watched answer is unconfirmed ([`Event::Unsure`],
    /// [`Event::Sure`]); if it does not answer in time, the connection is lost.
    pub fn wake(&mut self, now: Micros) {
        self.now = self.now.max(now);
        if self.phase == Phase::Open {
            self.wakes += 1;
            self.wake_due = self.now.saturating_add(micros(self.config.wake_patience));
            // No other beside it, for a peer may answer the last of several only.
            self.pinged = true;
            frame::put(&mut self.output.control, Kind::Ping, 0, 0, &self.wakes.to_le_bytes());
            self.events.push_back(Event::Unsure);
        }
    }

    pub(crate) fn receive_pong(&mut self) -> Option<Event<'static>> {
        let answers = self.reader.payload() == self.wakes.to_le_bytes();
        let due = answers && std::mem::replace(&mut self.wake_due, Micros::MAX) != Micros::MAX;
        due.then_some(Event::Sure)
    }

    /// How often a command of this side was sent or ended. An answer that the callee lets this side
    /// keep (`max_age`) may be used while this is what it was when the answer was asked for: so a
    /// writer never reads what it had before it wrote.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// The consistency token that the peer gave last: it covers all that it gave before. It goes
    /// with the next hello; to requests on other connections it is to be added.
    pub fn token(&self) -> &Bytes {
        &self.token
    }

    /// Whether there is a connection that the owner should keep open. When false, it writes what
    /// [`poll_output`](Self::poll_output) still gives and closes the socket.
    pub fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Greeting | Phase::Open)
    }

    /// Whether the session is over.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether the session would survive the loss of its connection.
    pub fn is_resumable(&self) -> bool {
        self.features & feature::RESUME != 0 && self.id.is_some() && self.phase != Phase::Closed
    }

    /// Whether, during a drain, no call is left; watches do not count.
    pub fn is_drained(&self) -> bool {
        self.calls_in == 0
            && self.calls_out == 0
            && self.again.is_empty()
            && self.orphans.is_empty()
    }

    /// The peer's last hello.
    pub fn peer(&self) -> &Hello {
        &self.peer
    }

    /// The id and secret of the session, once the acceptor has named them.
    pub fn session_id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    /// The features in force.
    pub fn features(&self) -> u64 {
        self.features
    }

    /// The peer's default headers: those of its hello, replaced by later `auth` frames.
    pub fn peer_headers(&self) -> &Metadata {
        &self.peer_headers
    }

    /// The same before an [`Event::Auth`] that is not answered yet.
    pub fn accepted_headers(&self) -> &Metadata {
        self.headers_before.as_ref().unwrap_or(&self.peer_headers)
    }

    /// Registers a method that this side calls. The same path and codec give the same id.
    pub fn method(&mut self, path: &str, codec: Codec) -> MethodId {
        self.called.id(path, codec)
    }

    /// A method that the peer named on this connection; numbers count from 0 in order of naming.
    pub fn peer_method(&self, number: u32) -> Option<&PeerMethod> {
        self.named.get(number)
    }

    /// How many bytes of items that are not complete its owner puts together at once (specification
    /// 4.2): above them, those of one item at a time.
    pub fn items_put_together_max(&self) -> usize {
        usize::try_from(self.config.limits.connection_credit).unwrap_or(usize::MAX)
    }

    /// Bytes of answers that this session holds for its peer, near enough: what is looked at after
    /// each turn, so it is not counted anew.
    pub fn held_bytes(&self) -> usize {
        self.pool.held + self.output.main.len() + self.window.bytes()
    }

    /// What its owner holds for all peers together is too much, or not any more: while it is,
    /// streams queue one frame at a time, and a large reply is refused on top of others.
    pub fn set_over_budget(&mut self, is_over_budget: bool) {
        self.is_over_budget = is_over_budget;
    }

    /// What it was last told by [`set_over_budget`](Self::set_over_budget).
    pub fn is_over_budget(&self) -> bool {
        self.is_over_budget
    }

    /// There is no method of the name that the peer gave this number: the name need not be kept.
    pub fn forget_method(&mut self, number: u32) {
        self.named.forget(number);
    }

    /// Calls, watches and bytes that this session holds.
    pub fn usage(&self) -> Usage {
        let streams = self.outgoing.iter().filter_map(|(_, call)| call.stream.as_deref());
        let streams = streams.chain(self.incoming.iter().filter_map(|(_, c)| c.stream.as_deref()));
        Usage {
            calls_out: self.outgoing.open(),
            calls_in: self.calls_in,
            watches_in: self.watches_in,
            orphans: self.orphans.len(),
            output_bytes: self.output.bytes(),
            input_bytes: self.reader.buffered() + self.unpacked.len(),
            stream_bytes: streams.map(|stream| stream.send.bytes()).sum(),
            command_bytes: self.window.bytes(),
            received_bytes: self.receive_window.unconsumed_bytes(),
            outstanding_bytes: self.send_window.outstanding(),
            uncredited_bytes: self.receive_window.uncredited(),
        }
    }
}

/// What a session holds, for metrics and tests of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Calls and watches of this side.
    pub calls_out: u32,
    /// Unanswered calls of the peer.
    pub calls_in: u32,
    /// Watches of the peer.
    pub watches_in: u32,
    /// Commands that run though nobody waits.
    pub orphans: usize,
    /// Output that was not taken.
    pub output_bytes: usize,
    /// Input that was not looked at, and the decompressed payload of the last event.
    pub input_bytes: usize,
    /// Stream items queued or kept.
    pub stream_bytes: usize,
    /// Stored answers of commands.
    pub command_bytes: usize,
    /// Stream items received and not consumed.
    pub received_bytes: u64,
    /// Stream items sent and not credited, on the connection level.
    pub outstanding_bytes: u64,
    /// Stream items received and not credited, on the connection level.
    pub uncredited_bytes: u64,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("dialer", &self.dialer)
            .field("phase", &self.phase)
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}
