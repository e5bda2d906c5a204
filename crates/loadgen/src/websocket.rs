//! The WebSocket client side, without a socket: one text message out, one message back.
//!
//! A request is a message, its answer the next message that arrives; several may be under way and
//! are answered in order. RFC 6455. Every handshake uses the sample key of its section 1.3, so the
//! `Sec-WebSocket-Accept` that proves a WebSocket server at the other end is always the same.

use std::collections::VecDeque;

use memchr::memmem;

use crate::failure::Failure;
use crate::reply::{Answer, Expectation, Reply, ReplyParts};

const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &[u8] = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Handshake,
    Open,
    Refused(Failure),
    Broken(&'static str),
}

/// One connection's messages under way.
#[derive(Debug)]
pub(crate) struct WebSocket {
    expectation: Expectation,
    handshake: Vec<u8>,
    depth: usize,
    expected: VecDeque<u32>,
    state: State,
    carry: Vec<u8>,
    reply: Reply,
    begun: bool,
    closing: bool,
}

impl WebSocket {
    pub(crate) fn new(expectation: Expectation, depth: usize, authority: &str, path: &str) -> Self {
        let handshake = format!(
            "GET {path} HTTP/1.1\r\nhost: {authority}\r\nupgrade: websocket\r\n\
             connection: Upgrade\r\nsec-websocket-key: {KEY}\r\n\
             sec-websocket-version: 13\r\n\r\n"
        );
        Self {
            expectation,
            handshake: handshake.into_bytes(),
            depth,
            expected: VecDeque::new(),
            state: State::Handshake,
            carry: Vec::new(),
            reply: Reply::default(),
            begun: false,
            closing: false,
        }
    }

    pub(crate) fn connected(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.handshake);
    }

    /// A connection that refused the handshake takes one request, to report the refusal.
    pub(crate) fn capacity(&self) -> usize {
        match self.state {
            State::Open if !self.closing => self.depth - self.expected.len(),
            _ => 0,
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.expected.is_empty()
    }

    pub(crate) fn reply_parts(&self) -> &ReplyParts {
        &self.reply.kept
    }

    /// Why no message can ever be sent on this connection.
    pub(crate) fn refusal(&self) -> Option<Failure> {
        match &self.state {
            State::Refused(failure) => Some(failure.clone()),
            _ => None,
        }
    }

    pub(crate) fn start(&mut self, flight: u32, message: &[u8], out: &mut Vec<u8>) {
        self.expected.push_back(flight);
        push_frame(TEXT, message, out);
    }

    pub(crate) fn receive(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Answer> {
        self.carry.extend_from_slice(input);
        *input = &[];
        if self.state == State::Handshake {
            self.read_handshake();
        }
        while self.state == State::Open {
            let Frame { kind, payload, total } = match parse(&self.carry) {
                Ok(Some(frame)) => frame,
                Ok(None) => return None,
                Err(what) => {
                    self.state = State::Broken(what);
                    break;
                }
            };
            let content = self.carry[payload].to_vec();
            self.carry.drain(..total);
            if let Some(answer) = self.frame(kind, &content, total, out) {
                return Some(answer);
            }
        }
        let State::Broken(what) = self.state else { return None };
        self.closing = true;
        let flight = self.expected.pop_front()?;
        let failure = Some(Failure::Protocol(what));
        Some(Answer { flight, status: 0, bytes: 0, messages: 0, failure })
    }

    fn read_handshake(&mut self) {
        let Some(end) = memmem::find(&self.carry, b"\r\n\r\n") else { return };
        let status = self.carry.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        let status = status.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let head: Vec<u8> = self.carry.drain(..end + 4).collect();
        self.state = match status {
            101 if accepts(&head) => State::Open,
            101 => State::Refused(Failure::Protocol("a wrong Sec-WebSocket-Accept")),
            _ => State::Refused(Failure::Status(status)),
        };
        self.closing = self.state != State::Open;
    }

    fn frame(
        &mut self,
        first: u8,
        content: &[u8],
        total: usize,
        out: &mut Vec<u8>,
    ) -> Option<Answer> {
        match first & 0x0f {
            PING => push_frame(PONG, content, out),
            PONG => {}
            CLOSE => {
                push_frame(CLOSE, content, out);
                self.closing = true;
            }
            _ => {
                if !std::mem::replace(&mut self.begun, true) {
                    self.reply.reset(&self.expectation);
                    self.reply.status = 200;
                }
                self.reply.bytes += total as u64;
                self.reply.body(content);
                if first & FINAL != 0 {
                    self.begun = false;
                    let flight = self.expected.pop_front()?;
                    return Some(self.reply.answer(flight, &self.expectation));
                }
            }
        }
        None
    }
}

/// Whether the head of a handshake has the answer to [`KEY`].
fn accepts(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n');
    lines.any(|line| {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"sec-websocket-accept") && value == ACCEPT
    })
}

/// The first frame of an input.
struct Frame {
    /// Its first byte.
    kind: u8,
    payload: std::ops::Range<usize>,
    /// Its whole length.
    total: usize,
}

fn parse(input: &[u8]) -> Result<Option<Frame>, &'static str> {
    let [first, second, ..] = *input else { return Ok(None) };
    if second & MASKED != 0 {
        return Err("a masked message from the target");
    }
    let wide = |from: usize, to: usize| {
        input.get(from..to).map(|bytes| bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
    };
    let (start, length) = match second & 0x7f {
        126 => (4, wide(2, 4)),
        127 => (10, wide(2, 10)),
        short => (2, Some(usize::from(short))),
    };
    let Some(length) = length else { return Ok(None) };
    let total = start + length;
    Ok((input.len() >= total).then_some(Frame { kind: first, payload: start..total, total }))
}

/// Appends a masked frame; the mask is zero, which leaves the payload as it is.
fn push_frame(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(FINAL | kind);
    match payload.len() {
        length @ ..=125 => out.push(MASKED | length as u8),
        length @ ..=0xffff => {
            out.push(MASKED | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(MASKED | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}
