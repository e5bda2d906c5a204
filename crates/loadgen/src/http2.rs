//! The HTTP/2 client side, without a socket: what gRPC and Connect calls need, and no more.
//!
//! No server push, no priorities, no upgrade from HTTP/1.1. Answers may be of any size: windows
//! are opened to their limit at the start and topped up. Bodies of requests obey the target's
//! windows. RFC 9113.

use std::collections::VecDeque;

use crate::failure::Failure;
use crate::reply::{Answer, Expectation, Reply, ReplyParts};
use crate::request::Wire;

mod frame;
pub(crate) mod hpack;
mod huffman;

use frame::Header;
use hpack::Decoder;

const WINDOW_MAX: u32 = 0x7fff_ffff;
const WINDOW_DEFAULT: i64 = 65_535;
const FRAME_SIZE: usize = 16_384;
const STREAM_MAX: u32 = 0x7fff_fff0;
/// The connection's window is topped up when this much was used.
const TOP_UP: u32 = 1 << 29;

#[derive(Debug)]
struct Stream {
    /// `None` once the request is answered or given up.
    flight: Option<u32>,
    reply: Reply,
    window: i64,
    /// Body not yet allowed out.
    unsent: Vec<u8>,
}

/// One connection's requests under way.
#[derive(Debug)]
pub(crate) struct Http2 {
    expectation: Expectation,
    depth: usize,
    active: usize,
    streams: VecDeque<Stream>,
    /// The number of the first stream in `streams`.
    base: u32,
    spare: Vec<Reply>,
    last: Reply,
    decoder: Decoder,
    carry: Vec<u8>,
    block: Option<PartialBlock>,
    window: i64,
    window_initial: i64,
    received: u32,
    streams_max: usize,
    indexed: bool,
    table_off: bool,
    resets_table: bool,
    closing: bool,
    broken: Option<&'static str>,
}

impl Http2 {
    /// `depth` requests may be under way at once, fewer if the target says so.
    pub(crate) fn new(expectation: Expectation, depth: usize) -> Self {
        Self {
            expectation,
            depth,
            active: 0,
            streams: VecDeque::new(),
            base: 1,
            spare: Vec::new(),
            last: Reply::default(),
            decoder: Decoder::new(),
            carry: Vec::new(),
            block: None,
            window: WINDOW_DEFAULT,
            window_initial: WINDOW_DEFAULT,
            received: 0,
            streams_max: usize::MAX,
            indexed: false,
            table_off: false,
            resets_table: false,
            closing: false,
            broken: None,
        }
    }

