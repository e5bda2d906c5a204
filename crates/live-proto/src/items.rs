//! Stream items, in both directions and for both sides (specification 4).

use bytes::Bytes;
use tidewire_service::Messages;

use crate::callee::{write_finish, write_head};
use crate::caller::State;
use crate::event::{Event, Piece};
use crate::frame::{self, Kind, flag};
use crate::hello::feature;
use crate::message::Push;
use crate::metadata::Metadata;
use crate::output::CompressionPolicy;
use crate::reason::{Reason, Violation};
use crate::receive::FrameOutcome;
use crate::session::{NextEvent, Phase, Session};
use crate::slots::{CallId, index};
use crate::stream::{Finish, PIECE_BYTES, Room, Stream};
use crate::varint;

impl Session {
    /// The stream of a call, whoever made it.
    #[inline]
    fn stream_of(&mut self, call: CallId) -> Option<&mut Stream> {
        if self.is_ours(call.stream) {
            let outgoing = self.outgoing.of(call)?;
            (outgoing.state != State::Cancelled).then_some(outgoing.stream.as_deref_mut()?)
        } else {
            self.incoming.of(call)?.stream.as_deref_mut()
        }
    }

    #[inline]
    fn stream_at(&mut self, stream: u32) -> Option<&mut Stream> {
        if self.is_ours(stream) {
            self.outgoing.get_mut(index(stream))?.stream.as_deref_mut()
        } else {
            self.incoming.get_mut(index(stream))?.stream.as_deref_mut()
        }
    }

    /// Queues an item of a stream: of a request made with
    /// [`Request::streaming`](crate::Request::streaming), or of a reply begun with
    /// [`reply_stream`](Self::reply_stream).
    #[inline]
    pub fn push(&mut self, call: CallId, item: &[u8]) -> Push {
        let ours = self.is_ours(call.stream);
        let room = self.room(ours);
        let stream = if ours {
            let open = self.outgoing.of(call).filter(|call| call.state != State::Cancelled);
            open.and_then(|call| call.stream.as_deref_mut())
        } else {
            self.incoming.of(call).and_then(|served| served.stream.as_deref_mut())
        };
        let Some(stream) = stream else { return Push::Over };
        if !stream.takes_items(ours) {
            return Push::Over;
        }
        if !stream.send.has_room(room) {
            stream.send.wants_room = true;
            return Push::Full;
        }
        if item.len() + varint::BYTES_MAX > PIECE_BYTES {
            return self.push_pieces(call, &Bytes::copy_from_slice(item));
        }
        stream.send.push(item, &mut self.pool);
        if !stream.send.in_line {
            self.join_line(call.stream);
        }
        Push::Queued
    }

    /// Queues items that were put together before, all or none.
    pub fn push_messages(&mut self, call: CallId, messages: &mut Messages) -> Push {
        let ours = self.is_ours(call.stream);
        let room = self.room(ours);
        let mut pool = std::mem::take(&mut self.pool);
        let pushed = match self.stream_of(call) {
            Some(stream) if stream.takes_items(ours) => {
                if stream.send.has_room(room) {
                    stream.send.push_messages(messages, &mut pool);
                    Push::Queued
                } else {
                    stream.send.wants_room = true;
                    Push::Full
                }
            }
            _ => Push::Over,
        };
        self.pool = pool;
        if pushed == Push::Queued {
            self.join_line(call.stream);
        }
        pushed
    }

    /// As [`push`](Self::push), without a copy of an item that goes in pieces.
    pub fn push_shared(&mut self, call: CallId, item: &Bytes) -> Push {
        if item.len() + varint::BYTES_MAX <= PIECE_BYTES {
            return self.push(call, item);
        }
        let body_max = self.peer.limits.body_max as usize;
        let ours = self.is_ours(call.stream);
        let room = self.room(ours);
        let Some(stream) = self.stream_of(call) else { return Push::Over };
        if !stream.takes_items(ours) {
            return Push::Over;
        }
        if item.len() > body_max {
            return Push::TooLarge;
        }
        if !stream.send.has_room(room) {
            stream.send.wants_room = true;
            return Push::Full;
        }
        self.push_pieces(call, item)
    }

    #[cold]
    fn push_pieces(&mut self, call: CallId, item: &Bytes) -> Push {
        if item.len() > self.peer.limits.body_max as usize {
            return Push::TooLarge;
        }
        self.queue_item(call, item);
        Push::Queued
    }

    /// Queues the one item of a call, which is kept until its end was seen.
    pub(crate) fn queue_body(&mut self, call: CallId, body: &Bytes) {
        if let Some(stream) = self.stream_of(call) {
            stream.send.is_whole = true;
        }
        self.queue_item(call, body);
    }

