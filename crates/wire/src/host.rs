//! The value of a `Host` header: `uri-host [ ":" port ]` of RFC 3986.
//!
//! Who reads a host more leniently than those before and behind it answers for somebody else; so
//! anything else is refused before it is used. So is a comma, which RFC 3986 allows: programs that
//! join fields read two hosts.

/// Whether it is `uri-host [ ":" port ]` of RFC 3986 without a comma, where the host may be empty
/// and the port is at most 65535.
pub fn is_host(value: &[u8]) -> bool {
    let is_name = |byte: &u8| NAME[usize::from(*byte)];
    let is_address = |byte: &u8| *byte == b':' || (*byte != b'%' && is_name(byte));
    let (is_right, port) = match value.strip_prefix(b"[") {
        None => {
            // A colon is not of a name; whatever else ends it is no port.
            let end = value.iter().position(|byte| !is_name(byte)).unwrap_or(value.len());
            (true, &value[end..])
        }
        Some(value) => {
            let Some(end) = value.iter().position(|byte| *byte == b']') else { return false };
            (end > 0 && value[..end].iter().all(is_address), &value[end + 1..])
        }
    };
    let is_port = match port.split_first() {
        None => true,
        Some((colon, digits)) => *colon == b':' && is_port_number(digits),
    };
    is_right && is_port
}

/// Whether these digits are a port; none at all are the port of the scheme.
fn is_port_number(digits: &[u8]) -> bool {
    let number = digits.iter().try_fold(0_u32, |number, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        Some(number.saturating_mul(10).saturating_add(digit))
    });
    number.is_some_and(|number| number <= u32::from(u16::MAX))
}

/// The bytes that a name may have: unreserved ones, sub-delimiters but for the comma, and `%`.
const NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(byte, b'*' | b'+' | b';' | b'=' | b'%');
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
            "a:65535",
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
            "\u{e4}", "http://a", "a,b", "a:65536", "a:99999",
        ] {
            assert!(!is_host(wrong.as_bytes()), "{wrong}");
        }
    }
}
