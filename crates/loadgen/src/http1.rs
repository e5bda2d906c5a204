//! The HTTP/1.1 client side, without a socket: requests in, bytes out; bytes in, answers out.
//!
//! Made for one thing: a cheap answer. A server's answers to the same request differ, if at all,
//! in the `date` of each second, so the last head is remembered, and a head that is equal byte for
//! byte is not parsed again. Bodies are counted, not copied. RFC 9112.

use std::collections::VecDeque;

use memchr::memmem;

use crate::failure::Failure;
use crate::reply::{Answer, Expectation, Keep, Reply, ReplyParts};
use crate::verdict::{Dialect, status_failure};

mod chunked;
mod head;

use chunked::ChunkReader;
use head::{Framing, Head};

const HEAD_MAX: usize = 256 * 1024;

/// What one request needs to know about its answer.
#[derive(Debug, Clone, Copy)]
struct ExpectedReply {
    flight: u32,
    /// The answer to HEAD has no body whatever its headers say.
    bodiless: bool,
}

#[derive(Debug)]
enum State {
    Head,
    Sized { remaining: u64 },
    Chunked(ChunkReader),
    UntilClosed,
    Broken,
}

/// One connection's requests under way.
#[derive(Debug)]
pub(crate) struct Http1 {
    expectation: Expectation,
    plain: bool,
    depth: usize,
    expected: VecDeque<ExpectedReply>,
    state: State,
    carry: Vec<u8>,
    known: Vec<u8>,
    known_head: Head,
    reply: Reply,
    closing: bool,
}

