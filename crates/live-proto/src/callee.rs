//! Calls that the peer made: answered, and ended by exactly one frame.
//!
//! A slot is free when its last frame is queued; only a stream call stays until the caller
//! acknowledged the end, since its tail may have to be sent again. A unary command that its caller
//! cancelled keeps its slot until it has run, so that no more run than may. One whose caller does
//! not know it any more runs on as an *orphan*. What is admitted at all is in `admission.rs`,
//! and how much is held for a peer in `backlog_limit.rs`.

use std::ops::Range;

use bytes::Bytes;
use tidewire_service::{Error, Outcome, Validator};

use crate::command_window::StoredAnswer;
use crate::event::Event;
use crate::frame::{self, HEAD_BYTES, Head, Kind, PAYLOAD_BYTES_MAX, flag};
use crate::hello::feature;
use crate::message::{OutgoingReply, Watch};
use crate::metadata::Metadata;
use crate::output::{
    CompressionPolicy, put_error_frame, put_error_metadata, put_kept, put_reply_metadata,
};
use crate::reason::{Reason, Violation};
use crate::session::Session;
use crate::slots::{CallId, index};
use crate::stream::{Finish, PIECE_BYTES, Stream};
use crate::varint;

/// A call of the peer. Small: a watch is one of these for as long as it lasts.
#[derive(Debug)]
pub(crate) struct PeerCall {
    pub(crate) state: PeerCallState,
    pub(crate) watch: Watch,
    /// See [`mark`].
    pub(crate) marks: u8,
    /// The caller's until answered, then the last one sent.
    pub(crate) validator: [u8; 16],
    /// Until answered: which request of the session it was, counted from 0. Then, for a watch: how
    /// often it became stale.
    pub(crate) count: u32,
    /// The command's id, 0 for none.
    pub(crate) command: u64,
    pub(crate) stream: Option<Box<Stream>>,
}

/// Bits of [`PeerCall::marks`].
pub(crate) mod mark {
    /// An HTTP call.
    pub(crate) const HTTP: u8 = 1;
    /// `validator` holds one.
    pub(crate) const HELD: u8 = 2;
    /// It became stale before it was answered.
    pub(crate) const OUTDATED: u8 = 4;
    /// The caller has not taken the last value of the watch.
    pub(crate) const UNSEEN: u8 = 8;
    /// A later value was held back.
    pub(crate) const BEHIND: u8 = 16;
    /// The caller gave up on a command that runs on.
    pub(crate) const CANCELLED: u8 = 32;
}

