//! Whether JSON already is what [`print()`](crate::print()) would print, found in one walk that
//! builds nothing.
//!
//! Canonical is: known members only, each once, by its JSON name; of a oneof one; no value that is
//! its field's default without presence, no `null`, no empty list or map; numbers of 64 bits and
//! bytes as text; every value as it is printed. Space and the order of members are free, and so is
//! how a character of text is escaped: who reads the JSON sees the same.
//!
//! `false` means "not known to be", of what is canonical too: well-known types, extensions, maps of
//! other keys than plain strings or of many, messages of very many fields.

use buffa::json_helpers as scalar;
use buffa_descriptor::{
    DescriptorPool, EnumIndex, FieldDescriptor, FieldKind, MessageDescriptor, MessageIndex,
    ScalarType, SingularKind,
};

use crate::print::is_implicit;
use crate::{DEPTH_MAX, NULL_VALUE, WellKnown};

/// Whether a text is known to be canonical JSON of a message.
pub fn is_canonical(pool: &DescriptorPool, index: MessageIndex, text: &[u8]) -> bool {
    let mut walk = Walk { pool, rest: text, depth: DEPTH_MAX };
    std::str::from_utf8(text).is_ok() && walk.message(index).is_some() && walk.peek().is_none()
}

/// Whether a value is what its field has when nothing is set.
type IsZero = bool;

struct Walk<'p, 't> {
    pool: &'p DescriptorPool,
    rest: &'t [u8],
    depth: u32,
}