    /// Queues an item of any size, whatever else is queued.
    fn queue_item(&mut self, call: CallId, item: &Bytes) {
        let mut pool = std::mem::take(&mut self.pool);
        if let Some(stream) = self.stream_of(call) {
            if item.len() + varint::BYTES_MAX > PIECE_BYTES {
                stream.send.push_pieces(item, &mut pool);
            } else {
                stream.send.push(item, &mut pool);
            }
        }
        self.pool = pool;
        self.join_line(call.stream);
    }

    /// Ends the items of this side, with trailers from a callee.
    pub fn finish(&mut self, call: CallId, trailers: &Metadata) {
        self.finish_stream(call, Finish::end(trailers.raw().to_vec()));
    }

    pub(crate) fn finish_stream(&mut self, call: CallId, finish: Finish) {
        let Some(stream) = self.stream_of(call) else { return };
        if stream.send.finish.is_some() {
            return;
        }
        stream.send.finish = Some(finish);
        self.join_line(call.stream);
    }

    /// Drops the items of a callee that are not sent.
    pub(crate) fn drop_unsent(&mut self, call: CallId) {
        let mut pool = std::mem::take(&mut self.pool);
        if let Some(stream) = self.stream_of(call) {
            stream.send.clear(&mut pool);
        }
        self.pool = pool;
    }

    /// Asks the caller for no more items, while the answer goes on.
    pub fn stop(&mut self, call: CallId) {
        if self.is_ours(call.stream) {
            return;
        }
        let live = self.incoming_live;
        let Some(stream) = self.stream_of(call) else { return };
        // What ends the call says so too, and after it the caller knows of no call.
        if stream.send.finish.is_some() {
            return;
        }
        if !std::mem::replace(&mut stream.stopped, true) && !stream.receive.ended && live {
            frame::put(&mut self.output.main, Kind::Cancel, call.stream, 0, &[]);
        }
    }

    /// The application is done with so many bytes of items; the sender may send as many again. It
    /// is told in quarters of a window: [`has_control`](Self::has_control).
    pub fn consumed(&mut self, call: CallId, bytes: u64) {
        let window = self.config.limits.stream_credit;
        let ours = self.is_ours(call.stream);
        let Some(stream) = self.stream_of(call) else { return };
        let bytes = bytes.min(stream.receive.unconsumed_bytes());
        let owed = stream.receive.consume(bytes, window);
        self.give_credit(call, ours, owed);
        self.return_credit(bytes);
    }

    /// The application has put aside bytes of an item that is not complete, and has no room for
    /// more of it: the peer may send as many on other streams.
    /// [`take_more`](Self::take_more) lets this one go on.
    pub fn put_aside(&mut self, call: CallId, bytes: u64) {
        let Some(stream) = self.stream_of(call) else { return };
        let bytes = bytes.min(stream.receive.unconsumed_bytes());
        stream.receive.return_early(bytes);
        self.return_credit(bytes);
    }

    /// What was put aside of a stream counts as consumed from now on.
    pub fn take_more(&mut self, call: CallId) {
        let window = self.config.limits.stream_credit;
        let ours = self.is_ours(call.stream);
        let Some(stream) = self.stream_of(call) else { return };
        let owed = stream.receive.consume_early(window);
        self.give_credit(call, ours, owed);
    }

    /// Credit that is due on a stream.
    fn give_credit(&mut self, call: CallId, ours: bool, owed: Option<u64>) {
        let live = self.is_live(call.stream);
        let Some(stream) = self.stream_of(call) else { return };
        // Nor does a caller know of a call that its callee has ended.
        let ended = stream.receive.ended || !ours && stream.send.finish.is_some();
        if let Some(owed) = owed
            && !ended
            && live
        {
            self.output.put_number(Kind::Credit, call.stream, 0, owed);
        }
    }

    /// How much a stream may queue: what the peer takes, as far as this side keeps so much; and
    /// without a connection nothing of an answer, since nobody may ever come for it.
    #[inline]
    fn room(&self, ours: bool) -> Room {
        if self.phase != Phase::Open && !ours {
            return Room { window: 0, is_wide: false };
        }
        let is_wide = self.pool.held < self.config.items_held_max && !self.is_over_budget;
        Room { window: self.peer.limits.stream_credit.min(self.config.stream_queued_max), is_wide }
    }

    /// Whether credit, or another frame of the connection itself, waits to be written.
    pub fn has_control(&self) -> bool {
        !self.output.control.is_empty()
    }

    /// Returns bytes on the connection level.
    pub(crate) fn return_credit(&mut self, bytes: u64) {
        if let Some(owed) = self.receive_window.consumed(bytes)
            && self.phase == Phase::Open
        {
            self.output.put_number(Kind::Credit, 0, 0, owed);
        }
    }

    fn is_live(&self, stream: u32) -> bool {
        if self.is_ours(stream) { self.outgoing_live } else { self.incoming_live }
    }

