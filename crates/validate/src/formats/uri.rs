//! URIs of RFC 3986.

use super::is_ip;

/// A URI: a scheme, and what follows it.
pub(crate) fn is_uri(text: &[u8]) -> bool {
    let Some(colon) = text.iter().position(|byte| !is_scheme_byte(*byte)) else { return false };
    text[0].is_ascii_alphabetic() && text[colon] == b':' && is_rest(&text[colon + 1..], true)
}

/// A URI, or a reference that is relative to one.
pub(crate) fn is_uri_ref(text: &[u8]) -> bool {
    is_uri(text) || is_rest(text, false)
}

fn is_scheme_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// Authority, path, query and fragment; a path after a scheme may have a colon in its first
/// segment.
fn is_rest(text: &[u8], after_scheme: bool) -> bool {
    let (text, fragment) = cut(text, b'#');
    let (hierarchy, query) = cut(text, b'?');
    let is_tail = |tail: Option<&[u8]>| tail.is_none_or(|tail| is_made_of(tail, b":@/?"));
    is_tail(fragment) && is_tail(query) && is_hierarchy(hierarchy, after_scheme)
}

fn cut(text: &[u8], mark: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == mark) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn is_hierarchy(text: &[u8], after_scheme: bool) -> bool {
    if let Some(rest) = text.strip_prefix(b"//") {
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        return is_authority(&rest[..end]) && is_made_of(&rest[end..], b":@/");
    }
    let first = text.split(|byte| *byte == b'/').next().unwrap_or_default();
    is_made_of(text, b":@/") && (after_scheme || !first.contains(&b':'))
}

fn is_authority(text: &[u8]) -> bool {
    let host_and_port = match text.iter().position(|byte| *byte == b'@') {
        Some(at) if is_made_of(&text[..at], b":") => &text[at + 1..],
        Some(_) => return false,
        None => text,
    };
    let (host, port) = match host_and_port {
        [b'[', ..] => {
            let Some(end) = host_and_port.iter().position(|byte| *byte == b']') else {
                return false;
            };
            if !is_literal(&host_and_port[1..end]) {
                return false;
            }
            (&[][..], &host_and_port[end + 1..])
        }
        _ => {
            let end = host_and_port.iter().position(|byte| *byte == b':');
            host_and_port.split_at(end.unwrap_or(host_and_port.len()))
        }
    };
    let is_port = match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_port && is_made_of(host, b"") && is_text(host)
}

/// An address of version 6, with a zone after `%25`, or of a version to come.
fn is_literal(text: &[u8]) -> bool {
    if let [b'v', version @ ..] = text {
        let Some(dot) = version.iter().position(|byte| *byte == b'.') else { return false };
        let rest = &version[dot + 1..];
        return dot > 0
            && version[..dot].iter().all(u8::is_ascii_hexdigit)
            && !rest.is_empty()
            && !rest.contains(&b'%')
            && is_made_of(rest, b":");
    }
    match text.iter().position(|byte| *byte == b'%') {
        None => !text.contains(&b'.') && is_ip(text, 6),
        Some(at) => {
            let zone = text[at..].strip_prefix(b"%25").unwrap_or_default();
            let plain = |byte: &u8| is_unreserved(*byte) || *byte == b'%';
            !zone.is_empty()
                && zone.iter().all(plain)
                && is_made_of(zone, b"")
                && is_text(zone)
                && !text[..at].contains(&b'.')
                && is_ip(&text[..at], 6)
        }
    }
}

/// Unreserved characters, delimiters within parts, escapes, and `others`.
fn is_made_of(text: &[u8], others: &[u8]) -> bool {
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'%', [high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                after
            }
            _ if is_unreserved(*byte) || b"!$&'()*+,;=".contains(byte) => after,
            _ if others.contains(byte) => after,
            _ => return false,
        };
    }
    true
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

/// Whether what the escapes stand for is UTF-8.
fn is_text(text: &[u8]) -> bool {
    if !text.contains(&b'%') {
        return true;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map_or(0, |digit| digit as u8);
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                plain.push(digit(*high) << 4 | digit(*low));
                after
            }
            _ => {
                plain.push(*byte);
                after
            }
        };
    }
    str::from_utf8(&plain).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_those_of_protovalidate() {
        let good = [
            "A://",
            "a:",
            "a:b:c",
            "http://u:p@h:1/p?q#f",
            "http://[::1]:80",
            "http://[v1.x]/",
            "http://[::1%25en0]/",
            "http://%C3%96/",
            "a:?",
            "a:/b//c",
        ];
        for good in good {
            assert!(is_uri(good.as_bytes()), "{good} is refused");
        }
        let bad = [
            "",
            "1:",
            ":a",
            "a",
            "http://[::1",
            "http://[1]/",
            "http://%C3x%96/",
            "http://%c3/",
            "a:%0",
            "a:^",
            "http://h:a/",
            "http://a@b@c",
            "http://[::1.2.3.4.5]",
            "http://[::1%25]",
        ];
        for bad in bad {
            assert!(!is_uri(bad.as_bytes()), "{bad} is taken");
        }
        assert!(is_uri_ref(b"") && is_uri_ref(b"./a:b") && !is_uri_ref(b"1:b"));
    }
}
