//! Cuts the bytes of a body where its messages end, whatever frames carry them, and says where one
//! begins.
//!
//! | content type | a message is |
//! |---|---|
//! | gRPC, gRPC-Web, Connect streams | an envelope, but not the one at the end with status and trailers |
//! | lines of JSON | a line |
//! | server-sent events | an event |
//! | JSON that is an array | an element |
//! | any other | the whole body |

use bytes::Bytes;
use http::HeaderValue;
use tidewire_wire::{TextDecoder, encode_text};

/// A part of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    /// Whether a message begins with it.
    pub(super) begins_message: bool,
    /// Whether a message ends with it.
    pub(super) ends_message: bool,
}

impl Piece {
    fn new(bytes: Bytes, ends_message: bool) -> Self {
        Self { bytes, begins_message: false, ends_message }
    }
}

/// Where the messages of a body begin and end.
pub(super) struct MessageCutter {
    form: Form,
    /// Whether a message, or what stands behind the last one, has begun.
    is_within: bool,
}

enum Form {
    Envelopes(Envelopes),
    /// Envelopes in base64.
    Text(Box<TextDecoder>, Envelopes),
    /// Each ends with so many ends of lines.
    Lines(Lines),
    Json(JsonArray),
    Whole,
}

#[derive(Default)]
pub(super) struct Envelopes {
    head: Vec<u8>,
    /// What the message that has begun still lacks.
    left: usize,
}

pub(super) struct Lines {
    wanted: usize,
    ends: usize,
}

#[derive(Default)]
pub(super) struct JsonArray {
    is_array: Option<bool>,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl MessageCutter {
    /// By the content type of the body.
    pub(super) fn of(content_type: Option<&HeaderValue>) -> Self {
        let text = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let form = match essence.strip_prefix("application/").unwrap_or_default() {
            text if text.starts_with("grpc-web-text") => {
                Form::Text(Box::default(), Envelopes::default())
            }
            name if name.starts_with("grpc") || name.starts_with("connect+") => {
                Form::Envelopes(Envelopes::default())
            }
            "json" => Form::Json(JsonArray::default()),
            "x-ndjson" | "ndjson" | "jsonl" | "x-jsonlines" => {
                Form::Lines(Lines { wanted: 1, ends: 0 })
            }
            _ if essence == "text/event-stream" => Form::Lines(Lines { wanted: 2, ends: 0 }),
            _ => Form::Whole,
        };
        Self { form, is_within: false }
    }

    /// The parts of further bytes.
    pub(super) fn cut(&mut self, bytes: Bytes) -> Vec<Piece> {
        let bytes = match &mut self.form {
            Form::Text(decoder, _) => decoder.decode(&bytes),
            _ => bytes,
        };
        let mut pieces = match &mut self.form {
            Form::Envelopes(state) | Form::Text(_, state) => {
                pieces(bytes, |byte| state.ends_at(byte))
            }
            Form::Lines(state) => pieces(bytes, |byte| state.ends_at(byte)),
            Form::Json(state) => pieces(bytes, |byte| state.ends_at(byte)),
            Form::Whole => pieces(bytes, |_| false),
        };
        for piece in &mut pieces {
            self.mark_begin(piece);
            if let Form::Text(..) = self.form {
                piece.bytes = encode_text(std::slice::from_ref(&piece.bytes));
            }
        }
        pieces
    }

    /// Says of a part whether a message begins with it.
    fn mark_begin(&mut self, piece: &mut Piece) {
        let is_of_element = |byte: &u8| !byte.is_ascii_whitespace() && !b",]".contains(byte);
        let has_begun = match self.form {
            Form::Json(_) => piece.bytes.iter().any(is_of_element),
            _ => true,
        };
        let is_message = match self.form {
            Form::Envelopes(_) | Form::Text(..) => piece.bytes[0] & END_FLAGS == 0,
            _ => true,
        };
        piece.begins_message = !self.is_within && has_begun && is_message;
        self.is_within = !piece.ends_message && (self.is_within || has_begun);
    }

    /// Whether the end of the body ends a message.
    pub(super) fn ends_with_body(&self) -> bool {
        match &self.form {
            Form::Whole => true,
            Form::Json(state) => state.is_array == Some(false),
            _ => false,
        }
    }
}

/// Cuts bytes after each that ends a message.
fn pieces(mut bytes: Bytes, mut ends_at: impl FnMut(u8) -> bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let ends_message = ends_at(bytes[at]);
        at += 1;
        if ends_message {
            pieces.push(Piece::new(bytes.split_to(at), ends_message));
            at = 0;
        }
    }
    if !bytes.is_empty() {
        pieces.push(Piece::new(bytes, false));
    }
    pieces
}

