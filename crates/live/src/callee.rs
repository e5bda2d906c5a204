//! Calls that the peer makes: admitted, answered, and ended by exactly one frame.
//!
//! A slot is free when its last frame is queued; only a stream call stays until the caller
//! acknowledged the end, since its tail may have to be sent again. A command whose caller is gone
//! runs on as an *orphan*: its answer goes to the command window.

use bytes::Bytes;
use tidewire_service::{Error, Validator};

use crate::command_window::{Admit, Stored};
use crate::event::Event;
use crate::frame::{self, HEAD_BYTES, Head, Kind, flag};
use crate::hello::feature;
use crate::message::{Reply, Watch};
use crate::output::{Packing, put_error, put_error_metadata, put_kept, put_reply_metadata};
use crate::reason::{Reason, Violation};
use crate::session::{Next, Session};
use crate::slots::{CallId, index};
use crate::stream::{Finish, Stream};

/// A call of the peer. Small: a watch is one of these for as long as it lasts.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) state: Serving,
    pub(crate) watch: Watch,
    pub(crate) http: bool,
    /// Whether `validator` holds one: the caller's until answered, then the last one sent.
    pub(crate) has_validator: bool,
    pub(crate) validator: [u8; 16],
    /// Which request of the session it was, counted from 0.
    pub(crate) number: u32,
    /// The command's id, 0 for none.
    pub(crate) command: u64,
    pub(crate) stream: Option<Box<Stream>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serving {
    /// Not answered, or streaming.
    Open,
    /// Answered, watched, fresh as far as is known.
    Fresh,
    /// Stale, and the caller does not know.
    Suspect,
    /// Stale, and the caller was told that an answer follows.
    Told,
}

impl Serving {
    pub(crate) fn is_watch(self) -> bool {
        self != Self::Open
    }
}

/// Room for the protocol's own fields in a reply's metadata.
const OWN_FIELDS_BYTES_MAX: usize = 48;

impl Session {
    #[inline(always)]
    pub(crate) fn receive_request(&mut self) -> Result<Next, Violation> {
        let head = self.reader.head();
        let call = self.new_call(head.stream)?;
        let number = self.requests_in;
        self.requests_in = number.wrapping_add(1);
        self.fields.read_next(self.reader.metadata())?;
        let http = head.has(flag::HTTP);
        if http {
            self.check_http()?;
        } else if self.fields.has_name() || !self.named.knows(self.fields.method()) {
            self.name_method()?;
        }
        self.unpack()?;
        let streams = !head.has(flag::END);
        if streams && !self.received_payload().range.is_empty() {
            return Err(Violation::malformed("a request without END has a payload"));
        }
        let command = self.fields.command();
        let keeps = self.features & feature::RESUME != 0;
        if (self.drain_sent || command.is_some())
            && (self.refuses(call, command.is_some()) || keeps && !self.admits(call, number)?)
        {
            return Ok(Next::Nothing);
        }
        self.calls_in += 1;
        let (watch, validator) = (self.asked_watch(head), self.fields.validator());
        if let free @ None = self.incoming.take(call.index()).value() {
            *free = Some(Served {
                state: Serving::Open,
                watch,
                number,
                http,
                has_validator: validator.is_some(),
                validator: validator.map_or([0; 16], |validator| validator.bytes()),
                command: command.map_or(0, |(id, _)| id),
                stream: if streams { Some(Box::default()) } else { None },
            });
        }
        self.received = call;
        Ok(Next::Request)
    }

    /// The handle of a new call of the peer.
    #[inline]
    fn new_call(&self, stream: u32) -> Result<CallId, Violation> {
        let index = index(stream);
        if self.is_ours(stream) || index >= self.slots_in || !self.incoming_live {
            return Err(self.misplaced_request(stream));
        }
        let Some(generation) = self.incoming.vacant(index) else { return Err(in_use(stream)) };
        if self.calls_in >= self.config.limits.calls_max {
            return Err(too_many(self.config.limits.calls_max));
        }
        Ok(CallId { stream, generation })
    }

    #[cold]
    fn misplaced_request(&self, stream: u32) -> Violation {
        if let Some(violation) = self.misplaced(stream) {
            return violation;
        }
        let slots = self.slots_in;
        if self.is_ours(stream) || index(stream) >= slots {
            let message = format!(
                "a request on stream {stream}; its sender has {slots} numbers of one parity"
            );
            return Violation::new(Reason::StreamNumber, message);
        }
        Violation::new(Reason::Unexpected, "a request before resuming is done")
    }

