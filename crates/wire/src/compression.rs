//! gzip and zstd, a message at a time, with limits before and after.
//!
//! [`Coders`] keeps what compresses and unfolds, since making one costs more than a small message
//! does. A server has one and so has a client; how many it keeps is bounded, and what has grown is
//! not kept.
//!
//! | limit | where |
//! |---|---|
//! | a compressed message, before it is kept | `envelope.rs`, `read_request.rs`, `read_reply.rs` |
//! | what zstd declares, before anything is unfolded | `zstandard.rs` |
//! | what comes out, while it is unfolded | `gzip.rs`, `zstandard.rs` |

mod coders;
mod gzip;
mod zstandard;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidewire_service::{Coding, Error, Form, Format, Result};

use self::coders::Pool;
use crate::envelope::Message;
use crate::sender::Sender;

/// What a client compresses.
///
/// ```
/// # mod tidewire { pub mod client { pub use tidewire_wire::{Compression, Encoding}; } }
/// use tidewire::client::{Compression, Encoding};
///
/// let compression = Compression::requests(Encoding::Zstd).from_bytes(4096);
/// // Client::builder("http://10.0.0.7:8080").compression(compression)
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    pub(crate) requests: Option<Encoding>,
    pub(crate) request_bytes_min: usize,
    pub(crate) accepts_any: bool,
}

/// A way to compress.
///
/// ```
/// # mod tidewire { pub mod client { pub use tidewire_wire::Encoding; } }
/// use tidewire::client::Encoding;
///
/// assert_eq!(Encoding::Gzip.as_str(), "gzip");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// What compresses and unfolds, kept between messages; one a server or client.
#[derive(Debug)]
pub struct Coders {
    gzip_in: Pool<gzip::Unfolder>,
    gzip_out: Pool<gzip::Compressor>,
    zstd_in: Pool<zstandard::Unfolder>,
    zstd_out: Pool<zstandard::Compressor>,
}

impl Default for Coders {
    fn default() -> Self {
        Self {
            gzip_in: Pool::new(KEPT_MAX),
            gzip_out: Pool::new(KEPT_MAX),
            zstd_in: Pool::new(KEPT_MAX),
            zstd_out: Pool::new(KEPT_MAX),
        }
    }
}

/// How many of each kind are kept: as many as compress at once on a large machine.
const KEPT_MAX: usize = 16;

/// From how many bytes on a reply is worth compressing.
const REPLY_BYTES_MIN: usize = 1024;

/// Why a message does not unfold.
#[derive(Debug)]
enum UnfoldError {
    TooLarge,
    Invalid(&'static str),
}

impl Coders {
    /// The message compressed.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn compress(&self, encoding: Encoding, message: &[u8]) -> Result<Bytes> {
        let compressed = match encoding {
            Encoding::Gzip => self.gzip_out.with(|coder| coder.compress(message)),
            Encoding::Zstd => self.zstd_out.with(|coder| coder.compress(message)),
        };
        compressed
            .map(Bytes::from)
            .map_err(|why| Error::internal(format!("a message cannot be compressed: {why}")))
    }

    /// Bytes of the largest message of a reply that is left as it is.
    pub(crate) const UNCOMPRESSED_MAX: usize = REPLY_BYTES_MIN - 1;

    /// Whether a message is one to be compressed.
    pub(crate) fn shrinks(encoding: Option<Encoding>, message: &[u8]) -> bool {
        encoding.is_some() && message.len() >= REPLY_BYTES_MIN
    }

    /// A message of a reply compressed; `None` if that is not worth it. Of a message that is kept,
    /// the compressed form is kept too.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn shrink(
        &self,
        encoding: Option<Encoding>,
        message: &Message,
    ) -> Result<Option<(Encoding, Bytes)>> {
        let bytes = message.bytes();
        let Some(encoding) = encoding.filter(|_| Self::shrinks(encoding, bytes)) else {
            return Ok(None);
        };
        // What does not get smaller is remembered as empty, which no compressed form is.
        let make = || {
            let small = self.compress(encoding, bytes)?;
            Ok(if small.len() < bytes.len() { small } else { Bytes::new() })
        };
        let small = match message.keeper() {
            None => make()?,
            Some(keeper) => {
                let coding = match encoding {
                    Encoding::Gzip => Coding::Gzip,
                    Encoding::Zstd => Coding::Zstd,
                };
                keeper.forms().or_make(Form { format: Format::AS_GIVEN, coding }, make)?
            }
        };
        Ok((!small.is_empty()).then_some((encoding, small)))
    }

    /// Unfolds a message of at most `bytes_max` bytes; an empty one stays empty.
    pub(crate) fn unfold(
        &self,
        encoding: Encoding,
        data: &[u8],
        bytes_max: usize,
        sender: Sender<'_>,
    ) -> Result<Bytes> {
        if data.is_empty() {
            return Ok(Bytes::new());
        }
        let unfolded = match encoding {
            Encoding::Gzip => self.gzip_in.with(|coder| coder.unfold(data, bytes_max)),
            Encoding::Zstd => self.zstd_in.with(|coder| coder.unfold(data, bytes_max)),
        };
        unfolded.map(Bytes::from).map_err(|broken| match broken {
            UnfoldError::TooLarge => sender.too_large(bytes_max),
            UnfoldError::Invalid(why) => sender.malformed(&format!(
                "sent a message that is not valid {}: {why}",
                encoding.as_str()
            )),
        })
    }
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
        self.accepts_any.then_some(ACCEPTED)
    }
}

