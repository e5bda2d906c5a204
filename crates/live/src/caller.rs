//! Calls that this side makes: from the request to the one frame that ends it.
//!
//! ```text
//!  Waiting --sent--> Sent --reply WATCHED--> Watching
//!     ^ bit 0 of resumed | |                    |        cancel, deadline: Cancelled, until the
//!     `------------------' `---terminal frame---'        callee's terminal frame frees the slot
//! ```

use bytes::Bytes;
use tidewire_service::{Code, Codec, Error};

use crate::config::Micros;
use crate::event::{Event, Then};
use crate::fields::Fields;
use crate::frame::{self, HEAD_BYTES, Head, Kind, flag};
use crate::hello::{Limits, feature};
use crate::message::{CallKind, CallRefused, MethodId, Request, RequestBody, Target, Watch};
use crate::metadata::{self, Metadata, tag};
use crate::methods::Called;
use crate::output::Packing;
use crate::reason::{Reason, Violation};
use crate::receive::Received;
use crate::session::{Next, Phase, Session};
use crate::slots::{CallId, index};
use crate::stream::{Finish, Stream};
use crate::varint;

/// A call of this side.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) state: State,
    /// Whether it counts against the peer's `calls_max`.
    pub(crate) counted: bool,
    /// A watch that may be stale; the application was told.
    pub(crate) suspect: bool,
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

/// Room for the protocol's own fields in a request's metadata, beside names.
const OWN_FIELDS_BYTES_MAX: usize = 64;

impl Session {
    /// Makes a call; its outcome comes as events: replies and items, and then exactly one of
    /// [`Event::Reply`] with [`Then::Nothing`], [`Event::End`], [`Event::Failed`], [`Event::Stale`].
    ///
    /// # Errors
    /// When no call can be made now; nothing was sent.
    #[inline]
    pub fn call(&mut self, request: Request, now: Micros) -> Result<CallId, CallRefused> {
        self.now = self.now.max(now);
        let index = self.free_slot()?;
        if let Some(deadline) = request.deadline {
            self.earliest_deadline = self.earliest_deadline.min(deadline);
        }
        let streams = request.body == RequestBody::Stream;
        let slot = self.outgoing.take(index);
        let generation = slot.generation();
        if let free @ None = slot.value() {
            *free = Some(Outgoing {
                state: State::Waiting,
                counted: false,
                suspect: false,
                number: 0,
                command: 0,
                request,
                stream: if streams { Some(Box::default()) } else { None },
            });
        }
        if self.outgoing_live {
            self.send_request(index);
        } else {
            self.again.soon(index, generation);
        }
        Ok(CallId { stream: self.own_stream(index), generation })
    }

    /// A slot for a new call.
    #[inline]
    fn free_slot(&mut self) -> Result<u32, CallRefused> {
        if self.phase == Phase::Closed {
            return Err(CallRefused::Closed);
        }
        if self.drain_sent || self.drain_received {
            return Err(CallRefused::Draining);
        }
        let Limits { calls_max, .. } = self.peer.limits;
        let open = self.calls_out as usize + self.again.len();
        let index = if open < calls_max as usize { self.free.take() } else { u32::MAX };
        if index < self.slots_out {
            return Ok(index);
        }
        if index != u32::MAX {
            self.free.give(index);
        }
        self.wants_room = true;
        Err(CallRefused::Full { calls_max })
    }

    /// The application is done with a call: it hears no more of it. The callee is asked to stop;
    /// a command runs to completion all the same.
    pub fn cancel(&mut self, call: CallId) {
        if !self.is_ours(call.stream) {
            return;
        }
        let index = call.index();
        let has_connection = self.phase == Phase::Open;
        let live = self.outgoing_live;
        let Some(outgoing) = self.outgoing.of(call) else { return };
        match outgoing.state {
            State::Cancelled => return,
            State::Waiting => return self.free_outgoing(index),
            State::Sent | State::Watching if !has_connection => return self.free_outgoing(index),
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
            let held = stream.receive.held();
            self.return_credit(held);
        }
    }

