//! Zstandard (RFC 8878): one frame or several in a row.
//!
//! What a frame declares to hold is compared with the limit before anything is unfolded, and a
//! window larger than a message or than usual is refused, since a decoder sets as much memory
//! aside.

use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, compress_bound,
    get_frame_content_size,
};

use super::UnfoldError;
use super::coders::PoolItem;

/// Compresses messages.
pub(super) struct Compressor(CCtx<'static>);

/// Unfolds messages.
pub(super) struct Unfolder(DCtx<'static>);

impl Default for Compressor {
    fn default() -> Self {
        let mut context = CCtx::create();
        // Both hold for as long as the context does; neither can fail for a valid level.
        let _ = context.set_parameter(CParameter::CompressionLevel(3));
        Self(context)
    }
}

impl Default for Unfolder {
    fn default() -> Self {
        Self(DCtx::create())
    }
}

/// What every decoder should take (RFC 8878, section 3.1.1.1.2): encoders that do not know how long
/// a message gets announce as much for the smallest.
const WINDOW_BYTES_MIN: usize = 8 << 20;

/// More than a context for messages of a megabyte takes.
const KEPT_BYTES_MAX: usize = 2 << 20;

impl PoolItem for Compressor {
    fn is_small(&self) -> bool {
        self.0.sizeof() <= KEPT_BYTES_MAX
    }
}

impl PoolItem for Unfolder {
    fn is_small(&self) -> bool {
        self.0.sizeof() <= KEPT_BYTES_MAX
    }
}

impl Compressor {
    pub(super) fn compress(&mut self, message: &[u8]) -> Result<Vec<u8>, &'static str> {
        let mut out = Vec::with_capacity(compress_bound(message.len()));
        self.0.compress2(&mut out, message).map_err(zstd::zstd_safe::get_error_name)?;
        Ok(out)
    }
}

impl Unfolder {
    pub(super) fn unfold(&mut self, data: &[u8], bytes_max: usize) -> Result<Vec<u8>, UnfoldError> {
        let invalid = |code| UnfoldError::Invalid(zstd::zstd_safe::get_error_name(code));
        let declared = get_frame_content_size(data).ok().flatten();
        if declared.is_some_and(|bytes| bytes > bytes_max as u64) {
            return Err(UnfoldError::TooLarge);
        }
        // What is declared may be a lie, so that little is set aside for it at once.
        let guess = declared.unwrap_or(data.len() as u64 * 4) as usize;
        let mut out = Vec::with_capacity(guess.min(bytes_max).min(1 << 20));
        self.0.reset(ResetDirective::SessionOnly).map_err(invalid)?;
        let window_log = bytes_max.max(WINDOW_BYTES_MIN).next_power_of_two().ilog2().min(31);
        self.0.set_parameter(DParameter::WindowLogMax(window_log)).map_err(invalid)?;
        let mut input = InBuffer::around(data);
        loop {
            if out.len() == out.capacity() {
                if out.len() > bytes_max {
                    return Err(UnfoldError::TooLarge);
                }
                // One byte past the limit is enough to know that it is passed.
                let more = out.len().max(256).min(bytes_max.saturating_add(1) - out.len());
                out.reserve_exact(more);
            }
            let before = (input.pos(), out.len());
            let filled = out.len();
            let mut output = OutBuffer::around_pos(&mut out, filled);
            let wanted = self.0.decompress_stream(&mut output, &mut input).map_err(invalid)?;
            if out.len() > bytes_max {
                return Err(UnfoldError::TooLarge);
            }
            let is_over = input.pos() == data.len();
            if wanted == 0 && is_over {
                return Ok(out);
            }
            if is_over && (input.pos(), out.len()) == before && out.len() < out.capacity() {
                return Err(UnfoldError::Invalid("it is cut off"));
            }
        }
    }
}
