//! Calls that this side makes: from the request to the one frame that ends it.
//!
//! ```text
//!  Waiting --sent--> SentIn --reply WATCHED--> Watching
//!     ^ bit 0 of resumed | |                    |        cancel, deadline: Cancelled, until the
//!     `------------------' `---terminal frame---'        callee's terminal frame frees the slot
//! ```
//!
//! What the callee answers is in `answer.rs`.

use tidewire_service::{Codec, Error, Outcome};

use crate::config::Micros;
use crate::event::Event;
use crate::frame::{self, HEAD_BYTES, Kind, flag};
use crate::hello::{Hello, Limits, feature};
use crate::message::{
    CallKind, CallRefusal, Destination, Extra, MethodId, Request, RequestBody, Watch,
};
use crate::metadata::{self, Metadata, tag};
use crate::methods::OwnMethods;
use crate::output::CompressionPolicy;
use crate::pending_calls::PendingCall;
use crate::session::{Phase, Session};
use crate::slots::CallId;
use crate::stream::{Finish, PIECE_BYTES, Stream};
use crate::varint;

/// A call of this side.
#[derive(Debug)]
pub(crate) struct OwnCall {
    pub(crate) state: State,
    /// Whether it counts against the peer's `calls_max`.
    pub(crate) counted: bool,
    /// A watch that may be stale; the application was told.
    pub(crate) suspect: bool,
    /// Where it was sent, on whatever connection: there the callee may have run it.
    pub(crate) sent: SentIn,
    /// Which request of the session it was, counted from 0.
    pub(crate) number: u32,
    /// The command's id; 0 for a query, or when not sent.
    pub(crate) command: u64,
    /// Kept, so that it can be sent again.
    pub(crate) request: Request,
    /// Items, in either direction.
    pub(crate) stream: Option<Box<Stream>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// To be sent.
    Waiting,
    Sent,
    /// Answered, and watched.
    Watching,
    /// The application is done with it; the slot waits for the callee's last frame.
    Cancelled,
}

/// In which session a call was sent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SentIn {
    Never,
    Now,
    /// In an earlier one.
    Before,
}

/// Room for the protocol's own fields in a request's metadata, beside names.
const OWN_FIELDS_BYTES_MAX: usize = 64;
/// Room for a key and a parent beside them.
const EXTRA_BYTES_MAX: usize = 48;

impl Session {
    /// Makes a call; its outcome comes as events: replies and items, and then exactly one of
    /// [`Event::Reply`] with `Continuation::Nothing`, [`Event::End`], [`Event::Failed`],
    /// [`Event::Stale`].
    ///
    /// # Errors
    /// When no call can be made now; nothing was sent.
    #[inline]
    pub fn call(&mut self, request: Request, now: Micros) -> Result<CallId, CallRefusal> {
        self.now = self.now.max(now);
        let index = self.free_slot(request.kind)?;
        self.earliest_deadline = self.earliest_deadline.min(request.deadline);
        let streams = request.body == RequestBody::Stream;
        let is_large = is_large(&request);
        let slot = self.outgoing.take(index);
        let generation = slot.generation();
        if let free @ None = slot.value() {
            *free = Some(OwnCall {
                state: State::Waiting,
                counted: false,
                suspect: false,
                sent: SentIn::Never,
                number: 0,
                command: 0,
                request,
                stream: if streams { Some(Box::default()) } else { None },
            });
        }
        if is_large {
            self.load_body(index);
        }
        if self.outgoing_live {
            self.send_request(index);
        } else {
            self.again.soon(PendingCall { index, generation });
        }
        Ok(CallId { stream: self.own_stream(index), generation })
    }

    /// A body that is too large for a frame goes as the one item of a stream.
    #[cold]
    pub(crate) fn load_body(&mut self, index: u32) {
        let Some(call) = self.outgoing.get_mut(index) else { return };
        self.pool.dropped(call.stream.take().as_deref());
        if !is_large(&call.request) {
            return;
        }
        let mut stream = Box::<Stream>::default();
        stream.send.push_pieces(&call.request.payload, &mut self.pool);
        stream.send.is_whole = true;
        stream.send.finish = Some(Finish::end(Vec::new()));
        call.stream = Some(stream);
    }

    /// Whether a call could be made now.
    ///
    /// # Errors
    /// Why not; [`Event::Room`] tells when there may be room.
    #[inline]
    pub fn may_call(&mut self, kind: CallKind) -> Result<(), CallRefusal> {
        let index = self.free_slot(kind)?;
        self.free.give(index);
        Ok(())
    }

