//! Well-known forms of strings: what protovalidate calls an email, a hostname, a URI.
//!
//! Each is a scan of the bytes, without an allocation or a regular expression. The grammars are
//! protovalidate's: email as in HTML (not RFC 5322), hostnames of RFC 1034, addresses of RFC 4632
//! and RFC 4291 with zones, URIs of RFC 3986.

mod ip;
mod uri;

pub(crate) use ip::{is_ip, is_ip_prefix};
pub(crate) use uri::{is_uri, is_uri_ref};

/// An address of electronic mail as the HTML standard has it.
pub(crate) fn is_email(text: &[u8]) -> bool {
    let Some(at) = text.iter().position(|byte| *byte == b'@') else { return false };
    let name = &text[..at];
    let host = &text[at + 1..];
    let allowed =
        |byte: &u8| byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(byte);
    !name.is_empty() && name.iter().all(allowed) && host.split(|byte| *byte == b'.').all(is_label)
}

/// A name of a host; the last label may not be a number, and a dot may end it.
pub(crate) fn is_hostname(text: &[u8]) -> bool {
    let text = text.strip_suffix(b".").unwrap_or(text);
    let last = text.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    text.len() <= 253
        && text.split(|byte| *byte == b'.').all(is_label)
        && !last.iter().all(u8::is_ascii_digit)
}

/// A part of a name between dots.
fn is_label(label: &[u8]) -> bool {
    (1..=63).contains(&label.len())
        && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        && label.first() != Some(&b'-')
        && label.last() != Some(&b'-')
}

/// A hostname or address, and a port that may be needed; IPv6 in brackets.
pub(crate) fn is_host_and_port(text: &[u8], port_needed: bool) -> bool {
    let colon = text.iter().rposition(|byte| *byte == b':');
    if text.first() == Some(&b'[') {
        let Some(end) = text.iter().rposition(|byte| *byte == b']') else { return false };
        let inside = &text[1..end];
        return match colon {
            _ if end + 1 == text.len() => !port_needed && is_ip(inside, 6),
            Some(colon) if colon == end + 1 => is_ip(inside, 6) && is_port(&text[colon + 1..]),
            _ => false,
        };
    }
    let is_host = |host: &[u8]| is_hostname(host) || is_ip(host, 4);
    match colon {
        None => !text.is_empty() && !port_needed && is_host(text),
        Some(colon) => is_host(&text[..colon]) && is_port(&text[colon + 1..]),
    }
}

fn is_port(text: &[u8]) -> bool {
    decimal(text, 5).is_some_and(|port| port <= 65_535)
}

/// A number of at most so many digits, without a sign or a zero before it.
fn decimal(text: &[u8], digits_max: usize) -> Option<u32> {
    let plain = (1..=digits_max).contains(&text.len())
        && text.iter().all(u8::is_ascii_digit)
        && (text.len() == 1 || text[0] != b'0');
    plain.then(|| text.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

/// A hostname or an address.
pub(crate) fn is_address(text: &[u8]) -> bool {
    is_hostname(text) || is_ip(text, 0)
}

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12.
pub(crate) fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A UUID without its dashes.
pub(crate) fn is_tuuid(text: &[u8]) -> bool {
    text.len() == 32 && text.iter().all(u8::is_ascii_hexdigit)
}

/// 26 characters of Crockford's base 32, the first of them 0 to 7.
pub(crate) fn is_ulid(text: &[u8]) -> bool {
    let in_alphabet =
        |byte: &u8| byte.is_ascii_alphanumeric() && !b"ILOU".contains(&byte.to_ascii_uppercase());
    text.len() == 26 && (b'0'..=b'7').contains(&text[0]) && text.iter().all(in_alphabet)
}

/// The name of a package, message or the like, `shop.v1.Item`.
pub(crate) fn is_protobuf_name(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'.').all(|part| {
        part.first().is_some_and(|byte| !byte.is_ascii_digit())
            && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    })
}

/// The same with a dot before it.
pub(crate) fn is_protobuf_dot_name(text: &[u8]) -> bool {
    text.strip_prefix(b".").is_some_and(is_protobuf_name)
}

/// The name of an HTTP header; the pseudo headers of HTTP/2 too.
pub(crate) fn is_header_name(text: &[u8]) -> bool {
    let name = text.strip_prefix(b":").unwrap_or(text);
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+.-^_|~`".contains(byte);
    !name.is_empty() && name.iter().all(allowed)
}

/// The value of an HTTP header.
pub(crate) fn is_header_value(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

/// What a name or value of an HTTP header is where it need not be strict: one line, not empty.
pub(crate) fn is_one_line(text: &[u8]) -> bool {
    !text.is_empty() && is_no_line_break(text)
}

/// One line that may be empty.
fn is_no_line_break(text: &[u8]) -> bool {
    !text.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(is: impl Fn(&[u8]) -> bool, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(is(text.as_bytes()), "{text:?} is refused");
        }
        for text in bad {
            assert!(!is(text.as_bytes()), "{text:?} is taken");
        }
    }

    #[test]
    fn emails_and_hosts_are_those_of_protovalidate() {
        check(is_email, &["a@b", "a.b+c@d-e.f", "a@1"], &["", "@b", "a@", "a@b@c", "a@-b", "a @b"]);
        check(is_hostname, &["a", "a.b.", "1.a", "xn--a"], &["", ".", "a..b", "1", "a.1", "-a"]);
        check(
            |text| is_host_and_port(text, true),
            &["a:0", "[::1]:65535", "1.2.3.4:80"],
            &["a", "a:", "a:65536", "a:080", "::1:80", "[::1]", "[::1]80", ""],
        );
        check(|text| is_host_and_port(text, false), &["a", "[::1]"], &["a:", "[a]", "[::1"]);
    }

    #[test]
    fn identifiers_and_headers_are_those_of_protovalidate() {
        check(is_ulid, &["01ARZ3NDEKTSV4RRFFQ69G5FAV"], &["81ARZ3NDEKTSV4RRFFQ69G5FAV", "0"]);
        check(is_uuid, &["00000000-0000-0000-0000-00000000000F"], &["0000", ""]);
        check(is_protobuf_name, &["a", "_a.B1"], &["", "a.", "1a", ".a"]);
        check(is_header_name, &[":path", "x-a"], &["", ":", "a b", "a:"]);
        check(is_header_value, &["", "a\tb ü"], &["a\n", "\u{7f}"]);
        check(is_one_line, &["a"], &["", "a\rb"]);
    }
}
