//! `google.api.HttpBody`: bodies that are bytes of any type rather than JSON.
//!
//! In proto JSON such a message is `{"contentType":"text/html","data":"PGgxPg=="}`; over REST it is
//! the bytes themselves and their `Content-Type`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::Bytes;
use http::HeaderValue;
use tidewire_service::{Error, Result};

use crate::scan::{Scanner, unescaped, write_string};

/// The message for bytes that were received.
pub(crate) fn to_message(content_type: Option<&HeaderValue>, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() / 3 * 4 + 64);
    out.extend_from_slice(b"{\"contentType\":");
    let content_type = content_type.and_then(|value| value.to_str().ok());
    write_string(&mut out, content_type.unwrap_or_default());
    out.extend_from_slice(b",\"data\":");
    write_string(&mut out, &STANDARD.encode(data));
    out.push(b'}');
    out.into()
}

/// The content type and the bytes of a message.
///
/// # Errors
/// When it is not such a message.
pub(crate) fn from_message(message: &[u8]) -> Result<(Option<HeaderValue>, Bytes)> {
    let broken = || Error::internal("the reply is not a google.api.HttpBody in JSON");
    let mut scanner = Scanner::new(message);
    let (mut content_type, mut data) = (None, Bytes::new());
    let mut walk = || -> Option<()> {
        if scanner.value().ok()? == b"null" {
            return Some(());
        }
        scanner.go_back(0);
        scanner.expect(b'{').ok()?;
        let mut more = !scanner.take(b'}').ok()?;
        while more {
            let name = scanner.name().ok()?;
            match &*name {
                b"contentType" | b"content_type" => {
                    let text = unescaped(scanner.string().ok()?)?;
                    content_type = Some(HeaderValue::from_bytes(&text).ok()?);
                }
                b"data" => {
                    let text = unescaped(scanner.string().ok()?)?;
                    let decoded = STANDARD.decode(&text).or_else(|_| STANDARD_NO_PAD.decode(&text));
                    data = decoded.ok()?.into();
                }
                _ => {
                    scanner.value().ok()?;
                }
            }
            more = scanner.more(b'}').ok()?;
        }
        Some(())
    };
    walk().ok_or_else(broken)?;
    Ok((content_type.filter(|value| !value.is_empty()), data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_their_type_survive_the_way_through_a_message() {
        let html = HeaderValue::from_static("text/html; charset=\"utf-8\"");
        for data in [&b""[..], b"<h1>", &[0, 255, 128]] {
            let message = to_message(Some(&html), data);
            let (content_type, bytes) = from_message(&message).unwrap();
            assert_eq!((content_type, &bytes[..]), (Some(html.clone()), data));
        }
        assert_eq!(from_message(b"{}").unwrap(), (None, Bytes::new()));
        assert_eq!(from_message(b"null").unwrap(), (None, Bytes::new()));
        for broken in ["", "[]", "{\"data\":1}", "{\"data\":\"*\"}", "{\"contentType\":\"\\n\"}"] {
            assert!(from_message(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
