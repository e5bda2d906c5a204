//! Internet addresses, and prefixes of them.

use super::decimal;

/// An address of version 4 or 6; 0 stands for either.
pub(crate) fn is_ip(text: &[u8], version: i64) -> bool {
    match version {
        0 => v4(text).is_some() || v6(text, true).is_some(),
        4 => v4(text).is_some(),
        6 => v6(text, true).is_some(),
        _ => false,
    }
}

/// An address and the length of a prefix; where `strict`, all bits after the prefix are zero.
pub(crate) fn is_ip_prefix(text: &[u8], version: i64, strict: bool) -> bool {
    let Some(slash) = text.iter().position(|byte| *byte == b'/') else { return false };
    let address = &text[..slash];
    let length = &text[slash + 1..];
    let is = |address: Option<u128>, bits: u32| {
        let (Some(address), Some(length)) = (address, decimal(length, 3)) else { return false };
        let rest = bits.checked_sub(length);
        rest.is_some_and(|rest| {
            !strict || address & 1_u128.checked_shl(rest).map_or(u128::MAX, |bit| bit - 1) == 0
        })
    };
    match version {
        0 => is(v6(address, false), 128) || is(v4(address), 32),
        4 => is(v4(address), 32),
        6 => is(v6(address, false), 128),
        _ => false,
    }
}

fn v4(text: &[u8]) -> Option<u128> {
    let mut parts = text.split(|byte| *byte == b'.');
    let mut address = 0;
    for _ in 0..4 {
        let octet = decimal(parts.next()?, 3).filter(|octet| *octet <= 255)?;
        address = address << 8 | u128::from(octet);
    }
    parts.next().is_none().then_some(address)
}

/// Eight groups of 16 bits, `::` for those that are zero, the last two as version 4, and a zone.
fn v6(text: &[u8], zone_allowed: bool) -> Option<u128> {
    let text = match text.iter().position(|byte| *byte == b'%') {
        Some(at) if zone_allowed && at + 1 < text.len() => &text[..at],
        Some(_) => return None,
        None => text,
    };
    match text.windows(2).position(|pair| pair == b"::") {
        None => {
            let (address, groups) = groups(text, true)?;
            (groups == 8).then_some(address)
        }
        Some(at) => {
            let (head, before) = groups(&text[..at], false)?;
            let (tail, after) = groups(&text[at + 2..], true)?;
            let left = 8_u32.checked_sub(before + after).filter(|left| *left > 0)?;
            let head = head.checked_shl(16 * (left + after)).unwrap_or(0);
            Some(head | tail)
        }
    }
}

/// Groups with single colons between them, and how many there are.
fn groups(text: &[u8], v4_allowed: bool) -> Option<(u128, u32)> {
    if text.is_empty() {
        return Some((0, 0));
    }
    let mut address = 0;
    let mut count = 0;
    let mut parts = text.split(|byte| *byte == b':').peekable();
    while let Some(part) = parts.next() {
        if v4_allowed && parts.peek().is_none() && part.contains(&b'.') {
            return (count <= 6).then_some((address << 32 | v4(part)?, count + 2));
        }
        let plain = (1..=4).contains(&part.len()) && part.iter().all(u8::is_ascii_hexdigit);
        if !plain || count == 8 {
            return None;
        }
        let group = u16::from_str_radix(str::from_utf8(part).ok()?, 16).ok()?;
        (address, count) = (address << 16 | u128::from(group), count + 1);
    }
    Some((address, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_protovalidate() {
        for good in ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "::1.2.3.4", "fe80::a%en0", "1:2::8"] {
            assert!(is_ip(good.as_bytes(), 6), "{good} is refused");
        }
        let bad = [
            "",
            ":",
            ":::",
            "1",
            "1:2:3:4:5:6:7:8:9",
            "1::2::3",
            "::12345",
            "::1%",
            "1:2:3:4:5:6:7:",
            ":1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:1.2.3.4",
            "1.2.3.4",
            "::1.2.3",
            "1:2:3:4::5:6:7:8",
        ];
        for bad in bad {
            assert!(!is_ip(bad.as_bytes(), 6), "{bad} is taken");
        }
        assert!(is_ip(b"255.0.0.1", 0) && !is_ip(b"256.0.0.1", 0) && !is_ip(b"01.0.0.1", 4));
    }

    #[test]
    fn a_strict_prefix_has_zeros_behind_it() {
        assert!(is_ip_prefix(b"10.0.0.0/8", 0, true) && !is_ip_prefix(b"10.0.0.1/8", 0, true));
        assert!(is_ip_prefix(b"10.0.0.1/8", 4, false) && !is_ip_prefix(b"10.0.0.1/33", 4, false));
        assert!(is_ip_prefix(b"::/0", 6, true) && !is_ip_prefix(b"::1/0", 6, true));
        assert!(is_ip_prefix(b"::1/128", 6, true) && !is_ip_prefix(b"::%a/1", 6, false));
        assert!(!is_ip_prefix(b"::/08", 6, false) && !is_ip_prefix(b"::", 6, false));
    }
}