    /// Sends what waits, as far as the peer's limits allow.
    pub(crate) fn send_waiting(&mut self) {
        while self.outgoing_live && self.calls_out < self.peer.limits.calls_max {
            let Some((index, generation)) = self.again.take(self.now) else { return };
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
            limits: &self.peer.limits,
            slots: self.slots_out,
            features: self.features,
            called: &self.called,
            now: self.now,
        };
        if let Err(error) = peer.takes(request, index) {
            return self.end_outgoing(index, || error);
        }
        let (flags, deadline_ms) = (peer.flags(request), peer.deadline_ms(request));
        if request.kind != CallKind::Query && call.command == 0 {
            call.command = self.commands.next();
        }
        call.state = State::Sent;
        call.counted = true;
        call.number = self.requests_out;
        self.requests_out = self.requests_out.wrapping_add(1);
        self.calls_out += 1;
        let out = &mut self.output.main;
        out.reserve(HEAD_BYTES + OWN_FIELDS_BYTES_MAX + request.payload.len());
        let frame = frame::open(out, Kind::Request, stream, flags).deadline_ms(deadline_ms);
        match &request.target {
            Target::Method(method) => {
                if let Some(number) = self.called.number(*method) {
                    metadata::put_number(out, tag::METHOD, number.into());
                } else if let Some((number, (codec, path))) = self.called.name(*method) {
                    metadata::put_number(out, tag::METHOD, number.into());
                    put_name(out, *codec, path);
                }
            }
            Target::Http(http) => {
                metadata::put_entry(out, tag::HTTP_METHOD, &http.method);
                metadata::put_entry(out, tag::TARGET, &http.target);
            }
        }
        if call.command != 0 {
            metadata::put_command(out, call.command, self.commands.done());
        }
        if let Some(validator) = request.validator {
            metadata::put_entry(out, tag::VALIDATOR, &validator.bytes());
        }
        request.metadata.put(out);
        let frame = frame.metadata_ends(out);
        let mut packing = Packing { compression: &mut self.compression, min: self.compress_min };
        let packed = packing.put(out, &request.payload);
        frame.flags(packed).finish(out);
        if call.stream.is_some() {
            self.join_line(stream);
        }
    }

    /// Deadlines that have passed. Runs over all calls, but only when the earliest one is due.
    pub(crate) fn end_late_calls(&mut self) {
        let mut next = Micros::MAX;
        let mut late_calls = Vec::new();
        for (index, call) in self.outgoing.iter() {
            let Some(deadline) = call.request.deadline else { continue };
            match call.state {
                State::Waiting | State::Sent if deadline <= self.now => late_calls.push(index),
                State::Waiting | State::Sent => next = next.min(deadline),
                State::Watching | State::Cancelled => {}
            }
        }
        self.earliest_deadline = next;
        for index in late_calls {
            let call = self.own_call(index);
            self.events.push_back(Event::Failed { call, error: late(), unprocessed: false });
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
            let heard = call.stream.as_ref().filter(|_| call.state != State::Cancelled);
            (call.counted, call.command, heard.map(|stream| stream.receive.held()))
        });
        let Some((counted, command, held)) = seen else { return };
        self.free.give(index);
        if counted {
            self.calls_out -= 1;
        }
        if command != 0 {
            self.commands.answered(command);
        }
        if let Some(held) = held {
            self.return_credit(held);
        }
        if self.wants_room || !self.again.is_empty() {
            self.give_room();
        }
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
    pub(crate) fn end_outgoing(&mut self, index: u32, error: impl FnOnce() -> Error) {
        let call = self.own_call(index);
        let Some(outgoing) = self.outgoing.get(index) else { return };
        if outgoing.state != State::Cancelled {
            self.events.push_back(Event::Failed { call, error: error(), unprocessed: false });
        }
        self.free_outgoing(index);
    }

    /// The call that the peer answers, if there is one.
    #[inline(always)]
    fn answered(&mut self, stream: u32) -> Option<(CallId, &mut Outgoing)> {
        if !self.is_ours(stream) || !self.outgoing_live {
            return None;
        }
        let (generation, call) = self.outgoing.at(index(stream))?;
        (call.state != State::Waiting).then_some((CallId { stream, generation }, call))
    }

    #[cold]
    fn not_asked(&self, stream: u32) -> Violation {
        if let Some(violation) = self.misplaced(stream) {
            return violation;
        }
        let (reason, message) = if self.is_ours(stream) {
            (Reason::UnknownStream, format!("an answer on stream {stream}, where no call is open"))
        } else {
            (
                Reason::StreamNumber,
                format!("an answer on stream {stream}, which is a number of its sender"),
            )
        };
        Violation::new(reason, message)
    }

