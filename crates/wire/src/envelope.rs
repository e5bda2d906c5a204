//! Envelopes: a byte of flags, four of length, then the message. Connect streams and gRPC share it.
//!
//! A message that came in one piece is handed on as it is, without a copy. What has to be gathered
//! from several pieces grows with what has come, not with what was announced.

use std::fmt;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tidewire_service::{CachedBody, Error, Result};

use crate::compression::{Coders, Encoding};
use crate::sender::Sender;

/// The message is compressed.
pub(crate) const COMPRESSED: u8 = 0b1;
/// Connect: the end of a stream, as JSON.
pub(crate) const CONNECT_END: u8 = 0b10;
/// gRPC-Web: trailers.
pub(crate) const WEB_TRAILERS: u8 = 0x80;
/// The bytes before a message.
pub const HEAD: usize = 5;

/// The head of an envelope and its message; the second is empty when one piece holds both.
///
/// # Errors
/// `resource_exhausted` when the message is over 4 GiB, which no envelope can announce.
pub(crate) fn seal(flags: u8, message: Bytes) -> Result<[Bytes; 2]> {
    let head = Head::new(flags, message.len())?.bytes();
    if message.len() <= COPIED_MAX {
        let mut whole = BytesMut::with_capacity(HEAD + message.len());
        whole.extend_from_slice(&head);
        whole.extend_from_slice(&message);
        return Ok([whole.freeze(), Bytes::new()]);
    }
    Ok([Bytes::copy_from_slice(&head), message])
}

/// A message to be sent, maybe with room for its envelope's head before it.
pub struct Message(Place);

enum Place {
    Alone(Bytes),
    Behind(BytesMut),
    /// Somebody keeps it, with its compressed forms.
    Cached(Bytes, Arc<dyn CachedBody>),
}

impl From<Bytes> for Message {
    fn from(message: Bytes) -> Self {
        Self(Place::Alone(message))
    }
}

impl Message {
    /// A message that was encoded behind [`ENVELOPE_HEAD`](crate::ENVELOPE_HEAD) bytes of room: its
    /// envelope is written in place.
    ///
    /// # Panics
    /// When the buffer is shorter than that.
    pub fn reserved(buffer: BytesMut) -> Self {
        assert!(buffer.len() >= HEAD, "a message is behind {HEAD} bytes of room");
        Self(Place::Behind(buffer))
    }

    /// A message that `keeper` keeps: its compressed forms are made once.
    pub fn cached(message: Bytes, keeper: Arc<dyn CachedBody>) -> Self {
        Self(Place::Cached(message, keeper))
    }

    /// Who keeps the message.
    pub(crate) fn keeper(&self) -> Option<&Arc<dyn CachedBody>> {
        match &self.0 {
            Place::Cached(_, keeper) => Some(keeper),
            Place::Alone(_) | Place::Behind(_) => None,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.0 {
            Place::Alone(message) | Place::Cached(message, _) => message,
            Place::Behind(buffer) => &buffer[HEAD..],
        }
    }

    /// The message without its room.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self.0 {
            Place::Alone(message) | Place::Cached(message, _) => message,
            Place::Behind(mut buffer) => {
                buffer.advance(HEAD);
                buffer.freeze()
            }
        }
    }

    /// The message in its envelope, not compressed.
    pub(crate) fn seal(self) -> Result<[Bytes; 2]> {
        match self.0 {
            Place::Alone(message) | Place::Cached(message, _) => seal(0, message),
            Place::Behind(mut buffer) => {
                let head = Head::of(&buffer[HEAD..])?;
                buffer[..HEAD].copy_from_slice(&head.bytes());
                Ok([buffer.freeze(), Bytes::new()])
            }
        }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Message").field(&self.bytes().len()).finish()
    }
}

/// The five bytes before a message: what it is, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    flags: u8,
    length: u32,
}

impl Head {
    /// The head of a message that is not compressed and ends nothing.
    ///
    /// # Errors
    /// `resource_exhausted` when the message is over 4 GiB, which no envelope can announce.
    pub fn of(message: &[u8]) -> Result<Self> {
        Self::new(0, message.len())
    }

    pub(crate) fn new(flags: u8, length: usize) -> Result<Self> {
        let length = u32::try_from(length)
            .map_err(|_| Error::resource_exhausted("a message of over 4 GiB cannot be sent"))?;
        Ok(Self { flags, length })
    }

    /// The head that these bytes are; any five bytes are one.
    pub fn parse([flags, length @ ..]: [u8; HEAD]) -> Self {
        Self { flags, length: u32::from_be_bytes(length) }
    }

    /// As it is sent.
    pub fn bytes(self) -> [u8; HEAD] {
        let [a, b, c, d] = self.length.to_be_bytes();
        [self.flags, a, b, c, d]
    }

    /// Bytes of the message that follows.
    pub fn length(self) -> usize {
        self.length as usize
    }

    /// Whether what follows is the end of a Connect stream, as JSON.
    pub fn ends_connect_stream(self) -> bool {
        self.flags & CONNECT_END != 0
    }

    /// Whether what follows are the trailers of gRPC-Web.
    pub fn is_web_trailers(self) -> bool {
        self.flags & WEB_TRAILERS != 0
    }
}

/// Up to here a copy costs less than its own frame.
pub(crate) const COPIED_MAX: usize = 16 << 10;

/// Takes envelopes out of the chunks in which they arrive.
#[derive(Debug)]
pub(crate) struct EnvelopeReader {
    chunk: Bytes,
    partial: BytesMut,
    bytes_max: usize,
}