    /// Puts a stream into the line of those that have something to send.
    pub(crate) fn join_line(&mut self, stream: u32) {
        if !self.is_live(stream) {
            return;
        }
        if let Some(state) = self.stream_at(stream)
            && !std::mem::replace(&mut state.send.in_line, true)
        {
            self.output.line.push_back(stream);
        }
    }

    /// Writes one turn of a stream. False when the connection has no credit: then it stays first.
    pub(crate) fn write_stream(&mut self, stream: u32, out: &mut Vec<u8>) -> bool {
        let window = self.peer.limits.stream_credit;
        let room = self.room(self.is_ours(stream));
        let zstd = self.features & feature::ZSTD != 0;
        let resume = self.features & feature::RESUME != 0;
        let is_full = self.is_over_budget || self.pool.held > self.config.output_hard_max;
        let min = if zstd { self.config.compress_min } else { usize::MAX };
        let may_send = self.send_window.may_send();
        let ours = self.is_ours(stream);
        let slot = index(stream);
        let generation =
            if ours { self.outgoing.generation(slot) } else { self.incoming.generation(slot) };
        let mut compression =
            std::mem::replace(&mut self.compression, crate::compress::Compression::new());
        let mut packing = CompressionPolicy { compression: &mut compression, min };
        let mut pool = std::mem::take(&mut self.pool);
        let mut sent = 0;
        let mut goes_on = true;
        if let Some(state) = self.stream_at(stream) {
            state.send.in_line = false;
            if state.send.may_send(window) {
                if may_send {
                    let (chunk, more) = state.send.next(&mut pool);
                    sent = chunk.len() as u64;
                    let flags = if more { flag::MORE } else { 0 };
                    let frame = frame::open(out, Kind::Items, stream, flags);
                    let packed = packing.put(out, chunk);
                    frame.flags(packed).finish(out);
                    let keep = resume && (state.send.is_whole || !is_full);
                    state.send.advance(keep, &mut pool);
                } else {
                    goes_on = false;
                }
            }
            if state.send.is_drained() && !state.send.finish_sent {
                if let Some(finish) = &state.send.finish {
                    write_finish(out, stream, finish, &mut packing);
                    state.send.finish_sent = true;
                }
            } else {
                state.send.in_line = state.send.may_send(window);
            }
            let in_line = state.send.in_line;
            let has_room = state.send.has_room(room) && state.send.wants_room;
            if has_room {
                state.send.wants_room = false;
                self.events.push_back(Event::Writable { call: CallId { stream, generation } });
            }
            match in_line {
                true if goes_on => self.output.line.push_back(stream),
                true => self.output.line.push_front(stream),
                false => {}
            }
        }
        self.send_window.sent(sent);
        self.pool = pool;
        self.compression = compression;
        goes_on
    }

    pub(crate) fn receive_items(&mut self) -> Result<NextEvent, Violation> {
        let stream = self.reader.head().stream;
        self.unpack()?;
        let bytes = self.received_payload().bytes().len() as u64;
        self.receive_window.received(bytes)?;
        let window = self.config.limits.stream_credit;
        let slot = index(stream);
        let ours = self.is_ours(stream);
        let (state, generation, wanted) = if ours {
            let call = self.outgoing.at(slot);
            let Some((generation, call)) = call.filter(|(_, call)| call.state != State::Waiting)
            else {
                return Err(self.no_stream(stream));
            };
            let wanted = call.state != State::Cancelled;
            (call.stream.as_deref_mut().filter(|s| s.head.is_some()), generation, wanted)
        } else {
            if slot >= self.slots_in {
                return Err(self.misplaced(stream).unwrap_or_else(|| over_the_bound("items")));
            }
            let Some((generation, call)) = self.incoming.at(slot) else {
                self.return_credit(bytes);
                return Ok(NextEvent::Nothing);
            };
            (call.stream.as_deref_mut().filter(|s| !s.receive.ended), generation, true)
        };
        let Some(state) = state else {
            return Err(Violation::new(Reason::Unexpected, "items where no stream is open"));
        };
        if !state.receive.may_receive(window) {
            return Err(Violation::new(
                Reason::Credit,
                format!("items arrived over stream_credit = {window}"),
            ));
        }
        state.receive.received += bytes;
        let more = self.reader.head().has(flag::MORE);
        let is_piece = more || state.receive.partial > 0;
        if is_piece {
            let whole = state.receive.partial + bytes;
            if bytes == 0 || whole > self.config.limits.body_max.into() {
                return Err(bad_piece(bytes, self.config.limits.body_max));
            }
            state.receive.partial = if more { whole } else { 0 };
        }
        let is_over = !ours && state.send.finish.is_some();
        if !wanted || is_over {
            // Nobody will consume them: the connection gets its credit back at once.
            let _ = state.receive.consume(bytes, window);
            self.return_credit(bytes);
            return Ok(NextEvent::Nothing);
        }
        self.received = CallId { stream, generation };
        if is_piece {
            let piece = Piece { bytes: self.received_payload().share(), last: !more };
            self.events.push_back(Event::Piece { call: self.received, piece });
            return Ok(NextEvent::Nothing);
        }
        if !are_items(self.received_payload().bytes()) {
            return Err(Violation::malformed("items are not a sequence of strings"));
        }
        Ok(NextEvent::Items)
    }

