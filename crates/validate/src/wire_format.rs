//! Reading encoded messages field by field, in place.
//!
//! Nothing is decoded or copied: a field is its number and where its value is. Both the options
//! that hold rules and the messages that are checked are read this way. Groups are matched to their
//! end, at most [`DEPTH_MAX`] deep, as decoders of messages do.

/// The most groups within one another.
const DEPTH_MAX: usize = 100;

/// The bytes are not an encoded message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedMessage;

/// What a field carries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Raw<'a> {
    /// A number, a boolean or an enum value.
    Varint(u64),
    /// Eight bytes, little endian.
    Fixed64(u64),
    /// Four bytes, little endian.
    Fixed32(u32),
    /// A string, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// What is between the start and the end of a group.
    Group(&'a [u8]),
}

impl<'a> Raw<'a> {
    /// The bits of a number of any width; 0 for bytes.
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Varint(bits) | Self::Fixed64(bits) => bits,
            Self::Fixed32(bits) => bits.into(),
            Self::Bytes(_) | Self::Group(_) => 0,
        }
    }

    /// The bytes; empty for a number.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) | Self::Group(bytes) => bytes,
            _ => &[],
        }
    }
}

/// The fields of a message, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    message: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { message, at: 0 }
    }

    pub(super) fn starting_at(message: &'a [u8], at: usize) -> Self {
        Self { message, at }
    }

    /// The next field, or `None` at the end.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Raw<'a>)>, MalformedMessage> {
        if self.at >= self.message.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = (tag >> 3) as u32;
        if tag > u64::from(u32::MAX) || number == 0 {
            return Err(MalformedMessage);
        }
        let raw = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            2 => Raw::Bytes(self.bytes()?),
            1 => Raw::Fixed64(u64::from_le_bytes(self.fixed()?)),
            5 => Raw::Fixed32(u32::from_le_bytes(self.fixed()?)),
            3 => Raw::Group(self.group(number, DEPTH_MAX)?),
            _ => return Err(MalformedMessage),
        };
        Ok(Some((number, raw)))
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, MalformedMessage> {
        match self.message.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64, MalformedMessage> {
        let mut value = 0;
        for shift in 0..10 {
            let byte = *self.message.get(self.at).ok_or(MalformedMessage)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << (7 * shift);
            if byte < 0x80 {
                return if shift == 9 && byte > 1 { Err(MalformedMessage) } else { Ok(value) };
            }
        }
        Err(MalformedMessage)
    }

    #[inline(always)]
    fn bytes(&mut self) -> Result<&'a [u8], MalformedMessage> {
        let length = self.varint()?;
        let rest = &self.message[self.at..];
        if length > rest.len() as u64 {
            return Err(MalformedMessage);
        }
        let length = length as usize;
        self.at += length;
        Ok(&rest[..length])
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], MalformedMessage> {
        let bytes = self.message.get(self.at..self.at + N).ok_or(MalformedMessage)?;
        self.at += N;
        bytes.try_into().map_err(|_| MalformedMessage)
    }

    #[inline(never)]
    fn group(&mut self, number: u32, depth: usize) -> Result<&'a [u8], MalformedMessage> {
        let start = self.at;
        let depth = depth.checked_sub(1).ok_or(MalformedMessage)?;
        loop {
            let end = self.at;
            let tag = self.varint()?;
            let inner = u32::try_from(tag >> 3).map_err(|_| MalformedMessage)?;
            match tag & 7 {
                0 => drop(self.varint()?),
                1 => drop(self.fixed::<8>()?),
                2 => drop(self.bytes()?),
                3 => drop(self.group(inner, depth)?),
                4 if inner == number => return Ok(&self.message[start..end]),
                5 => drop(self.fixed::<4>()?),
                _ => return Err(MalformedMessage),
            }
        }
    }
}

/// The numbers in a packed list, by their wire type.
pub(super) fn packed(
    bytes: &[u8],
    wire: u8,
) -> impl Iterator<Item = Result<u64, MalformedMessage>> + '_ {
    let mut fields = Fields::new(bytes);
    std::iter::from_fn(move || {
        (fields.at < bytes.len()).then(|| match wire {
            1 => fields.fixed().map(u64::from_le_bytes),
            5 => fields.fixed().map(|bits| u32::from_le_bytes(bits).into()),
            _ => fields.varint(),
        })
    })
    .scan(false, |ended, item| {
        (!*ended).then(|| {
            *ended = item.is_err();
            item
        })
    })
}

/// All fields `number` of an options message; what is broken off is left out.
pub(super) fn all<'a>(message: &'a [u8], number: u32) -> impl Iterator<Item = Raw<'a>> + 'a {
    let mut fields = Fields::new(message);
    std::iter::from_fn(move || fields.next().ok().flatten())
        .filter_map(move |(found, raw)| (found == number).then_some(raw))
}

/// The last field `number`.
pub(super) fn last(message: &[u8], number: u32) -> Option<Raw<'_>> {
    all(message, number).last()
}

/// The message in field `number`, merged when it is there in parts; `None` when it is not.
pub(super) fn message(of: &[u8], number: u32) -> Option<Vec<u8>> {
    let mut parts = all(of, number).peekable();
    parts.peek()?;
    Some(parts.flat_map(|part| part.bytes().to_vec()).collect())
}

/// Appends a field of bytes.
pub(super) fn push_bytes(message: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    push_varint(message, u64::from(number) << 3 | 2);
    push_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// Appends a field of a number.
pub(super) fn push_number(message: &mut Vec<u8>, number: u32, value: u64) {
    push_varint(message, u64::from(number) << 3);
    push_varint(message, value);
}

/// Appends a field as it was read.
pub(super) fn push_raw(message: &mut Vec<u8>, number: u32, raw: Raw<'_>) {
    match raw {
        Raw::Varint(value) => push_number(message, number, value),
        Raw::Fixed64(bits) => {
            push_varint(message, u64::from(number) << 3 | 1);
            message.extend_from_slice(&bits.to_le_bytes());
        }
        Raw::Fixed32(bits) => {
            push_varint(message, u64::from(number) << 3 | 5);
            message.extend_from_slice(&bits.to_le_bytes());
        }
        Raw::Bytes(bytes) | Raw::Group(bytes) => push_bytes(message, number, bytes),
    }
}

fn push_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_matched_to_their_end() {
        let bytes = [0x0b, 0x10, 7, 0x1b, 0x1c, 0x0c, 0x20, 9];
        let mut fields = Fields::new(&bytes);
        assert_eq!(fields.next(), Ok(Some((1, Raw::Group(&[0x10, 7, 0x1b, 0x1c])))));
        assert_eq!(fields.next(), Ok(Some((4, Raw::Varint(9)))));
        assert_eq!(fields.next(), Ok(None));
    }

    #[test]
    fn what_is_broken_off_is_malformed() {
        let deep = vec![0x0b; 1000];
        for bytes in [&[0x0a, 5, 1][..], &[0x00, 1], &[0xff; 12], &[0x0b, 0x14], &[0x09, 1], &deep]
        {
            assert_eq!(Fields::new(bytes).next(), Err(MalformedMessage), "{bytes:?}");
        }
    }
}
