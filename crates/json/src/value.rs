//! One value of a field, a list or a map: numbers, text, enums, bytes.
//!
//! Scalars go through the functions that generated code prints them with, so the texts agree.

use buffa::json_helpers as scalar;
use buffa_descriptor::{EnumIndex, ScalarType, SingularKind};
use serde::Serialize;

use crate::NULL_VALUE;
use crate::fault::{Fault, Result};
use crate::payload::{Payload, text_of};
use crate::print::{Parts, Printer};

impl<'b> Printer<'_, 'b, '_> {
    /// One value: of a field, a list or a map.
    pub(crate) fn single(&mut self, kind: SingularKind, payload: Payload<'b>) -> Result {
        match kind {
            SingularKind::Scalar(scalar) => self.scalar(scalar, payload),
            SingularKind::Enum(index) => match payload {
                Payload::Varint(number) => self.enumeration(index, number as i32),
                _ => self.enumeration(index, 0),
            },
            SingularKind::Message(index) => {
                self.deeper(|this| this.message(index, Parts::One(payload)))
            }
        }
    }

    pub(crate) fn scalar(&mut self, kind: ScalarType, payload: Payload<'b>) -> Result {
        use ScalarType as S;
        match (kind, payload) {
            (S::Bool, Payload::Varint(value)) => self.json(value != 0),
            (S::Int32, Payload::Varint(value)) => self.json(value as i32),
            (S::Uint32, Payload::Varint(value)) => self.json(value as u32),
            (S::Sint32, Payload::Varint(value)) => self.json(unzigzag(u64::from(value as u32))),
            (S::Sfixed32, Payload::Fixed32(value)) => self.json(value as i32),
            (S::Fixed32, Payload::Fixed32(value)) => self.json(value),
            (S::Int64, Payload::Varint(value)) | (S::Sfixed64, Payload::Fixed64(value)) => {
                self.signed(value as i64);
            }
            (S::Sint64, Payload::Varint(value)) => self.signed(unzigzag(value)),
            (S::Uint64, Payload::Varint(value)) | (S::Fixed64, Payload::Fixed64(value)) => {
                self.wide(value, value);
            }
            (S::Float, Payload::Fixed32(bits)) => {
                let _ = scalar::float::serialize(&f32::from_bits(bits), &mut self.serializer());
            }
            (S::Double, Payload::Fixed64(bits)) => {
                let _ = scalar::double::serialize(&f64::from_bits(bits), &mut self.serializer());
            }
            (S::Bytes, payload) => {
                let _ = scalar::bytes::serialize(payload.bytes(), &mut self.serializer());
            }
            (S::String, payload) => self.text(text_of(payload)?),
            _ => {
                return Err(Fault::NoForm("a field holds what its kind does not allow".to_owned()));
            }
        }
        Ok(())
    }

    fn signed(&mut self, value: i64) {
        self.wide(value, value.unsigned_abs());
    }

    /// A number of 64 bits, as text unless the style and its magnitude say otherwise.
    fn wide(&mut self, value: impl Serialize, magnitude: u64) {
        if self.style.numbers && magnitude < 1 << 53 {
            return self.json(value);
        }
        self.out.push(b'"');
        self.json(value);
        self.out.push(b'"');
    }

    pub(crate) fn enumeration(&mut self, index: EnumIndex, number: i32) -> Result {
        if number == 0 && self.is_null(index) {
            return self.null();
        }
        match self.pool.enumeration(index).value(number) {
            Some(value) if !self.style.enum_numbers => self.text(value.name()),
            _ => self.json(number),
        }
        Ok(())
    }

    pub(crate) fn is_null(&self, index: EnumIndex) -> bool {
        self.pool.enumeration(index).full_name() == NULL_VALUE
    }

    pub(crate) fn null(&mut self) -> Result {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    /// Text of JSON.
    pub(crate) fn text(&mut self, text: &str) {
        if needs_escape(text.as_bytes()) {
            return self.json(text);
        }
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }

    fn json(&mut self, value: impl Serialize) {
        // Into memory, of kinds that have a form.
        let _ = value.serialize(&mut self.serializer());
    }

    fn serializer(&mut self) -> serde_json::Serializer<&mut Vec<u8>> {
        serde_json::Serializer::new(&mut *self.out)
    }
}

/// Whether any byte of a text is written otherwise in JSON: a control character, `"` or `\`. Eight
/// bytes at a time; the last eight overlap those before.
fn needs_escape(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk::<8>() else {
        return text.iter().any(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
    };
    let (words, _) = text.as_chunks::<8>();
    words.iter().any(|word| word_needs_escape(*word)) || word_needs_escape(*last)
}

/// The high bit of a byte is set in `word - n` and not in `word` when the byte is below `n`, of the
/// lowest such byte at least.
fn word_needs_escape(word: [u8; 8]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    let word = u64::from_le_bytes(word);
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word;
    let quote = below(word ^ (ONES * u64::from(b'"')), 1);
    let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
    (below(word, 0x20) | quote | backslash) & (ONES << 7) != 0
}

pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::needs_escape;

    #[test]
    fn what_json_writes_otherwise_is_seen_at_every_place_of_a_text() {
        for length in 0..=24 {
            assert!(!needs_escape(&vec![b'a'; length]), "{length}");
            for place in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = vec![0x7f; length];
                    text[place] = byte;
                    let wanted = byte < 0x20 || byte == b'"' || byte == b'\\';
                    assert_eq!(needs_escape(&text), wanted, "{byte:#x} at {place} of {length}");
                }
            }
        }
    }
}
