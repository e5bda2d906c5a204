//! Several small messages of a stream in one piece, from whoever makes them to whoever takes them.
//!
//! A stream of millions of messages spends most of its time on what is done for each of them: an
//! allocation, a call of each of the streams that it is wrapped in. Who can do better with many at
//! a time is a [`Frames`].

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::{Error, Frame};

/// Small messages, each behind its length: as a frame of the live protocol has them, a LEB128
/// number of one or two bytes; or [in envelopes](Self::in_envelopes).
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    prefix: Prefix,
    /// Where what was taken ends.
    taken: usize,
    /// Bytes of the messages themselves.
    payload: usize,
    /// How many more it takes.
    allowed: u32,
    /// Bytes of the largest that it takes, if there is less room than it has.
    size_max: Option<usize>,
    /// How many bytes were given away last: room for as many is made at once.
    usual: usize,
}

/// What stands before each message.
#[derive(Debug, Default, Clone, Copy)]
enum Prefix {
    #[default]
    Length,
    Envelope,
}

impl Messages {
    /// All messages together, with their lengths, are no larger than this. Of messages in
    /// envelopes only each is; together they are no larger than three times this, and a bit.
    pub const BYTES_MAX: usize = 16 << 10;

    /// In envelopes it takes messages until there are this many bytes.
    const ENVELOPES_MIN: usize = 2 * Self::BYTES_MAX;

    /// Sets how many more messages it takes.
    #[inline]
    pub fn allow(&mut self, messages: u32) {
        self.allowed = messages;
    }

    /// Each behind the five bytes that gRPC and Connect have: 0, for it is not compressed, and its
    /// size in four bytes. It takes none that is larger than `size_max` bytes.
    pub fn in_envelopes(size_max: usize) -> Self {
        Self { prefix: Prefix::Envelope, size_max: Some(size_max), ..Self::default() }
    }

    /// Whether it takes another message of this size.
    #[inline]
    pub fn takes(&self, size: usize) -> bool {
        self.allowed > 0 && self.size_max.is_none_or(|most| size <= most) && self.has_room(size)
    }

    #[inline]
    fn has_room(&self, size: usize) -> bool {
        match self.prefix {
            Prefix::Length => self.bytes.len() + size + LENGTH_MAX <= Self::BYTES_MAX,
            Prefix::Envelope => size <= Self::BYTES_MAX && self.bytes.len() < Self::ENVELOPES_MIN,
        }
    }

    /// Adds a message, however many it was allowed; unless it has no room.
    #[inline]
    pub fn add(&mut self, message: &[u8]) -> bool {
        let has_room = self.has_room(message.len());
        if has_room {
            self.add_with(message.len(), |bytes| bytes.extend_from_slice(message));
        }
        has_room
    }

    /// Adds a message of `size` bytes that [is taken](Self::takes), which `write` appends.
    #[inline]
    pub(crate) fn add_with(&mut self, size: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(self.usual);
        }
        let unwritten = PartialWrite { before: self.bytes.len(), bytes: &mut self.bytes };
        let bytes = &mut *unwritten.bytes;
        match self.prefix {
            Prefix::Envelope => {
                let [a, b, c, d] = (size as u32).to_be_bytes();
                bytes.extend_from_slice(&[0, a, b, c, d]);
            }
            Prefix::Length if size < 0x80 => bytes.push(size as u8),
            Prefix::Length => bytes.extend_from_slice(&[size as u8 | 0x80, (size >> 7) as u8]),
        }
        write(bytes);
        std::mem::forget(unwritten);
        self.payload += size;
        self.allowed = self.allowed.saturating_sub(1);
    }

    /// The next message, in order.
    #[inline]
    pub fn take(&mut self) -> Option<&[u8]> {
        let &[first, ref rest @ ..] = self.bytes.get(self.taken..)? else { return None };
        let (size, prefix) = match (self.prefix, rest) {
            (Prefix::Envelope, [a, b, c, d, ..]) => {
                (u32::from_be_bytes([*a, *b, *c, *d]) as usize, 5)
            }
            (Prefix::Length, [more, ..]) if first >= 0x80 => {
                (usize::from(first & 0x7f) | usize::from(*more) << 7, 2)
            }
            _ => (usize::from(first), 1),
        };
        let start = self.taken + prefix;
        self.taken = start + size;
        self.bytes.get(start..self.taken)
    }

    /// Whether there is none that was not taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken >= self.bytes.len()
    }

    /// Forgets all, also what was taken.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.taken, self.payload) = (0, 0);
    }

    /// The bytes of the messages that were added, without their lengths.
    pub fn payload_bytes(&self) -> usize {
        self.payload
    }

    /// Gives all messages with their lengths away, for an empty buffer or behind what is in it.
    pub fn move_to(&mut self, buffer: &mut Vec<u8>) {
        if buffer.is_empty() {
            self.usual = self.bytes.len();
            std::mem::swap(buffer, &mut self.bytes);
        } else {
            buffer.append(&mut self.bytes);
        }
        self.clear();
    }

    /// How many bytes they are with their lengths.
    pub fn encoded_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Half a message, if whoever writes it panics.
struct PartialWrite<'a> {
    before: usize,
    bytes: &'a mut Vec<u8>,
}