    /// The last frame of a call came: the slot is free, and the end of a stream is acknowledged.
    #[inline(never)]
    fn terminated(&mut self, index: u32) {
        if self.outgoing.get(index).is_some_and(|call| call.stream.is_some()) {
            let stream = self.own_stream(index);
            self.output.put_number(Kind::Credit, stream, flag::END, 0);
        }
        self.free_outgoing(index);
    }

    #[inline(always)]
    pub(crate) fn receive_reply(&mut self) -> Result<Next, Violation> {
        self.fields.read_next(self.reader.metadata())?;
        let head = self.reader.head();
        if head.has(flag::HTTP) {
            self.need(feature::HTTP, "http")?;
        }
        self.unpack()?;
        let is_empty = self.received_payload().range.is_empty();
        let validator = self.fields.validator();
        let stream = head.stream;
        let Some((call, outgoing)) = self.answered(stream) else {
            return Err(self.not_asked(stream));
        };
        let then = next(head, outgoing, validator.is_some(), is_empty)?;
        if head.has(flag::UNCHANGED) && outgoing.request.validator.is_none() {
            return Err(Violation::malformed("UNCHANGED, and the caller named no validator"));
        }
        let cancelled = outgoing.state == State::Cancelled;
        match then {
            Then::Nothing if outgoing.stream.is_none() => self.free_outgoing(call.index()),
            Then::Nothing => self.terminated(call.index()),
            Then::Watch => {
                outgoing.suspect = false;
                outgoing.request.validator = validator;
                if !cancelled {
                    outgoing.state = State::Watching;
                    outgoing.request.deadline = None;
                }
                if std::mem::take(&mut outgoing.counted) {
                    self.calls_out -= 1;
                    self.send_waiting();
                }
            }
            Then::Items => outgoing.stream.get_or_insert_default().head = Some(Vec::new()),
        }
        self.received = call;
        Ok(if cancelled { Next::Nothing } else { Next::Reply })
    }

    pub(crate) fn receive_error(&mut self) -> Received {
        let metadata = self.metadata_of()?;
        let Some((call, outgoing)) = self.answered(self.reader.head().stream) else {
            return Err(self.not_asked(self.reader.head().stream));
        };
        let cancelled = outgoing.state == State::Cancelled;
        self.terminated(call.index());
        if cancelled {
            return Ok(None);
        }
        let error = read_error(&self.fields, &metadata)?;
        Ok(Some(Event::Failed { call, error, unprocessed: self.fields.is_unprocessed() }))
    }

    pub(crate) fn receive_end_of_reply(&mut self) -> Received {
        let metadata = self.metadata_of()?;
        let Some((call, outgoing)) = self.answered(self.reader.head().stream) else {
            return Err(self.not_asked(self.reader.head().stream));
        };
        if outgoing.stream.as_ref().is_none_or(|stream| stream.head.is_none()) {
            return Err(Violation::new(Reason::Unexpected, "an end before the head of the reply"));
        }
        let cancelled = outgoing.state == State::Cancelled;
        self.terminated(call.index());
        Ok((!cancelled).then_some(Event::End { call, metadata }))
    }

    /// The callee wants no more items.
    pub(crate) fn receive_stop(&mut self, stream: u32) -> Received {
        let Some((call, outgoing)) = self.answered(stream) else {
            return Err(self.not_asked(stream));
        };
        let Some(state) = &mut outgoing.stream else { return Ok(None) };
        if std::mem::replace(&mut state.stopped, true) || state.send.finish.is_some() {
            return Ok(None);
        }
        state.send.finish = Some(Finish::end(Vec::new()));
        let cancelled = outgoing.state == State::Cancelled;
        if let Some(stream) = self.outgoing.of(call).and_then(|call| call.stream.as_mut()) {
            stream.send.clear(&mut self.pool);
        }
        self.join_line(stream);
        Ok((!cancelled).then_some(Event::StopSending { call }))
    }
}

/// What a reply means for its call.
#[inline]
fn next(
    head: Head,
    call: &Outgoing,
    has_validator: bool,
    is_empty: bool,
) -> Result<Then, Violation> {
    let unexpected = |message| Err(Violation::new(Reason::Unexpected, message));
    if call.stream.as_ref().is_some_and(|stream| stream.head.is_some()) {
        return unexpected("a second reply on a stream");
    }
    if head.has(flag::UNCHANGED) && !is_empty {
        return Err(Violation::malformed("UNCHANGED with a payload"));
    }
    match Then::of(head) {
        Then::Nothing if head.has(flag::WATCHED) => {
            Err(Violation::malformed("a reply with END and WATCHED"))
        }
        Then::Watch if call.request.watch == Watch::No => {
            unexpected("a watch that nobody asked for")
        }
        Then::Watch if call.stream.is_some() => unexpected("a watch of a stream"),
        Then::Watch if !has_validator => {
            Err(Violation::malformed("a watched reply without validator"))
        }
        Then::Items if !is_empty => Err(Violation::malformed("the head of a stream has a payload")),
        Then::Items if call.state == State::Watching => unexpected("a stream on a watch"),
        then => Ok(then),
    }
}

