//! Metadata: headers, trailers and the protocol's own fields, beside the payload of a frame.
//!
//! A sequence of entries `tag, [name], value` (specification 1.2). [`Metadata`] is what an
//! application sees and sends: headers and trailers in order, with repeats. The protocol's fields
//! are written by the session in front of it and read once, into [`Fields`].

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidewire_service::Validator;

use crate::reason::Violation;
use crate::varint;

/// Entry tags.
pub mod tag {
    #![allow(missing_docs, reason = "named and described in the specification's table of fields")]
    pub const LITERAL: u8 = 0;
    pub const METHOD: u8 = 1;
    pub const NAME: u8 = 2;
    pub const COMMAND: u8 = 3;
    pub const VALIDATOR: u8 = 4;
    pub const MAX_AGE: u8 = 5;
    pub const TOKEN: u8 = 6;
    pub const TRAILERS: u8 = 7;
    pub const CODE: u8 = 8;
    pub const MESSAGE: u8 = 9;
    pub const DETAIL: u8 = 10;
    pub const UNPROCESSED: u8 = 11;
    pub const HTTP_METHOD: u8 = 12;
    pub const TARGET: u8 = 13;
    pub const STATUS: u8 = 14;
    pub const DEPENDS: u8 = 15;
    pub const REASON: u8 = 16;
    pub const LEVEL: u8 = 17;
    /// The first tag of the header table.
    pub const HEADER: u8 = 64;
}

/// Headers with a tag of their own, from [`tag::HEADER`] on. Never reordered.
pub const HEADER_TABLE: [&str; 28] = [
    "content-type",
    "authorization",
    "cookie",
    "set-cookie",
    "accept",
    "accept-encoding",
    "accept-language",
    "user-agent",
    "host",
    "origin",
    "referer",
    "content-length",
    "content-encoding",
    "cache-control",
    "etag",
    "if-none-match",
    "if-modified-since",
    "last-modified",
    "location",
    "vary",
    "date",
    "expires",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-request-id",
    "traceparent",
    "tracestate",
    "baggage",
];

const NAME_BYTES_MAX: usize = 256;
const TOKEN_BYTES_MAX: usize = 256;

/// Headers and trailers of a frame, as encoded on the wire. The default is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Never `Some` of nothing: most calls have no metadata, and `None` costs nothing to move about
    /// and to drop.
    raw: Option<Bytes>,
}

static NOTHING: Bytes = Bytes::new();

/// One entry of a metadata block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// See [`tag`].
    pub tag: u8,
    /// The name of a literal header, else empty.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The header's name; `None` for a protocol field or an unknown tag.
    pub fn header_name(&self) -> Option<&'a str> {
        match self.tag {
            tag::LITERAL => std::str::from_utf8(self.name).ok(),
            tag::HEADER.. => HEADER_TABLE.get(usize::from(self.tag - tag::HEADER)).copied(),
            _ => None,
        }
    }
}

/// Iterates over the entries of a block; yields an error once if it is malformed.
#[derive(Debug, Clone)]
pub struct Entries<'a>(&'a [u8]);

/// Reads the entries of an encoded block.
pub fn entries(raw: &[u8]) -> Entries<'_> {
    Entries(raw)
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Violation>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        self.0 = rest;
        let entry = take_entry(tag, &mut self.0);
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

#[inline]
fn take_entry<'a>(tag: u8, input: &mut &'a [u8]) -> Result<Entry<'a>, Violation> {
    let mut name = &[][..];
    if tag == tag::LITERAL {
        name = varint::take_string(input).ok_or_else(cut_off)?;
        if !is_header_name(name) {
            return Err(Violation::malformed("a header name is not a lower-case HTTP token"));
        }
    }
    let value = varint::take_string(input).ok_or_else(cut_off)?;
    let is_header = tag == tag::LITERAL || tag >= tag::HEADER;
    if is_header && value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(Violation::malformed("a header value holds CR, LF or NUL"));
    }
    Ok(Entry { tag, name, value })
}

fn is_header_name(name: &[u8]) -> bool {
    let is_token =
        |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_token)
}

impl Metadata {
    /// Wraps a block that [`Fields::read`] has checked.
    #[inline]
    pub(crate) fn from_checked(raw: Bytes) -> Self {
        Self { raw: (!raw.is_empty()).then_some(raw) }
    }

    /// Starts building metadata.
    pub fn builder() -> MetadataBuilder {
        MetadataBuilder::default()
    }

    /// Headers and trailers of `service` replies, encoded.
    pub fn from_maps(headers: &HeaderMap, trailers: &HeaderMap) -> Self {
        let mut builder = Self::builder();
        for (name, value) in headers {
            builder = builder.header(name.as_str(), value.as_bytes());
        }
        if !trailers.is_empty() {
            builder = builder.trailers();
            for (name, value) in trailers {
                builder = builder.header(name.as_str(), value.as_bytes());
            }
        }
        builder.build()
    }