    /// A slot for a new call.
    #[inline]
    fn free_slot(&mut self, kind: CallKind) -> Result<u32, CallRefusal> {
        if self.phase == Phase::Closed {
            return Err(CallRefusal::Closed);
        }
        if self.drain_sent || self.drain_received {
            return Err(CallRefusal::Draining);
        }
        let Limits { calls_max, .. } = self.peer.limits;
        let open = self.calls_out as usize + self.again.len();
        let may = open < calls_max as usize && (kind == CallKind::Query || self.has_room());
        let index = if may { self.free.take() } else { u32::MAX };
        if index < self.slots_out {
            return Ok(index);
        }
        if index != u32::MAX {
            self.free.give(index);
        }
        self.wants_room = true;
        Err(CallRefusal::Full { calls_max })
    }

    /// Whether the callee would take the id of another command.
    #[inline]
    fn has_room(&self) -> bool {
        let limits = &self.peer.limits;
        let ahead = u64::from(limits.calls_max) + u64::from(limits.replies_kept_max);
        self.commands.has_room(ahead.saturating_sub(self.again.len() as u64))
    }

    /// The application is done with a call: it hears no more of it. The callee is asked to stop; a
    /// unary command runs to completion all the same, and its slot is taken until then. Returns
    /// whether the call was not over.
    pub fn cancel(&mut self, call: CallId) -> bool {
        let is_open = self.is_ours(call.stream) && self.outgoing.of(call).is_some();
        if is_open {
            self.cancel_open(call);
        }
        is_open
    }

    fn cancel_open(&mut self, call: CallId) {
        let index = call.index();
        let has_connection = self.phase == Phase::Open;
        let live = self.outgoing_live;
        let Some(outgoing) = self.outgoing.of(call) else { return };
        match outgoing.state {
            State::Cancelled => return,
            State::Waiting => return self.free_outgoing(index),
            State::Sent | State::Watching if !has_connection && !outgoing.runs_on() => {
                return self.free_outgoing(index);
            }
            State::Watching if live => self.output.unwatch.push(call.stream),
            State::Sent if live => {
                frame::put(&mut self.output.main, Kind::Cancel, call.stream, 0, &[]);
            }
            // While resuming: said once the peer has answered.
            State::Sent | State::Watching => {}
        }
        outgoing.state = State::Cancelled;
        if let Some(stream) = &mut outgoing.stream {
            stream.send.clear(&mut self.pool);
            let held = stream.receive.unconsumed_bytes();
            self.return_credit(held);
        }
    }

    /// Sends what waits, as far as the peer's limits allow.
    pub(crate) fn send_waiting(&mut self) {
        while self.outgoing_live && self.calls_out < self.peer.limits.calls_max {
            let Some(PendingCall { index, generation }) = self.again.take(self.now) else { return };
            if self.outgoing.generation(index) != generation {
                continue;
            }
            if self.outgoing.get(index).is_some_and(|call| call.state == State::Waiting) {
                self.send_request(index);
            }
        }
    }

    /// Writes the request of a slot.
    #[inline]
    pub(crate) fn send_request(&mut self, index: u32) {
        let stream = self.own_stream(index);
        let Some(call) = self.outgoing.get_mut(index) else { return };
        let request = &call.request;
        let peer = Peer {
            hello: &self.peer,
            slots: self.slots_out,
            features: self.features,
            called: &self.called,
            now: self.now,
        };
        if let Err(error) = peer.takes(request, index) {
            return self.end_outgoing(index, || error);
        }
        let flags = peer.flags(request);
        let deadline_ms = peer.deadline_ms(request);
        if request.kind != CallKind::Query && call.command == 0 {
            call.command = self.commands.next(self.now, self.peer.keys_ms);
            self.writes += 1;
        }
        call.state = State::Sent;
        call.sent = call.sent.max(SentIn::Now);
        call.counted = true;
        call.number = self.requests_out;
        self.requests_out = self.requests_out.wrapping_add(1);
        self.calls_out += 1;
        let out = &mut self.output.main;
        out.reserve(HEAD_BYTES + OWN_FIELDS_BYTES_MAX + request.payload.len());
        let frame = frame::open(out, Kind::Request, stream, flags).deadline_ms(deadline_ms);
        if let Destination::Method(method) = &request.destination {
            let max = self.peer.limits.methods_max;
            if let Some(number) = self.called.number(*method) {
                metadata::put_number(out, tag::METHOD, number.into());
            } else if let Some((number, (codec, path))) = self.called.name(*method, max) {
                put_name(out, number, *codec, path);
            }
        }
        if call.command != 0 {
            metadata::put_command(out, call.command, self.commands.done());
        }
        if let Some(validator) = request.validator {
            metadata::put_entry(out, tag::VALIDATOR, &validator.bytes());
        }
        if request.extra.is_some() || !matches!(request.destination, Destination::Method(_)) {
            put_rest(out, request, self.features);
        }
        request.metadata.put(out);
        let frame = frame.metadata_ends(out);
        if call.stream.is_some() {
            // What there is to say goes as items.
            frame.finish(out);
            return self.join_line(stream);
        }
        let mut packing =
            CompressionPolicy { compression: &mut self.compression, min: self.compress_min };
        let packed = packing.put(out, &request.payload);
        frame.flags(packed | flag::END).finish(out);
    }