/// An envelope as it arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) flags: u8,
    pub(crate) message: Bytes,
}

impl EnvelopeReader {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { chunk: Bytes::new(), partial: BytesMut::new(), bytes_max }
    }

    /// Adds what arrived.
    pub(crate) fn push(&mut self, data: Bytes) {
        if self.partial.is_empty() && self.chunk.is_empty() {
            self.chunk = data;
            return;
        }
        if !self.chunk.is_empty() {
            self.partial.extend_from_slice(&std::mem::take(&mut self.chunk));
        }
        self.partial.extend_from_slice(&data);
    }

    /// The next whole envelope.
    ///
    /// # Errors
    /// As soon as an envelope announces more than the limit.
    pub(crate) fn next(&mut self, sender: Sender<'_>) -> Result<Option<Envelope>> {
        let Some(head) = self.head() else { return Ok(None) };
        let length = head.length();
        if length > self.bytes_max {
            return Err(sender.too_large(self.bytes_max));
        }
        let message = if self.partial.is_empty() {
            if self.chunk.len() - HEAD < length {
                return Ok(None);
            }
            self.chunk.advance(HEAD);
            self.chunk.split_to(length)
        } else {
            if self.partial.len() - HEAD < length {
                return Ok(None);
            }
            self.partial.advance(HEAD);
            self.partial.split_to(length).freeze()
        };
        Ok(Some(Envelope { flags: head.flags, message }))
    }

    fn head(&self) -> Option<Head> {
        let bytes: &[u8] = if self.partial.is_empty() { &self.chunk } else { &self.partial };
        bytes.first_chunk().copied().map(Head::parse)
    }

    /// Whether part of an envelope is there, and no more will come.
    pub(crate) fn is_partial(&self) -> bool {
        !self.chunk.is_empty() || !self.partial.is_empty()
    }
}

impl Envelope {
    /// How long it was on the wire.
    pub(crate) fn wire_bytes(&self) -> usize {
        HEAD + self.message.len()
    }

    /// The message, unfolded.
    ///
    /// # Errors
    /// `internal` when it is compressed and nobody said how, as in gRPC's `compression.md`.
    pub(crate) fn unfolded(
        self,
        encoding: Option<Encoding>,
        coders: &Coders,
        bytes_max: usize,
        sender: Sender<'_>,
    ) -> Result<Bytes> {
        if self.flags & COMPRESSED == 0 {
            return Ok(self.message);
        }
        match encoding {
            Some(encoding) => coders.unfold(encoding, &self.message, bytes_max, sender),
            None => Err(sender
                .broke_protocol("sent a compressed message without saying how it is compressed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_are_found_however_they_are_cut() {
        let wire =
            [&[0, 0, 0, 0, 3][..], b"abc", &[1, 0, 0, 0, 0], &[2, 0, 0, 0, 1], b"z"].concat();
        for cut in 1..wire.len() {
            let mut opener = EnvelopeReader::new(3);
            let mut found = Vec::new();
            for chunk in wire.chunks(cut) {
                opener.push(Bytes::copy_from_slice(chunk));
                while let Some(envelope) = opener.next(Sender::Client).unwrap() {
                    let wire_bytes = envelope.wire_bytes();
                    found.push((envelope.flags, envelope.message, wire_bytes));
                }
            }
            let expected =
                [(0, Bytes::from("abc"), 8), (1, Bytes::new(), 5), (2, Bytes::from("z"), 6)];
            assert_eq!(found, expected, "cut at {cut}");
            assert!(!opener.is_partial());
        }
    }

    #[test]
    fn an_announced_length_over_the_limit_is_refused_and_one_below_it_takes_no_memory() {
        let mut opener = EnvelopeReader::new(2);
        opener.push(Bytes::from_static(&[0, 0, 0, 0, 3]));
        assert!(opener.next(Sender::Client).is_err(), "the length alone is over the limit");
        let mut opener = EnvelopeReader::new(4 << 20);
        for byte in [0, 0, 0x40, 0, 0, 1] {
            opener.push(Bytes::copy_from_slice(&[byte]));
            assert_eq!(opener.next(Sender::Client).unwrap(), None);
        }
        assert!(opener.partial.capacity() < 1024, "4 MiB are announced, a byte has come");
    }

    #[test]
    fn a_message_in_one_piece_is_not_copied() {
        let wire = Bytes::from_static(b"\0\0\0\0\x03abc");
        let mut opener = EnvelopeReader::new(3);
        opener.push(wire.clone());
        let envelope = opener.next(Sender::Client).unwrap().unwrap();
        assert_eq!(envelope.message.as_ptr(), wire[5..].as_ptr());
    }

    #[test]
    fn a_message_is_sealed_in_the_room_before_it() {
        let buffer = BytesMut::from(&b".....abc"[..]);
        let place = buffer.as_ptr();
        let [sealed, rest] = Message::reserved(buffer.clone()).seal().unwrap();
        assert_eq!((&sealed[..], &rest[..]), (&b"\0\0\0\0\x03abc"[..], &b""[..]));
        assert_eq!(Message::reserved(buffer.clone()).into_bytes(), "abc");
        let [sealed, _] = Message::reserved(buffer).seal().unwrap();
        assert_eq!(sealed.as_ptr(), place, "it was not moved");
        let large = Bytes::from(vec![7; COPIED_MAX + 1]);
        let [head, message] = seal(COMPRESSED, large.clone()).unwrap();
        assert_eq!((&head[..], message.as_ptr()), (&[1, 0, 0, 64, 1][..], large.as_ptr()));
    }
}
