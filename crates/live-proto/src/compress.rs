//! Compression of single payloads with zstd.
//!
//! A payload is compressed when it is large enough and only if that makes it smaller. Decompression
//! never makes more than the limit: the content size is read from the zstd head first.

use crate::reason::{Reason, Violation};

const LEVEL: i32 = 1;

pub(crate) struct Compression {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compression")
    }
}

impl Compression {
    pub(crate) fn new() -> Self {
        Self { compressor: None, decompressor: None, scratch: Vec::new() }
    }

    /// The compressed payload; `None` when it would not be smaller.
    pub(crate) fn compress(&mut self, payload: &[u8]) -> Option<&[u8]> {
        if self.compressor.is_none() {
            self.compressor = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        self.scratch.clear();
        self.scratch.reserve(zstd::zstd_safe::compress_bound(payload.len()));
        self.compressor.as_mut()?.compress_to_buffer(payload, &mut self.scratch).ok()?;
        (self.scratch.len() < payload.len()).then_some(&self.scratch[..])
    }

    /// The payload of a compressed frame.
    ///
    /// # Errors
    /// `compression`, or `too_large` when it is larger than allowed.
    pub(crate) fn decompress(&mut self, payload: &[u8], max: usize) -> Result<Vec<u8>, Violation> {
        let broken = || Violation::new(Reason::Compression, "a payload does not decompress");
        let size =
            zstd::zstd_safe::get_frame_content_size(payload).ok().flatten().ok_or_else(broken)?;
        if size > max as u64 {
            return Err(Violation::new(
                Reason::TooLarge,
                format!("a payload of {size} bytes when decompressed is over {max}"),
            ));
        }
        if self.decompressor.is_none() {
            self.decompressor = zstd::bulk::Decompressor::new().ok();
        }
        let decompressor = self.decompressor.as_mut().ok_or_else(broken)?;
        let out = decompressor.decompress(payload, size as usize).map_err(|_| broken())?;
        if out.len() as u64 == size { Ok(out) } else { Err(broken()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_comes_back_and_a_bomb_is_refused_by_its_stated_size() {
        let mut compression = Compression::new();
        let payload = vec![b'a'; 1 << 20];
        let small = compression.compress(&payload).unwrap().to_vec();
        assert!(small.len() < 1000);
        assert_eq!(compression.decompress(&small, 1 << 20).unwrap(), payload);
        let refused = compression.decompress(&small, (1 << 20) - 1).unwrap_err();
        assert_eq!(refused.reason, Reason::TooLarge);
        let broken = compression.decompress(&small[..10], 1 << 20).unwrap_err();
        assert_eq!(broken.reason, Reason::Compression);
        assert!(compression.compress(b"abc").is_none());
    }
}
