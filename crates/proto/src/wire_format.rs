//! Walking an encoded message field by field, without decoding what is inside.
//!
//! Descriptor sets are cut into files, and files relieved of their source info, at this level: a
//! decoder that does not know an extension would drop it, and options *are* extensions.

use std::ops::Range;

/// One field of an encoded message.
#[derive(Debug, Clone)]
pub(crate) struct Field<'a> {
    /// The field's number.
    pub(crate) number: u32,
    /// What it carries.
    pub(crate) value: Value<'a>,
    /// Where it is in the message, tag included.
    pub(crate) range: Range<usize>,
}

/// What a field carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number, a boolean or an enum value.
    Varint(u64),
    /// A string, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Fixed-size numbers, which no descriptor we read uses.
    Fixed,
}

/// The fields of `message`, or `None` where it is not an encoded message.
pub(crate) fn fields(message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    let mut at = 0;
    while at < message.len() {
        let start = at;
        let tag = varint(message, &mut at)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(message, &mut at)?),
            1 => skip(message, &mut at, 8)?,
            2 => {
                let length = usize::try_from(varint(message, &mut at)?).ok()?;
                let end = at.checked_add(length)?;
                let bytes = message.get(at..end)?;
                at = end;
                Value::Bytes(bytes)
            }
            5 => skip(message, &mut at, 4)?,
            _ => return None,
        };
        fields.push(Field { number, value, range: start..at });
    }
    Some(fields)
}

/// Packed numbers, or `None` where they are broken off.
pub(crate) fn varints(packed: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    let mut at = 0;
    while at < packed.len() {
        numbers.push(varint(packed, &mut at)?);
    }
    Some(numbers)
}

/// `message` without its fields `number`.
pub(crate) fn without(message: &[u8], number: u32) -> Vec<u8> {
    let Some(fields) = fields(message) else { return message.to_vec() };
    let kept = fields.iter().filter(|field| field.number != number);
    kept.flat_map(|field| &message[field.range.clone()]).copied().collect()
}

/// Appends a length-delimited field to `message`.
pub(crate) fn push_bytes(message: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    push_varint(message, u64::from(number) << 3 | 2);
    push_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn push_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

fn varint(message: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *message.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn skip<'a>(message: &[u8], at: &mut usize, length: usize) -> Option<Value<'a>> {
    let end = at.checked_add(length).filter(|end| *end <= message.len())?;
    *at = end;
    Some(Value::Fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_into_its_fields_and_put_together_again() {
        let mut message = vec![0x08, 0x96, 0x01];
        push_bytes(&mut message, 9, b"source info");
        push_bytes(&mut message, 1000, &[7; 300]);
        let found = fields(&message).expect("a message");
        assert_eq!(found[0].value, Value::Varint(150));
        assert_eq!(found[1].value, Value::Bytes(b"source info"));
        assert_eq!((found[2].number, found[2].range.end), (1000, message.len()));
        assert_eq!(without(&message, 9).len(), message.len() - 13);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&[0x0a, 5, 1][..], &[0x00], &[0xff; 12], &[0x0b], &[0x09, 1]] {
            assert!(fields(bytes).is_none(), "{bytes:?}");
        }
    }
}
