//! Which frame goes where, and the frames of the connection itself.

use bytes::Bytes;

use crate::event::{ChangedSources, Event, Payload};
use crate::fields::Fields;
use crate::frame::{Head, Kind, PAYLOAD_BYTES_MAX, flag};
use crate::hello::feature;
use crate::metadata::Metadata;
use crate::reason::{Reason, Violation};
use crate::session::{NextEvent, Phase, Session};
use crate::{varint, watch};

/// The most bytes of a ping.
const PING_BYTES_MAX: usize = 64;
/// The most bytes of an entry of `resume`.
const ENTRY_BYTES_MAX: usize = 36;
/// The most bytes of `descriptors`.
const DESCRIPTORS_BYTES_MAX: usize = 16 << 20;

/// What a frame is for the application, beside requests, replies and items.
pub(crate) type FrameOutcome = Result<Option<Event<'static>>, Violation>;

impl Session {
    /// Handles the reader's frame. The frequent kinds have their own functions, so that these
    /// stay small.
    #[inline(always)]
    pub(crate) fn receive(&mut self) -> NextEvent {
        const REQUEST: u8 = Kind::Request as u8;
        const REPLY: u8 = Kind::Reply as u8;
        const ITEMS: u8 = Kind::Items as u8;
        match self.reader.head().kind {
            REQUEST => self.on_request(),
            REPLY => self.on_reply(),
            ITEMS => self.on_items(),
            _ => self.on_other(),
        }
    }

    #[inline(never)]
    fn on_request(&mut self) -> NextEvent {
        let received = self.receive_request();
        self.settle(received)
    }

    #[inline(never)]
    fn on_reply(&mut self) -> NextEvent {
        let received = self.receive_reply();
        self.settle(received)
    }

    #[inline(never)]
    fn on_items(&mut self) -> NextEvent {
        let received = self.receive_items();
        self.settle(received)
    }

    #[inline(never)]
    fn on_other(&mut self) -> NextEvent {
        let received = self.receive_other().map(|event| {
            self.events.extend(event);
            NextEvent::Nothing
        });
        self.settle(received)
    }

    /// A violation ends the connection.
    #[inline(always)]
    fn settle(&mut self, received: Result<NextEvent, Violation>) -> NextEvent {
        match received {
            Ok(next) => next,
            Err(violation) => {
                self.close(violation);
                NextEvent::Nothing
            }
        }
    }

    fn receive_other(&mut self) -> FrameOutcome {
        let Head { kind, stream, .. } = self.reader.head();
        let Some(kind) = Kind::from_number(kind) else { return Ok(None) };
        if self.phase == Phase::Greeting && !matches!(kind, Kind::Hello | Kind::Goaway) {
            return Err(before_hello());
        }
        match kind {
            Kind::Error | Kind::End if stream == 0 => Err(on_connection()),
            Kind::End if !self.is_ours(stream) => self.receive_end_of_request(),
            Kind::End => self.receive_end_of_reply(),
            Kind::Error => self.receive_error(),
            Kind::Cancel => self.receive_cancel(),
            Kind::Credit => self.receive_credit(),
            _ if stream != 0 => Err(Violation::malformed("a connection's frame on a stream")),
            _ => self.receive_of_connection(kind),
        }
    }

    /// Why a frame of a call cannot be taken, whatever its kind.
    #[cold]
    pub(crate) fn misplaced(&self, stream: u32) -> Option<Violation> {
        if self.phase == Phase::Greeting {
            Some(before_hello())
        } else if stream == 0 {
            Some(on_connection())
        } else {
            None
        }
    }

    fn receive_of_connection(&mut self, kind: Kind) -> FrameOutcome {
        match kind {
            Kind::Hello if self.phase == Phase::Greeting => self.receive_hello(),
            Kind::Hello => Err(Violation::new(Reason::Unexpected, "a second hello")),
            Kind::Auth => self.receive_auth(),
            Kind::Ping => self.receive_ping(),
            Kind::Pong => Ok(self.receive_pong()),
            Kind::Goaway => self.receive_goaway(),
            Kind::Stale => self.receive_stale(),
            Kind::Seen => self.receive_seen(),
            Kind::Resume | Kind::Resumed | Kind::Descriptors => self.receive_part(kind),
            _ => self.receive_of_process(kind),
        }
    }

