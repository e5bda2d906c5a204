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
use tidewire_service::{Code, Codec, Error};

use crate::again::Again;
use crate::callee::Served;
use crate::caller::Outgoing;
use crate::command_window::{CommandIds, CommandWindow};
use crate::compress::Compression;
use crate::config::{Config, Micros, SessionId, micros};
use crate::credit::{ReceiveWindow, SendWindow};
use crate::event::{Answer, Event, Incoming, Items};
use crate::fields::Fields;
use crate::frame::{self, Kind};
use crate::hello::{Hello, Limits, feature};
use crate::message::MethodId;
use crate::metadata::Metadata;
use crate::methods::{Called, Named, PeerMethod};
use crate::output::{OUTPUT_BYTES, Output, put_goaway};
use crate::reader::Reader;
use crate::reason::{Reason, Violation};
use crate::slots::{CallId, FreeSlots, Slots};
use crate::varint;

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
    pub(crate) called: Called,
    pub(crate) named: Named,
    pub(crate) outgoing: Slots<Outgoing>,
    pub(crate) free: FreeSlots,
    /// Calls of this side that count against the peer's `calls_max`.
    pub(crate) calls_out: u32,
    pub(crate) commands: CommandIds,
    /// Requests sent and received in this session: they tell a call from an earlier one that was in
    /// its slot. Agreed on again by every `resume`.
    pub(crate) requests_out: u32,
    pub(crate) requests_in: u32,
    /// Calls that wait to be sent.
    pub(crate) again: Again,
    /// What the `resume` on its way lists: slot and entry type.
    pub(crate) listed: Vec<(u32, u8)>,
    pub(crate) wants_room: bool,
    pub(crate) incoming: Slots<Served>,
    pub(crate) calls_in: u32,
    pub(crate) watches_in: u32,
    pub(crate) window: CommandWindow,
    /// Commands that run though their call is over, by the handle that the application has.
    pub(crate) orphans: Vec<(CallId, u64)>,
    pub(crate) send_window: SendWindow,
    pub(crate) receive_window: ReceiveWindow,
    pub(crate) pool: Vec<Vec<u8>>,
    pub(crate) compression: Compression,
    /// The smallest payload worth compressing; the largest number when that is not in force.
    pub(crate) compress_min: usize,
    /// No call of this side has a deadline before this.
    pub(crate) earliest_deadline: Micros,
    pub(crate) last_received: Micros,
    pub(crate) greeting_due: Micros,
    pub(crate) pinged: bool,
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
pub(crate) enum Next {
    Nothing,
    /// The first of the queued events.
    Queued,
    /// The reader's frame, which is of the call `received`.
    Request,
    Reply,
    Items,
}