impl PeerCall {
    #[inline]
    pub(crate) fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Whether it is a unary call that waits for its answer, and asks for nothing else.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        let is_open = self.state == PeerCallState::Open && self.stream.is_none();
        is_open && self.watch == Watch::No && self.marks & !mark::HTTP == 0
    }

    /// The flag of its frames.
    #[inline]
    pub(crate) fn http(&self) -> u8 {
        if self.has(mark::HTTP) { flag::HTTP } else { 0 }
    }

    /// Whether the caller holds the answer with this validator.
    #[inline]
    pub(crate) fn is_current(&self, validator: Option<Validator>) -> bool {
        self.has(mark::HELD) && validator == Some(Validator::new(self.validator))
    }

    /// Whether its answer may be watched: one that is stale already only if another follows.
    #[inline]
    fn may_watch(&self) -> bool {
        match self.watch {
            Watch::No => false,
            Watch::Notify => !self.has(mark::OUTDATED),
            Watch::Values => true,
        }
    }

    /// The answer makes it a watch.
    pub(crate) fn grant(&mut self, validator: Validator) -> u8 {
        let outdated = self.has(mark::OUTDATED);
        self.state = if outdated { PeerCallState::Told } else { PeerCallState::Fresh };
        self.marks = (self.marks & mark::HTTP) | mark::HELD;
        if self.watch == Watch::Values {
            self.marks |= mark::UNSEEN | if outdated { mark::BEHIND } else { 0 };
        }
        self.validator = validator.bytes();
        self.count = 0;
        flag::WATCHED | if outdated { flag::SUSPECT } else { 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerCallState {
    /// Not answered, or streaming.
    Open,
    /// Answered, watched, fresh as far as is known.
    Fresh,
    /// Stale, and the caller does not know.
    Suspect,
    /// Stale, and the caller was told that an answer follows.
    Told,
}

impl PeerCallState {
    pub(crate) fn is_watch(self) -> bool {
        self != Self::Open
    }
}

/// What an error calls answers that wait for a peer which is connected.
pub(crate) const UNREAD: &str = "answers that the peer does not read";

/// Room for the protocol's own fields in a reply's metadata.
const OWN_FIELDS_BYTES_MAX: usize = 48;

impl Session {
    /// Answers a call with a whole reply; grants a watch when asked for and `reply.watch` is set.
    ///
    /// A reply to a call that is over is dropped, except that the answer of a command is
    /// remembered.
    #[inline]
    pub fn reply(&mut self, call: CallId, reply: OutgoingReply<'_>) {
        let small = reply.payload.len() <= PIECE_BYTES - varint::BYTES_MAX;
        let Some(served) = self.incoming.of(call).filter(|served| small && served.is_plain())
        else {
            return self.reply_carefully(call, &reply);
        };
        let command = served.command;
        let flags = served.http() | flag::END;
        if let Err(error) = self.check_reply(&reply) {
            return self.fail_to_answer(call, &error);
        }
        self.incoming.clear(call.index(), |_| ());
        self.calls_in -= 1;
        if command != 0 {
            self.tell_writer();
        }
        let written = self.incoming_live.then(|| self.write_whole(call.stream, flags, &reply));
        if command != 0 {
            self.store_reply(command, flags, &reply, written);
        }
    }

    /// Answers a call that is more than a unary one without validator and watch.
    #[inline(never)]
    fn reply_carefully(&mut self, call: CallId, reply: &OutgoingReply<'_>) {
        let fits = self.check_reply(reply);
        let room = self.has_room_for_watch();
        let Some(served) = self.incoming.of(call) else { return self.end_orphan(call) };
        if served.state.is_watch() {
            return;
        }
        if served.has(mark::CANCELLED) {
            return self.end_cancelled(call);
        }
        if let Err(error) = fits {
            return self.fail_to_answer(call, &error);
        }
        if served.stream.is_some() {
            return self.reply_to_stream(call, reply);
        }
        let command = served.command;
        let current = served.is_current(reply.validator);
        let http = served.http();
        let mut flags = http | flag::END;
        let watched = room && reply.watch && served.may_watch();
        if let (true, Some(validator)) = (watched, reply.validator) {
            flags = http | served.grant(validator);
            self.watches_in += 1;
        } else if reply.payload.len() + varint::BYTES_MAX > PIECE_BYTES && !current {
            return self.reply_large(call, reply);
        } else {
            self.incoming.clear(call.index(), |_| ());
        }
        self.calls_in -= 1;
        if command != 0 {
            self.tell_writer();
        }
        if self.incoming_live {
            self.write_reply(call.stream, flags, reply, current);
        }
        if command != 0 {
            self.store_reply(command, flags, reply, None);
        }
    }

    #[inline]
    fn has_room_for_watch(&self) -> bool {
        self.incoming_live && self.watches_in < self.config.limits.watches_max
    }

    /// Answers a call with an error that the caller may watch, as an answer like any other: it has
    /// a validator, and a later answer may be a value.
    pub fn reply_error(&mut self, call: CallId, error: &Error, validator: Validator) {
        let room = self.has_room_for_watch();
        let open = self.incoming.of(call).filter(|served| !served.state.is_watch());
        let Some(served) = open.filter(|served| room && served.may_watch()) else {
            return self.fail(call, error);
        };
        let current = served.is_current(Some(validator));
        let flags = served.http() | served.grant(validator);
        self.watches_in += 1;
        self.calls_in -= 1;
        self.write_watched_error(call.stream, flags, error, validator, current);
    }

    /// Answers with a body that is too large for a frame: the one item of a stream.
    #[cold]
    fn reply_large(&mut self, call: CallId, reply: &OutgoingReply<'_>) {
        self.reply_body(call, reply, &Bytes::copy_from_slice(reply.payload));
    }

    /// As [`reply`](Self::reply), with a body that is not copied if it goes in pieces. The payload
    /// of `head` is not looked at, and no watch is granted.
    pub fn reply_body(&mut self, call: CallId, head: &OutgoingReply<'_>, body: &Bytes) {
        if body.len() + varint::BYTES_MAX <= PIECE_BYTES {
            return self.reply(call, OutgoingReply { payload: body, watch: false, ..head.clone() });
        }
        let Some(served) = self.incoming.of(call) else { return self.end_orphan(call) };
        let open = !served.state.is_watch();
        let cancelled = served.has(mark::CANCELLED);
        if cancelled {
            return self.end_cancelled(call);
        }
        if open && body.len() > self.peer.limits.body_max as usize {
            let limit = self.peer.limits.body_max as usize;
            let error = over("the reply", body.len(), "body_max", limit);
            return self.fail_to_answer(call, &error);
        }
        if open && let Some(bound) = self.bound_over(body.len()) {
            return self.refuse_reply(call, body.len(), bound);
        }
        let split = head.metadata.split();
        let trailers = Bytes::copy_from_slice(split.trailers);
        let metadata = Metadata::from_checked(Bytes::copy_from_slice(split.head));
        self.reply_stream(call, &OutgoingReply { metadata, payload: &[], ..head.clone() });
        self.queue_body(call, body);
        self.finish_stream(call, Finish::end(trailers.to_vec()));
    }

    /// Answers a call that has a stream: the reply is its end, after what waits to be sent.
    #[cold]
    fn reply_to_stream(&mut self, call: CallId, reply: &OutgoingReply<'_>) {
        let Some(served) = self.incoming.of(call) else { return };
        let flags = flag::END | served.http();
        let has_head = served.stream.as_ref().is_some_and(|stream| stream.head.is_some());
        if reply.payload.len() + varint::BYTES_MAX > PIECE_BYTES && !has_head {
            return self.reply_large(call, reply);
        }
        let mut metadata = Vec::new();
        put_reply_metadata(&mut metadata, reply);
        let payload = Bytes::copy_from_slice(reply.payload);
        self.finish_stream(call, Finish { kind: Kind::Reply, flags, metadata, payload });
    }

    /// Writes a reply frame with its payload; where in the output its metadata is.
    #[inline(always)]
    fn write_whole(&mut self, stream: u32, flags: u8, reply: &OutgoingReply<'_>) -> Range<usize> {
        let out = &mut self.output.main;
        out.reserve(HEAD_BYTES + OWN_FIELDS_BYTES_MAX + reply.payload.len());
        let frame = frame::open(out, Kind::Reply, stream, flags);
        let start = out.len();
        put_reply_metadata(out, reply);
        let metadata = start..out.len();
        let frame = frame.metadata_ends(out);
        let mut packing =
            CompressionPolicy { compression: &mut self.compression, min: self.compress_min };
        let packed = packing.put(out, reply.payload);
        frame.flags(packed).finish(out);
        metadata
    }

    /// Writes a reply frame; without payload when the caller holds the answer, or it is too large.
    #[inline(never)]
    pub(crate) fn write_reply(
        &mut self,
        stream: u32,
        flags: u8,
        reply: &OutgoingReply<'_>,
        current: bool,
    ) {
        let large = flags & flag::WATCHED != 0 && reply.payload.len() > PAYLOAD_BYTES_MAX;
        let flags = match (current, large) {
            (true, _) => flags | flag::UNCHANGED,
            (false, true) => flags | flag::MORE,
            (false, false) => {
                self.write_whole(stream, flags, reply);
                return;
            }
        };
        self.write_whole(stream, flags, &OutgoingReply { payload: &[], ..reply.clone() });
    }

    /// Keeps the answer of a command, whose metadata may be in the output already.
    #[inline]
    fn store_reply(
        &mut self,
        command: u64,
        flags: u8,
        reply: &OutgoingReply<'_>,
        written: Option<Range<usize>>,
    ) {
        if self.features & feature::RESUME == 0 {
            return;
        }
        let kind = Kind::Reply as u8;
        let flags = (flags & flag::HTTP) | flag::END;
        if let Some(metadata) = written.and_then(|range| self.output.main.get(range)) {
            return self.window.finish(command, kind, flags, metadata, reply.payload);
        }
        let mut metadata = Vec::new();
        put_reply_metadata(&mut metadata, reply);
        self.window.finish(command, kind, flags, &metadata, reply.payload);
    }

    /// Whether the peer could take the reply.
    #[inline]
    pub(crate) fn check_reply(&self, reply: &OutgoingReply<'_>) -> Result<(), Error> {
        let metadata = reply.metadata.len() + reply.token.len() + OWN_FIELDS_BYTES_MAX;
        let limits = &self.peer.limits;
        if metadata > limits.metadata_max.into() {
            let limit = limits.metadata_max.into();
            return Err(over("reply metadata", metadata, "metadata_max", limit));
        }
        let whole = reply.payload.len();
        if whole > limits.body_max as usize {
            return Err(over("the reply", whole, "body_max", limits.body_max as usize));
        }
        let pending = self.output.main.len() + whole.min(PAYLOAD_BYTES_MAX);
        let limit = self.config.output_hard_max;
        if pending > limit {
            let name = self.config.bound_names.output_hard_max;
            return Err(over(UNREAD, pending, name, limit));
        }
        Ok(())
    }

    /// Ends a call with an error, which is the answer and comes after the items that were queued:
    /// what it says of a call that the handler made itself ([`Error::outcome`]) is not said of this
    /// one.
    pub fn fail(&mut self, call: CallId, error: &Error) {
        self.fail_with(call, error, Outcome::Answered);
    }

    /// The same of a hosted process, which says what the error was made of: `maps` are the headers
    /// and trailers of the error, with [`depends`](crate::MetadataBuilder::depends) between.
    pub fn fail_made_of(&mut self, call: CallId, error: &Error, maps: &Metadata) {
        self.end_with(call, error, Outcome::Answered, maps);
    }

    /// Ends a call without its answer, and says what became of it.
    pub fn refuse(&mut self, call: CallId, error: &Error, outcome: Outcome) {
        self.fail_with(call, error, outcome);
    }

    /// The answer cannot be sent: what a command did is done all the same.
    #[cold]
    pub(crate) fn fail_to_answer(&mut self, call: CallId, error: &Error) {
        let ran = self.incoming.of(call).is_some_and(|served| served.command != 0);
        self.fail_with(call, error, if ran { Outcome::ReplyLost } else { Outcome::Answered });
    }

    fn fail_with(&mut self, call: CallId, error: &Error, outcome: Outcome) {
        let maps = Metadata::from_maps(error.headers(), error.trailers());
        self.end_with(call, error, outcome, &maps);
    }

    fn end_with(&mut self, call: CallId, error: &Error, outcome: Outcome, maps: &Metadata) {
        let max = self.peer.limits.metadata_max;
        let Some(served) = self.incoming.of(call) else { return self.end_orphan(call) };
        if served.has(mark::CANCELLED) {
            return self.end_cancelled(call);
        }
        let command = served.command;
        let mut metadata = Vec::new();
        let is_streaming = served.stream.is_some();
        put_error_metadata(&mut metadata, error, outcome, maps, max);
        if is_streaming {
            let finish = Finish { kind: Kind::Error, flags: 0, metadata, payload: Bytes::new() };
            return self.finish_stream(call, finish);
        }
        if command != 0 {
            self.tell_writer();
            self.window.finish(command, Kind::Error as u8, 0, &metadata, &[]);
        }
        if self.incoming_live {
            put_error_frame(&mut self.output.main, call.stream, &metadata);
        }
        self.remove_served(call.index());
    }

    /// A command has run whose caller gave up.
    #[cold]
    fn end_cancelled(&mut self, call: CallId) {
        let Some(served) = self.incoming.of(call) else { return };
        self.window.finish_without_answer(served.command);
        self.tell_writer();
        if self.incoming_live {
            self.put_refusal(call, &Error::canceled("the caller gave up"), Outcome::ReplyLost);
        }
        self.remove_served(call.index());
    }

    /// A command has run whose caller does not know it any more.
    #[cold]
    fn end_orphan(&mut self, call: CallId) {
        let Some(at) = self.orphans.iter().position(|(orphan, _)| *orphan == call) else { return };
        let (_, id) = self.orphans.swap_remove(at);
        self.window.finish_without_answer(id);
    }

    /// Begins an answer that is a stream of items: headers now, items with
    /// [`push`](Self::push), trailers with [`finish`](Self::finish).
    pub fn reply_stream(&mut self, call: CallId, head: &OutgoingReply<'_>) {
        let live = self.incoming_live;
        if let Err(error) = self.check_reply(head) {
            return self.fail_to_answer(call, &error);
        }
        let Some(served) = self.incoming.of(call) else { return };
        if served.has(mark::CANCELLED) {
            // A unary command that answers with a stream, and nobody listens.
            return self.end_cancelled(call);
        }
        if served.state.is_watch() {
            return;
        }
        let flags = served.http();
        let command = served.command;
        let stream = served.stream.get_or_insert_default();
        if stream.head.is_some() || stream.send.finish.is_some() {
            return;
        }
        let mut metadata = Vec::new();
        put_reply_metadata(&mut metadata, head);
        stream.head = Some(metadata.clone());
        if command != 0 {
            self.tell_writer();
        }
        if live {
            write_head(&mut self.output.main, call.stream, flags, &metadata);
        }
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
            self.pool.dropped(Some(&stream));
            let held = stream.receive.unconsumed_bytes();
            self.return_credit(held);
        }
    }

    /// The caller gave up: ends the call now, whatever the handler does. A unary command runs on.
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
            self.drop_unsent(call);
            self.fail(call, &Error::canceled("the caller gave up"));
        } else if served.command != 0 {
            served.marks |= mark::CANCELLED;
            return Ok(());
        } else {
            self.fail(call, &Error::canceled("the caller gave up"));
        }
        self.events.push_back(Event::Cancelled { call });
        Ok(())
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
        let command = served.command;
        let is_over = served.stream.as_ref().is_some_and(|stream| stream.send.finish.is_some());
        let runs_on = served.stream.is_none() && command != 0;
        self.remove_served(index);
        if runs_on {
            self.orphans.push((call, command));
        } else if command != 0 {
            self.window.finish_without_answer(command);
        }
        if !is_over && !runs_on {
            self.events.push_back(Event::Cancelled { call });
        }
    }
}

pub(crate) fn write_head(out: &mut Vec<u8>, stream: u32, flags: u8, metadata: &[u8]) {
    let frame = frame::open(out, Kind::Reply, stream, flags);
    out.extend_from_slice(metadata);
    let frame = frame.metadata_ends(out);
    frame.finish(out);
}

pub(crate) fn put_stored(out: &mut Vec<u8>, stream: u32, stored: &StoredAnswer<'_>) {
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
    out.extend_from_slice(stored.body);
}

/// Writes the last frame of a stream.
pub(crate) fn write_finish(
    out: &mut Vec<u8>,
    stream: u32,
    finish: &Finish,
    packing: &mut CompressionPolicy<'_>,
) {
    let body = (&finish.metadata[..], &finish.payload);
    put_kept(out, finish.kind, stream, finish.flags, body, packing);
}

#[cold]
pub(crate) fn over(what: &str, size: usize, name: &str, limit: usize) -> Error {
    Error::resource_exhausted(format!("{what} at {size} bytes are over {name} = {limit}"))
}