    /// The encoded block.
    #[inline]
    pub fn raw(&self) -> &Bytes {
        self.raw.as_ref().unwrap_or(&NOTHING)
    }

    /// The length of the encoded block.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.raw.as_ref().map_or(0, Bytes::len)
    }

    /// Appends the encoded block.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        if let Some(raw) = &self.raw {
            out.extend_from_slice(raw);
        }
    }

    /// Whether there is no entry at all.
    pub fn is_empty(&self) -> bool {
        self.raw.is_none()
    }

    /// Every entry, fields included.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        entries(self.raw()).map_while(Result::ok)
    }

    /// Headers in order, names in lower case; those after the trailers mark are left out.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries()
            .take_while(|entry| entry.tag != tag::TRAILERS)
            .filter_map(|entry| Some((entry.header_name()?, entry.value)))
    }

    /// Trailers in order: the headers after the trailers mark.
    pub fn trailers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries()
            .skip_while(|entry| entry.tag != tag::TRAILERS)
            .filter_map(|entry| Some((entry.header_name()?, entry.value)))
    }

    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Sources that a hosted process read for this answer, as (source, key).
    pub fn depends(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries().filter(|entry| entry.tag == tag::DEPENDS).filter_map(|entry| {
            let mut rest = entry.value;
            Some((varint::take_string(&mut rest)?, varint::take_string(&mut rest)?))
        })
    }

    /// The consistency token.
    pub fn token(&self) -> Option<&[u8]> {
        self.entries().find(|entry| entry.tag == tag::TOKEN).map(|entry| entry.value)
    }

    /// Headers and trailers as maps.
    pub fn to_maps(&self) -> (HeaderMap, HeaderMap) {
        (to_map(self.headers()), to_map(self.trailers()))
    }
}

fn to_map<'a>(pairs: impl Iterator<Item = (&'a str, &'a [u8])>) -> HeaderMap {
    pairs
        .filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_bytes(value).ok()?))
        })
        .fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
}

/// Builds [`Metadata`]: headers, then [`trailers`](Self::trailers) and what follows.
#[derive(Debug, Default)]
pub struct MetadataBuilder(Vec<u8>);

impl MetadataBuilder {
    /// Adds a header, or a trailer after [`trailers`](Self::trailers). A name that is no lower-case
    /// token, or a value with CR, LF or NUL, is left out: it could not be received.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        let forbidden = value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        if is_header_name(name.as_bytes()) && !forbidden {
            put_header(&mut self.0, name, value);
        }
        self
    }

    /// What follows is trailers.
    #[must_use]
    pub fn trailers(mut self) -> Self {
        put_entry(&mut self.0, tag::TRAILERS, &[]);
        self
    }

    /// Says that the answer read this source.
    #[must_use]
    pub fn depends(mut self, source: &[u8], key: &[u8]) -> Self {
        let mut value = Vec::with_capacity(source.len() + key.len() + 2);
        varint::put_string(&mut value, source);
        varint::put_string(&mut value, key);
        put_entry(&mut self.0, tag::DEPENDS, &value);
        self
    }

    /// Adds the consistency token, at most 256 bytes; a longer one is left out.
    #[must_use]
    pub fn token(mut self, token: &[u8]) -> Self {
        if token.len() <= TOKEN_BYTES_MAX {
            put_entry(&mut self.0, tag::TOKEN, token);
        }
        self
    }

    /// The metadata.
    pub fn build(self) -> Metadata {
        Metadata::from_checked(self.0.into())
    }
}

/// Appends a header, by its number if it has one.
pub fn put_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    match HEADER_TABLE.iter().position(|known| *known == name) {
        Some(index) => put_entry(out, tag::HEADER + index as u8, value),
        None => {
            out.push(tag::LITERAL);
            varint::put_string(out, name.as_bytes());
            varint::put_string(out, value);
        }
    }
}

/// Appends an entry that is not a literal header.
#[inline]
pub fn put_entry(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    out.push(tag);
    varint::put_string(out, value);
}

/// Appends a field whose value is one varint.
#[inline]
pub fn put_number(out: &mut Vec<u8>, tag: u8, value: u64) {
    if value < 0x80 {
        return out.extend_from_slice(&[tag, 1, value as u8]);
    }
    out.push(tag);
    out.push(varint::size(value) as u8);
    varint::put(out, value);
}

/// Appends the `command` field.
#[inline]
pub fn put_command(out: &mut Vec<u8>, id: u64, done: u64) {
    let at = out.len();
    out.extend_from_slice(&[tag::COMMAND, 0]);
    varint::put(out, id);
    varint::put(out, done);
    out[at + 1] = (out.len() - at - 2) as u8;
}