/// What is known, as headers list it.
pub(crate) const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip,zstd");

impl Encoding {
    /// The name that headers have.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    pub(crate) const fn value(self) -> HeaderValue {
        const GZIP: HeaderValue = HeaderValue::from_static("gzip");
        const ZSTD: HeaderValue = HeaderValue::from_static("zstd");
        match self {
            Self::Gzip => GZIP,
            Self::Zstd => ZSTD,
        }
    }

    /// The encoding that a header names, `None` being no compression; `Err` has what is not known.
    ///
    /// Names compare without regard to case, and `x-gzip` is gzip (RFC 9110, section 8.4.1).
    pub(crate) fn from_header<'a>(
        headers: &'a HeaderMap,
        name: &HeaderName,
    ) -> Result<Option<Self>, &'a HeaderValue> {
        let mut named = None;
        for value in headers.get_all(name) {
            match Self::of(value.as_bytes().trim_ascii()) {
                // A body compressed twice is nothing that any of the protocols has.
                Some(Some(_)) if named.is_some() => return Err(value),
                Some(Some(encoding)) => named = Some(encoding),
                Some(None) => {}
                None => return Err(value),
            }
        }
        Ok(named)
    }

    /// What a name stands for: `Some(None)` is not compression, `None` is not known.
    pub(crate) fn of(name: &[u8]) -> Option<Option<Self>> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if name.is_empty() || is("identity") {
            Some(None)
        } else if is("gzip") || is("x-gzip") {
            Some(Some(Self::Gzip))
        } else if is("zstd") {
            Some(Some(Self::Zstd))
        } else {
            None
        }
    }

    /// The encoding that a response names.
    pub(crate) fn of_response(
        headers: &HeaderMap,
        name: &HeaderName,
        host: &str,
    ) -> Result<Option<Self>> {
        Self::from_header(headers, name).map_err(|other| {
            Error::internal(format!(
                "{host} compressed its reply with {}, which was not asked for; gzip and zstd are \
                 known",
                String::from_utf8_lossy(other.as_bytes())
            ))
        })
    }

    /// What the other side would like best of what is known; `None` if it wants nothing of it.
    ///
    /// Weights are those of RFC 9110, section 12.5.3; gRPC and Connect streams have lists without.
    pub(crate) fn preferred(headers: &HeaderMap, name: &HeaderName) -> Option<Self> {
        let mut best: Option<(u16, Self)> = None;
        for AcceptedCoding { name, weight } in accepted_codings(headers.get_all(name)) {
            let encoding = if name == b"*" {
                Self::Gzip
            } else {
                let Some(Some(encoding)) = Self::of(name) else { continue };
                encoding
            };
            if weight > best.map_or(0, |(weight, _)| weight) {
                best = Some((weight, encoding));
            }
        }
        best.map(|(_, encoding)| encoding)
    }
}

/// One coding of a header such as `accept-encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedCoding<'a> {
    /// Its name as it was sent, or `*`.
    pub name: &'a [u8],
    /// Its weight in thousandths; 0 means that the coding is refused.
    pub weight: u16,
}

/// The codings that a header lists, in its order, by RFC 9110, section 12.5.3.
pub fn accepted_codings<'a>(
    values: impl IntoIterator<Item = &'a HeaderValue>,
) -> impl Iterator<Item = AcceptedCoding<'a>> {
    values.into_iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(|item| {
        let mut parts = item.split(|byte| *byte == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        AcceptedCoding { name, weight: parts.find_map(weight).unwrap_or(1000) }
    })
}

