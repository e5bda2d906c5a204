//! Replies to clients that take gzip, compressed where it pays.
//!
//! | reply | what is done |
//! |---|---|
//! | text or JSON, over [`BYTES_MIN`] | compressed as a whole |
//! | a stream of text or JSON | each batch compressed and flushed, so that none waits for the next |
//! | anything else, encoded by the service itself, or `no-transform` | sent as it is |
//!
//! Only gzip: every client of HTTP knows it, and a browser that knows others takes it too.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt as _;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue,
};
use http::{HeaderMap, Response};
use tidewire_service::{Body, CachedBody, Coding, Form, Format, Frame, Frames, Headers};
use tidewire_wire::{AcceptedCoding, accepted_codings};

use crate::gate::vary::vary;
use crate::response::etag::tag_compressed;

/// Whether a client takes gzip (RFC 9110, section 12.5.3).
pub(crate) fn accepted(headers: &Headers) -> bool {
    let mut any = false;
    for AcceptedCoding { name, weight } in accepted_codings(headers.get_all(ACCEPT_ENCODING)) {
        match name {
            _ if name.eq_ignore_ascii_case(b"gzip") => return weight > 0,
            b"*" => any = weight > 0,
            _ => {}
        }
    }
    any
}

/// Makes a response what is sent to a client that takes gzip or does not. Of a body that somebody
/// keeps, the compressed form is kept too, as one of this format.
pub(crate) fn apply(
    response: &mut Response<Body>,
    accepted: bool,
    kept: Option<(Arc<dyn CachedBody>, Format)>,
) {
    let is_worth_it = is_worth_it(response);
    // Whether a 304 stands for a reply that is worth it is not known then, and both say by what
    // they were chosen alike (RFC 9110, section 15.4.5).
    let varies = is_worth_it || response.headers().contains_key(ETAG);
    if !varies || is_fixed(response.headers()) {
        return;
    }
    vary(response.headers_mut(), "accept-encoding");
    if !accepted || !is_worth_it {
        return;
    }
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    tag_compressed(response.headers_mut(), "gzip");
    let body = std::mem::take(response.body_mut());
    *response.body_mut() = match body {
        Body::Empty => Body::Empty,
        Body::Full(bytes) => {
            let make = || Ok::<_, Infallible>(whole(&bytes));
            let Ok(small) = match kept {
                None => make(),
                Some((keeper, format)) => {
                    keeper.forms().or_make(Form { format, coding: Coding::Gzip }, make)
                }
            };
            Body::Full(small)
        }
        Body::Stream(frames) => streamed(frames),
    };
}

fn is_worth_it(response: &Response<Body>) -> bool {
    let long = response.body().len().is_none_or(|length| length >= BYTES_MIN);
    long && !response.headers().contains_key(CONTENT_ENCODING)
        && response.headers().get(CONTENT_TYPE).is_some_and(|value| is_text(value.as_bytes()))
}

/// Whether a reply has to stay as it is.
fn is_fixed(headers: &HeaderMap) -> bool {
    headers.get(CACHE_CONTROL).is_some_and(|value| contains(value.as_bytes(), b"no-transform"))
}

/// Whether some bytes are among others, which are few.
pub(super) fn contains(all: &[u8], some: &[u8]) -> bool {
    all.windows(some.len()).any(|part| part == some)
}

/// Whether a content type is of text; others are compressed already, or too rare to know.
fn is_text(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    let essence = essence.trim_ascii().to_ascii_lowercase();
    essence.starts_with(b"text/")
        || [&b"json"[..], b"javascript", b"xml"].iter().any(|name| essence.ends_with(name))
}

fn whole(bytes: &[u8]) -> Bytes {
    let mut gzip = Gzip::new();
    let mut out = gzip.add(bytes, AfterChunk::GoOn);
    out.extend_from_slice(&gzip.end());
    out.into()
}

fn streamed(frames: Pin<Box<dyn Frames>>) -> Body {
    // `None` stands for the end, at which the trailer of gzip is written.
    let frames = frames.map(Some).chain(futures_util::stream::iter([None]));
    let mut gzip = Gzip::new();
    Body::frames(frames.filter_map(move |frame| {
        let frame = match frame {
            Some(Ok(Frame::Data(data))) => Some(Ok(gzip.add(&data, AfterChunk::Flush))),
            Some(Ok(Frame::Trailers(_))) => None,
            Some(Err(error)) => Some(Err(error)),
            None => Some(Ok(gzip.end())),
        };
        std::future::ready(frame.map(|data| data.map(|data| Frame::Data(Bytes::from(data)))))
    }))
}

/// An encoder that gives what it has so far.
struct Gzip(GzEncoder<Vec<u8>>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterChunk {
    GoOn,
    Flush,
}

impl Gzip {
    fn new() -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::fast()))
    }

    fn add(&mut self, data: &[u8], then: AfterChunk) -> Vec<u8> {
        // Writing to a vector does not fail.
        let _ = self.0.write_all(data);
        if then == AfterChunk::Flush {
            let _ = self.0.flush();
        }
        std::mem::take(self.0.get_mut())
    }

    fn end(&mut self) -> Vec<u8> {
        let _ = self.0.try_finish();
        std::mem::take(self.0.get_mut())
    }
}

/// Below this the head of the response weighs more.
const BYTES_MIN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_where_the_client_names_it_or_anything() {
        for (header, expected) in [
            ("", false),
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, *", false),
            ("*", true),
            ("*;q=0", false),
            ("identity, deflate", false),
        ] {
            let mut headers = Headers::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(header));
            assert_eq!(accepted(&headers), expected, "{header}");
        }
        assert!(!accepted(&Headers::new()));
    }

    #[test]
    fn text_is_worth_compressing_and_images_are_not() {
        for (content_type, expected) in [
            ("application/json", true),
            ("application/x-ndjson", true),
            ("application/problem+json", true),
            ("Text/HTML; charset=utf-8", true),
            ("image/svg+xml", true),
            ("image/png", false),
            ("application/zip", false),
        ] {
            assert_eq!(is_text(content_type.as_bytes()), expected, "{content_type}");
        }
    }
}
