//! Envelopes: a byte of flags, four of length, then the message. Connect streams and gRPC share it.

use bytes::{Buf, Bytes, BytesMut};
use tidewire_service::{Error, Result};

use super::compression::{Compression, Encoding, too_large};

/// The message is compressed.
pub(crate) const COMPRESSED: u8 = 0b1;
/// Connect: the end of a stream, as JSON.
pub(crate) const CONNECT_END: u8 = 0b10;
/// gRPC-Web: trailers.
pub(crate) const WEB_TRAILERS: u8 = 0x80;
/// The bytes before a message.
pub(crate) const HEAD: usize = 5;

/// The head of an envelope and its message, compressed if it is large enough.
pub(crate) fn seal(message: Bytes, compression: &Compression) -> Result<(Bytes, Bytes)> {
    let (flags, message) = match compression.for_message(message.len()) {
        None => (0, message),
        Some(encoding) => (COMPRESSED, encoding.compress(&message)?),
    };
    let length = u32::try_from(message.len())
        .map_err(|_| Error::resource_exhausted("a message of over 4 GiB cannot be sent"))?;
    let [a, b, c, d] = length.to_be_bytes();
    let head = [flags, a, b, c, d];
    if message.len() <= COPIED_MAX {
        let mut whole = BytesMut::with_capacity(HEAD + message.len());
        whole.extend_from_slice(&head);
        whole.extend_from_slice(&message);
        return Ok((whole.freeze(), Bytes::new()));
    }
    Ok((Bytes::copy_from_slice(&head), message))
}

/// Up to here a copy costs less than a frame of its own.
const COPIED_MAX: usize = 16 << 10;

/// Takes envelopes out of the chunks in which they arrive.
pub(crate) struct Opener {
    chunk: Bytes,
    partial: BytesMut,
    bytes_max: usize,
}

/// An envelope as it arrived, and how long it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) flags: u8,
    pub(crate) message: Bytes,
    pub(crate) wire_bytes: usize,
}

impl Opener {
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
    /// As soon as an envelope declares more than the limit.
    pub(crate) fn next(&mut self, host: &str) -> Result<Option<Envelope>> {
        let Some((flags, length)) = self.head() else { return Ok(None) };
        if length > self.bytes_max {
            return Err(too_large(host, self.bytes_max));
        }
        let wire_bytes = HEAD + length;
        let message = if self.partial.is_empty() {
            if self.chunk.len() < wire_bytes {
                return Ok(None);
            }
            self.chunk.advance(HEAD);
            self.chunk.split_to(length)
        } else {
            if self.partial.len() < wire_bytes {
                self.partial.reserve(wire_bytes - self.partial.len());
                return Ok(None);
            }
            self.partial.advance(HEAD);
            self.partial.split_to(length).freeze()
        };
        Ok(Some(Envelope { flags, message, wire_bytes }))
    }

    fn head(&self) -> Option<(u8, usize)> {
        let bytes: &[u8] = if self.partial.is_empty() { &self.chunk } else { &self.partial };
        let [flags, a, b, c, d] = *bytes.first_chunk()?;
        Some((flags, u32::from_be_bytes([a, b, c, d]) as usize))
    }

    /// Whether part of an envelope is there, and no more will come.
    pub(crate) fn is_partial(&self) -> bool {
        !self.chunk.is_empty() || !self.partial.is_empty()
    }
}

impl Envelope {
    /// The message, unfolded.
    pub(crate) fn unfolded(
        self,
        encoding: Option<Encoding>,
        bytes_max: usize,
        host: &str,
    ) -> Result<Bytes> {
        if self.flags & COMPRESSED == 0 {
            return Ok(self.message);
        }
        match encoding {
            Some(encoding) => encoding.decompress(&self.message, bytes_max, host),
            None => Err(Error::internal(format!(
                "{host} sent a compressed message without saying how it is compressed"
            ))),
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
            let mut opener = Opener::new(3);
            let mut found = Vec::new();
            for chunk in wire.chunks(cut) {
                opener.push(Bytes::copy_from_slice(chunk));
                while let Some(envelope) = opener.next("h").unwrap() {
                    found.push((envelope.flags, envelope.message, envelope.wire_bytes));
                }
            }
            let expected =
                [(0, Bytes::from("abc"), 8), (1, Bytes::new(), 5), (2, Bytes::from("z"), 6)];
            assert_eq!(found, expected, "cut at {cut}");
            assert!(!opener.is_partial());
        }
        let mut opener = Opener::new(2);
        opener.push(Bytes::from_static(&[0, 0, 0, 0, 3]));
        assert!(opener.next("h").is_err(), "the length alone is over the limit");
    }
}
