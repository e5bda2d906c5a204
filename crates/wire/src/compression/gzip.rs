//! gzip (RFC 1952): a head, deflated data, a sum and a length; one member or several in a row.
//!
//! The head is read here and the library sees deflated data only: its own readers of gzip either
//! stop after the first member, or cannot be used again. What follows the last member must be
//! another.

use flate2::{Compress, Crc, Decompress, FlushCompress, FlushDecompress, Status};

use super::UnfoldError;
use super::coders::PoolItem;

/// Compresses messages.
pub(super) struct Compressor(Compress);

/// Unfolds messages.
pub(super) struct Unfolder(Decompress);

impl Default for Compressor {
    fn default() -> Self {
        Self(Compress::new(flate2::Compression::new(6), false))
    }
}

impl Default for Unfolder {
    fn default() -> Self {
        Self(Decompress::new(false))
    }
}

// Both have a fixed size, whatever went through them.
impl PoolItem for Compressor {
    fn is_small(&self) -> bool {
        true
    }
}

impl PoolItem for Unfolder {
    fn is_small(&self) -> bool {
        true
    }
}

impl Compressor {
    pub(super) fn compress(&mut self, message: &[u8]) -> Result<Vec<u8>, &'static str> {
        self.0.reset();
        let mut out = Vec::with_capacity(message.len() / 2 + 64);
        // Deflate, no flags, no time, an unknown system.
        out.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
        loop {
            let taken = self.0.total_in() as usize;
            let status = self
                .0
                .compress_vec(&message[taken..], &mut out, FlushCompress::Finish)
                .map_err(|_| "deflate failed")?;
            if status == Status::StreamEnd {
                break;
            }
            out.reserve(out.len().max(64));
        }
        let mut sum = Crc::new();
        sum.update(message);
        out.extend_from_slice(&sum.sum().to_le_bytes());
        out.extend_from_slice(&sum.amount().to_le_bytes());
        Ok(out)
    }
}

impl Unfolder {
    pub(super) fn unfold(&mut self, data: &[u8], bytes_max: usize) -> Result<Vec<u8>, UnfoldError> {
        let mut out = Vec::with_capacity(data.len().saturating_mul(4).min(bytes_max).min(1 << 20));
        let mut rest = data;
        while !rest.is_empty() {
            let head = head_length(rest)?;
            let start = out.len();
            let taken = self.member(&rest[head..], &mut out, bytes_max)?;
            rest = &rest[head + taken..];
            let (tail, after) = rest.split_first_chunk::<8>().ok_or(CUT)?;
            let [a, b, c, d, e, f, g, h] = *tail;
            let mut sum = Crc::new();
            sum.update(&out[start..]);
            if sum.sum() != u32::from_le_bytes([a, b, c, d]) {
                return Err(UnfoldError::Invalid("its sum is wrong"));
            }
            if sum.amount() != u32::from_le_bytes([e, f, g, h]) {
                return Err(UnfoldError::Invalid("its length is wrong"));
            }
            rest = after;
        }
        Ok(out)
    }

    /// Unfolds the deflated data of one member; how many bytes it had.
    fn member(
        &mut self,
        data: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<usize, UnfoldError> {
        self.0.reset(false);
        loop {
            if out.len() > bytes_max {
                return Err(UnfoldError::TooLarge);
            }
            if out.len() == out.capacity() {
                // One byte past the limit is enough to know that it is passed.
                let more = out.len().max(256).min(bytes_max.saturating_add(1) - out.len());
                out.reserve_exact(more);
            }
            let taken = self.0.total_in() as usize;
            let before = (taken, out.len());
            let status = self
                .0
                .decompress_vec(&data[taken..], out, FlushDecompress::None)
                .map_err(|_| UnfoldError::Invalid("it does not unfold"))?;
            if status == Status::StreamEnd {
                break;
            }
            let after = (self.0.total_in() as usize, out.len());
            if after == before && out.len() < out.capacity() {
                return Err(CUT);
            }
        }
        if out.len() > bytes_max {
            return Err(UnfoldError::TooLarge);
        }
        Ok(self.0.total_in() as usize)
    }
}

const CUT: UnfoldError = UnfoldError::Invalid("it is cut off");

/// How long the head of a member is.
fn head_length(data: &[u8]) -> Result<usize, UnfoldError> {
    const SUM: u8 = 1 << 1;
    const MORE: u8 = 1 << 2;
    const NAME: u8 = 1 << 3;
    const COMMENT: u8 = 1 << 4;
    let [magic, magic_2, method, flags, ..] = *data.first_chunk::<10>().ok_or(CUT)?;
    if [magic, magic_2, method] != [0x1f, 0x8b, 8] {
        return Err(UnfoldError::Invalid("a member has no gzip head"));
    }
    if flags & 0b1110_0000 != 0 {
        return Err(UnfoldError::Invalid("it uses a reserved flag"));
    }
    let mut length = 10;
    if flags & MORE != 0 {
        let [low, high] = *data[length..].first_chunk().ok_or(CUT)?;
        length += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let rest = data.get(length..).ok_or(CUT)?;
            length += rest.iter().position(|byte| *byte == 0).ok_or(CUT)? + 1;
        }
    }
    if flags & SUM != 0 {
        let [low, high] = *data.get(length..).and_then(<[u8]>::first_chunk).ok_or(CUT)?;
        let mut sum = Crc::new();
        sum.update(&data[..length]);
        // The sum of a head is the lower half.
        if sum.sum() & 0xffff != u32::from(u16::from_le_bytes([low, high])) {
            return Err(UnfoldError::Invalid("the sum of its head is wrong"));
        }
        length += 2;
    }
    if length > data.len() {
        return Err(CUT);
    }
    Ok(length)
}
