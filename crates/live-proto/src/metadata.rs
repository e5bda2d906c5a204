//! Metadata: headers, trailers and the protocol's own fields, beside the payload of a frame.
//!
//! A sequence of entries `tag, [name], value` (specification 1.2). [`Metadata`] is what an
//! application sees and sends: headers and trailers in order, with repeats. The protocol's fields
//! are written by the session in front of it and read once, into [`Fields`](crate::fields::Fields).

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use tidewire_service::Headers;

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
    pub const OUTCOME: u8 = 11;
    pub const HTTP_METHOD: u8 = 12;
    pub const TARGET: u8 = 13;
    pub const STATUS: u8 = 14;
    pub const DEPENDS: u8 = 15;
    pub const REASON: u8 = 16;
    pub const LEVEL: u8 = 17;
    pub const KEY: u8 = 18;
    pub const PARENT: u8 = 19;
    pub const AFTER: u8 = 20;
    pub const EXPIRES: u8 = 21;
    /// The first tag of the header table.
    pub const HEADER: u8 = 64;
}

/// Headers with their own tag, from [`tag::HEADER`] on. Never reordered.
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
pub(crate) const TOKEN_BYTES_MAX: usize = 256;

/// Headers and trailers of a frame, as encoded on the wire. The default is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Never `Some` of nothing: most calls have no metadata, and `None` costs nothing to move about
    /// and to drop.
    raw: Option<Bytes>,
}

static NOTHING: Bytes = Bytes::new();

/// What a command was first sent as, which names it for ever: the protocol's `key`.
///
/// With the principal it is a service's [`CommandKey`](tidewire_service::CommandKey): the client of
/// [`Context::set_command`](tidewire_service::Context::set_command) is [`client`](Self::client),
/// and the id this one's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CommandOrigin {
    /// The session's id, which is random.
    pub session: [u8; 16],
    /// The command's id in that session.
    pub id: u64,
}

impl CommandOrigin {
    /// The session's id in hexadecimal.
    pub fn client(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.session))
    }
}

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
pub(crate) fn take_entry<'a>(tag: u8, input: &mut &'a [u8]) -> Result<Entry<'a>, Violation> {
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
    /// Wraps a block that [`Fields::read`](crate::fields::Fields::read) has checked.
    #[inline]
    pub(crate) fn from_checked(raw: Bytes) -> Self {
        Self { raw: (!raw.is_empty()).then_some(raw) }
    }

    /// Starts building metadata.
    pub fn builder() -> MetadataBuilder {
        MetadataBuilder::default()
    }

    /// Headers and trailers of `service` replies, encoded.
    pub fn from_maps(headers: &Headers, trailers: &Headers) -> Self {
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

    /// What a hosted process read for this answer.
    pub fn depends(&self) -> impl Iterator<Item = Depends<&[u8]>> {
        let entries = self.entries().filter(|entry| entry.tag == tag::DEPENDS);
        entries.map(|Entry { mut value, .. }| {
            let source = varint::take_string(&mut value);
            match (source, varint::take_string(&mut value)) {
                (Some(source), Some(key)) => Depends::Key(source, key),
                (Some(source), None) => Depends::Source(source),
                (None, _) => Depends::Untold,
            }
        })
    }

    /// The consistency tokens: what the answer must reflect, or reflects.
    pub fn tokens(&self) -> impl Iterator<Item = &[u8]> {
        self.entries().filter(|entry| entry.tag == tag::TOKEN).map(|entry| entry.value)
    }

    /// With this consistency token, if it is one.
    pub(crate) fn with_token(&self, token: &[u8]) -> Self {
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
            return self.clone();
        }
        let mut raw = Vec::new();
        put_entry(&mut raw, tag::TOKEN, token);
        raw.extend_from_slice(self.raw());
        Self::from_checked(raw.into())
    }

    pub(crate) fn split(&self) -> SplitMetadata<'_> {
        let mut rest = &self.raw()[..];
        while let Some((&tag, after)) = rest.split_first() {
            let at = self.len() - rest.len();
            rest = after;
            if take_entry(tag, &mut rest).is_err() || tag == tag::TRAILERS {
                return SplitMetadata { head: &self.raw()[..at], trailers: rest };
            }
        }
        SplitMetadata { head: self.raw(), trailers: &[] }
    }

    /// Headers and trailers as maps.
    pub fn to_maps(&self) -> MetadataMaps {
        MetadataMaps { headers: to_map(self.headers()), trailers: to_map(self.trailers()) }
    }
}