fn read_error(fields: &Fields, metadata: &Metadata) -> Result<Error, Violation> {
    let code = fields
        .code()
        .and_then(|code| u32::try_from(code).ok())
        .ok_or_else(|| Violation::malformed("an error without code"))?;
    let code = Code::from_number(code).unwrap_or(Code::Unknown);
    let mut error = Error::new(code, fields.message(metadata.raw()).unwrap_or(""));
    for entry in metadata.entries().filter(|entry| entry.tag == tag::DETAIL) {
        let mut value = entry.value;
        if let Some(name) = varint::take_string(&mut value) {
            error = error.with_detail(tidewire_service::Detail {
                type_name: String::from_utf8_lossy(name).into_owned(),
                value: Bytes::copy_from_slice(value),
            });
        }
    }
    let (headers, trailers) = metadata.to_maps();
    *error.headers_mut() = headers.into();
    *error.trailers_mut() = trailers.into();
    Ok(error)
}

/// Whether the name of a method is taken; the length of its path.
#[cold]
fn takes_name(called: &Called, limits: &Limits, method: MethodId) -> Result<usize, Error> {
    let named = called.named();
    if named >= limits.methods_max {
        return Err(too_large("methods", named as usize, "methods_max"));
    }
    let unknown = || Error::internal("the method was not registered with this session");
    called.path_len(method).ok_or_else(unknown)
}

/// What is known of the side that is to take a request.
struct Peer<'a> {
    limits: &'a Limits,
    slots: u32,
    features: u64,
    called: &'a Called,
    now: Micros,
}

impl Peer<'_> {
    /// Whether it could take the request at all.
    #[inline]
    fn takes(&self, request: &Request, index: u32) -> Result<(), Error> {
        let Self { limits, called, .. } = self;
        if request.deadline.is_some_and(|deadline| deadline <= self.now) {
            return Err(late());
        }
        let own = match &request.target {
            Target::Method(method) if called.number(*method).is_some() => 0,
            Target::Method(method) => takes_name(called, limits, *method)?,
            Target::Http(_) if self.features & feature::HTTP == 0 => {
                return Err(Error::unimplemented("the peer takes no HTTP calls"));
            }
            Target::Http(http) => http.method.len() + http.target.len(),
        };
        let metadata = request.metadata.len() + own + OWN_FIELDS_BYTES_MAX;
        if metadata > limits.metadata_max.into() {
            return Err(too_large("request metadata", metadata, "metadata_max"));
        }
        let whole = metadata + request.payload.len();
        if whole > limits.frame_max as usize {
            return Err(too_large("the request", whole, "frame_max"));
        }
        if index >= self.slots {
            return Err(too_large("open calls", index as usize, "calls_max + watches_max"));
        }
        Ok(())
    }

    #[inline]
    fn flags(&self, request: &Request) -> u8 {
        let mut flags = if request.body == RequestBody::Stream { 0 } else { flag::END };
        if self.features & feature::WATCH != 0 {
            flags |= match request.watch {
                Watch::No => 0,
                Watch::Notify => flag::NOTIFY,
                Watch::Values => flag::VALUES,
            };
        }
        if matches!(request.target, Target::Http(_)) {
            flags |= flag::HTTP;
        }
        flags
    }

    /// The time left, rounded up; 0 for no deadline.
    #[inline]
    fn deadline_ms(&self, request: &Request) -> u32 {
        request.deadline.map_or(0, |deadline| {
            let left = deadline.saturating_sub(self.now).div_ceil(1000);
            u32::try_from(left).unwrap_or(u32::MAX).max(1)
        })
    }
}

#[cold]
fn put_name(out: &mut Vec<u8>, codec: Codec, path: &[u8]) {
    out.push(tag::NAME);
    varint::put(out, path.len() as u64 + 1);
    out.push(u8::from(codec == Codec::Json));
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
