//! In what two replies differ first, for whoever looks for the reason.

use tidewire_service::Headers;

/// The first header that differs.
pub(crate) fn headers(one: &Headers, other: &Headers) -> Option<String> {
    let differs =
        |name: &&http::HeaderName| !one.get_all(*name).iter().eq(other.get_all(*name).iter());
    let name = one.keys().chain(other.keys()).find(differs)?;
    Some(format!("header {name}"))
}

/// Where two bodies begin to differ: a field of JSON by its path, one of a protobuf message by its
/// number, else a byte.
pub(crate) fn bodies(one: &[u8], other: &[u8], is_protobuf: bool) -> Option<String> {
    if one == other {
        return None;
    }
    let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let found = match is_protobuf {
        true => protobuf_field(one, other).map(|number| format!("field {number} of the message")),
        false => json_path(&one[..at]).map(|path| format!("field \"{path}\"")),
    };
    Some(found.unwrap_or_else(|| format!("byte {at} of the body")))
}

/// The path of the value in which the text ends: `items[2].name`; `None` where it is not JSON.
fn json_path(before: &[u8]) -> Option<String> {
    let text = before.utf8_chunks().next()?.valid();
    let mut path: Vec<Place<'_>> = Vec::new();
    let mut rest = text.trim_start();
    let mut string = "";
    if !rest.starts_with(['{', '[']) {
        return None;
    }
    while let Some(next) = rest.bytes().next() {
        rest = &rest[1..];
        match (next, path.last_mut()) {
            (b'"', _) => {
                let end = string_length(rest);
                string = &rest[..end];
                rest = rest.get(end + 1..).unwrap_or("");
            }
            (b'{', _) => path.push(Place::Field("")),
            (b'[', _) => path.push(Place::Item(0)),
            (b'}' | b']', _) => drop(path.pop()),
            (b':', Some(Place::Field(name))) => *name = string,
            (b',', Some(Place::Item(number))) => *number += 1,
            _ => {}
        }
    }
    let mut text = String::new();
    for place in path {
        match place {
            Place::Field(name) if text.is_empty() || name.is_empty() => text += name,
            Place::Field(name) => text += &format!(".{name}"),
            Place::Item(number) => text += &format!("[{number}]"),
        }
    }
    (!text.is_empty()).then_some(text)
}

/// A step of a path in JSON.
enum Place<'a> {
    Field(&'a str),
    Item(usize),
}

/// How long the string is whose opening quote was before `text`; all of it where it does not end.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let ends = |byte: u8| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    };
    text.bytes().position(ends).unwrap_or(text.len())
}

/// The number of the first field that differs.
fn protobuf_field(one: &[u8], other: &[u8]) -> Option<u64> {
    let mut one = Fields(one);
    let mut other = Fields(other);
    loop {
        match (one.next(), other.next()) {
            (Some(a), Some(b)) if a == b => {}
            (Some((number, _)), Some((other, _))) => return Some(number.min(other)),
            (Some((number, _)), None) | (None, Some((number, _))) => return Some(number),
            (None, None) => return None,
        }
    }
}

/// The fields of a message in the protobuf wire format: number and value.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (tag, rest) = varint(self.0)?;
        let length = match tag & 7 {
            0 => rest.len() - varint(rest)?.1.len(),
            1 => 8,
            2 => {
                let (length, value) = varint(rest)?;
                usize::try_from(length).ok()?.checked_add(rest.len() - value.len())?
            }
            5 => 4,
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag >> 3, value))
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at(end + 1);
    let value = number.iter().rev().fold(0, |all: u64, byte| all << 7 | u64::from(byte & 0x7f));
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_that_differs_is_named() {
        for (one, other, is_protobuf, expected) in [
            (
                &b"{\"a\":1,\"b\":{\"c\":2}}"[..],
                &b"{\"a\":1,\"b\":{\"c\":3}}"[..],
                false,
                "field \"b.c\"",
            ),
            (b"[{\"id\":\"x\"}]", b"[{\"id\":\"y\"}]", false, "field \"[0].id\""),
            (
                b"{\"a\\\"]\":[1,2],\"b\":[{},{\"c\":[0,1]}]}",
                b"{\"a\\\"]\":[1,2],\"b\":[{},{\"c\":[0,2]}]}",
                false,
                "field \"b[1].c[1]\"",
            ),
            (b"plain", b"plaid", false, "byte 4 of the body"),
            (b"", b"{}", false, "byte 0 of the body"),
            (b"\x08\x01\x12\x01a", b"\x08\x01\x12\x01b", true, "field 2 of the message"),
            (b"\x08\x01", b"\x08\x96\x01", true, "field 1 of the message"),
            (b"\x08\x01", b"\x08\x01\x1a\x00", true, "field 3 of the message"),
            (b"\x0f", b"\x17", true, "byte 0 of the body"),
        ] {
            assert_eq!(bodies(one, other, is_protobuf).as_deref(), Some(expected));
        }
        assert_eq!(bodies(b"a", b"a", false), None);
    }
}
