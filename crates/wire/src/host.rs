//! The value of a `Host` header: `uri-host [ ":" port ]` of RFC 3986.
//!
//! Who reads a host more leniently than those before and behind it answers for somebody else; so
//! anything else is refused before it is used.

/// Whether it is `uri-host [ ":" port ]` of RFC 3986, where the host may be empty.
pub fn is_host(value: &[u8]) -> bool {
    let is_name = |byte: &u8| NAME[usize::from(*byte)];
    let is_address = |byte: &u8| *byte == b':' || (*byte != b'%' && is_name(byte));
    let (is_right, port) = match value.strip_prefix(b"[") {
        None => {
            let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
            (value[..end].iter().all(is_name), &value[end..])
        }
        Some(value) => {
            let Some(end) = value.iter().position(|byte| *byte == b']') else { return false };
            (end > 0 && value[..end].iter().all(is_address), &value[end + 1..])
        }
    };
    let is_port = match port.split_first() {
        None => true,
        Some((colon, digits)) => *colon == b':' && digits.iter().all(u8::is_ascii_digit),
    };
    is_right && is_port
}

/// The bytes that a name may have: unreserved ones, sub-delimiters, and `%`.
const NAME: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0_u8);
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(byte, b'*' | b'+' | b',' | b';' | b'=' | b'%');
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for right in [
            "",
            "a",
            "a.example",
            "a.example:80",
            "a:",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:80",
            "[v1.a:b]",
            "x_y",
            "%41",
        ] {
            assert!(is_host(right.as_bytes()), "{right}");
        }
        for wrong in [
            "a b", "a/b", "a@b", "a:b", "a:1:2", "[::1", "::1]", "[]", "[::1]x", "a?b", "a#b",
            "\u{e4}", "http://a",
        ] {
            assert!(!is_host(wrong.as_bytes()), "{wrong}");
        }
    }
}
