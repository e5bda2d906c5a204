//! Headers that are stored hold no bytes of somebody else.
//!
//! What came over a connection are views into the buffer that it was read into, often 8 KiB and
//! more. Stored as they are, a few bytes of headers would keep all of it, uncounted.

use bytes::BytesMut;
use http::HeaderValue;
use tidewire_service::ThinHeaders;

/// Copies all values to one allocation of just their size.
pub(crate) fn own(headers: &mut ThinHeaders) {
    if headers.is_empty() {
        return;
    }
    let bytes: usize = headers.values().map(HeaderValue::len).sum();
    let mut all = BytesMut::with_capacity(bytes);
    headers.values().for_each(|value| all.extend_from_slice(value.as_bytes()));
    let mut all = all.freeze();
    for value in headers.values_mut() {
        let copy = all.split_to(value.len());
        if let Ok(mut copy) = HeaderValue::from_maybe_shared(copy) {
            copy.set_sensitive(value.is_sensitive());
            *value = copy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_what_they_are_and_let_go_of_the_buffer_that_they_came_in() {
        let buffer = bytes::Bytes::from(b"one, two".repeat(1000));
        let value = |range| HeaderValue::from_maybe_shared(buffer.slice(range)).expect("a value");
        let mut headers = ThinHeaders::default();
        headers.append("a", value(0..3));
        headers.append("a", value(5..8));
        headers.append("b", value(0..0));
        let mut secret = value(0..8);
        secret.set_sensitive(true);
        headers.append("c", secret);
        let before = headers.clone();
        own(&mut headers);
        assert_eq!(headers, before);
        assert!(headers["c"].is_sensitive() && !headers["a"].is_sensitive());
        drop(before);
        assert!(buffer.is_unique());
        own(&mut ThinHeaders::default());
    }
}