/// A weight `q=0.5` in thousandths; one that is not valid counts as 0.
fn weight(parameter: &[u8]) -> Option<u16> {
    let parameter = parameter.trim_ascii();
    let (name, value) = parameter.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let weight = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<f32>().ok());
    let weight = weight.filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.0);
    // Within 0 to 1000, as just checked.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Some((weight * 1000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use tidewire_service::{CachedBody, Code, Forms, FormsBudget, Signal, Staleness, Validator};

    const BOTH: [Encoding; 2] = [Encoding::Gzip, Encoding::Zstd];

    fn unfold(encoding: Encoding, data: &[u8], bytes_max: usize) -> Result<Bytes> {
        Coders::default().unfold(encoding, data, bytes_max, Sender::Client)
    }

    #[test]
    fn what_is_compressed_unfolds_up_to_the_limit() {
        let coders = Coders::default();
        for message in [vec![b'a'; 100_000], (0..70_000u32).flat_map(u32::to_le_bytes).collect()] {
            for encoding in BOTH {
                let small = coders.compress(encoding, &message).unwrap();
                assert!(small.len() < message.len());
                // Twice, since what is kept is used again.
                for _ in 0..2 {
                    let limit = message.len();
                    let back = coders.unfold(encoding, &small, limit, Sender::Client).unwrap();
                    assert_eq!(back, message);
                    let bomb = coders.unfold(encoding, &small, limit - 1, Sender::Client);
                    assert_eq!(bomb.unwrap_err().code(), Code::ResourceExhausted);
                }
            }
        }
    }

    #[test]
    fn what_is_cut_anywhere_or_goes_on_after_its_end_is_refused() {
        let message = b"a message that is long enough to be worth it, it, it, it, it, it".repeat(3);
        for encoding in BOTH {
            let small = Coders::default().compress(encoding, &message).unwrap();
            for cut in 1..small.len() {
                let error = unfold(encoding, &small[..cut], 1000).unwrap_err();
                assert_eq!(error.code(), Code::InvalidArgument, "{error}");
            }
            for garbage in [&b"\0"[..], b"x", b"\x1f\x8b", b"\0\0\0\0\0\0\0\0\0\0\0\0"] {
                let error = unfold(encoding, &[&small, garbage].concat(), 1000).unwrap_err();
                assert_eq!(error.code(), Code::InvalidArgument, "{encoding:?} {garbage:?}");
            }
            let both = unfold(encoding, &[&small[..], &small].concat(), 1000).unwrap();
            assert_eq!(both, message.repeat(2), "both members count");
            let over = unfold(encoding, &[&small[..], &small].concat(), message.len() + 1);
            assert_eq!(over.unwrap_err().code(), Code::ResourceExhausted);
            assert_eq!(unfold(encoding, b"nonsense", 9).unwrap_err().code(), Code::InvalidArgument);
            assert_eq!(unfold(encoding, b"", 9).unwrap(), "");
        }
    }

    #[test]
    fn zstd_of_an_encoder_that_does_not_know_the_length_is_read_within_the_limits() {
        use std::io::Write as _;
        let streamed = |window_log| {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
            encoder.window_log(window_log).unwrap();
            encoder.write_all(&[b'a'; 100]).unwrap();
            encoder.flush().unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(unfold(Encoding::Zstd, &streamed(23), 100).unwrap(), [b'a'; 100][..]);
        let bomb = unfold(Encoding::Zstd, &streamed(23), 99).unwrap_err();
        assert_eq!(bomb.code(), Code::ResourceExhausted);
        let window = unfold(Encoding::Zstd, &streamed(24), 100).unwrap_err();
        assert_eq!(window.code(), Code::InvalidArgument, "a window of 16 MiB");
        assert_eq!(unfold(Encoding::Zstd, &streamed(24), 10 << 20).unwrap(), [b'a'; 100][..]);
    }

    #[test]
    fn every_changed_byte_of_a_gzip_member_is_seen_or_without_meaning() {
        let message = b"checked by its sum".repeat(20);
        let small = Coders::default().compress(Encoding::Gzip, &message).unwrap();
        for index in 0..small.len() {
            let mut changed = small.to_vec();
            changed[index] ^= 0x40;
            // Only the time, the system that made it and the bits after the last code may change.
            if let Ok(unfolded) = unfold(Encoding::Gzip, &changed, 1000) {
                assert_eq!(unfolded, message, "byte {index}");
                assert!((4..10).contains(&index) || index == small.len() - 9, "byte {index}");
            }
        }
    }

    #[test]
    fn a_gzip_head_may_hold_a_name_a_comment_more_and_a_sum() {
        let small = Coders::default().compress(Encoding::Gzip, &[b'a'; 100]).unwrap();
        let mut head = small[..10].to_vec();
        head[3] = 0b1_1110;
        head.extend_from_slice(b"\x02\0xyname\0comment\0");
        let mut sum = flate2::Crc::new();
        sum.update(&head);
        head.extend_from_slice(&(sum.sum() as u16).to_le_bytes());
        let whole = [&head[..], &small[10..]].concat();
        assert_eq!(unfold(Encoding::Gzip, &whole, 100).unwrap(), [b'a'; 100][..]);
        for cut in 1..head.len() {
            assert!(unfold(Encoding::Gzip, &whole[..cut], 100).is_err(), "{cut}");
        }
        let mut reserved = whole;
        reserved[3] |= 0b10_0000;
        assert!(unfold(Encoding::Gzip, &reserved, 100).is_err());
    }

    /// Keeps a message of 5,000 bytes.
    struct Keeps(Bytes, Forms);

    impl CachedBody for Keeps {
        fn validator(&self) -> Option<Validator> {
            None
        }

        fn is_stale(&self, _: u64) -> bool {
            false
        }

        fn staleness(&self, _: u64) -> Arc<dyn Staleness> {
            Arc::new(Signal::new())
        }

        fn body(&self) -> &Bytes {
            &self.0
        }

        fn forms(&self) -> &Forms {
            &self.1
        }
    }

    #[test]
    fn the_compressed_form_of_a_message_that_is_kept_is_made_once_for_each_coding() {
        for (body, gets_smaller) in [(vec![b'a'; 5000], true), (noise(), false)] {
            let room = Arc::new(FormsBudget::new(1 << 20));
            let body = Bytes::from(body);
            let keeper: Arc<dyn CachedBody> =
                Arc::new(Keeps(body.clone(), Forms::new(Arc::clone(&room))));
            for encoding in BOTH {
                let shrunk = || {
                    let message = Message::cached(body.clone(), Arc::clone(&keeper));
                    Coders::default().shrink(Some(encoding), &message).unwrap()
                };
                let first = shrunk();
                assert_eq!(first.is_some(), gets_smaller);
                let again = shrunk();
                let places =
                    [&first, &again].map(|it| it.as_ref().map(|(_, small)| small.as_ptr()));
                assert_eq!(places[0], places[1], "the same bytes");
            }
            // That nothing got smaller is remembered, too, in the room of a list.
            let forms = if gets_smaller { 1..5000 } else { 1..500 };
            assert!(forms.contains(&room.bytes()), "{} bytes", room.bytes());
        }
    }

    /// Bytes that nothing makes smaller (xorshift).
    fn noise() -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..2000).map(|_| next()).collect()
    }

    #[test]
    fn a_reply_that_does_not_get_smaller_is_not_compressed() {
        let noise = noise();
        for encoding in BOTH {
            let shrunk = |message: &[u8]| {
                let message = Bytes::copy_from_slice(message).into();
                Coders::default().shrink(Some(encoding), &message).unwrap()
            };
            assert_eq!(shrunk(&[b'a'; 1023]), None);
            assert_eq!(shrunk(&[b'a'; 1024]).unwrap().0, encoding);
            assert_eq!(shrunk(&noise), None);
        }
        assert_eq!(
            Coders::default().shrink(None, &Bytes::from_static(&[b'a'; 5000]).into()).unwrap(),
            None
        );
    }

    #[test]
    fn the_best_of_what_is_accepted_is_taken() {
        let check = |values: &[&'static str], expected: Option<Encoding>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("accept-encoding", HeaderValue::from_static(value));
            }
            let name = http::header::ACCEPT_ENCODING;
            assert_eq!(Encoding::preferred(&headers, &name), expected, "{values:?}");
        };
        check(&["gzip, deflate, br, zstd"], Some(Encoding::Gzip));
        check(&["br, zstd,gzip"], Some(Encoding::Zstd));
        check(&["gzip;q=0.5, ZSTD"], Some(Encoding::Zstd));
        check(&["br", "x-gzip"], Some(Encoding::Gzip));
        check(&["gzip;q=0, identity"], None);
        check(&["gzip;q=x"], None);
        check(&["*"], Some(Encoding::Gzip));
        check(&["identity", "", "deflate"], None);
        check(&[], None);
    }

    #[test]
    fn a_named_encoding_is_known_by_any_case() {
        let check = |values: &[&'static str], expected: Result<Option<Encoding>, &str>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("content-encoding", HeaderValue::from_static(value));
            }
            let named = Encoding::from_header(&headers, &http::header::CONTENT_ENCODING);
            assert_eq!(named.map_err(|value| value.to_str().unwrap()), expected, "{values:?}");
        };
        check(&[], Ok(None));
        check(&["identity"], Ok(None));
        check(&["GZIP"], Ok(Some(Encoding::Gzip)));
        check(&["zstd"], Ok(Some(Encoding::Zstd)));
        check(&["br"], Err("br"));
        check(&["gzip, gzip"], Err("gzip, gzip"));
        check(&["gzip", "zstd"], Err("zstd"));
    }
}