impl Session {
    /// The side that dials. Nothing happens before [`connect`](Self::connect); calls made before wait.
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
            peer: Hello::default(),
            slots_out: Limits::default().slots(),
            slots_in: limits.slots(),
            peer_headers: Metadata::default(),
            features: 0,
            incoming_live: false,
            outgoing_live: false,
            drain_sent: false,
            drain_received: false,
            reader: Reader::new(limits.frame_max, limits.metadata_max),
            output: Output::default(),
            events: VecDeque::new(),
            received: CallId::NONE,
            fields: Fields::default(),
            unpacked: Bytes::new(),
            called: Called::default(),
            named: Named::default(),
            outgoing: Slots::default(),
            free: FreeSlots::default(),
            calls_out: 0,
            commands: CommandIds::default(),
            requests_out: 0,
            requests_in: 0,
            again: Again::new(config.seed, config.again_per_second),
            listed: Vec::new(),
            wants_room: false,
            incoming: Slots::default(),
            calls_in: 0,
            watches_in: 0,
            window: Self::new_window(&config),
            orphans: Vec::new(),
            send_window: SendWindow::new(0, 0),
            receive_window: ReceiveWindow::new(limits.connection_credit),
            pool: Vec::new(),
            compression: Compression::new(),
            compress_min: usize::MAX,
            earliest_deadline: Micros::MAX,
            last_received: 0,
            greeting_due: Micros::MAX,
            pinged: false,
            config,
        }
    }

    pub(crate) fn new_window(config: &Config) -> CommandWindow {
        let limits = &config.limits;
        CommandWindow::new(limits.commands_max, limits.calls_max, config.command_bytes_max)
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
            Next::Nothing => None,
            Next::Queued => self.events.pop_front(),
            Next::Request => Some(Event::Request(Incoming { call, session: self })),
            Next::Reply => Some(Event::Reply(Answer { call, session: self })),
            Next::Items => Some(Event::Items { call, items: Items(self.received_payload()) }),
        }
    }

    fn next_event(&mut self, now: Micros) -> Next {
        self.now = self.now.max(now);
        if !self.unpacked.is_empty() {
            self.unpacked = Bytes::new();
        }
        loop {
            if !self.events.is_empty() {
                return Next::Queued;
            }
            if !self.wants_read() {
                return Next::Nothing;
            }
            if !self.reader.has_next() && !self.fill() {
                // What is wrong with the next frame is an event.
                return if self.events.is_empty() { Next::Nothing } else { Next::Queued };
            }
            self.last_received = self.now;
            self.pinged = false;
            self.reader.next();
            let next = self.receive();
            if next != Next::Nothing {
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
        self.output.has_pong = false;
        self.flush_stale();
        Output::put_list(&mut self.output.main, Kind::Cancel, 0, &mut self.output.unwatch);
        if out.is_empty() {
            std::mem::swap(out, &mut self.output.main);
        } else {
            out.append(&mut self.output.main);
        }
        while out.len() - before < OUTPUT_BYTES
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
        let silent = self.now.saturating_sub(self.last_received);
        if silent >= micros(self.config.silence_max) {
            self.connection_lost(self.now);
        } else if silent >= micros(self.config.ping_after) && !self.pinged {
            self.pinged = true;
            frame::put(&mut self.output.control, Kind::Ping, 0, 0, &[]);
        }
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

    /// Registers a method that this side calls. The same path and codec give the same id.
    pub fn method(&mut self, path: &str, codec: Codec) -> MethodId {
        self.called.id(path, codec)
    }

    /// A method that the peer named on this connection; numbers count from 0 in order of naming.
    pub fn peer_method(&self, number: u32) -> Option<&PeerMethod> {
        self.named.get(number)
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
            output_bytes: self.output.main.len() + self.output.control.len(),
            input_bytes: self.reader.buffered() + self.unpacked.len(),
            stream_bytes: streams.map(|stream| stream.send.bytes()).sum(),
            command_bytes: self.window.bytes(),
            received_bytes: self.receive_window.held(),
            outstanding_bytes: self.send_window.outstanding(),
            uncredited_bytes: self.receive_window.uncredited(),
        }
    }

    /// Says that this side takes no new calls; open ones have this long, 0 for no limit.
    pub fn drain(&mut self, grace_ms: u32) {
        if self.phase == Phase::Open && !self.drain_sent {
            self.drain_sent = true;
            put_goaway(&mut self.output.control, Reason::Drain.number(), "", grace_ms);
        }
    }

    /// Ends the session and tells the peer why.
    pub fn end(&mut self, reason: Reason, message: &'static str) {
        self.close(Violation::new(reason, message));
    }

    /// Replaces default headers of this side, such as a renewed credential.
    pub fn auth(&mut self, headers: &Metadata) {
        let merged = merge_headers(&self.config.metadata, headers);
        self.config.metadata = merged;
        if self.phase == Phase::Open {
            let out = &mut self.output.control;
            let frame = frame::open(out, Kind::Auth, 0, 0);
            out.extend_from_slice(headers.raw());
            let frame = frame.metadata_ends(out);
            frame.finish(out);
        }
    }

    /// Says that this hosted process takes calls.
    pub fn ready(&mut self) {
        if self.phase == Phase::Open {
            frame::put(&mut self.output.control, Kind::Ready, 0, 0, &[]);
        }
    }

    /// Says how many background jobs run.
    pub fn busy(&mut self, jobs: u64) {
        if self.phase == Phase::Open {
            self.output.put_number(Kind::Busy, 0, 0, jobs);
        }
    }

    /// Logs at the peer: level 1 trace to 5 error, and fields as headers.
    pub fn log(&mut self, level: u8, text: &str, fields: &Metadata) {
        if self.phase == Phase::Open && self.output.control.len() < self.config.output_soft_max {
            let out = &mut self.output.control;
            let frame = frame::open(out, Kind::Log, 0, 0);
            crate::metadata::put_number(out, crate::metadata::tag::LEVEL, level.into());
            out.extend_from_slice(fields.raw());
            let frame = frame.metadata_ends(out);
            out.extend_from_slice(text.as_bytes());
            frame.finish(out);
        }
    }

    /// Says that sources changed at this side; the peer hears it before any later reply.
    pub fn changed<'a>(&mut self, sources: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) {
        if self.phase == Phase::Open {
            let out = &mut self.output.main;
            let frame = frame::open(out, Kind::Changed, 0, 0);
            for (source, key) in sources {
                varint::put_string(out, source);
                varint::put_string(out, key);
            }
            frame.finish(out);
        }
    }

    /// The connection is gone: both sides keep what can be resumed.
    pub fn connection_lost(&mut self, now: Micros) {
        self.now = self.now.max(now);
        if matches!(self.phase, Phase::Closed | Phase::Idle) {
            return;
        }
        let greeting = self.phase == Phase::Greeting && self.dialer;
        let may_resume = self.is_resumable() || greeting;
        self.phase = Phase::Idle;
        self.incoming_live = false;
        self.outgoing_live = false;
        self.drain_sent = false;
        self.drain_received = false;
        self.reader.reset();
        self.output.clear();
        self.called.restart();
        self.named.restart();
        self.receive_window.restart();
        if may_resume {
            self.forget_lost_frames();
            self.events.push_back(Event::Lost);
        } else {
            self.close(Violation::new(Reason::Drain, "the connection was lost"));
        }
    }

    /// A parked session is not resumed any more: every call ends.
    pub fn expire(&mut self) {
        self.close(Violation::new(Reason::Drain, "the session was not resumed in time"));
    }

    /// Ends everything; the peer hears why, unless it is gone or ended the session itself.
    #[cold]
    pub(crate) fn close(&mut self, violation: Violation) {
        if self.phase == Phase::Closed {
            return;
        }
        if self.phase != Phase::Idle {
            let number = violation.reason.number();
            put_goaway(&mut self.output.main, number, &violation.message, 0);
        }
        self.close_silently(violation);
    }

    pub(crate) fn close_silently(&mut self, violation: Violation) {
        self.phase = Phase::Closed;
        self.earliest_deadline = Micros::MAX;
        self.output.line.clear();
        for index in self.outgoing.indexes().collect::<Vec<_>>() {
            let text = format!("the session ended: {violation}");
            self.end_outgoing(index, || Error::new(Code::Unavailable, text));
        }
        self.end_all_incoming();
        self.events.push_back(Event::Closed(violation));
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

/// `old` with the headers of `new` in place of those of the same name; an empty value removes.
pub(crate) fn merge_headers(old: &Metadata, new: &Metadata) -> Metadata {
    let mut builder = Metadata::builder();
    for (name, value) in old.headers() {
        if new.header(name).is_none() {
            builder = builder.header(name, value);
        }
    }
    for (name, value) in new.headers().filter(|(_, value)| !value.is_empty()) {
        builder = builder.header(name, value);
    }
    builder.build()
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