impl<'t> Walk<'_, 't> {
    fn message(&mut self, index: MessageIndex) -> Option<()> {
        let descriptor = self.pool.message(index);
        let known = WellKnown::of(descriptor.full_name());
        if !matches!(known, None | Some(WellKnown::Empty)) {
            return None;
        }
        self.depth = self.depth.checked_sub(1)?;
        self.expect(b'{')?;
        if !self.take(b'}') {
            self.members(descriptor)?;
        }
        self.depth += 1;
        Some(())
    }

    fn members(&mut self, descriptor: &MessageDescriptor) -> Option<()> {
        let fields = descriptor.fields();
        let mut seen = 0_u128;
        let mut oneofs = 0_u128;
        let mut next = 0;
        loop {
            let name = self.plain()?;
            self.expect(b':')?;
            // As printed, the next member is one of the next fields.
            let named = |field: &FieldDescriptor| field.json_name().as_bytes() == name;
            let ahead = fields[next..].iter().position(named).map(|place| next + place);
            let place = ahead.or_else(|| fields[..next].iter().position(named))?;
            let field = &fields[place];
            mark(&mut seen, place)?;
            if let Some(oneof) = field.oneof_index().map(usize::from) {
                mark(&mut oneofs, oneof)?;
            }
            self.value(field)?;
            next = place + 1;
            if !self.take(b',') {
                return self.expect(b'}');
            }
        }
    }

    fn value(&mut self, field: &FieldDescriptor) -> Option<()> {
        match field.kind() {
            FieldKind::Singular(kind) => {
                let is_zero = self.single(kind)?;
                (!is_zero || !is_implicit(field)).then_some(())
            }
            FieldKind::List(kind) => {
                self.expect(b'[')?;
                loop {
                    self.single(kind)?;
                    if !self.take(b',') {
                        return self.expect(b']');
                    }
                }
            }
            FieldKind::Map { key: ScalarType::String, value } => self.map(value),
            FieldKind::Map { .. } => None,
        }
    }

    fn map(&mut self, kind: SingularKind) -> Option<()> {
        let mut keys = [&[][..]; KEYS_MAX];
        self.expect(b'{')?;
        for count in 0..KEYS_MAX {
            let key = self.plain()?;
            if keys[..count].contains(&key) {
                return None;
            }
            keys[count] = key;
            self.expect(b':')?;
            self.single(kind)?;
            if !self.take(b',') {
                return self.expect(b'}');
            }
        }
        None
    }

    fn single(&mut self, kind: SingularKind) -> Option<IsZero> {
        use ScalarType as S;
        match kind {
            SingularKind::Message(index) => self.message(index).map(|()| false),
            SingularKind::Enum(index) => self.enumeration(index),
            SingularKind::Scalar(kind) => match kind {
                S::String => self.text(),
                S::Bytes => self.bytes(),
                S::Bool if self.peek() == Some(b't') => self.word(b"true").map(|()| false),
                S::Bool => self.word(b"false").map(|()| true),
                S::Int32 | S::Sint32 | S::Sfixed32 => {
                    self.integer(1 << 31, i32::MAX.unsigned_abs().into())
                }
                S::Uint32 | S::Fixed32 => self.integer(0, u32::MAX.into()),
                S::Int64 | S::Sint64 | S::Sfixed64 => self.quoted(1 << 63, i64::MAX.unsigned_abs()),
                S::Uint64 | S::Fixed64 => self.quoted(0, u64::MAX),
                S::Float | S::Double => self.float(kind),
            },
        }
    }

    fn enumeration(&mut self, index: EnumIndex) -> Option<IsZero> {
        let descriptor = self.pool.enumeration(index);
        let name = self.plain()?;
        let value = descriptor.values().iter().find(|value| value.name().as_bytes() == name)?;
        // Of the names of one number one is printed.
        let printed = descriptor.value(value.number())?.name() == value.name();
        (printed && descriptor.full_name() != NULL_VALUE).then_some(value.number() == 0)
    }

    /// A text between quotes.
    fn text(&mut self) -> Option<IsZero> {
        self.expect(b'"')?;
        let mut is_empty = true;
        loop {
            let end = self.rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
            is_empty &= end == 0;
            let found = self.rest[end];
            let rest = &self.rest[end + 1..];
            self.rest = rest;
            match (found, rest) {
                (b'"', _) => return Some(is_empty),
                (b'\\', [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..]) => {
                    self.rest = rest;
                }
                // Control characters, which have no other form; half a surrogate is not a
                // character.
                (b'\\', [b'u', b'0', b'0', b'0' | b'1', digit, rest @ ..])
                    if digit.is_ascii_hexdigit() =>
                {
                    self.rest = rest;
                }
                _ => return None,
            }
            is_empty = false;
        }
    }

    /// What is between quotes, without escapes.
    fn plain(&mut self) -> Option<&'t [u8]> {
        self.expect(b'"')?;
        let end = self.rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let (plain, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(b"\"")?;
        Some(plain)
    }

    /// Base64 of the common alphabet, filled up with `=`.
    fn bytes(&mut self) -> Option<IsZero> {
        let text = self.plain()?;
        let digits = match text {
            [digits @ .., b'=', b'='] | [digits @ .., b'='] => digits,
            digits => digits,
        };
        let digit = |byte: u8| {
            Some(match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            })
        };
        let mut last = 0;
        for &byte in digits {
            last = digit(byte)?;
        }
        // Bits of the last digit that are of no byte.
        let unused = match text.len() - digits.len() {
            2 => 0b1111,
            1 => 0b11,
            _ => 0,
        };
        (text.len().is_multiple_of(4) && last & unused == 0).then_some(text.is_empty())
    }

    fn quoted(&mut self, below: u64, above: u64) -> Option<IsZero> {
        self.expect(b'"')?;
        let is_zero = self.digits(below, above)?;
        self.rest = self.rest.strip_prefix(b"\"")?;
        Some(is_zero)
    }

    fn integer(&mut self, below: u64, above: u64) -> Option<IsZero> {
        self.peek();
        self.digits(below, above)
    }

    /// A whole number from `-below` to `above`, at once and without zeros before it.
    fn digits(&mut self, below: u64, above: u64) -> Option<IsZero> {
        let (max, digits) = match self.rest {
            [b'-', digits @ ..] => (below, digits),
            digits => (above, digits),
        };
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = digits.split_at(length);
        let is_negative = self.rest.len() > digits.len() + rest.len();
        let value = digits.iter().try_fold(0_u64, |value, digit| {
            value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })?;
        let is_plain = match digits {
            [] => false,
            [b'0', more @ ..] => more.is_empty() && !is_negative,
            _ => true,
        };
        self.rest = rest;
        (is_plain && value <= max).then_some(value == 0)
    }

    /// A number with a fraction, which is printed to see whether it is written so.
    fn float(&mut self, kind: ScalarType) -> Option<IsZero> {
        if self.peek() == Some(b'"') {
            return matches!(self.plain()?, b"NaN" | b"Infinity" | b"-Infinity").then_some(false);
        }
        let is_part = |byte: &&u8| matches!(**byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let (number, rest) = self.rest.split_at(self.rest.iter().take_while(is_part).count());
        self.rest = rest;
        let text = std::str::from_utf8(number).ok()?;
        let mut printed = [0; FLOAT_MAX];
        let mut space = &mut printed[..];
        let mut printer = serde_json::Serializer::new(&mut space);
        let is_zero = if kind == ScalarType::Float {
            let value = text.parse::<f32>().ok()?;
            scalar::float::serialize(&value, &mut printer).ok()?;
            value == 0.0
        } else {
            let value = text.parse::<f64>().ok()?;
            scalar::double::serialize(&value, &mut printer).ok()?;
            value == 0.0
        };
        let length = FLOAT_MAX - space.len();
        (printed[..length] == *number).then_some(is_zero)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.peek();
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    /// The next byte that is not space.
    fn peek(&mut self) -> Option<u8> {
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
        self.rest.first().copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }
}

/// Marks a place that nothing was at.
fn mark(seen: &mut u128, place: usize) -> Option<()> {
    let bit = 1_u128.checked_shl(u32::try_from(place).ok()?)?;
    let is_new = *seen & bit == 0;
    *seen |= bit;
    is_new.then_some(())
}

/// How many entries of a map are compared with each other.
const KEYS_MAX: usize = 16;

/// What a number with a fraction takes at most.
const FLOAT_MAX: usize = 32;