    /// The connection preface: push off, every window open.
    pub(crate) fn connected(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(frame::PREFACE);
        let mut settings = Vec::new();
        for (name, value) in [(2_u16, 0), (4, WINDOW_MAX)] {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        frame::push(frame::SETTINGS, 0, 0, &settings, out);
        let increment = WINDOW_MAX - WINDOW_DEFAULT as u32;
        frame::push(frame::WINDOW_UPDATE, 0, 0, &increment.to_be_bytes(), out);
    }

    pub(crate) fn capacity(&self) -> usize {
        if self.closing { 0 } else { self.depth.min(self.streams_max).saturating_sub(self.active) }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.active == 0
    }

    pub(crate) fn reply_parts(&self) -> &ReplyParts {
        &self.last.kept
    }

    pub(crate) fn start(&mut self, flight: u32, wire: &Wire, out: &mut Vec<u8>) {
        let number = self.base + 2 * self.streams.len() as u32;
        self.closing |= number >= STREAM_MAX;
        let mut reply = self.spare.pop().unwrap_or_default();
        reply.reset(&self.expectation);
        self.active += 1;
        let end = if wire.body.is_empty() { frame::END_STREAM } else { 0 };
        self.head(number, end, wire, out);
        let mut stream =
            Stream { flight: Some(flight), reply, window: self.window_initial, unsent: Vec::new() };
        let length = wire.body.len();
        let open = self.window.min(stream.window);
        if length > 0 && length <= FRAME_SIZE && length as i64 <= open {
            frame::push(frame::DATA, frame::END_STREAM, number, &wire.body, out);
            self.window -= length as i64;
            stream.window -= length as i64;
            self.streams.push_back(stream);
        } else {
            stream.unsent.extend_from_slice(&wire.body);
            self.streams.push_back(stream);
            self.send_bodies(out);
        }
    }

    fn head(&mut self, number: u32, end: u8, wire: &Wire, out: &mut Vec<u8>) {
        let block = &wire.block;
        let resets: &[u8] = if std::mem::take(&mut self.resets_table) { &[0x20] } else { &[] };
        let fields = if self.table_off || block.first.is_empty() {
            &block.plain
        } else if std::mem::replace(&mut self.indexed, true) {
            &block.again
        } else {
            &block.first
        };
        let whole: Vec<u8>;
        let bytes = if resets.is_empty() {
            fields
        } else {
            whole = [resets, fields].concat();
            &whole
        };
        let mut parts = bytes.chunks(FRAME_SIZE).peekable();
        let mut kind = frame::HEADERS;
        let mut flags = end;
        while let Some(part) = parts.next() {
            let last = if parts.peek().is_none() { frame::END_HEADERS } else { 0 };
            frame::push(kind, flags | last, number, part, out);
            (kind, flags) = (frame::CONTINUATION, 0);
        }
    }

    /// Sends as much of the waiting bodies as the windows allow.
    fn send_bodies(&mut self, out: &mut Vec<u8>) {
        let mut number = self.base;
        for stream in &mut self.streams {
            while !stream.unsent.is_empty() && stream.flight.is_some() {
                let open = self.window.min(stream.window).max(0) as usize;
                let part = stream.unsent.len().min(open).min(FRAME_SIZE);
                if part == 0 {
                    break;
                }
                let end = if part == stream.unsent.len() { frame::END_STREAM } else { 0 };
                frame::push(frame::DATA, end, number, &stream.unsent[..part], out);
                stream.unsent.drain(..part);
                self.window -= part as i64;
                stream.window -= part as i64;
            }
            number += 2;
        }
    }

    /// Gives up one request; the connection lives on.
    pub(crate) fn cancel(&mut self, flight: u32, out: &mut Vec<u8>) -> bool {
        let Some(at) = self.streams.iter().position(|stream| stream.flight == Some(flight)) else {
            return false;
        };
        let number = self.base + 2 * at as u32;
        frame::push(frame::RST_STREAM, 0, number, &frame::CANCEL.to_be_bytes(), out);
        self.streams[at].flight = None;
        self.active -= 1;
        self.forget();
        true
    }

    /// The next complete answer in `input`, which is consumed as far as it was used.
    pub(crate) fn receive(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Answer> {
        loop {
            if let Some(what) = self.broken {
                *input = &[];
                return self.fail_oldest(what);
            }
            if self.carry.is_empty() {
                let Some(FirstFrame { header, payload, rest }) = cut(input) else {
                    self.carry.extend_from_slice(input);
                    *input = &[];
                    return None;
                };
                *input = rest;
                if let Some(answer) = self.frame(&header, payload, out) {
                    return Some(answer);
                }
                continue;
            }
            let missing = missing(&self.carry).min(input.len());
            self.carry.extend_from_slice(&input[..missing]);
            *input = &input[missing..];
            let carry = std::mem::take(&mut self.carry);
            let Some(FirstFrame { header, payload, .. }) = cut(&carry) else {
                self.carry = carry;
                if input.is_empty() {
                    return None;
                }
                continue;
            };
            let answer = self.frame(&header, payload, out);
            self.carry = carry;
            self.carry.clear();
            if answer.is_some() {
                return answer;
            }
        }
    }

    fn frame(&mut self, header: &Header, payload: &[u8], out: &mut Vec<u8>) -> Option<Answer> {
        match header.kind {
            frame::DATA => self.data(header, payload, out),
            frame::HEADERS | frame::CONTINUATION => self.fields(header, payload),
            frame::RST_STREAM => {
                let code = payload.first_chunk().map_or(0, |code| u32::from_be_bytes(*code));
                self.end(header.stream, Some(Failure::StreamReset(code)))
            }
            frame::SETTINGS => {
                self.settings(header, payload, out);
                None
            }
            frame::PING if !header.has(frame::ACK) => {
                frame::push(frame::PING, frame::ACK, 0, payload, out);
                None
            }
            frame::GOAWAY => {
                self.closing = true;
                None
            }
            frame::WINDOW_UPDATE => {
                let more = payload.first_chunk().map_or(0, |more| u32::from_be_bytes(*more));
                if header.stream == 0 {
                    self.window += i64::from(more);
                } else if let Some(stream) = self.stream(header.stream) {
                    stream.window += i64::from(more);
                }
                self.send_bodies(out);
                None
            }
            _ => None,
        }
    }

    fn data(&mut self, header: &Header, payload: &[u8], out: &mut Vec<u8>) -> Option<Answer> {
        self.received += payload.len() as u32;
        if self.received > TOP_UP {
            frame::push(frame::WINDOW_UPDATE, 0, 0, &self.received.to_be_bytes(), out);
            self.received = 0;
        }
        let Some(content) = frame::content(header, payload) else {
            self.broken = Some("padding longer than its frame");
            return None;
        };
        let stream = self.stream(header.stream)?;
        stream.reply.bytes += (payload.len() + frame::HEADER) as u64;
        stream.reply.body(content);
        if header.has(frame::END_STREAM) { self.end(header.stream, None) } else { None }
    }

    fn fields(&mut self, header: &Header, payload: &[u8]) -> Option<Answer> {
        if header.kind == frame::HEADERS {
            let Some(content) = frame::content(header, payload) else {
                self.broken = Some("padding longer than its frame");
                return None;
            };
            let ends = header.has(frame::END_STREAM);
            if header.has(frame::END_HEADERS) {
                return self.decode(header.stream, ends, content);
            }
            let bytes = content.to_vec();
            self.block = Some(PartialBlock { stream: header.stream, ends_stream: ends, bytes });
            return None;
        }
        let Some(mut block) = self.block.take() else {
            self.broken = Some("a continuation of nothing");
            return None;
        };
        block.bytes.extend_from_slice(payload);
        if header.has(frame::END_HEADERS) {
            return self.decode(block.stream, block.ends_stream, &block.bytes);
        }
        self.block = Some(block);
        None
    }

    fn decode(&mut self, number: u32, ends: bool, block: &[u8]) -> Option<Answer> {
        let at = self.position(number);
        let mut nobody = Reply::default();
        let reply = match at {
            Some(at) => &mut self.streams[at].reply,
            None => &mut nobody,
        };
        reply.bytes += (block.len() + frame::HEADER) as u64;
        let decoded = self.decoder.decode(block, |name, value| {
            if name == b":status" {
                let text = std::str::from_utf8(value).ok();
                reply.status = text.and_then(|text| text.parse().ok()).unwrap_or(0);
            } else {
                reply.header(name, value);
            }
        });
        if decoded.is_err() {
            self.broken = Some("a malformed header block");
            return None;
        }
        if ends { self.end(number, None) } else { None }
    }

    fn settings(&mut self, header: &Header, payload: &[u8], out: &mut Vec<u8>) {
        if header.has(frame::ACK) {
            return;
        }
        for setting in payload.chunks_exact(6) {
            let name = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match name {
                1 if value < 4096 => (self.table_off, self.resets_table) = (true, true),
                3 => self.streams_max = value as usize,
                4 => {
                    let change = i64::from(value) - self.window_initial;
                    self.window_initial = i64::from(value);
                    self.streams.iter_mut().for_each(|stream| stream.window += change);
                }
                _ => {}
            }
        }
        frame::push(frame::SETTINGS, frame::ACK, 0, &[], out);
        self.send_bodies(out);
    }

    fn position(&self, number: u32) -> Option<usize> {
        let at = (number.checked_sub(self.base)? / 2) as usize;
        (at < self.streams.len()).then_some(at)
    }

    fn stream(&mut self, number: u32) -> Option<&mut Stream> {
        let at = self.position(number)?;
        self.streams.get_mut(at)
    }

    /// A stream is over; `failure` replaces the verdict of its reply.
    fn end(&mut self, number: u32, failure: Option<Failure>) -> Option<Answer> {
        let at = self.position(number)?;
        let stream = &mut self.streams[at];
        let flight = stream.flight.take()?;
        stream.unsent.clear();
        std::mem::swap(&mut self.last, &mut stream.reply);
        self.active -= 1;
        self.forget();
        let mut answer = self.last.answer(flight, &self.expectation);
        if failure.is_some() {
            answer.failure = failure;
        }
        Some(answer)
    }

    /// Drops finished streams from the front.
    fn forget(&mut self) {
        while self.streams.front().is_some_and(|stream| stream.flight.is_none()) {
            if let Some(stream) = self.streams.pop_front() {
                self.spare.push(stream.reply);
            }
            self.base += 2;
        }
    }

    fn fail_oldest(&mut self, what: &'static str) -> Option<Answer> {
        self.closing = true;
        let number = self.base;
        self.end(number, Some(Failure::Protocol(what)))
    }
}

/// A header block that comes in several frames.
#[derive(Debug)]
struct PartialBlock {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
}

/// The first whole frame of an input.
struct FirstFrame<'a> {
    header: Header,
    payload: &'a [u8],
    /// What follows it.
    rest: &'a [u8],
}

fn cut(input: &[u8]) -> Option<FirstFrame<'_>> {
    let header = Header::parse(input)?;
    let payload = input.get(frame::HEADER..frame::HEADER + header.length)?;
    let rest = &input[frame::HEADER + header.length..];
    Some(FirstFrame { header, payload, rest })
}

/// How many bytes the frame at the start of `carry` still needs, as far as is known.
fn missing(carry: &[u8]) -> usize {
    let total = Header::parse(carry).map_or(frame::HEADER, |head| frame::HEADER + head.length);
    total.saturating_sub(carry.len())
}
