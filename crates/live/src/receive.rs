//! Which frame goes where, and the frames of the connection itself.

use bytes::Bytes;

use crate::event::{Changed, Event};
use crate::frame::{self, Kind, flag};
use crate::hello::feature;
use crate::metadata::{Fields, Metadata};
use crate::reader::Frame;
use crate::reason::{Reason, Violation};
use crate::session::{Phase, Session, merge_headers};
use crate::{varint, watch};

/// The most bytes of a ping.
const PING_BYTES_MAX: usize = 64;

pub(crate) type Received = Result<Option<Event>, Violation>;

impl Session {
    /// Handles one frame; puts what the application should know into `event`, which is empty.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        frame: &Frame,
        event: &mut Option<Event>,
    ) -> Result<(), Violation> {
        let Some(kind) = Kind::from_number(frame.head.kind) else { return Ok(()) };
        if self.phase == Phase::Greeting && !matches!(kind, Kind::Hello | Kind::Goaway) {
            return Err(Violation::new(Reason::Unexpected, "a frame before the hello"));
        }
        match kind {
            Kind::Request | Kind::Reply | Kind::Error | Kind::Items | Kind::End => {
                if frame.head.stream == 0 {
                    return Err(Violation::malformed("a call's frame on stream 0"));
                }
                return self.receive_of_call(kind, frame, event);
            }
            Kind::Cancel => *event = self.receive_cancel(frame)?,
            Kind::Credit => *event = self.receive_credit(frame)?,
            _ if frame.head.stream != 0 => {
                return Err(Violation::malformed("a connection's frame on a stream"));
            }
            _ => *event = self.receive_of_connection(kind, frame)?,
        }
        Ok(())
    }

    #[inline]
    fn receive_of_call(
        &mut self,
        kind: Kind,
        frame: &Frame,
        event: &mut Option<Event>,
    ) -> Result<(), Violation> {
        let stream = frame.head.stream;
        let ours = self.is_ours(stream);
        match kind {
            Kind::Request => return self.receive_request(frame, event),
            Kind::Items => *event = self.receive_items(frame)?,
            Kind::End if !ours => *event = self.receive_end_of_request(frame)?,
            _ if !ours => {
                return Err(Violation::new(
                    Reason::StreamNumber,
                    format!("an answer on stream {stream}, which is a number of its sender"),
                ));
            }
            Kind::Reply => return self.receive_reply(frame, event),
            Kind::Error => *event = self.receive_error(frame)?,
            _ => *event = self.receive_end_of_reply(frame)?,
        }
        Ok(())
    }

    fn receive_of_connection(&mut self, kind: Kind, frame: &Frame) -> Received {
        match kind {
            Kind::Hello if self.phase == Phase::Greeting => self.receive_hello(frame),
            Kind::Hello => Err(Violation::new(Reason::Unexpected, "a second hello")),
            Kind::Auth => {
                let headers = metadata_of(frame)?;
                self.peer_headers = merge_headers(&self.peer_headers, &headers);
                Ok(Some(Event::Auth))
            }
            Kind::Ping => self.receive_ping(frame),
            Kind::Pong => Ok(None),
            Kind::Goaway => self.receive_goaway(frame),
            Kind::Stale => self.receive_stale(frame),
            Kind::Resume => self.receive_resume(frame),
            Kind::Resumed => self.receive_resumed(frame),
            Kind::Ready => Ok(Some(Event::Ready)),
            Kind::Busy => {
                let mut payload = frame.payload();
                let jobs = varint::take(&mut payload)
                    .ok_or_else(|| Violation::malformed("busy without a number"))?;
                Ok(Some(Event::Busy(jobs)))
            }
            Kind::Log => receive_log(frame),
            _ => receive_changed(frame),
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

    /// The payload, decompressed if need be.
    #[inline(always)]
    pub(crate) fn payload(&mut self, frame: &Frame) -> Result<Bytes, Violation> {
        if frame.head.has(flag::ZSTD) { self.unpacked(frame) } else { Ok(frame.payload_bytes()) }
    }

    #[inline(never)]
    fn unpacked(&mut self, frame: &Frame) -> Result<Bytes, Violation> {
        self.need(feature::ZSTD, "zstd")?;
        let frame_max = self.config.limits.frame_max;
        Ok(self.compression.decompress(frame.payload(), frame_max)?.into())
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

    fn receive_ping(&mut self, frame: &Frame) -> Received {
        let payload = frame.payload();
        if payload.len() > PING_BYTES_MAX {
            return Err(Violation::malformed("a ping of more than 64 bytes"));
        }
        // A peer that pings and never reads gets one pong, not a queue of them.
        if !std::mem::replace(&mut self.output.has_pong, true) {
            frame::put(&mut self.output.control, Kind::Pong, 0, 0, payload);
        }
        Ok(None)
    }

    fn receive_goaway(&mut self, frame: &Frame) -> Received {
        let fields = Fields::read(frame.metadata())?;
        let reason = Reason::from_number(fields.reason.unwrap_or(0));
        let message = fields.message.unwrap_or("").to_owned();
        if reason != Reason::Drain || self.phase != Phase::Open {
            self.close_silently(Violation::new(reason, message));
            return Ok(None);
        }
        self.drain_received = true;
        Ok(Some(Event::Draining { grace_ms: frame.head.deadline_ms }))
    }

    /// `cancel`, on one call or a list of watches.
    fn receive_cancel(&mut self, frame: &Frame) -> Received {
        let stream = frame.head.stream;
        if stream == 0 {
            for stream in varint::take_numbers(frame.payload()) {
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
}

/// Checked metadata of a frame.
pub(crate) fn metadata_of(frame: &Frame) -> Result<Metadata, Violation> {
    Fields::read(frame.metadata())?;
    Ok(Metadata::from_checked(frame.metadata_bytes()))
}

fn receive_log(frame: &Frame) -> Received {
    let level = Fields::read(frame.metadata())?.level.unwrap_or(3);
    let text = std::str::from_utf8(frame.payload())
        .map_err(|_| Violation::malformed("a log text is not UTF-8"))?
        .to_owned();
    let metadata = Metadata::from_checked(frame.metadata_bytes());
    Ok(Some(Event::Log { level, text, metadata }))
}

fn receive_changed(frame: &Frame) -> Received {
    let mut rest = frame.payload();
    while !rest.is_empty() {
        let source = varint::take_string(&mut rest);
        if source.and_then(|_| varint::take_string(&mut rest)).is_none() {
            return Err(Violation::malformed("changed is not a list of pairs of strings"));
        }
    }
    Ok(Some(Event::Changed(Changed { payload: frame.payload_bytes() })))
}