/// Metadata as maps.
#[derive(Debug)]
pub struct MetadataMaps {
    /// The entries before the trailers mark.
    pub headers: Headers,
    /// Those after it.
    pub trailers: Headers,
}

/// The entries before the trailers mark, and those after it.
pub(crate) struct SplitMetadata<'a> {
    pub(crate) head: &'a [u8],
    pub(crate) trailers: &'a [u8],
}

fn to_map<'a>(pairs: impl Iterator<Item = (&'a str, &'a [u8])>) -> Headers {
    pairs
        .filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_bytes(value).ok()?))
        })
        .fold(Headers::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
}

/// What an answer of a hosted process was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Depends<T> {
    /// A key of a source.
    Key(T, T),
    /// Keys of a source that are too many or too long to be named: a change of any key is one of
    /// them.
    Source(T),
    /// What cannot be named: the answer is not kept.
    Untold,
}

/// Builds [`Metadata`]: headers, then [`trailers`](Self::trailers) and what follows.
#[derive(Debug, Default)]
pub struct MetadataBuilder(Vec<u8>);

impl MetadataBuilder {
    /// Adds a header, or a trailer after [`trailers`](Self::trailers). A name that is not a
    /// lower-case token, or a value with CR, LF or NUL, is left out: it could not be received.
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

    /// Says what the answer read.
    #[must_use]
    pub fn depends<T: AsRef<[u8]>>(mut self, read: &Depends<T>) -> Self {
        let mut value = Vec::new();
        match read {
            Depends::Key(source, key) => {
                varint::put_string(&mut value, source.as_ref());
                varint::put_string(&mut value, key.as_ref());
            }
            Depends::Source(source) => varint::put_string(&mut value, source.as_ref()),
            Depends::Untold => {}
        }
        put_entry(&mut self.0, tag::DEPENDS, &value);
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
    let mut entry = [0; 2 + 2 * varint::BYTES_MAX];
    let mut at = varint::write(&mut entry, 2, id);
    at = varint::write(&mut entry, at, done);
    (entry[0], entry[1]) = (tag::COMMAND, at as u8 - 2);
    out.extend_from_slice(&entry[..at]);
}

/// Appends the `key` field.
#[cold]
pub fn put_key(out: &mut Vec<u8>, origin: &CommandOrigin) {
    out.extend_from_slice(&[tag::KEY, (16 + varint::size(origin.id)) as u8]);
    out.extend_from_slice(&origin.session);
    varint::put(out, origin.id);
}

#[cold]
pub(crate) fn cut_off() -> Violation {
    Violation::malformed("a metadata entry is cut off")
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
            .depends(&Depends::Key("contacts", "7"))
            .depends(&Depends::Source("groups"))
            .depends(&Depends::<&str>::Untold)
            .trailers()
            .header("x-sum", "9")
            .build();
        let headers: Vec<_> = metadata.headers().collect();
        assert_eq!(
            headers,
            [("set-cookie", &b"a=1"[..]), ("x-own", b"\xff"), ("set-cookie", b"b=2")]
        );
        assert_eq!(metadata.trailers().collect::<Vec<_>>(), [("x-sum", &b"9"[..])]);
        let SplitMetadata { head, trailers } = metadata.split();
        assert_eq!((head.len() + 2 + trailers.len(), trailers[0]), (metadata.len(), 0));
        let read: [Depends<&[u8]>; 3] =
            [Depends::Key(b"contacts", b"7"), Depends::Source(b"groups"), Depends::Untold];
        assert_eq!(metadata.depends().collect::<Vec<_>>(), read);
        let MetadataMaps { headers, trailers } = metadata.to_maps();
        assert_eq!((headers.len(), trailers.len()), (3, 1));
    }

    #[test]
    fn a_header_that_cannot_be_received_is_not_written() {
        let metadata = Metadata::builder().header("Bad Name", "x").header("good", "a\nb").build();
        assert!(metadata.is_empty());
    }
}