impl Drop for PartialWrite<'_> {
    fn drop(&mut self) {
        self.bytes.truncate(self.before);
    }
}

/// The most bytes of a length before a message that is at most [`Messages::BYTES_MAX`] long.
const LENGTH_MAX: usize = 2;

/// The frames of a body: a stream of them, for those who take several messages at a time too.
pub trait Frames: Stream<Item = Result<Frame, Error>> + Send {
    /// As `poll_next`; small messages that are ready may go to `messages` instead, as many as it
    /// [takes](Messages::takes). They come before what is returned.
    fn poll_messages(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame, Error>>> {
        let _ = messages;
        self.poll_next(cx)
    }
}

impl<F: Frames + ?Sized> Frames for Pin<Box<F>> {
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame, Error>>> {
        self.as_mut().get_mut().as_mut().poll_messages(cx, messages)
    }
}

pin_project_lite::pin_project! {
    /// Frames that come one by one.
    pub(crate) struct OneByOne<S> {
        #[pin]
        pub(crate) frames: S,
    }
}

impl<S: Stream> Stream for OneByOne<S> {
    type Item = S::Item;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.project().frames.poll_next(cx)
    }
}

impl<S: Stream<Item = Result<Frame, Error>> + Send> Frames for OneByOne<S> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_every_size_come_out_as_they_went_in() {
        let sizes = [0, 1, 127, 128, 300, 0, 8000];
        let mut messages = Messages::default();
        for round in 0..3_u8 {
            assert!(messages.is_empty() && messages.take().is_none());
            for size in sizes {
                assert!(messages.add(&vec![round; size]));
            }
            assert_eq!(messages.payload_bytes(), sizes.iter().sum::<usize>());
            for size in sizes {
                assert!(!messages.is_empty());
                assert_eq!(messages.take(), Some(&vec![round; size][..]));
            }
            assert!(messages.is_empty() && messages.take().is_none());
            messages.clear();
        }
    }

    #[test]
    fn no_more_is_taken_than_fits_and_than_is_allowed() {
        let mut messages = Messages::default();
        assert!(!messages.takes(0), "none is allowed");
        messages.allow(2);
        assert!(
            messages.takes(Messages::BYTES_MAX - 2) && !messages.takes(Messages::BYTES_MAX - 1)
        );
        assert!(messages.add(&vec![1; Messages::BYTES_MAX - 4]) && messages.takes(0));
        assert!(!messages.add(b"x") && messages.add(b""));
        assert!(!messages.takes(0) && messages.encoded_bytes() <= Messages::BYTES_MAX);
    }

    #[test]
    fn envelopes_come_out_as_they_went_in_and_look_as_in_grpc() {
        let mut messages = Messages::in_envelopes(300);
        messages.allow(9);
        assert!(messages.takes(300) && !messages.takes(301));
        let sizes = [0, 3, 300];
        sizes.iter().for_each(|size| assert!(messages.add(&vec![7; *size])));
        assert_eq!((messages.payload_bytes(), messages.encoded_bytes()), (303, 318));
        for size in sizes {
            assert_eq!(messages.take(), Some(&vec![7; size][..]));
        }
        assert!(messages.is_empty() && messages.take().is_none());
        let mut buffer = Vec::new();
        messages.move_to(&mut buffer);
        assert_eq!(buffer[..13], [0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 7, 7, 7]);
        assert_eq!(buffer[13..18], [0, 0, 0, 1, 44]);
        messages.allow(1);
        assert!(messages.takes(300), "as before");
    }

    #[test]
    fn messages_in_envelopes_fill_two_frames_and_the_next_have_the_same_room_at_once() {
        let (mut messages, mut buffer) = (Messages::in_envelopes(Messages::BYTES_MAX), Vec::new());
        messages.allow(u32::MAX);
        assert!(!messages.takes(Messages::BYTES_MAX + 1));
        while messages.takes(10_000) {
            assert!(messages.add(&[7; 10_000]));
        }
        assert_eq!(messages.encoded_bytes(), 4 * 10_005);
        messages.move_to(&mut buffer);
        assert!(messages.takes(0) && messages.add(b"") && messages.encoded_bytes() == 5);
        assert_eq!((buffer.len(), messages.bytes.capacity()), (40_020, 40_020));
    }

    #[test]
    fn half_a_message_is_forgotten() {
        let mut messages = Messages::default();
        assert!(messages.add(b"whole"));
        let half = std::panic::AssertUnwindSafe(|| {
            messages.add_with(9, |bytes| {
                bytes.push(0);
                panic!("broken");
            });
        });
        assert!(std::panic::catch_unwind(half).is_err());
        assert!(messages.add(b"next"));
        assert_eq!(messages.take(), Some(&b"whole"[..]));
        assert_eq!(messages.take(), Some(&b"next"[..]));
        assert!(messages.is_empty());
    }

    #[test]
    fn messages_are_moved_into_an_empty_buffer_and_behind_others() {
        let (mut messages, mut buffer) = (Messages::default(), Vec::new());
        assert!(messages.add(b"a"));
        messages.move_to(&mut buffer);
        assert!(messages.is_empty() && messages.add(b"bc"));
        messages.move_to(&mut buffer);
        assert_eq!(buffer, b"\x01a\x02bc");
        assert!(messages.is_empty() && messages.encoded_bytes() == 0);
    }
}