/// The protocol's own fields of one frame: numbers as they are, texts as ranges of the block that
/// was read. Used again from frame to frame: only what was seen means anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fields {
    /// A bit for each tag below 64; [`MORE`] for anything that is the application's.
    seen: u64,
    method: u64,
    command: (u64, u64),
    validator: [u8; 16],
    max_age: u64,
    status: u16,
    code: u64,
    reason: u64,
    level: u64,
    name: Range16,
    message: Range16,
    http_method: Range16,
    target: Range16,
}

/// There is something for the application: headers, trailers, details, dependencies. The bit of
/// tag 0, which is a header.
const MORE: u64 = 1 << tag::LITERAL;

/// A range of a block, which is at most 65,535 bytes long.
type Range16 = (u16, u16);

impl Fields {
    /// Reads and checks a whole block.
    ///
    /// # Errors
    /// `malformed`, naming the field.
    pub fn read(raw: &[u8]) -> Result<Self, Violation> {
        let mut fields = Self::default();
        fields.read_next(raw)?;
        Ok(fields)
    }

    /// Forgets what was read before, then reads and checks a whole block.
    #[inline]
    pub(crate) fn read_next(&mut self, raw: &[u8]) -> Result<(), Violation> {
        self.seen = 0;
        // Nearly every reply has none, and nearly every request begins with a small method number.
        let mut rest = raw;
        if let [tag::METHOD, 1, number @ ..0x80, after @ ..] = raw {
            self.seen = 1 << tag::METHOD;
            self.method = (*number).into();
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { self.read_rest(raw, rest) }
    }

    /// Reads and checks what is left of a block.
    fn read_rest(&mut self, raw: &[u8], mut rest: &[u8]) -> Result<(), Violation> {
        while let Some((&tag, after)) = rest.split_first() {
            rest = after;
            if !(1..64).contains(&tag) {
                take_entry(tag, &mut rest)?;
                self.seen |= MORE;
                continue;
            }
            let value = varint::take_string(&mut rest).ok_or_else(cut_off)?;
            let repeats = matches!(tag, tag::DETAIL | tag::DEPENDS);
            if self.has(tag) && !repeats {
                return Err(Violation::malformed("a metadata field occurs twice"));
            }
            self.seen |= 1 << tag;
            self.set(tag, value, raw.len() - rest.len()).ok_or_else(misfit)?;
        }
        Ok(())
    }

    /// Takes a field whose value ends at `end` of the block.
    #[inline]
    fn set(&mut self, tag: u8, mut value: &[u8], end: usize) -> Option<()> {
        let len = value.len();
        let range = || Some((u16::try_from(end - len).ok()?, u16::try_from(end).ok()?));
        match tag {
            tag::METHOD => self.method = only_number(value)?,
            tag::COMMAND => {
                self.command = (varint::take(&mut value)?, varint::take(&mut value)?);
                return value.is_empty().then_some(());
            }
            tag::VALIDATOR => self.validator = value.try_into().ok()?,
            tag::NAME => self.name = range().filter(|_| len > 0)?,
            tag::MAX_AGE => self.max_age = only_number(value)?,
            tag::CODE => self.code = only_number(value)?,
            tag::MESSAGE => {
                self.message = range().filter(|_| std::str::from_utf8(value).is_ok())?
            }
            tag::HTTP_METHOD => self.http_method = range()?,
            tag::TARGET => self.target = range()?,
            tag::STATUS => self.status = only_number(value)?.try_into().ok()?,
            tag::REASON => self.reason = only_number(value)?,
            tag::LEVEL => self.level = only_number(value)?,
            _ => return self.check(tag, value),
        }
        Some(())
    }

    /// Takes an entry that is looked at only when somebody asks for it.
    fn check(&mut self, tag: u8, mut value: &[u8]) -> Option<()> {
        let fits = match tag {
            tag::UNPROCESSED => return value.is_empty().then_some(()),
            tag::TOKEN => value.len() <= TOKEN_BYTES_MAX,
            tag::TRAILERS => value.is_empty(),
            tag::DETAIL => std::str::from_utf8(varint::take_string(&mut value)?).is_ok(),
            tag::DEPENDS => {
                varint::take_string(&mut value)?;
                varint::take_string(&mut value)?;
                value.is_empty()
            }
            _ => return Some(()),
        };
        self.seen |= MORE;
        fits.then_some(())
    }

    #[inline]
    fn has(&self, tag: u8) -> bool {
        self.seen & 1 << tag != 0
    }

    /// Whether there is anything for the application: headers, trailers, details, dependencies.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.seen & MORE != 0
    }

    #[inline]
    pub(crate) fn method(&self) -> Option<u64> {
        self.has(tag::METHOD).then_some(self.method)
    }