    /// A frame that may go on in the next one of its kind.
    fn receive_part(&mut self, kind: Kind) -> FrameOutcome {
        self.check_due(kind)?;
        let going_on = self.part_kind.replace(kind);
        if going_on.is_some_and(|before| before != kind) {
            return Err(Violation::malformed("a frame in pieces changes its kind"));
        }
        self.part.extend_from_slice(self.reader.payload());
        if self.part.len() > self.part_bytes_max(kind) {
            let message = format!("{} is over what its limits allow", kind.as_str());
            return Err(Violation::new(Reason::TooLarge, message));
        }
        if self.reader.head().has(flag::MORE) {
            return Ok(None);
        }
        self.part_kind = None;
        let whole = std::mem::take(&mut self.part);
        match kind {
            Kind::Resume => self.receive_resume(&whole),
            Kind::Resumed => self.receive_resumed(&whole),
            _ => Ok(Some(Event::Descriptors(whole.into()))),
        }
    }

    /// What only a hosted process says, or its host.
    fn receive_of_process(&mut self, kind: Kind) -> FrameOutcome {
        self.need(feature::HOSTED, "hosted")?;
        match kind {
            Kind::Ready => Ok(Some(Event::Ready)),
            Kind::Busy => {
                let mut payload = self.reader.payload();
                let jobs = varint::take(&mut payload)
                    .ok_or_else(|| Violation::malformed("busy without a number"))?;
                Ok(Some(Event::Busy(jobs)))
            }
            Kind::Log => self.receive_log(),
            _ => receive_changed(self.reader.share_payload()),
        }
    }

    /// Whether a stream number is one that this side gives.
    #[inline]
    pub(crate) fn is_ours(&self, stream: u32) -> bool {
        (stream & 1 == 1) == self.dialer
    }

    /// The stream of a slot of this side.
    #[inline]
    pub(crate) fn own_stream(&self, index: u32) -> u32 {
        index * 2 + if self.dialer { 1 } else { 2 }
    }

    /// The stream of a slot of the peer.
    #[inline]
    pub(crate) fn peer_stream(&self, index: u32) -> u32 {
        index * 2 + if self.dialer { 2 } else { 1 }
    }

    /// The most bytes of a `resume`, `resumed` or `descriptors`.
    fn part_bytes_max(&self, kind: Kind) -> usize {
        if kind == Kind::Descriptors {
            return DESCRIPTORS_BYTES_MAX;
        }
        let calls = self.slots_in.max(self.slots_out) as usize;
        calls.saturating_mul(ENTRY_BYTES_MAX).saturating_add(PAYLOAD_BYTES_MAX)
    }

    /// Decompresses the payload, if need be, for [`received_payload`](Self::received_payload).
    #[inline(always)]
    pub(crate) fn unpack(&mut self) -> Result<(), Violation> {
        if self.reader.head().has(flag::ZSTD) { self.decompress() } else { Ok(()) }
    }

    #[inline(never)]
    fn decompress(&mut self) -> Result<(), Violation> {
        self.need(feature::ZSTD, "zstd")?;
        let payload = self.reader.payload();
        self.unpacked = self.compression.decompress(payload, PAYLOAD_BYTES_MAX)?.into();
        Ok(())
    }

