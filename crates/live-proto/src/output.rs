//! What waits to be written, in three ranks: connection frames, then requests, replies and `stale`
//! in the order they arose, then stream items.
//!
//! One call takes everything into one buffer, so that the owner does one write.

use std::collections::VecDeque;

use bytes::Bytes;
use tidewire_service::{Error, Outcome};

use crate::compress::Compression;
use crate::frame::{self, HEAD_BYTES, Kind, PAYLOAD_BYTES_MAX, flag};
use crate::message::OutgoingReply;
use crate::metadata::{self, Metadata, tag};
use crate::outcome;
use crate::reason::Violation;
use crate::varint;

#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Connection frames.
    pub(crate) control: Vec<u8>,
    /// Requests, replies, `stale`.
    pub(crate) main: Vec<u8>,
    /// Streams that have something to send, each once.
    pub(crate) line: VecDeque<u32>,
    /// Watches of the peer to be named in the next `stale`.
    pub(crate) stale: Vec<u32>,
    /// Watches of mode *values* to be named with KEEP before the next reply to a command.
    pub(crate) suspects: Vec<u32>,
    /// Watches of this side to be cancelled.
    pub(crate) unwatch: Vec<u32>,
    /// Watches of this side whose last value was taken.
    pub(crate) seen: Vec<u32>,
    /// What the last ping that is not answered said.
    pub(crate) pong: Option<Bytes>,
}

/// How much one [`poll_output`](crate::Session::poll_output) takes beyond what must be together.
pub(crate) const OUTPUT_BYTES: usize = 32 << 10;

impl Output {
    pub(crate) fn clear(&mut self) {
        self.control.clear();
        self.main.clear();
        self.line.clear();
        self.stale.clear();
        self.suspects.clear();
        self.unwatch.clear();
        self.seen.clear();
        self.pong = None;
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        let pong = self.pong.as_ref().map_or(0, |payload| HEAD_BYTES + payload.len());
        self.main.len() + self.control.len() + pong
    }

    /// Writes an ascending list of streams, if there are any.
    pub(crate) fn put_list(out: &mut Vec<u8>, kind: Kind, flags: u8, streams: &mut Vec<u32>) {
        if streams.is_empty() {
            return;
        }
        const NUMBERS_MAX: usize = PAYLOAD_BYTES_MAX / varint::U32_BYTES_MAX;
        streams.sort_unstable();
        streams.dedup();
        for some in streams.chunks(NUMBERS_MAX) {
            let frame = frame::open(out, kind, 0, flags);
            varint::put_numbers(out, some);
            frame.finish(out);
        }
        streams.clear();
    }

    /// Writes a frame whose payload is one number.
    pub(crate) fn put_number(&mut self, kind: Kind, stream: u32, flags: u8, number: u64) {
        let frame = frame::open(&mut self.control, kind, stream, flags);
        varint::put(&mut self.control, number);
        frame.finish(&mut self.control);
    }
}

/// When to compress a payload.
#[derive(Debug)]
pub(crate) struct CompressionPolicy<'a> {
    pub(crate) compression: &'a mut Compression,
    /// `usize::MAX` when the feature is not in force.
    pub(crate) min: usize,
}

impl CompressionPolicy<'_> {
    /// Appends a payload, compressed if that pays; returns the flag to set.
    #[inline]
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, payload: &[u8]) -> u8 {
        if payload.len() >= self.min
            && let Some(small) = self.compression.compress(payload)
        {
            out.extend_from_slice(small);
            return flag::ZSTD;
        }
        out.extend_from_slice(payload);
        0
    }
}

/// Appends the metadata of a reply.
#[inline(always)]
pub(crate) fn put_reply_metadata(out: &mut Vec<u8>, reply: &OutgoingReply<'_>) {
    if let Some(validator) = reply.validator {
        metadata::put_entry(out, tag::VALIDATOR, &validator.bytes());
    }
    if let Some(max_age) = reply.max_age_ms {
        metadata::put_number(out, tag::MAX_AGE, max_age.min(varint::MAX));
    }
    if !reply.token.is_empty() {
        metadata::put_entry(out, tag::TOKEN, reply.token);
    }
    if let Some(status) = reply.status {
        metadata::put_number(out, tag::STATUS, status.into());
    }
    reply.metadata.put(out);
}

