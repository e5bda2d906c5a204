//! What is particular to gRPC-Web: trailers in a last envelope, and bodies in base64.
//!
//! A body of `application/grpc-web-text` is base64 that may be padded wherever a piece of it ended,
//! not only at its end (`PROTOCOL-WEB.md`). [`Decoder`] takes it in pieces of any length.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::envelope::{HEAD, WEB_TRAILERS};
use crate::headers::TRAILERS_MAX;

/// The last envelope of a reply: its trailers as lines.
pub(crate) fn last_envelope(trailers: &HeaderMap) -> Bytes {
    if trailers.len() == 1 && trailers.get("grpc-status").is_some_and(|status| status == "0") {
        return Bytes::from_static(b"\x80\0\0\0\x10grpc-status: 0\r\n");
    }
    let length: usize =
        trailers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let mut out = BytesMut::with_capacity(HEAD + length);
    out.extend_from_slice(&[WEB_TRAILERS]);
    // Trailers are bounded by far less than this by whoever sends them.
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    for (name, value) in trailers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.freeze()
}

/// The trailers in the last envelope: lines of `name: value`. `None` if there are too many.
pub(crate) fn trailers(block: &[u8]) -> Option<HeaderMap> {
    let mut trailers = HeaderMap::new();
    for line in block.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = line[..colon].trim_ascii();
        let value = line[colon + 1..].trim_ascii();
        let name = HeaderName::from_bytes(&name.to_ascii_lowercase());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            if trailers.len() == TRAILERS_MAX {
                return None;
            }
            trailers.append(name, value);
        }
    }
    Some(trailers)
}

/// A piece of a body of `application/grpc-web-text`: its bytes in base64.
pub fn encode(pieces: &[Bytes]) -> Bytes {
    match pieces {
        [one] => STANDARD.encode(one).into(),
        several => STANDARD.encode(several.concat()).into(),
    }
}

/// Reads a body of `application/grpc-web-text` in pieces. What comes before the first fault is
/// read, whatever the pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Up to three characters that wait for the rest of their four.
    waiting: Vec<u8>,
    is_broken: bool,
}

impl Decoder {
    /// The bytes that a further piece of text completes. Ends of lines are not part of it: tools
    /// that make base64 put one at the end.
    pub fn decode(&mut self, text: &[u8]) -> Bytes {
        if !text.iter().any(is_line_end) {
            return self.decode_line(text);
        }
        let line: Vec<u8> = text.iter().copied().filter(|byte| !is_line_end(byte)).collect();
        self.decode_line(&line)
    }

    fn decode_line(&mut self, mut text: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
        if self.is_broken {
            return Bytes::new();
        }
        if !self.waiting.is_empty() {
            let missing = (4 - self.waiting.len()).min(text.len());
            let (head, rest) = text.split_at(missing);
            self.waiting.extend_from_slice(head);
            text = rest;
            if self.waiting.len() < 4 {
                return Bytes::new();
            }
            self.is_broken |= !quads(&self.waiting, &mut out);
            self.waiting.clear();
        }
        let (whole, rest) = text.split_at(text.len() - text.len() % 4);
        self.is_broken = self.is_broken || !quads(whole, &mut out);
        self.waiting.extend_from_slice(rest);
        out.into()
    }

    /// Whether something came that is not base64.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether a group of four characters is not complete, and no more will come.
    pub(crate) fn is_partial(&self) -> bool {
        !self.waiting.is_empty()
    }
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Decodes groups of four, of which any may be padded, up to one that is not valid; whether all
/// are.
fn quads(mut text: &[u8], out: &mut Vec<u8>) -> bool {
    while !text.is_empty() {
        // Up to and with the next padded group.
        let padded = text.iter().position(|byte| *byte == b'=');
        let end = padded.map_or(text.len(), |at| at - at % 4 + 4);
        let (run, rest) = text.split_at(end.min(text.len()));
        let before = out.len();
        if STANDARD.decode_vec(run, out).is_err() {
            out.truncate(before);
            return run.chunks(4).all(|group| STANDARD.decode_vec(group, out).is_ok());
        }
        text = rest;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &[u8], cut: usize) -> Option<Vec<u8>> {
        let mut decoder = Decoder::default();
        let mut out = Vec::new();
        for chunk in text.chunks(cut) {
            out.extend_from_slice(&decoder.decode(chunk));
        }
        (!decoder.is_broken() && !decoder.is_partial()).then_some(out)
    }

    #[test]
    fn text_is_read_with_padding_anywhere_and_however_it_is_cut() {
        for (text, expected) in [
            (&b"AAAAAAM="[..], Some(&[0, 0, 0, 0, 3][..])),
            (b"AAAAAAM=YWJj", Some(&[0, 0, 0, 0, 3, b'a', b'b', b'c'][..])),
            (b"YQ==YWI=YWJjYQ==", Some(b"aababca")),
            (b"", Some(b"")),
            (b"YQ==\n", Some(b"a")),
            (b"YW\r\nJj\r\n", Some(b"abc")),
            (b"YQ=", None),
            (b"YQ", None),
            (b"YQ=a", None),
            (b"====", None),
            (b"Y!==", None),
            (b"=YQ=", None),
            (b"Y-_=", None),
        ] {
            for cut in 1..=text.len().max(1) {
                let found = decode(text, cut);
                assert_eq!(
                    found.as_deref(),
                    expected,
                    "{:?} by {cut}",
                    text.escape_ascii().to_string()
                );
            }
        }
    }

    #[test]
    fn trailers_are_read_as_they_are_written() {
        let mut map = HeaderMap::new();
        map.insert("grpc-status", HeaderValue::from_static("0"));
        let written = last_envelope(&map);
        assert_eq!(&written[..], b"\x80\0\0\0\x10grpc-status: 0\r\n");
        map.append("x-a", HeaderValue::from_static("1"));
        map.append("x-a", HeaderValue::from_static("a:b"));
        let written = last_envelope(&map);
        assert_eq!(written[..HEAD], [0x80, 0, 0, 0, (written.len() - HEAD) as u8]);
        assert_eq!(trailers(&written[HEAD..]), Some(map));
        let mut map = HeaderMap::new();
        map.insert("grpc-status", HeaderValue::from_static("5"));
        assert_eq!(trailers(b"Grpc-Status:5\nnothing\n: x\nx y: z\n"), Some(map));
    }

    #[test]
    fn a_flood_of_trailers_is_refused() {
        for line in ["a: 1\n".to_owned(), "a: 1\r\n".to_owned()] {
            assert!(trailers(line.repeat(TRAILERS_MAX).as_bytes()).is_some());
            assert_eq!(trailers(line.repeat(TRAILERS_MAX + 1).as_bytes()), None);
        }
    }
}
