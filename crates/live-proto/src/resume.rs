//! After a reconnect: each side names its open calls once, the other says which of them go on
//! (specification 6).
//!
//! | entry | goes on when the callee | otherwise the caller |
//! |---|---|---|
//! | 0 unary | still works on it | sends it again; a command finds the window |
//! | 1 watch | has it, fresh, under the same validator | asks again with its validator, spread in time |
//! | 2 stream | has it; both sides go on from the byte the other names | sends it again from the start |

use crate::callee::{PeerCallState, mark};
use crate::caller::State;
use crate::credit::SendWindow;
use crate::event::Event;
use crate::frame::{self, Kind, PAYLOAD_BYTES_MAX, flag};
use crate::hello::feature;
use crate::pending_calls::PendingCall;
use crate::reason::{Reason, Violation};
use crate::receive::FrameOutcome;
use crate::session::{Phase, Session};
use crate::slots::index;
use crate::varint;

const UNARY: u8 = 0;
const WATCH: u8 = 1;
const STREAM: u8 = 2;
/// In the state of a stream: the caller received the head of the reply.
const HAS_HEAD: u8 = 1;
/// In the state of a stream: the callee received the caller's end.
const HAS_END: u8 = 2;

/// One open call, as the peer names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    stream: u32,
    call: Call,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Unary(u32),
    Watch([u8; 16]),
    Stream(u32, Position),
}

/// Where one direction of a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Position {
    flags: u8,
    received: u64,
    credited: u64,
}

impl Position {
    fn put(self, out: &mut Vec<u8>) {
        out.push(self.flags);
        varint::put(out, self.received);
        varint::put(out, self.credited);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        let (&flags, rest) = input.split_first()?;
        *input = rest;
        Some(Self { flags, received: varint::take(input)?, credited: varint::take(input)? })
    }
}

fn take_entry(input: &mut &[u8], previous: u32) -> Option<Entry> {
    let step = u32::try_from(varint::take(input)?).ok().filter(|&step| step > 0)?;
    let stream = previous.checked_add(step)?;
    let (&kind, rest) = input.split_first()?;
    *input = rest;
    let call = match kind {
        UNARY => Call::Unary(take_u32(input)?),
        WATCH => {
            let (validator, rest) = input.split_first_chunk()?;
            *input = rest;
            Call::Watch(*validator)
        }
        STREAM => Call::Stream(take_u32(input)?, Position::take(input)?),
        _ => return None,
    };
    Some(Entry { stream, call })
}

fn take_u32(input: &mut &[u8]) -> Option<u32> {
    u32::try_from(varint::take(input)?).ok()
}

/// Writes a payload in as many frames as it needs.
pub(crate) fn put_parts(out: &mut Vec<u8>, kind: Kind, payload: &[u8]) {
    let mut rest = payload;
    while rest.len() > PAYLOAD_BYTES_MAX {
        let (part, after) = rest.split_at(PAYLOAD_BYTES_MAX);
        frame::put(out, kind, 0, flag::MORE, part);
        rest = after;
    }
    frame::put(out, kind, 0, 0, rest);
}

/// A whole `resume`.
#[derive(Debug, PartialEq, Eq)]
struct NamedCalls {
    unconsumed: u64,
    requests: u32,
    entries: Vec<Entry>,
}

