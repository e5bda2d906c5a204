//! `google.api.HttpBody`: bodies that are bytes of any type rather than JSON.
//!
//! Such a message has its content type in field 1 and its bytes in field 2; over REST it is the
//! bytes themselves and their `Content-Type`. Bytes are copied once on the way in and not at all on
//! the way out.

use std::ops::Range;

use buffa::DecodeError;
use buffa::encoding::{Tag, WireType, decode_varint, skip_field};
use bytes::Buf as _;
use http::HeaderValue;
use tidewire_service::{Error, Result};

use crate::plan::write_bytes;

/// The message for bytes that were received.
pub(crate) fn to_message(content_type: Option<&HeaderValue>, data: &[u8]) -> Vec<u8> {
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut out = Vec::with_capacity(content_type.len() + data.len() + HEADS_BYTES);
    if !content_type.is_empty() {
        write_bytes(&mut out, CONTENT_TYPE, content_type.as_bytes());
    }
    if !data.is_empty() {
        write_bytes(&mut out, DATA, data);
    }
    out
}

/// Where the parts of such a message are among the bytes of a reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    content_type: Range<usize>,
    pub(crate) data: Range<usize>,
}

impl Parts {
    /// Finds them in a reply, or in the field of it that holds the message.
    ///
    /// # Errors
    /// [`Code::Internal`](tidewire_service::Code::Internal) when it is not such a message.
    pub(crate) fn of(reply: &[u8], field: Option<u32>) -> Result<Self> {
        let mut parts = Self::default();
        let all = 0..reply.len();
        let found = match field {
            None => parts.read(reply, all),
            Some(field) => each_field(reply, all, |number, range| {
                if number == field { parts.read(reply, range) } else { Ok(()) }
            }),
        };
        found.map_err(|cause| {
            Error::internal("the service's reply is not a google.api.HttpBody").with_cause(cause)
        })?;
        Ok(parts)
    }

    /// What comes later replaces what came before, as everywhere in protobuf.
    fn read(&mut self, reply: &[u8], range: Range<usize>) -> std::result::Result<(), DecodeError> {
        each_field(reply, range, |number, range| {
            match number {
                CONTENT_TYPE => self.content_type = range,
                DATA => self.data = range,
                _ => {}
            }
            Ok(())
        })
    }

    /// The content type, if there is one; `application/octet-stream` for what no header can hold.
    pub(crate) fn content_type(&self, reply: &[u8]) -> Option<HeaderValue> {
        let text = &reply[self.content_type.clone()];
        let octets = HeaderValue::from_static("application/octet-stream");
        (!text.is_empty()).then(|| HeaderValue::from_bytes(text).unwrap_or(octets))
    }
}

/// Visits the fields of a message that are text, bytes or messages.
fn each_field(
    bytes: &[u8],
    range: Range<usize>,
    mut visit: impl FnMut(u32, Range<usize>) -> std::result::Result<(), DecodeError>,
) -> std::result::Result<(), DecodeError> {
    let end = range.end;
    let mut rest = &bytes[range];
    while rest.has_remaining() {
        let tag = Tag::decode(&mut rest)?;
        if tag.wire_type() != WireType::LengthDelimited {
            skip_field(tag, &mut rest)?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut rest)?).unwrap_or(usize::MAX);
        let start = end - rest.len();
        (_, rest) = rest.split_at_checked(length).ok_or(DecodeError::UnexpectedEof)?;
        visit(tag.field_number(), start..start + length)?;
    }
    Ok(())
}

const CONTENT_TYPE: u32 = 1;
const DATA: u32 = 2;

/// Two tags and two lengths.
const HEADS_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(message: &[u8], field: Option<u32>) -> (Option<HeaderValue>, Vec<u8>) {
        let parts = Parts::of(message, field).unwrap();
        (parts.content_type(message), message[parts.data].to_vec())
    }

    #[test]
    fn bytes_and_their_type_survive_the_way_through_a_message() {
        let html = HeaderValue::from_static("text/html; charset=\"utf-8\"");
        for data in [&b""[..], b"<h1>", &[0, 255, 128], &[7; 70_000]] {
            let message = to_message(Some(&html), data);
            assert_eq!(parts(&message, None), (Some(html.clone()), data.to_vec()));
            let mut around = vec![8, 1];
            write_bytes(&mut around, 3, b"other");
            write_bytes(&mut around, 9, &message);
            assert_eq!(parts(&around, Some(9)), (Some(html.clone()), data.to_vec()));
        }
        assert_eq!(parts(b"", None), (None, Vec::new()));
        assert_eq!(parts(b"", Some(9)), (None, Vec::new()));
    }

    #[test]
    fn parts_of_one_message_are_merged() {
        let (mut around, html) = (Vec::new(), HeaderValue::from_static("text/html"));
        write_bytes(&mut around, 9, &to_message(Some(&html), b"old"));
        write_bytes(&mut around, 9, &to_message(None, b"new"));
        assert_eq!(parts(&around, Some(9)), (Some(html), b"new".to_vec()));
    }

    #[test]
    fn what_no_header_can_hold_is_no_content_type() {
        let mut message = Vec::new();
        write_bytes(&mut message, CONTENT_TYPE, b"text/html\r\nx-evil: 1");
        let octets = HeaderValue::from_static("application/octet-stream");
        assert_eq!(parts(&message, None), (Some(octets), Vec::new()));
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for broken in
            [&b"\x0a"[..], b"\x0a\x05a", b"\xff", b"\x0b", b"\x12\xff\xff\xff\xff\xff\x01"]
        {
            assert!(Parts::of(broken, None).is_err(), "{broken:?}");
        }
        assert!(Parts::of(b"\x4a\x02\x0a\x05", Some(9)).is_err(), "the field ends before its own");
    }
}