impl Http1 {
    /// `depth` requests may be under way at once (pipelining beyond 1).
    pub(crate) fn new(expectation: Expectation, depth: usize) -> Self {
        Self {
            plain: expectation.keep == Keep::Nothing && expectation.dialect == Dialect::Plain,
            expectation,
            depth,
            expected: VecDeque::with_capacity(depth),
            state: State::Head,
            carry: Vec::new(),
            known: Vec::new(),
            known_head: Head::default(),
            reply: Reply::default(),
            closing: false,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        if self.closing { 0 } else { self.depth - self.expected.len() }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.expected.is_empty()
    }

    pub(crate) fn start(&mut self, flight: u32, wire: &[u8], out: &mut Vec<u8>) {
        let bodiless = wire.starts_with(b"HEAD ");
        self.expected.push_back(ExpectedReply { flight, bodiless });
        out.extend_from_slice(wire);
    }

    /// The next complete answer in `input`, which is consumed as far as it was used.
    pub(crate) fn receive(&mut self, input: &mut &[u8]) -> Option<Answer> {
        loop {
            match &mut self.state {
                State::Head => {
                    if self.plain
                        && self.carry.is_empty()
                        && input.starts_with(&self.known)
                        && let Some(answer) = self.repeated(input)
                    {
                        return Some(answer);
                    }
                    if input.is_empty() || !self.head(input) {
                        return None;
                    }
                }
                State::Sized { remaining } => {
                    let part = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                    self.reply.body(&input[..part]);
                    self.reply.bytes += part as u64;
                    *remaining -= part as u64;
                    *input = &input[part..];
                    if *remaining > 0 {
                        return None;
                    }
                    return self.complete();
                }
                State::Chunked(chunked) => {
                    let before = input.len();
                    let end = chunked.receive(input, &mut self.reply);
                    self.reply.bytes += (before - input.len()) as u64;
                    match end {
                        Ok(true) => return self.complete(),
                        Ok(false) => return None,
                        Err(what) => return self.broken(what),
                    }
                }
                State::UntilClosed => {
                    self.reply.body(input);
                    self.reply.bytes += input.len() as u64;
                    *input = &[];
                    return None;
                }
                State::Broken => {
                    *input = &[];
                    return None;
                }
            }
        }
    }

    /// The end of the input: completes an answer without a length.
    pub(crate) fn end_of_input(&mut self) -> Option<Answer> {
        self.closing = true;
        if matches!(self.state, State::UntilClosed) { self.complete() } else { None }
    }

    pub(crate) fn reply_parts(&self) -> &ReplyParts {
        &self.reply.kept
    }

    /// A whole answer whose head equals the last one.
    fn repeated(&mut self, input: &mut &[u8]) -> Option<Answer> {
        let Framing::Sized(length) = self.known_head.framing else { return None };
        if self.known.is_empty() || self.known_head.closes || self.known_head.status < 200 {
            return None;
        }
        let expected = self.expected.front()?;
        let length = if expected.bodiless { 0 } else { usize::try_from(length).ok()? };
        let total = self.known.len() + length;
        if input.len() < total {
            return None;
        }
        let flight = expected.flight;
        self.expected.pop_front();
        *input = &input[total..];
        let status = self.known_head.status;
        Some(Answer {
            flight,
            status,
            bytes: total as u64,
            messages: 0,
            failure: status_failure(status, self.expectation.any_status),
        })
    }

    /// Reads a head; false when more input is needed or the connection is unusable.
    fn head(&mut self, input: &mut &[u8]) -> bool {
        let carried = self.carry.len();
        let found = if carried == 0 {
            memmem::find(input, b"\r\n\r\n").map(|at| at + 4)
        } else {
            let overlap = carried.saturating_sub(3);
            self.carry.extend_from_slice(input);
            memmem::find(&self.carry[overlap..], b"\r\n\r\n").map(|at| overlap + at + 4)
        };
        let Some(end) = found else {
            if carried == 0 {
                self.carry.extend_from_slice(input);
            }
            *input = &[];
            return self.carry.len() > HEAD_MAX && self.broken_head("the head is too long");
        };
        if carried == 0 {
            self.known.clear();
            self.known.extend_from_slice(&input[..end]);
        } else {
            self.known.clear();
            self.known.extend_from_slice(&self.carry[..end]);
            self.carry.clear();
        }
        *input = &input[end - carried..];
        self.begin()
    }

    /// Acts on the head in `known`.
    fn begin(&mut self) -> bool {
        let Some(expected) = self.expected.front() else {
            return self.broken_head("a reply without a request");
        };
        let bodiless = expected.bodiless;
        self.reply.reset(&self.expectation);
        match Head::parse(&self.known, &mut self.reply) {
            Ok(head) => self.known_head = head,
            Err(what) => return self.broken_head(what),
        }
        let head = self.known_head;
        if head.status < 200 && head.status != 101 {
            return true;
        }
        self.closing |= head.closes;
        self.reply.bytes = self.known.len() as u64;
        let empty = bodiless || matches!(head.status, 204 | 304);
        self.state = match head.framing {
            _ if empty => State::Sized { remaining: 0 },
            Framing::Sized(remaining) => State::Sized { remaining },
            Framing::Chunked => State::Chunked(ChunkReader::default()),
            Framing::UntilClosed => {
                self.closing = true;
                State::UntilClosed
            }
        };
        true
    }

    fn complete(&mut self) -> Option<Answer> {
        self.state = State::Head;
        let expected = self.expected.pop_front()?;
        Some(self.reply.answer(expected.flight, &self.expectation))
    }

    fn broken(&mut self, what: &'static str) -> Option<Answer> {
        self.state = State::Broken;
        self.closing = true;
        let expected = self.expected.pop_front()?;
        Some(Answer {
            flight: expected.flight,
            status: self.reply.status,
            bytes: self.reply.bytes,
            messages: 0,
            failure: Some(Failure::Protocol(what)),
        })
    }

    /// Makes the next `receive` report `what` against the oldest request.
    fn broken_head(&mut self, what: &'static str) -> bool {
        self.closing = true;
        self.state = State::Chunked(ChunkReader::broken(what));
        true
    }
}

#[cfg(test)]
mod tests;