/// Appends the metadata of an error with its headers and trailers, cut down to code and message
/// when it is over the limit.
pub(crate) fn put_error_metadata(
    out: &mut Vec<u8>,
    error: &Error,
    outcome: Outcome,
    maps: &Metadata,
    max: u16,
) {
    const MESSAGE_BYTES_MAX: usize = 1024;
    let start = out.len();
    let outcome = outcome::number(outcome);
    metadata::put_number(out, tag::CODE, error.code().number().into());
    metadata::put_entry(out, tag::MESSAGE, error.message().as_bytes());
    let mut value = Vec::new();
    for detail in error.details() {
        value.clear();
        varint::put_string(&mut value, detail.type_name.as_bytes());
        value.extend_from_slice(&detail.value);
        metadata::put_entry(out, tag::DETAIL, &value);
    }
    if let Some(outcome) = outcome {
        metadata::put_number(out, tag::OUTCOME, outcome);
    }
    out.extend_from_slice(maps.raw());
    if out.len() - start > usize::from(max) {
        out.truncate(start);
        let message = error.message();
        let end = (0..=message.len().min(MESSAGE_BYTES_MAX.min(usize::from(max) / 2)))
            .rev()
            .find(|&end| message.is_char_boundary(end))
            .unwrap_or(0);
        metadata::put_number(out, tag::CODE, error.code().number().into());
        metadata::put_entry(out, tag::MESSAGE, &message.as_bytes()[..end]);
        if let Some(outcome) = outcome {
            metadata::put_number(out, tag::OUTCOME, outcome);
        }
    }
}

/// Appends an error frame.
pub(crate) fn put_error(
    out: &mut Vec<u8>,
    stream: u32,
    error: &Error,
    outcome: Outcome,
    metadata_max: u16,
) {
    let mut metadata = Vec::new();
    let maps = Metadata::from_maps(error.headers(), error.trailers());
    put_error_metadata(&mut metadata, error, outcome, &maps, metadata_max);
    put_error_frame(out, stream, &metadata);
}

/// Appends an error frame of this metadata.
pub(crate) fn put_error_frame(out: &mut Vec<u8>, stream: u32, metadata: &[u8]) {
    let frame = frame::open(out, Kind::Error, stream, 0);
    out.extend_from_slice(metadata);
    frame.metadata_ends(out).finish(out);
}

/// Appends a goaway: how long open calls have, and after how long to come back.
pub(crate) fn put_goaway(out: &mut Vec<u8>, violation: &Violation, grace_ms: u32) {
    const MESSAGE_BYTES_MAX: usize = 200;
    let frame = frame::open(out, Kind::Goaway, 0, 0).deadline_ms(grace_ms);
    let message = &violation.message;
    let end = (0..=message.len().min(MESSAGE_BYTES_MAX)).rev();
    let end = end.into_iter().find(|&end| message.is_char_boundary(end)).unwrap_or(0);
    if end > 0 {
        metadata::put_entry(out, tag::MESSAGE, &message.as_bytes()[..end]);
    }
    metadata::put_number(out, tag::REASON, violation.reason.number().into());
    if violation.after_ms > 0 {
        metadata::put_number(out, tag::AFTER, violation.after_ms);
    }
    let frame = frame.metadata_ends(out);
    frame.finish(out);
}

/// Appends a frame that was kept.
pub(crate) fn put_kept(
    out: &mut Vec<u8>,
    kind: Kind,
    stream: u32,
    flags: u8,
    body: (&[u8], &Bytes),
    packing: &mut CompressionPolicy<'_>,
) {
    let frame = frame::open(out, kind, stream, flags);
    out.extend_from_slice(body.0);
    let frame = frame.metadata_ends(out);
    let flags = packing.put(out, body.1);
    frame.flags(flags).finish(out);
}