    #[cold]
    fn no_stream(&self, stream: u32) -> Violation {
        self.misplaced(stream).unwrap_or_else(|| unknown(stream))
    }

    /// The caller has sent all its items.
    pub(crate) fn receive_end_of_request(&mut self) -> FrameOutcome {
        let metadata = self.metadata_of()?;
        let stream = self.reader.head().stream;
        if index(stream) >= self.slots_in {
            return Err(over_the_bound("an end"));
        }
        let Some((generation, call)) = self.incoming.at(index(stream)) else { return Ok(None) };
        match call.stream.as_deref_mut().filter(|stream| !stream.receive.ended) {
            Some(state) => state.receive.ended = true,
            None => {
                return Err(Violation::new(Reason::Unexpected, "an end where no stream is open"));
            }
        }
        let is_over = call.stream.as_ref().is_some_and(|stream| stream.send.finish.is_some());
        let call = CallId { stream, generation };
        Ok((!is_over).then_some(Event::End { call, metadata }))
    }

    pub(crate) fn receive_credit(&mut self) -> FrameOutcome {
        let stream = self.reader.head().stream;
        let mut payload = self.reader.payload();
        let bytes = varint::take(&mut payload)
            .filter(|_| payload.is_empty())
            .ok_or_else(|| Violation::malformed("credit is not one number"))?;
        if stream == 0 {
            self.send_window.credited(bytes)?;
            return Ok(None);
        }
        let ours = self.is_ours(stream);
        if !ours && index(stream) >= self.slots_in {
            return Err(over_the_bound("credit"));
        }
        let mut pool = std::mem::take(&mut self.pool);
        let credited = self.stream_at(stream).map(|state| state.send.credit(bytes, &mut pool));
        self.pool = pool;
        match credited {
            Some(credited) => credited?,
            None if ours => return Err(unknown(stream)),
            None => return Ok(None),
        }
        if self.reader.head().has(flag::END) {
            return self.receive_end_seen(stream);
        }
        self.join_line(stream);
        Ok(None)
    }

    /// The caller acknowledged the end of a stream call: its slot is free.
    fn receive_end_seen(&mut self, stream: u32) -> FrameOutcome {
        let slot = index(stream);
        let sent = |served: &crate::callee::PeerCall| {
            served.stream.as_ref().is_some_and(|stream| stream.send.finish_sent)
        };
        if self.is_ours(stream) || !self.incoming.get(slot).is_some_and(sent) {
            return Err(Violation::new(
                Reason::Unexpected,
                "an end acknowledged that was not sent",
            ));
        }
        let command = self.incoming.get(slot).map_or(0, |served| served.command);
        if command != 0 {
            self.window.finish_without_answer(command);
        }
        self.remove_served(slot);
        Ok(None)
    }

    /// After resuming: what a stream of this side's answers must say again.
    pub(crate) fn restart_stream(&mut self, stream: u32, has_head: bool) {
        let http = self.incoming.get(index(stream)).map_or(0, |served| served.http());
        let Some(state) = self.incoming.get(index(stream)).and_then(|s| s.stream.as_deref()) else {
            return;
        };
        if let (Some(head), false) = (&state.head, has_head) {
            write_head(&mut self.output.main, stream, http, head);
        }
        if state.stopped && !state.receive.ended {
            frame::put(&mut self.output.main, Kind::Cancel, stream, 0, &[]);
        }
        self.join_line(stream);
    }
}

#[cold]
fn bad_piece(bytes: u64, body_max: u32) -> Violation {
    if bytes == 0 {
        return Violation::malformed("an empty piece of an item");
    }
    Violation::new(Reason::TooLarge, format!("an item is over body_max = {body_max}"))
}

/// Whether every byte belongs to an item, and there is one.
fn are_items(payload: &[u8]) -> bool {
    let mut rest = payload;
    while !rest.is_empty() {
        if varint::take_string(&mut rest).is_none() {
            return false;
        }
    }
    !payload.is_empty()
}

#[cold]
fn over_the_bound(what: &str) -> Violation {
    Violation::new(Reason::StreamNumber, format!("{what} on a number over the bound"))
}

fn unknown(stream: u32) -> Violation {
    Violation::new(
        Reason::UnknownStream,
        format!("items or credit on stream {stream}, where no call is open"),
    )
}