    #[inline(never)]
    fn check_http(&self) -> Result<(), Violation> {
        self.need(feature::HTTP, "http")?;
        let raw = self.reader.metadata();
        if self.fields.http_method(raw).is_none() || self.fields.target(raw).is_none() {
            return Err(Violation::malformed("an HTTP request without method or target"));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn asked_watch(&self, head: Head) -> Watch {
        if self.features & feature::WATCH == 0 || !head.has(flag::END) {
            Watch::No
        } else if head.has(flag::VALUES) {
            Watch::Values
        } else if head.has(flag::NOTIFY) {
            Watch::Notify
        } else {
            Watch::No
        }
    }

    /// Takes the name of a method, or says what is wrong with its number.
    #[cold]
    fn name_method(&mut self) -> Result<(), Violation> {
        let raw = self.reader.metadata();
        let methods_max = self.config.limits.methods_max;
        self.named.add(self.fields.method(), self.fields.name(raw), methods_max)
    }

    /// Whether no call, or no command, is taken now; then it was answered.
    fn refuses(&mut self, call: CallId, is_command: bool) -> bool {
        let calls_max = self.config.limits.calls_max;
        let error = if self.drain_sent {
            Error::unavailable("this side is going away; use another connection")
        } else if is_command && self.orphans.len() >= calls_max as usize {
            Error::resource_exhausted(format!(
                "{calls_max} commands run whose callers gave up, limits.calls_max"
            ))
        } else {
            return false;
        };
        let max = self.peer.limits.metadata_max;
        put_error(&mut self.output.main, call.stream, &error, true, max);
        true
    }

    /// Whether a call is to run. If not, it is a command that was answered, or joined the one that
    /// runs.
    fn admits(&mut self, call: CallId, number: u32) -> Result<bool, Violation> {
        let Some((id, done)) = self.fields.command() else { return Ok(true) };
        let max = self.peer.limits.metadata_max;
        let out = &mut self.output.main;
        match self.window.admit(id, done, call)? {
            Admit::Run => return Ok(true),
            Admit::Replay(stored) => write_stored(out, call.stream, stored),
            Admit::OutcomeUnknown => {
                let error = Error::aborted(format!("outcome unknown: command {id} is forgotten"));
                put_error(out, call.stream, &error, false, max);
            }
            Admit::Join(before) => {
                self.orphans.push((before, id));
                if self.incoming.of(before).is_some() {
                    self.remove_served(before.index());
                    let error = Error::aborted("joined by a later call of the same command");
                    put_error(&mut self.output.main, before.stream, &error, false, max);
                }
                self.calls_in += 1;
                let streams = !self.reader.head().has(flag::END);
                *self.incoming.take(call.index()).value() = Some(Served {
                    state: Serving::Open,
                    watch: Watch::No,
                    number,
                    http: false,
                    has_validator: false,
                    validator: [0; 16],
                    command: id,
                    stream: streams.then(Box::default),
                });
            }
        }
        Ok(false)
    }

    /// Answers a call with a whole reply; grants a watch when asked for and `reply.watch` is set.
    ///
    /// A reply to a call that is over is dropped, except that the answer of a command is remembered.
    #[inline]
    pub fn reply(&mut self, call: CallId, reply: Reply<'_>) {
        let fits = self.check_reply(&reply);
        let Some(served) = self.incoming.of(call) else {
            return self.reply_orphan(call, Ok(reply));
        };
        if served.state.is_watch() {
            return;
        }
        if let Err(error) = fits {
            return self.fail(call, &error);
        }
        if served.stream.is_some() {
            return self.reply_to_stream(call, &reply);
        }
        let asked = served.watch != Watch::No && reply.watch && reply.validator.is_some();
        let current =
            served.has_validator && reply.validator == Some(Validator::new(served.validator));
        let command = served.command;
        let http = if served.http { flag::HTTP } else { 0 };
        let watched =
            asked && self.incoming_live && self.watches_in < self.config.limits.watches_max;
        let flags = http | if watched { flag::WATCHED } else { flag::END };
        if let (true, Some(validator)) = (watched, reply.validator) {
            served.state = Serving::Fresh;
            served.has_validator = true;
            served.validator = validator.bytes();
            self.watches_in += 1;
        } else {
            self.incoming.clear(call.index(), |_| ());
        }
        self.calls_in -= 1;
        if command != 0 {
            self.tell_writer();
        }
        if self.incoming_live {
            self.write_reply(call.stream, flags, &reply, current);
        }
        if command != 0 {
            self.store_reply(command, flags, &reply);
        }
    }

    /// Answers a call that has a stream: the reply is its end, after what waits to be sent.
    #[cold]
    fn reply_to_stream(&mut self, call: CallId, reply: &Reply<'_>) {
        let http = self.incoming.of(call).is_some_and(|served| served.http);
        let mut metadata = Vec::new();
        put_reply_metadata(&mut metadata, reply);
        let flags = flag::END | if http { flag::HTTP } else { 0 };
        let payload = Bytes::copy_from_slice(reply.payload);
        self.finish_stream(call, Finish { kind: Kind::Reply, flags, metadata, payload });
    }

    /// Writes a reply frame; without payload when the caller holds the answer.
    #[inline]
    pub(crate) fn write_reply(&mut self, stream: u32, flags: u8, reply: &Reply<'_>, current: bool) {
        let out = &mut self.output.main;
        out.reserve(HEAD_BYTES + OWN_FIELDS_BYTES_MAX + reply.payload.len());
        let flags = if current { flags | flag::UNCHANGED } else { flags };
        let frame = frame::open(out, Kind::Reply, stream, flags);
        put_reply_metadata(out, reply);
        let frame = frame.metadata_ends(out);
        if current {
            return frame.finish(out);
        }
        let mut packing = Packing { compression: &mut self.compression, min: self.compress_min };
        let packed = packing.put(out, reply.payload);
        frame.flags(packed).finish(out);
    }

    #[inline]
    fn store_reply(&mut self, command: u64, flags: u8, reply: &Reply<'_>) {
        if self.features & feature::RESUME == 0 {
            return;
        }
        let mut metadata = Vec::new();
        put_reply_metadata(&mut metadata, reply);
        let (kind, flags) = (Kind::Reply as u8, (flags & flag::HTTP) | flag::END);
        self.window.finish(command, kind, flags, &metadata, reply.payload);
    }

    /// Whether the peer could take the reply.
    #[inline]
    pub(crate) fn check_reply(&self, reply: &Reply<'_>) -> Result<(), Error> {
        let metadata = reply.metadata.len() + OWN_FIELDS_BYTES_MAX;
        let limits = &self.peer.limits;
        if metadata > limits.metadata_max.into() {
            let limit = limits.metadata_max.into();
            return Err(over("reply metadata", metadata, "metadata_max", limit));
        }
        let whole = metadata + reply.payload.len();
        if whole > limits.frame_max as usize {
            return Err(over("the reply", whole, "frame_max", limits.frame_max as usize));
        }
        let pending = self.output.main.len() + whole;
        let limit = self.config.output_hard_max;
        if pending > limit {
            let what = "answers that the peer does not read";
            return Err(over(what, pending, "output_hard_max", limit));
        }
        Ok(())
    }

    /// Ends a call with an error.
    pub fn fail(&mut self, call: CallId, error: &Error) {
        let max = self.peer.limits.metadata_max;
        let Some(served) = self.incoming.of(call) else {
            return self.reply_orphan(call, Err(error));
        };
        let command = served.command;
        if served.stream.is_some() {
            let mut metadata = Vec::new();
            put_error_metadata(&mut metadata, error, false, max);
            self.drop_unsent(call);
            let finish = Finish { kind: Kind::Error, flags: 0, metadata, payload: Bytes::new() };
            return self.finish_stream(call, finish);
        }
        if command != 0 {
            self.tell_writer();
            let mut metadata = Vec::new();
            put_error_metadata(&mut metadata, error, false, max);
            self.window.finish(command, Kind::Error as u8, 0, &metadata, &[]);
        }
        if self.incoming_live {
            put_error(&mut self.output.main, call.stream, error, false, max);
        }
        self.remove_served(call.index());
    }

    /// The answer of a command whose call is over: remembered, and given to whoever asked again.
    #[cold]
    fn reply_orphan(&mut self, call: CallId, outcome: Result<Reply<'_>, &Error>) {
        let Some(&(_, id)) = self.orphans.iter().find(|(orphan, _)| *orphan == call) else {
            return;
        };
        self.orphans.retain(|(_, other)| *other != id);
        let joined = self.window.waiting(id).filter(|joined| self.incoming.of(*joined).is_some());
        match (joined, outcome) {
            (Some(joined), Ok(reply)) => self.reply(joined, reply),
            (Some(joined), Err(error)) => self.fail(joined, error),
            (None, Ok(reply)) => self.store_reply(id, 0, &reply),
            (None, Err(error)) => {
                let mut metadata = Vec::new();
                let max = self.peer.limits.metadata_max;
                put_error_metadata(&mut metadata, error, false, max);
                self.window.finish(id, Kind::Error as u8, 0, &metadata, &[]);
            }
        }
    }

    /// Begins an answer that is a stream of items: headers now, items with
    /// [`push`](Self::push), trailers with [`finish`](Self::finish).
    pub fn reply_stream(&mut self, call: CallId, head: &Reply<'_>) {
        let live = self.incoming_live;
        if self.check_reply(head).is_err() {
            return self
                .fail(call, &Error::resource_exhausted("reply metadata is over metadata_max"));
        }
        let Some(served) = self.incoming.of(call).filter(|served| !served.state.is_watch()) else {
            return;
        };
        let stream = served.stream.get_or_insert_default();
        if stream.head.is_some() || stream.send.finish.is_some() {
            return;
        }
        let mut metadata = Vec::new();
        put_reply_metadata(&mut metadata, head);
        let flags = if served.http { flag::HTTP } else { 0 };
        if live {
            write_head(&mut self.output.main, call.stream, flags, &metadata);
        }
        stream.head = Some(metadata);
    }

    /// Empties a slot of the peer.
    #[inline]
    pub(crate) fn remove_served(&mut self, index: u32) {
        let Some(served) = self.incoming.remove(index) else { return };
        if served.state.is_watch() {
            self.watches_in -= 1;
        } else {
            self.calls_in -= 1;
        }
        if let Some(stream) = served.stream {
            let held = stream.receive.held();
            self.return_credit(held);
        }
    }

    /// The caller gave up: ends the call now, whatever the handler does.
    pub(crate) fn cancel_served(&mut self, stream: u32) -> Result<(), Violation> {
        if index(stream) >= self.slots_in {
            return Err(Violation::new(
                Reason::StreamNumber,
                "a cancel on a number over the bound",
            ));
        }
        let index = index(stream);
        let call = CallId { stream, generation: self.incoming.generation(index) };
        let Some(served) = self.incoming.get_mut(index) else { return Ok(()) };
        if served.state.is_watch() {
            self.output.stale.push(stream);
            self.remove_served(index);
        } else if let Some(items) = &mut served.stream {
            if items.send.finish_sent {
                return Ok(());
            }
            // An end that waits for credit would wait for ever: nobody consumes items any more.
            items.send.finish = None;
            self.fail(call, &Error::canceled("the caller gave up"));
        } else {
            let command = served.command;
            let max = self.peer.limits.metadata_max;
            let error = Error::canceled("the caller gave up");
            put_error(&mut self.output.main, stream, &error, false, max);
            self.remove_served(index);
            self.leave_running(call, command);
        }
        self.events.push_back(Event::Cancelled { call });
        Ok(())
    }

    /// A command runs on without its call.
    pub(crate) fn leave_running(&mut self, call: CallId, command: u64) {
        let known = self.orphans.iter().any(|(_, id)| *id == command);
        if command != 0 && !known {
            self.orphans.push((call, command));
        }
    }

    /// Every call of the peer is over.
    pub(crate) fn end_all_incoming(&mut self) {
        for index in self.incoming.indexes().collect::<Vec<_>>() {
            self.drop_served(index);
        }
    }

    /// The peer no longer knows a call.
    pub(crate) fn drop_served(&mut self, index: u32) {
        let stream = self.peer_stream(index);
        let call = CallId { stream, generation: self.incoming.generation(index) };
        let Some(served) = self.incoming.get(index) else { return };
        let (command, is_over) = (
            served.command,
            served.stream.as_ref().is_some_and(|stream| stream.send.finish.is_some()),
        );
        let streams = served.stream.is_some();
        self.remove_served(index);
        if !streams {
            self.leave_running(call, command);
        } else if command != 0 {
            self.window.finish_without_answer(command);
        }
        if !is_over {
            self.events.push_back(Event::Cancelled { call });
        }
    }
}

#[cold]
fn in_use(stream: u32) -> Violation {
    let message = format!("a request on stream {stream}, where a call is open");
    Violation::new(Reason::StreamInUse, message)
}

#[cold]
fn too_many(calls_max: u32) -> Violation {
    let message = format!("more open calls than calls_max = {calls_max}");
    Violation::new(Reason::CallsMax, message)
}

pub(crate) fn write_head(out: &mut Vec<u8>, stream: u32, flags: u8, metadata: &[u8]) {
    let frame = frame::open(out, Kind::Reply, stream, flags);
    out.extend_from_slice(metadata);
    let frame = frame.metadata_ends(out);
    frame.finish(out);
}

fn write_stored(out: &mut Vec<u8>, stream: u32, stored: &Stored) {
    let head = Head {
        len: stored.body.len() as u32,
        stream,
        kind: stored.kind,
        flags: stored.flags,
        meta_len: stored.meta_len,
        deadline_ms: 0,
    };
    out.reserve(HEAD_BYTES + stored.body.len());
    out.extend_from_slice(&head.encode());
    out.extend_from_slice(&stored.body);
}

/// Writes the last frame of a stream.
pub(crate) fn write_finish(
    out: &mut Vec<u8>,
    stream: u32,
    finish: &Finish,
    packing: &mut Packing<'_>,
) {
    let body = (&finish.metadata[..], &finish.payload);
    put_kept(out, finish.kind, stream, finish.flags, body, packing);
}

#[cold]
fn over(what: &str, size: usize, name: &str, limit: usize) -> Error {
    Error::resource_exhausted(format!("{what} at {size} bytes are over {name} = {limit}"))
}
