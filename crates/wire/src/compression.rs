//! gzip and zstd, a message at a time, with a bound on what a message may unfold to.

use std::io::{self, Read};

use bytes::Bytes;
use http::HeaderValue;
use tidewire_service::{Code, Error, Result};

/// What is compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    pub(crate) requests: Option<Encoding>,
    pub(crate) request_bytes_min: usize,
    pub(crate) accepts_any: bool,
}

/// A way to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Default for Compression {
    /// Requests go as they are; replies may be compressed.
    fn default() -> Self {
        Self { requests: None, request_bytes_min: 1024, accepts_any: true }
    }
}

impl Compression {
    /// Neither requests nor replies are compressed.
    pub fn none() -> Self {
        Self { accepts_any: false, ..Self::default() }
    }

    /// Compresses requests of at least 1,024 bytes; replies may be compressed.
    pub fn requests(encoding: Encoding) -> Self {
        Self { requests: Some(encoding), ..Self::default() }
    }

    /// Sets from how many bytes on a request message is compressed.
    #[must_use]
    pub fn from_bytes(mut self, request_bytes_min: usize) -> Self {
        self.request_bytes_min = request_bytes_min;
        self
    }

    /// The encoding for a message that goes out.
    pub(crate) fn for_message(&self, length: usize) -> Option<Encoding> {
        self.requests.filter(|_| length >= self.request_bytes_min)
    }

    /// What the server may answer with.
    pub(crate) fn accepted(&self) -> Option<HeaderValue> {
        self.accepts_any.then(|| HeaderValue::from_static("gzip,zstd"))
    }
}

impl Encoding {
    /// The name that headers have.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    pub(crate) const fn value(self) -> HeaderValue {
        HeaderValue::from_static(self.as_str())
    }

    /// The encoding that a response names; `None` is no compression.
    pub(crate) fn of_response(name: Option<&HeaderValue>, host: &str) -> Result<Option<Self>> {
        match name.map(HeaderValue::as_bytes) {
            None | Some(b"" | b"identity") => Ok(None),
            Some(b"gzip") => Ok(Some(Self::Gzip)),
            Some(b"zstd") => Ok(Some(Self::Zstd)),
            Some(other) => Err(Error::internal(format!(
                "{host} compressed its reply with {}, which was not asked for; gzip and zstd are \
                 known",
                String::from_utf8_lossy(other)
            ))),
        }
    }

    pub(crate) fn compress(self, message: &[u8]) -> Result<Bytes> {
        let compressed = match self {
            Self::Gzip => {
                let mut reader =
                    flate2::bufread::GzEncoder::new(message, flate2::Compression::new(6));
                let mut out = Vec::with_capacity(message.len() / 2 + 32);
                reader.read_to_end(&mut out).map(|_| out)
            }
            Self::Zstd => zstd::bulk::compress(message, 3),
        };
        compressed
            .map(Bytes::from)
            .map_err(|e| Error::internal("the request cannot be compressed").with_cause(e))
    }

    /// Unfolds a message of at most `bytes_max` bytes; an empty one stays empty.
    pub(crate) fn decompress(self, data: &[u8], bytes_max: usize, host: &str) -> Result<Bytes> {
        if data.is_empty() {
            return Ok(Bytes::new());
        }
        let mut out = Vec::with_capacity(data.len().saturating_mul(4).min(bytes_max).min(1 << 20));
        let limit = bytes_max as u64 + 1;
        let read = match self {
            Self::Gzip => {
                flate2::bufread::MultiGzDecoder::new(data).take(limit).read_to_end(&mut out)
            }
            Self::Zstd => zstd_reader(data, bytes_max)
                .and_then(|reader| reader.take(limit).read_to_end(&mut out)),
        };
        read.map_err(|error| {
            Error::new(
                Code::InvalidArgument,
                format!("{host} sent a message that is not valid {}: {error}", self.as_str()),
            )
        })?;
        if out.len() > bytes_max {
            return Err(too_large(host, bytes_max));
        }
        Ok(out.into())
    }
}

/// A decoder that refuses windows larger than a message may be.
fn zstd_reader(data: &[u8], bytes_max: usize) -> io::Result<impl Read> {
    let mut reader = zstd::stream::read::Decoder::with_buffer(data)?;
    let window_log = usize::BITS - bytes_max.max(1 << 20).leading_zeros();
    reader.window_log_max(window_log.clamp(20, 31))?;
    Ok(reader)
}

/// A reply that is larger than the client takes.
pub(crate) fn too_large(host: &str, bytes_max: usize) -> Error {
    Error::resource_exhausted(format!(
        "the reply of {host} is larger than limits.message_bytes_max = {bytes_max}; raise the limit \
         or ask for less"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_unfolds_up_to_the_limit() {
        let message = vec![b'a'; 100_000];
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            let small = encoding.compress(&message).unwrap();
            assert!(small.len() < 1000);
            assert_eq!(encoding.decompress(&small, 100_000, "h").unwrap(), message);
            let bomb = encoding.decompress(&small, 99_999, "h").unwrap_err();
            assert_eq!(bomb.code(), Code::ResourceExhausted, "{bomb}");
            let broken = encoding.decompress(b"nonsense", 100, "h").unwrap_err();
            assert_eq!(broken.code(), Code::InvalidArgument, "{broken}");
            let cut = encoding.decompress(&small[..small.len() - 3], 100_000, "h");
            assert!(cut.is_err(), "{}", encoding.as_str());
        }
    }
}