impl Envelopes {
    fn ends_at(&mut self, byte: u8) -> bool {
        if self.head.len() < HEAD_BYTES {
            self.head.push(byte);
            let length = self.head.get(1..HEAD_BYTES).and_then(|four| four.try_into().ok());
            let Some(length) = length else { return false };
            self.left = u32::from_be_bytes(length) as usize;
        } else {
            self.left -= 1;
        }
        if self.left > 0 || self.head.len() < HEAD_BYTES {
            return false;
        }
        let is_message = self.head[0] & END_FLAGS == 0;
        self.head.clear();
        is_message
    }
}

/// A byte of flags and the length.
const HEAD_BYTES: usize = 5;
/// The end of a stream of Connect, and the trailers of gRPC-Web.
const END_FLAGS: u8 = 0b1000_0010;

impl Lines {
    fn ends_at(&mut self, byte: u8) -> bool {
        match byte {
            b'\n' => self.ends += 1,
            b'\r' => {}
            _ => self.ends = 0,
        }
        self.ends == self.wanted && std::mem::take(&mut self.ends) > 0
    }
}

impl JsonArray {
    fn ends_at(&mut self, byte: u8) -> bool {
        let is_array = match self.is_array {
            Some(is_array) => is_array,
            None if byte.is_ascii_whitespace() => return false,
            None => *self.is_array.insert(byte == b'['),
        };
        if !is_array {
            return false;
        }
        if self.in_text {
            self.in_text = self.is_escaped || byte != b'"';
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return !self.in_text && self.depth == 1;
        }
        match byte {
            b'"' => self.in_text = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 1;
            }
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in front of each end of a message, with the body in frames of every size.
    fn check(content_type: &'static str, body: &[u8], expected: &[&[u8]], ends_with_body: bool) {
        for frame in 1..=body.len() {
            let mut cutter = MessageCutter::of(Some(&HeaderValue::from_static(content_type)));
            let mut messages = vec![Vec::new()];
            for bytes in body.chunks(frame) {
                for piece in cutter.cut(Bytes::copy_from_slice(bytes)) {
                    messages.last_mut().unwrap().extend_from_slice(&piece.bytes);
                    if piece.ends_message {
                        messages.push(Vec::new());
                    }
                }
            }
            assert_eq!(messages, expected, "{content_type} in frames of {frame}");
            assert_eq!(cutter.ends_with_body(), ends_with_body, "{content_type}");
        }
    }

    #[test]
    fn a_body_is_cut_where_its_messages_end_whatever_its_frames() {
        let grpc = b"\0\0\0\0\x02ab\0\0\0\0\0\x01\0\0\0\x01c";
        let messages: [&[u8]; 4] = [&grpc[..7], &grpc[7..12], &grpc[12..], b""];
        check("application/grpc", grpc, &messages, false);
        let web = b"\0\0\0\0\x01a\x80\0\0\0\x02b:";
        check("application/grpc-web+proto", web, &[&web[..6], &web[6..]], false);
        let connect = b"\0\0\0\0\x01a\x02\0\0\0\x02{}";
        check("application/connect+json", connect, &[&connect[..6], &connect[6..]], false);
        check("application/x-ndjson", b"{}\n{}\n", &[b"{}\n", b"{}\n", b""], false);
        check("text/event-stream", b"a:1\nb:2\n\nc\n\n", &[b"a:1\nb:2\n\n", b"c\n\n", b""], false);
        let array = br#"[{"a":["}\""]},{},"x"]"#;
        let messages: [&[u8]; 4] = [&array[..14], &array[14..17], &array[17..21], b"]"];
        check("application/json", array, &messages, false);
        check("application/json", br#"{"a":[1]}"#, &[br#"{"a":[1]}"#], true);
        check("application/proto", b"ab", &[b"ab"], true);
    }

    #[test]
    fn text_is_cut_into_texts_that_decode_one_by_one() {
        let mut cutter =
            MessageCutter::of(Some(&HeaderValue::from_static("application/grpc-web-text")));
        let frame = encode_text(&[Bytes::from_static(b"\0\0\0\0\x01a\0\0\0\0\x01b")]);
        let pieces = cutter.cut(frame);
        let one = |bytes: &'static [u8]| Piece {
            bytes: encode_text(&[Bytes::from_static(bytes)]),
            begins_message: true,
            ends_message: true,
        };
        assert_eq!(pieces, [one(b"\0\0\0\0\x01a"), one(b"\0\0\0\0\x01b")]);
    }
}