fn decode(mut input: &[u8], slots: u32) -> Option<NamedCalls> {
    let unconsumed = varint::take(&mut input)?;
    let requests = take_u32(&mut input)?;
    let count = usize::try_from(varint::take(&mut input)?).ok()?;
    if count > slots as usize || count > input.len() {
        return None;
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(count);
    for _ in 0..count {
        let previous = entries.last().map_or(0, |entry| entry.stream);
        entries.push(take_entry(&mut input, previous)?);
    }
    input.is_empty().then_some(NamedCalls { unconsumed, requests, entries })
}

impl Session {
    /// What was on the wire is gone; what can be named later stays.
    pub(crate) fn forget_lost_frames(&mut self) {
        for index in self.outgoing.indexes().collect::<Vec<_>>() {
            let Some(call) = self.outgoing.get_mut(index) else { continue };
            if let Some(stream) = &mut call.stream {
                stream.send.in_line = false;
            }
            if call.state == State::Cancelled && !call.runs_on() {
                self.free_outgoing(index);
            }
        }
        for index in self.incoming.indexes().collect::<Vec<_>>() {
            let Some(served) = self.incoming.get_mut(index) else { continue };
            if let Some(stream) = &mut served.stream {
                stream.send.in_line = false;
            }
            if served.state.is_watch() {
                served.marks &= !mark::UNSEEN;
            }
            if served.state == PeerCallState::Told {
                served.state = PeerCallState::Suspect;
            }
        }
    }

    /// Names the open calls of this side.
    pub(crate) fn send_resume(&mut self) {
        self.listed.clear();
        let mut entries = Vec::new();
        let mut previous = 0;
        for (index, call) in self.outgoing.iter() {
            let kind = match (call.state, &call.stream) {
                (State::Waiting, _) => continue,
                (State::Cancelled, _) if !call.runs_on() => continue,
                (_, Some(_)) => STREAM,
                (State::Watching, None) => WATCH,
                (State::Sent | State::Cancelled, None) => UNARY,
            };
            let stream = self.own_stream(index);
            varint::put(&mut entries, (stream - previous).into());
            previous = stream;
            entries.push(kind);
            if kind != WATCH {
                varint::put(&mut entries, call.number.into());
            }
            if let Some(items) = &call.stream {
                let receive = &items.receive;
                let flags = if items.head.is_some() { HAS_HEAD } else { 0 };
                let received = receive.received;
                let credited = receive.credited;
                Position { flags, received, credited }.put(&mut entries);
            } else if kind == WATCH {
                let validator = call.request.validator.expect("a watch has a validator");
                entries.extend_from_slice(&validator.bytes());
            }
            self.listed.push((index, kind));
        }
        let mut whole = Vec::with_capacity(entries.len() + 3 * varint::BYTES_MAX);
        varint::put(&mut whole, self.receive_window.unconsumed_bytes());
        varint::put(&mut whole, self.requests_out.into());
        varint::put(&mut whole, self.listed.len() as u64);
        whole.extend_from_slice(&entries);
        put_parts(&mut self.output.control, Kind::Resume, &whole);
    }

    /// Whether a `resume` or `resumed` may come now.
    pub(crate) fn check_due(&self, kind: Kind) -> Result<(), Violation> {
        let due = match kind {
            Kind::Resume => !self.incoming_live,
            Kind::Resumed => !self.outgoing_live,
            _ => return self.need(feature::HOSTED, "hosted"),
        };
        if due && self.phase == Phase::Open {
            return Ok(());
        }
        Err(Violation::new(Reason::Unexpected, format!("a {} that was not due", kind.as_str())))
    }

    /// The peer names its open calls.
    pub(crate) fn receive_resume(&mut self, payload: &[u8]) -> FrameOutcome {
        let slots = self.slots_in;
        let NamedCalls { unconsumed, requests, entries } = decode(payload, slots)
            .filter(|named| named.entries.iter().all(|entry| !self.is_ours(entry.stream)))
            .ok_or_else(|| Violation::malformed("a resume that does not fit"))?;
        for slot in self.incoming.indexes().collect::<Vec<_>>() {
            let stream = self.peer_stream(slot);
            if entries.binary_search_by_key(&stream, |entry| entry.stream).is_err() {
                self.drop_served(slot);
            }
        }
        self.send_window = SendWindow::new(self.peer.limits.connection_credit, unconsumed);
        self.requests_in = requests;
        self.incoming_live = true;
        let mut answer = vec![0u8; entries.len().div_ceil(8)];
        let mut restarts = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            if !self.goes_on(entry)? {
                self.drop_served(index(entry.stream));
                continue;
            }
            answer[number / 8] |= 1 << (number % 8);
            let served = self.incoming.get(index(entry.stream)).and_then(|s| s.stream.as_deref());
            let Some(stream) = served else { continue };
            let has_head = matches!(entry.call, Call::Stream(_, at) if at.flags & HAS_HEAD != 0);
            restarts.push((entry.stream, has_head));
            if matches!(entry.call, Call::Stream(..)) {
                let receive = &stream.receive;
                let flags = if receive.ended { HAS_END } else { 0 };
                let received = receive.received;
                let credited = receive.credited;
                Position { flags, received, credited }.put(&mut answer);
            }
        }
        put_parts(&mut self.output.control, Kind::Resumed, &answer);
        for (stream, has_head) in restarts {
            self.restart_stream(stream, has_head);
        }
        Ok(self.outgoing_live.then_some(Event::Connected { resumed: true }))
    }

    /// Whether a call that the peer names is one that this side still holds.
    fn goes_on(&mut self, entry: &Entry) -> Result<bool, Violation> {
        let Some(served) = self.incoming.get_mut(index(entry.stream)) else { return Ok(false) };
        let is_watch = served.state.is_watch();
        let position = match entry.call {
            Call::Watch(validator) => {
                return Ok(served.state == PeerCallState::Fresh && served.validator == validator);
            }
            // The end of an earlier stream in this slot was seen, and the caller's word of it lost.
            Call::Unary(number) | Call::Stream(number, _)
                if !is_watch && number != served.count =>
            {
                return Ok(false);
            }
            Call::Unary(_) if is_watch => return Ok(false),
            Call::Unary(_) => Position::default(),
            Call::Stream(..) if served.stream.is_none() => return Ok(false),
            Call::Stream(_, position) => position,
        };
        if let Some(stream) = &mut served.stream {
            if !stream.send.keeps(position.received) {
                return Ok(false);
            }
            stream.send.rewind(position.received, position.credited, &mut self.pool)?;
        }
        Ok(true)
    }

    /// The peer says which of the named calls go on.
    pub(crate) fn receive_resumed(&mut self, payload: &[u8]) -> FrameOutcome {
        let listed = std::mem::take(&mut self.listed);
        let misfit = || Violation::malformed("a resumed that does not fit its resume");
        let (bitmap, mut rest) =
            payload.split_at_checked(listed.len().div_ceil(8)).ok_or_else(misfit)?;
        self.outgoing_live = true;
        let mut watches = Vec::new();
        let mut calls = Vec::new();
        for (number, &(index, kind)) in listed.iter().enumerate() {
            let goes_on = bitmap[number / 8] & 1 << (number % 8) != 0;
            let mut position = Position::default();
            if goes_on && kind == STREAM {
                position = Position::take(&mut rest).ok_or_else(misfit)?;
            }
            if goes_on {
                self.go_on(index, position)?;
            } else if self.start_over(index)? {
                let generation = self.outgoing.generation(index);
                if kind == WATCH { &mut watches } else { &mut calls }
                    .push(PendingCall { index, generation });
            }
        }
        if !rest.is_empty() {
            return Err(misfit());
        }
        // In the order of their ids: else a later one could be forgotten before an earlier one
        // came.
        let id = |index| self.outgoing.get(index).map_or(0, |call| call.command);
        calls.sort_by_key(|call| (id(call.index) == 0, id(call.index)));
        for call in calls {
            self.again.soon(call);
        }
        self.again.spread(self.now, &watches);
        self.send_waiting();
        Ok(self.incoming_live.then_some(Event::Connected { resumed: true }))
    }

    fn go_on(&mut self, index: u32, position: Position) -> Result<(), Violation> {
        let stream = self.own_stream(index);
        let Some(call) = self.outgoing.get_mut(index) else { return Ok(()) };
        if let Some(items) = &mut call.stream {
            if !items.send.keeps(position.received) {
                self.give_up(index, Reason::Drain, "its items were not kept");
                return Ok(());
            }
            items.send.rewind(position.received, position.credited, &mut self.pool)?;
            items.send.finish_sent = position.flags & HAS_END != 0;
        }
        if call.state == State::Cancelled {
            frame::put(&mut self.output.main, Kind::Cancel, stream, 0, &[]);
        } else if call.stream.is_some() {
            self.join_line(stream);
        } else {
            self.confirm(index);
        }
        Ok(())
    }

    /// The callee does not hold the call: it is sent again. False when it ended instead.
    fn start_over(&mut self, index: u32) -> Result<bool, Violation> {
        let Some(call) = self.outgoing.get_mut(index) else { return Ok(false) };
        if call.state == State::Cancelled {
            self.free_outgoing(index);
            return Ok(false);
        }
        if call.stream.as_ref().is_some_and(|stream| stream.head.is_some()) {
            self.give_up(index, Reason::Drain, "the peer did not keep the stream");
            return Ok(false);
        }
        match &mut call.stream {
            // One body that goes in pieces is there still, however many the peer had taken in.
            Some(stream) if stream.send.is_whole => self.load_body(index),
            Some(stream) if !stream.send.keeps_all() => {
                self.give_up(index, Reason::Drain, "its items were not kept");
                return Ok(false);
            }
            Some(stream) => stream.send.rewind(0, 0, &mut self.pool)?,
            None => {}
        }
        let Some(call) = self.outgoing.get_mut(index) else { return Ok(false) };
        if std::mem::take(&mut call.counted) {
            self.calls_out -= 1;
        }
        if std::mem::replace(&mut call.state, State::Waiting) == State::Watching {
            // The replica is not confirmed: its reader must know before any later answer comes.
            self.suspect(index);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_broken_ones_do_not() {
        let mut out = vec![9, 8, 3, 1, UNARY, 5, 2, WATCH];
        out.extend_from_slice(&[7; 16]);
        out.extend_from_slice(&[4, STREAM, 6, HAS_HEAD, 100, 50]);
        let at = Position { flags: HAS_HEAD, received: 100, credited: 50 };
        let entries = vec![
            Entry { stream: 1, call: Call::Unary(5) },
            Entry { stream: 3, call: Call::Watch([7; 16]) },
            Entry { stream: 7, call: Call::Stream(6, at) },
        ];
        let named = NamedCalls { unconsumed: 9, requests: 8, entries };
        assert_eq!(decode(&out, 10), Some(named));
        assert_eq!(decode(&out, 2), None, "more than there are slots");
        for end in 0..out.len() {
            assert_eq!(decode(&out[..end], 10), None, "cut off at {end}");
        }
        assert_eq!(decode(&[0, 0, 1, 0, 0, 0], 10), None, "a step of zero");
        assert_eq!(decode(&[0, 0, 1, 1, 3], 10), None, "an unknown type");
    }
}
