//! Cuts received bytes into frames without copying payloads.
//!
//! All complete frames of what was read are frozen into one buffer at once, and a frame is a range
//! of it: who needs a payload for longer takes a share of the buffer. Limits are checked on the
//! head, before the body has arrived, so a peer cannot make this side buffer more than one allowed
//! frame.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::frame::{HEAD_BYTES, HELLO_BYTES_MAX, Head, Kind, MAGIC, PAYLOAD_BYTES_MAX};
use crate::reason::{Reason, Violation};

#[derive(Debug)]
pub(crate) struct Reader {
    input: BytesMut,
    /// Whole frames, up to `position` handled.
    whole: Bytes,
    position: usize,
    /// The frame before `position`, as two words: they are stored and loaded once.
    head: u128,
    /// Where its metadata begins.
    start: usize,
    metadata_max: u16,
    greeted: bool,
}

impl Reader {
    pub(crate) fn new(metadata_max: u16) -> Self {
        Self {
            input: BytesMut::new(),
            whole: Bytes::new(),
            position: 0,
            head: 0,
            start: 0,
            metadata_max,
            greeted: false,
        }
    }

    /// Where the owner puts what it read.
    pub(crate) fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Bytes received and not yet looked at.
    pub(crate) fn buffered(&self) -> usize {
        self.input.len() + self.whole.len() - self.position
    }

    /// Forgets everything, for a new connection.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.metadata_max);
    }

    /// Whether a whole frame is there that was not handled.
    #[inline(always)]
    pub(crate) fn has_next(&self) -> bool {
        self.position < self.whole.len()
    }

    /// Goes on to the next whole frame, if there is one.
    #[inline(always)]
    pub(crate) fn next(&mut self) {
        if let Some(head) = self.whole.get(self.position..).and_then(|rest| rest.first_chunk()) {
            self.head = u128::from_le_bytes(*head);
            self.start = self.position + HEAD_BYTES;
            self.position = self.start + self.head().len as usize;
        }
    }

    /// The head of the frame.
    #[inline(always)]
    pub(crate) fn head(&self) -> Head {
        Head::from_word(self.head)
    }

    #[inline]
    fn metadata_end(&self) -> usize {
        self.start + usize::from(self.head().meta_len)
    }

    /// The frame's metadata.
    #[inline]
    pub(crate) fn metadata(&self) -> &[u8] {
        &self.whole[self.start..self.metadata_end()]
    }

    /// The frame's payload.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        &self.whole[self.metadata_end()..self.position]
    }

    /// The buffer that the frame is in, and where in it the payload is.
    #[inline]
    pub(crate) fn payload_range(&self) -> (&Bytes, Range<usize>) {
        (&self.whole, self.metadata_end()..self.position)
    }

    /// The metadata, as a share of the buffer.
    pub(crate) fn share_metadata(&self) -> Bytes {
        self.whole.slice(self.start..self.metadata_end())
    }

    /// The payload, as a share of the buffer.
    pub(crate) fn share_payload(&self) -> Bytes {
        self.whole.slice(self.metadata_end()..self.position)
    }

    /// Checks and freezes the complete frames of the input, when those before are handled.
    ///
    /// # Errors
    /// What is wrong with the next frame; false when it is not complete.
    pub(crate) fn fill(&mut self) -> Result<bool, Violation> {
        self.whole = Bytes::new();
        self.position = 0;
        let mut rest = &self.input[..];
        while let Some((head, body)) = rest.split_first_chunk() {
            let head = Head::decode(head);
            if !self.greeted {
                check_first(&head)?;
            } else if !self.fits(&head) {
                // The frames before it are handled first.
                if rest.len() < self.input.len() {
                    break;
                }
                return Err(self.misfit(&head));
            }
            let Some(after) = body.get(head.len as usize..) else { break };
            self.greeted = true;
            rest = after;
        }
        let end = self.input.len() - rest.len();
        if end == 0 {
            return Ok(false);
        }
        self.whole = self.input.split_to(end).freeze();
        Ok(true)
    }

    #[inline]
    fn fits(&self, head: &Head) -> bool {
        let payload = head.len.wrapping_sub(head.meta_len.into());
        payload <= PAYLOAD_BYTES_MAX as u32 && head.meta_len <= self.metadata_max
    }

    #[cold]
    fn misfit(&self, head: &Head) -> Violation {
        if u32::from(head.meta_len) > head.len {
            return more_metadata();
        }
        if head.meta_len > self.metadata_max {
            let seen = head.meta_len.into();
            let limit = self.metadata_max.into();
            return over(Reason::MetadataMax, "metadata_max", seen, limit);
        }
        let seen = head.len - u32::from(head.meta_len);
        let limit = PAYLOAD_BYTES_MAX as u32;
        over(Reason::TooLarge, "the largest payload", seen, limit)
    }
}

#[cold]
fn check_first(head: &Head) -> Result<(), Violation> {
    let hello = head.kind == Kind::Hello as u8 && head.deadline_ms == MAGIC;
    let goaway = head.kind == Kind::Goaway as u8;
    if !(hello || goaway) || head.stream != 0 {
        return Err(Violation::new(Reason::Magic, "the first frame is not a live hello"));
    }
    if head.len > HELLO_BYTES_MAX {
        return Err(over(Reason::TooLarge, "the largest hello", head.len, HELLO_BYTES_MAX));
    }
    if u32::from(head.meta_len) > head.len { Err(more_metadata()) } else { Ok(()) }
}

fn more_metadata() -> Violation {
    Violation::malformed("a frame has more metadata than bytes")
}

#[cold]
fn over(reason: Reason, limit: &str, seen: u32, max: u32) -> Violation {
    Violation::new(reason, format!("a frame with {seen} bytes is over {limit} = {max}"))
}
