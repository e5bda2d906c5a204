//! Cuts received bytes into frames without copying payloads.
//!
//! All complete frames of what was read are frozen into one shared buffer at once; each payload is
//! a share of it. Limits are checked on the head, before the body has arrived, so a peer cannot make
//! this side buffer more than one allowed frame.

use bytes::{Bytes, BytesMut};

use crate::frame::{HEAD_BYTES, HELLO_BYTES_MAX, Head, Kind, MAGIC};
use crate::reason::{Reason, Violation};

#[derive(Debug)]
pub(crate) struct Reader {
    input: BytesMut,
    /// Whole frames; `None` when there are none, or while a frame has it.
    whole: Option<Bytes>,
    position: usize,
    frame_max: u32,
    metadata_max: u16,
    greeted: bool,
}

/// A frame, as shares of the buffer it came in.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) head: Head,
    /// The buffer; metadata and payload are ranges of it.
    pub(crate) buffer: Bytes,
    pub(crate) start: usize,
}

impl Frame {
    #[inline]
    pub(crate) fn metadata(&self) -> &[u8] {
        &self.buffer[self.start..self.start + usize::from(self.head.meta_len)]
    }

    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        let payload = self.start + usize::from(self.head.meta_len);
        &self.buffer[payload..self.start + self.head.len as usize]
    }

    #[inline]
    pub(crate) fn metadata_bytes(&self) -> Bytes {
        if self.head.meta_len == 0 {
            return Bytes::new();
        }
        self.buffer.slice(self.start..self.start + usize::from(self.head.meta_len))
    }

    #[inline]
    pub(crate) fn payload_bytes(&self) -> Bytes {
        let payload = self.start + usize::from(self.head.meta_len);
        self.buffer.slice(payload..self.start + self.head.len as usize)
    }
}

impl Reader {
    pub(crate) fn new(frame_max: u32, metadata_max: u16) -> Self {
        Self {
            input: BytesMut::new(),
            whole: None,
            position: 0,
            frame_max,
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
        self.input.len() + self.whole.as_ref().map_or(0, |whole| whole.len() - self.position)
    }

    /// Forgets everything, for a new connection.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.frame_max, self.metadata_max);
    }

    /// The next whole frame.
    ///
    /// The frame takes the shared buffer with it; [`give_back`](Self::give_back) returns it. That
    /// saves two atomic operations a frame.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Violation> {
        let is_done = self.whole.as_ref().is_none_or(|whole| self.position >= whole.len());
        if is_done && !self.fill()? {
            return Ok(None);
        }
        let at = self.position;
        let Some(head) = self.whole.as_ref().and_then(|whole| whole[at..].first_chunk()) else {
            return Ok(None);
        };
        let head = Head::decode(head);
        self.check(&head)?;
        self.greeted = true;
        self.position = at + HEAD_BYTES + head.len as usize;
        let buffer = self.whole.take().unwrap_or_default();
        Ok(Some(Frame { head, buffer, start: at + HEAD_BYTES }))
    }

    /// Returns the buffer of a frame that is done with.
    #[inline]
    pub(crate) fn give_back(&mut self, frame: Frame) {
        self.whole = Some(frame.buffer);
    }

    /// Freezes the complete frames of the input. Once per read, so it stays out of the way of
    /// [`next`](Self::next).
    #[inline(never)]
    fn fill(&mut self) -> Result<bool, Violation> {
        self.whole = None;
        self.position = 0;
        let mut end = 0;
        let mut first = !self.greeted;
        while let Some(head) = self.input.get(end..end + HEAD_BYTES) {
            let head = Head::decode(head.try_into().expect("the slice has sixteen bytes"));
            let limit = if first { HELLO_BYTES_MAX } else { self.frame_max.max(HELLO_BYTES_MAX) };
            // A frame that breaks a limit is handed out at once when it is the next one.
            if end == 0 {
                self.check(&head)?;
            }
            let frame = HEAD_BYTES + head.len as usize;
            if head.len > limit || self.input.len() - end < frame {
                break;
            }
            first = false;
            end += frame;
        }
        if end == 0 {
            return Ok(false);
        }
        self.whole = Some(self.input.split_to(end).freeze());
        Ok(true)
    }

    #[inline]
    fn check(&self, head: &Head) -> Result<(), Violation> {
        if !self.greeted {
            return check_first(head);
        }
        if head.len > self.frame_max {
            return Err(over(Reason::FrameMax, "frame_max", head.len, self.frame_max));
        }
        if head.meta_len > self.metadata_max {
            let (seen, limit) = (head.meta_len.into(), self.metadata_max.into());
            return Err(over(Reason::MetadataMax, "metadata_max", seen, limit));
        }
        check_lengths(head)
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
        return Err(over(Reason::FrameMax, "hello_bytes_max", head.len, HELLO_BYTES_MAX));
    }
    check_lengths(head)
}

fn check_lengths(head: &Head) -> Result<(), Violation> {
    if u32::from(head.meta_len) > head.len {
        return Err(Violation::malformed("a frame has more metadata than bytes"));
    }
    Ok(())
}

#[cold]
fn over(reason: Reason, limit: &str, seen: u32, max: u32) -> Violation {
    Violation::new(reason, format!("a frame with {seen} bytes is over {limit} = {max}"))
}