    /// The payload of the request, reply or items that were received last.
    #[inline]
    pub(crate) fn received_payload(&self) -> Payload<'_> {
        if self.reader.head().has(flag::ZSTD) {
            return Payload { buffer: &self.unpacked, range: 0..self.unpacked.len() };
        }
        let (buffer, range) = self.reader.payload_range();
        Payload { buffer, range }
    }

    /// What the request or reply that was received last has for the application.
    pub(crate) fn received_metadata(&self) -> Metadata {
        if !self.fields.has_more() {
            return Metadata::default();
        }
        Metadata::from_checked(self.reader.share_metadata())
    }

    /// Reads and checks the metadata of a frame whose metadata is the application's.
    pub(crate) fn metadata_of(&mut self) -> Result<Metadata, Violation> {
        self.fields.read_next(self.reader.metadata())?;
        Ok(Metadata::from_checked(self.reader.share_metadata()))
    }

    #[inline]
    pub(crate) fn need(&self, feature: u64, name: &str) -> Result<(), Violation> {
        if self.features & feature == 0 {
            return Err(Violation::new(
                Reason::Feature,
                format!("feature {name} was used and is not in force"),
            ));
        }
        Ok(())
    }

    fn receive_ping(&mut self) -> FrameOutcome {
        let payload = self.reader.payload();
        if payload.len() > PING_BYTES_MAX {
            return Err(Violation::malformed("a ping of more than 64 bytes"));
        }
        // A peer that pings and never reads gets one pong, to its last ping, not a queue of them.
        self.output.pong = Some(self.reader.share_payload());
        Ok(None)
    }

    fn receive_goaway(&mut self) -> FrameOutcome {
        let raw = self.reader.metadata();
        let fields = Fields::read(raw)?;
        let reason = Reason::from_number(fields.reason().unwrap_or(0));
        let message = fields.message(raw).unwrap_or("").to_owned();
        let after_ms = fields.after().unwrap_or(0);
        let violation = Violation { after_ms, ..Violation::new(reason, message) };
        if self.phase != Phase::Open && self.is_resumable() {
            // One host refuses a connection; the session may be resumed over another.
            self.events.push_back(Event::Refused(violation));
            self.connection_lost(self.now);
            return Ok(None);
        }
        if reason.ends_connection_only() && self.phase == Phase::Open {
            self.connection_lost(self.now);
            return Ok(None);
        }
        if reason != Reason::Drain || self.phase != Phase::Open {
            self.close_silently(violation);
            return Ok(None);
        }
        self.drain_received = true;
        Ok(Some(Event::Draining { grace_ms: self.reader.head().deadline_ms, after_ms }))
    }

    /// `cancel`, on one call or a list of watches.
    fn receive_cancel(&mut self) -> FrameOutcome {
        let stream = self.reader.head().stream;
        if stream == 0 {
            for stream in varint::take_numbers(&self.reader.share_payload()) {
                let stream = stream.ok_or_else(|| watch::bad_list("cancel"))?;
                if self.is_ours(stream) {
                    return Err(watch::bad_list("cancel"));
                }
                self.cancel_served(stream)?;
            }
        } else if self.is_ours(stream) {
            return self.receive_stop(stream);
        } else {
            self.cancel_served(stream)?;
        }
        Ok(None)
    }

    fn receive_log(&self) -> FrameOutcome {
        let level = Fields::read(self.reader.metadata())?.level().unwrap_or(3);
        let text = std::str::from_utf8(self.reader.payload())
            .map_err(|_| Violation::malformed("a log text is not UTF-8"))?
            .to_owned();
        let metadata = Metadata::from_checked(self.reader.share_metadata());
        Ok(Some(Event::Log { level, text, metadata }))
    }
}

fn before_hello() -> Violation {
    Violation::new(Reason::Unexpected, "a frame before the hello")
}

fn on_connection() -> Violation {
    Violation::malformed("a call's frame on stream 0")
}

fn receive_changed(payload: Bytes) -> FrameOutcome {
    let mut rest = &payload[..];
    while !rest.is_empty() {
        let source = varint::take_string(&mut rest);
        if source.and_then(|_| varint::take_string(&mut rest)).is_none() {
            return Err(Violation::malformed("changed is not a list of pairs of strings"));
        }
    }
    Ok(Some(Event::Changed(ChangedSources { payload })))
}