    /// Deadlines that have passed. Runs over all calls, but only when the earliest one is due.
    pub(crate) fn end_late_calls(&mut self) {
        let mut next = Micros::MAX;
        let mut late_calls = Vec::new();
        for (index, call) in self.outgoing.iter() {
            let deadline = call.request.deadline;
            match call.state {
                State::Waiting | State::Sent if deadline <= self.now => late_calls.push(index),
                State::Waiting | State::Sent => next = next.min(deadline),
                State::Watching | State::Cancelled => {}
            }
        }
        self.earliest_deadline = next;
        for index in late_calls {
            let call = self.own_call(index);
            self.fail_here(index, late());
            self.cancel(call);
        }
    }

    pub(crate) fn own_call(&self, index: u32) -> CallId {
        CallId { stream: self.own_stream(index), generation: self.outgoing.generation(index) }
    }

    /// Empties a slot of this side. What was received of a stream and not consumed is the peer's to
    /// send again.
    #[inline(always)]
    pub(crate) fn free_outgoing(&mut self, index: u32) {
        let seen = self.outgoing.clear(index, |call| {
            self.pool.dropped(call.stream.as_deref());
            let heard = call.stream.as_ref().filter(|_| call.state != State::Cancelled);
            (call.counted, call.command, heard.map(|stream| stream.receive.unconsumed_bytes()))
        });
        let Some((counted, command, held)) = seen else { return };
        self.free.give(index);
        if counted {
            self.calls_out -= 1;
        }
        if command != 0 {
            self.commands.note_answer(command);
            self.writes += 1;
        }
        if !(self.output.unwatch.is_empty() && self.output.seen.is_empty()) {
            self.name_no_more(index);
        }
        if let Some(held) = held {
            self.return_credit(held);
        }
        if self.wants_room || !self.again.is_empty() {
            self.give_room();
        }
    }

    /// What is gathered and not written yet would meet the next call in this slot.
    #[cold]
    fn name_no_more(&mut self, index: u32) {
        let stream = self.own_stream(index);
        self.output.unwatch.retain(|&other| other != stream);
        self.output.seen.retain(|&other| other != stream);
    }

    /// A slot became free: for a call that waits, and for those that were refused.
    #[inline(never)]
    fn give_room(&mut self) {
        self.send_waiting();
        if std::mem::take(&mut self.wants_room) {
            self.events.push_back(Event::Room);
        }
    }

    /// Ends a call from this side's point of view, with an error unless nobody listens.
    #[cold]
    pub(crate) fn end_outgoing(&mut self, index: u32, error: impl FnOnce() -> Error) {
        let Some(outgoing) = self.outgoing.get(index) else { return };
        if outgoing.state != State::Cancelled {
            self.fail_here(index, error());
        }
        self.free_outgoing(index);
    }

    /// Says that a call ends without the callee's word: what was sent may have run.
    fn fail_here(&mut self, index: u32, error: Error) {
        let call = self.own_call(index);
        let was_sent = self.outgoing.get(index).is_some_and(OwnCall::was_sent);
        let outcome = if was_sent { Outcome::Unknown } else { Outcome::NotRun };
        let error = error.with_outcome(outcome);
        let metadata = Metadata::default();
        self.events.push_back(Event::Failed { call, error, watched: None, metadata });
    }
}

/// The length of a method's path.
#[cold]
fn takes_name(called: &OwnMethods, method: MethodId) -> Result<usize, Error> {
    let unknown = || Error::internal("the method was not registered with this session");
    called.path_len(method).ok_or_else(unknown)
}

/// What is known of the side that is to take a request.
struct Peer<'a> {
    hello: &'a Hello,
    slots: u32,
    features: u64,
    called: &'a OwnMethods,
    now: Micros,
}