    #[inline]
    pub(crate) fn has_name(&self) -> bool {
        self.has(tag::NAME)
    }

    /// Codec and path; `raw` is the block that was read.
    #[inline]
    pub(crate) fn name<'a>(&self, raw: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let (&codec, path) = self.text(tag::NAME, self.name, raw)?.split_first()?;
        Some((codec, path))
    }

    /// Id, and below which all are done.
    #[inline]
    pub(crate) fn command(&self) -> Option<(u64, u64)> {
        self.has(tag::COMMAND).then_some(self.command)
    }

    #[inline]
    pub(crate) fn validator(&self) -> Option<Validator> {
        self.has(tag::VALIDATOR).then_some(Validator(self.validator))
    }

    #[inline]
    pub(crate) fn max_age(&self) -> Option<u64> {
        self.has(tag::MAX_AGE).then_some(self.max_age)
    }

    #[inline]
    pub(crate) fn status(&self) -> Option<u16> {
        self.has(tag::STATUS).then_some(self.status)
    }

    pub(crate) fn code(&self) -> Option<u64> {
        self.has(tag::CODE).then_some(self.code)
    }

    pub(crate) fn is_unprocessed(&self) -> bool {
        self.has(tag::UNPROCESSED)
    }

    pub(crate) fn reason(&self) -> Option<u64> {
        self.has(tag::REASON).then_some(self.reason)
    }

    pub(crate) fn level(&self) -> Option<u64> {
        self.has(tag::LEVEL).then_some(self.level)
    }

    pub(crate) fn message<'a>(&self, raw: &'a [u8]) -> Option<&'a str> {
        std::str::from_utf8(self.text(tag::MESSAGE, self.message, raw)?).ok()
    }

    pub(crate) fn http_method<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        self.text(tag::HTTP_METHOD, self.http_method, raw)
    }

    pub(crate) fn target<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        self.text(tag::TARGET, self.target, raw)
    }

    #[inline]
    fn text<'a>(&self, tag: u8, (start, end): Range16, raw: &'a [u8]) -> Option<&'a [u8]> {
        if self.has(tag) { raw.get(start.into()..end.into()) } else { None }
    }
}

#[cold]
fn cut_off() -> Violation {
    Violation::malformed("a metadata entry is cut off")
}

#[cold]
fn misfit() -> Violation {
    Violation::malformed("a metadata field has a value that does not fit")
}

#[inline]
fn only_number(mut value: &[u8]) -> Option<u64> {
    let number = varint::take(&mut value)?;
    value.is_empty().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_trailers_keep_order_and_repeats() {
        let metadata = Metadata::builder()
            .header("set-cookie", "a=1")
            .header("x-own", b"\xff")
            .header("set-cookie", "b=2")
            .depends(b"contacts", b"7")
            .trailers()
            .header("x-sum", "9")
            .build();
        let headers: Vec<_> = metadata.headers().collect();
        assert_eq!(
            headers,
            [("set-cookie", &b"a=1"[..]), ("x-own", b"\xff"), ("set-cookie", b"b=2")]
        );
        assert_eq!(metadata.trailers().collect::<Vec<_>>(), [("x-sum", &b"9"[..])]);
        assert_eq!(metadata.depends().collect::<Vec<_>>(), [(&b"contacts"[..], &b"7"[..])]);
        let (headers, trailers) = metadata.to_maps();
        assert_eq!((headers.len(), trailers.len()), (3, 1));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let check = |raw: &[u8]| Fields::read(raw).is_ok();
        assert!(check(&[]));
        assert!(check(&[tag::METHOD, 1, 5]));
        assert!(check(&[40, 2, 0, 0]), "a field of the future is skipped");
        assert!(check(&[200, 1, b'x']), "a header number of the future is skipped");
        assert!(!check(&[tag::METHOD, 1, 5, tag::METHOD, 1, 5]), "twice");
        assert!(!check(&[tag::METHOD, 2, 5, 5]), "bytes after the number");
        assert!(!check(&[tag::METHOD, 3, 5]), "cut off");
        assert!(!check(&[tag::VALIDATOR, 2, 5, 5]), "not 16 bytes");
        assert!(!check(&[tag::LITERAL, 1, b'A', 0]), "upper case");
        assert!(!check(&[tag::LITERAL, 0, 0]), "no name");
        assert!(!check(&[tag::HEADER, 1, b'\n']), "line feed");
        assert!(!check(&[tag::MESSAGE, 1, 0xff]), "not UTF-8");
    }

    #[test]
    fn a_header_that_cannot_be_received_is_not_written() {
        let metadata = Metadata::builder().header("Bad Name", "x").header("good", "a\nb").build();
        assert!(metadata.is_empty());
    }
}