impl Peer<'_> {
    /// Whether it could take the request at all.
    #[inline]
    fn takes(&self, request: &Request, index: u32) -> Result<(), Error> {
        let Self { hello: Hello { limits, .. }, called, .. } = self;
        if request.deadline <= self.now {
            return Err(late());
        }
        let own = match &request.destination {
            Destination::Method(method) if called.number(*method).is_some() => 0,
            Destination::Method(method) => takes_name(called, *method)?,
            Destination::Http(_) if self.features & feature::HTTP == 0 => {
                return Err(Error::unimplemented("the peer takes no HTTP calls"));
            }
            Destination::Http(http) => http.method.len() + http.target.len(),
        };
        let mut metadata = request.metadata.len() + own + OWN_FIELDS_BYTES_MAX;
        if let Some(extra) = &request.extra {
            metadata += self.takes_extra(extra, request.kind)?;
        }
        if metadata > limits.metadata_max.into() {
            return Err(too_large("request metadata", metadata, "metadata_max"));
        }
        if request.payload.len() > limits.body_max as usize {
            return Err(too_large("the request", request.payload.len(), "body_max"));
        }
        if index >= self.slots {
            return Err(too_large("open calls", index as usize, "calls_max + watches_max"));
        }
        Ok(())
    }

    /// Whether it understands what few requests have; the bytes that this takes.
    #[cold]
    fn takes_extra(&self, extra: &Extra, kind: CallKind) -> Result<usize, Error> {
        if extra.origin.is_some() && kind == CallKind::Command {
            let first_sent = extra.first_sent.unwrap_or(self.now);
            let age_ms = self.now.saturating_sub(first_sent) / 1000;
            if self.features & feature::DURABLE == 0 {
                return Err(Error::aborted("outcome unknown: the peer takes no command keys"));
            } else if age_ms >= self.hello.keys_ms / 2 {
                return Err(Error::aborted("outcome unknown: its key may be forgotten by now"));
            }
        }
        if extra.parent.is_some() && self.features & feature::HOSTED == 0 {
            return Err(Error::unimplemented("the peer does not host this process"));
        }
        let tokens = extra.tokens.iter().map(|token| token.len() + 3).sum::<usize>();
        Ok(tokens + EXTRA_BYTES_MAX)
    }

    #[inline]
    fn flags(&self, request: &Request) -> u8 {
        let mut flags = 0;
        if self.features & feature::WATCH != 0 {
            flags |= match request.watch {
                Watch::No => 0,
                Watch::Notify => flag::NOTIFY,
                Watch::Values => flag::VALUES,
            };
        }
        if matches!(request.destination, Destination::Http(_)) {
            flags |= flag::HTTP;
        }
        flags
    }

    /// The time left, rounded up; 0 for no deadline.
    #[inline]
    fn deadline_ms(&self, request: &Request) -> u32 {
        if request.deadline == Micros::MAX {
            return 0;
        }
        let left = request.deadline.saturating_sub(self.now).div_ceil(1000);
        u32::try_from(left).unwrap_or(u32::MAX).max(1)
    }
}

impl OwnCall {
    /// Whether a callee may have seen it, in this session or another.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent != SentIn::Never || self.has_origin()
    }

    /// Whether a callee may have seen it in an earlier session.
    pub(crate) fn was_sent_before(&self) -> bool {
        self.sent == SentIn::Before || self.has_origin()
    }

    fn has_origin(&self) -> bool {
        self.request.extra.as_ref().is_some_and(|extra| extra.origin.is_some())
    }

    /// Whether the callee runs it to the end, cancelled or not.
    pub(crate) fn runs_on(&self) -> bool {
        self.command != 0 && self.stream.is_none()
    }
}

#[inline(always)]
fn is_large(request: &Request) -> bool {
    request.payload.len() > PIECE_BYTES - varint::BYTES_MAX
}

/// Writes the fields that few requests have.
#[inline(never)]
fn put_rest(out: &mut Vec<u8>, request: &Request, features: u64) {
    let extra = request.extra.as_deref();
    for token in extra.iter().flat_map(|extra| &extra.tokens) {
        metadata::put_entry(out, tag::TOKEN, token);
    }
    if let Destination::Http(http) = &request.destination {
        metadata::put_entry(out, tag::HTTP_METHOD, &http.method);
        metadata::put_entry(out, tag::TARGET, &http.target);
    }
    let is_durable = features & feature::DURABLE != 0;
    if let Some(origin) = extra.and_then(|extra| extra.origin.as_ref()).filter(|_| is_durable) {
        metadata::put_key(out, origin);
    }
    if let Some(parent) = extra.and_then(|extra| extra.parent) {
        metadata::put_number(out, tag::PARENT, parent.stream.into());
    }
}

#[cold]
fn put_name(out: &mut Vec<u8>, number: Option<u32>, codec: Codec, path: &[u8]) {
    if let Some(number) = number {
        metadata::put_number(out, tag::METHOD, number.into());
    }
    out.push(tag::NAME);
    varint::put(out, path.len() as u64 + 1);
    out.push(match codec {
        Codec::Proto => 0,
        Codec::Json => 1,
    });
    out.extend_from_slice(path);
}

#[cold]
fn late() -> Error {
    Error::deadline_exceeded("the deadline passed before the answer came")
}

#[cold]
fn too_large(what: &str, size: usize, limit: &str) -> Error {
    Error::resource_exhausted(format!("{what} at {size} is over the peer's {limit}"))
}
