//! Random messages as bytes, by the descriptors: what a careless or hostile sender may put there.
//!
//! Extensions and unknown fields, fields twice, packed or not, keys of maps twice or missing,
//! numbers that enums do not name, wrong wire types, bad UTF-8, groups, `Any`s, deep nesting.

use buffa_descriptor::{
    DescriptorPool, FieldDescriptor, FieldKind, MessageDescriptor, MessageIndex, ScalarType,
    SingularKind,
};

/// A generator of numbers (`SplitMix64`): the same seed gives the same messages.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// True once in `odds`.
    pub(super) fn once_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const GROUP: u32 = 3;
const GROUP_END: u32 = 4;
const FIXED32: u32 = 5;

const INTEGERS: [i64; 14] = [
    0,
    1,
    -1,
    7,
    127,
    128,
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    (1 << 53) + 1,
    -(1 << 53) - 1,
    1 << 62,
    i64::MAX,
    i64::MIN,
];

const DOUBLES: [f64; 12] = [
    0.0,
    -0.0,
    1.5,
    0.1,
    -2.5e-8,
    1e300,
    f64::MAX,
    f64::MIN_POSITIVE / 3.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    9_007_199_254_740_993.0,
];

const FLOATS: [f32; 10] = [
    0.0,
    -0.0,
    4.2,
    0.1,
    -3.4e-5,
    f32::MAX,
    f32::MIN_POSITIVE / 3.0,
    f32::NAN,
    f32::INFINITY,
    16_777_217.0,
];

const TEXTS: [&str; 7] = ["", "a", "tea", "ü€𝄞", "\"\\/\n\u{1}\u{7f}", "a.b[c]", "2026-01-02"];

const TYPES_OF_ANY: [&str; 8] = [
    "protobuf_test_messages.proto3.ForeignMessage",
    "protobuf_test_messages.proto3.TestAllTypesProto3",
    "google.protobuf.Duration",
    "google.protobuf.Int64Value",
    "google.protobuf.Struct",
    "google.protobuf.Empty",
    "google.protobuf.Any",
    "nowhere.Unknown",
];

/// Writes random messages of a schema.
pub(super) struct Writer<'a> {
    pub(super) pool: &'a DescriptorPool,
    pub(super) random: Random,
    /// Whether extensions were written.
    pub(super) extended: bool,
    /// How many more fields are written: messages grow with their depth otherwise.
    pub(super) left: usize,
}

impl Writer<'_> {
    /// A message of a type; `depth` messages more may be in it.
    pub(super) fn message(&mut self, index: MessageIndex, depth: usize) -> Vec<u8> {
        let message = self.pool.message(index);
        let mut out = Vec::new();
        if self.well_known(message, depth, &mut out) {
            return out;
        }
        for field in message.fields() {
            if field.presence() == buffa::editions::FieldPresence::LegacyRequired {
                self.field(field, depth, &mut out);
            }
        }
        for _ in 0..self.random.below(9) {
            if message.fields().is_empty() || self.left == 0 {
                break;
            }
            self.left -= 1;
            let field = &message.fields()[self.random.below(message.fields().len())];
            match self.random.below(100) {
                0 => self.unknown(&mut out),
                1 => self.wrong_wire_type(field, &mut out),
                2 => self.extension(index, depth, &mut out),
                _ => self.field(field, depth, &mut out),
            }
        }
        out
    }

    fn extension(&mut self, index: MessageIndex, depth: usize, out: &mut Vec<u8>) {
        let pool = self.pool;
        let all: Vec<_> = pool.extensions_of(index).collect();
        if !all.is_empty() {
            self.extended = true;
            let extension = all[self.random.below(all.len())];
            self.field(extension.field(), depth, out);
        }
    }

    fn field(&mut self, field: &FieldDescriptor, depth: usize, out: &mut Vec<u8>) {
        let number = field.number();
        match field.kind() {
            FieldKind::Singular(kind) => self.one(number, kind, field.is_delimited(), depth, out),
            FieldKind::List(kind) => {
                let count = self.random.below(4);
                let packable = !matches!(
                    kind,
                    SingularKind::Message(_)
                        | SingularKind::Scalar(ScalarType::String | ScalarType::Bytes)
                );
                if packable && self.random.once_in(2) {
                    let mut packed = Vec::new();
                    for _ in 0..count {
                        self.payload(kind, depth, &mut packed);
                    }
                    tag(number, BYTES, out);
                    push_bytes(&packed, out);
                } else {
                    for _ in 0..count {
                        self.one(number, kind, field.is_delimited(), depth, out);
                    }
                }
            }
            FieldKind::Map { key, value } => {
                for _ in 0..self.random.below(4) {
                    let mut entry = Vec::new();
                    if !self.random.once_in(12) {
                        self.one(1, SingularKind::Scalar(key), false, 0, &mut entry);
                    }
                    if !self.random.once_in(12) {
                        self.one(2, value, false, depth, &mut entry);
                    }
                    tag(number, BYTES, out);
                    push_bytes(&entry, out);
                }
            }
        }
    }

    fn one(
        &mut self,
        number: u32,
        kind: SingularKind,
        delimited: bool,
        depth: usize,
        out: &mut Vec<u8>,
    ) {
        if let SingularKind::Message(index) = kind {
            if depth == 0 {
                return;
            }
            let message = self.message(index, depth - 1);
            if delimited {
                tag(number, GROUP, out);
                out.extend_from_slice(&message);
                tag(number, GROUP_END, out);
            } else {
                tag(number, BYTES, out);
                push_bytes(&message, out);
            }
            return;
        }
        tag(number, wire_type(kind), out);
        self.payload(kind, depth, out);
    }

    /// A value without its tag.
    fn payload(&mut self, kind: SingularKind, _: usize, out: &mut Vec<u8>) {
        use ScalarType as S;
        let random = &mut self.random;
        let integer = match random.once_in(3) {
            true => random.next() as i64 >> random.below(64),
            false => *random.pick(&INTEGERS),
        };
        let scalar = match kind {
            SingularKind::Scalar(scalar) => scalar,
            SingularKind::Enum(index) => {
                let values = self.pool.enumeration(index).values();
                let number = match random.once_in(8) {
                    true => integer as i32,
                    false => values[random.below(values.len())].number(),
                };
                return varint(i64::from(number) as u64, out);
            }
            SingularKind::Message(_) => return,
        };
        match scalar {
            S::Double => {
                let value = match random.once_in(3) {
                    true => f64::from_bits(random.next()),
                    false => *random.pick(&DOUBLES),
                };
                // One NaN: JSON has no other.
                let value = if value.is_nan() { f64::NAN } else { value };
                out.extend_from_slice(&value.to_le_bytes());
            }
            S::Float => {
                let value = match random.once_in(3) {
                    true => f32::from_bits(random.next() as u32),
                    false => *random.pick(&FLOATS),
                };
                let value = if value.is_nan() { f32::NAN } else { value };
                out.extend_from_slice(&value.to_le_bytes());
            }
            S::Int64 | S::Uint64 => varint(integer as u64, out),
            S::Int32 => varint(i64::from(integer as i32) as u64, out),
            S::Uint32 => varint(u64::from(integer as u32), out),
            S::Sint32 => {
                let value = integer as i32;
                varint(u64::from((value << 1 ^ value >> 31) as u32), out);
            }
            S::Sint64 => varint((integer << 1 ^ integer >> 63) as u64, out),
            S::Bool => varint(u64::from(random.once_in(2)), out),
            S::Fixed32 | S::Sfixed32 => out.extend_from_slice(&(integer as u32).to_le_bytes()),
            S::Fixed64 | S::Sfixed64 => out.extend_from_slice(&integer.to_le_bytes()),
            S::String if random.once_in(500) => push_bytes(b"\xff\xfe", out),
            S::String => push_bytes(random.pick(&TEXTS).as_bytes(), out),
            S::Bytes => {
                let bytes: Vec<u8> = (0..random.below(9)).map(|_| random.next() as u8).collect();
                push_bytes(&bytes, out);
            }
        }
    }

    fn unknown(&mut self, out: &mut Vec<u8>) {
        let number = 5000 + self.random.below(3) as u32;
        match self.random.below(5) {
            0 => {
                tag(number, VARINT, out);
                varint(self.random.next(), out);
            }
            1 => {
                tag(number, FIXED64, out);
                out.extend_from_slice(&self.random.next().to_le_bytes());
            }
            2 => {
                tag(number, FIXED32, out);
                out.extend_from_slice(&[1, 2, 3, 4]);
            }
            3 => {
                tag(number, GROUP, out);
                self.unknown(out);
                tag(number, GROUP_END, out);
            }
            _ => {
                tag(number, BYTES, out);
                push_bytes(b"unknown", out);
            }
        }
    }

    fn wrong_wire_type(&mut self, field: &FieldDescriptor, out: &mut Vec<u8>) {
        match self.random.once_in(2) {
            true => {
                tag(field.number(), VARINT, out);
                varint(self.random.next(), out);
            }
            false => {
                tag(field.number(), FIXED32, out);
                out.extend_from_slice(&[9, 8, 7, 6]);
            }
        }
    }

    /// Messages that random fields would not make JSON of.
    fn well_known(&mut self, message: &MessageDescriptor, depth: usize, out: &mut Vec<u8>) -> bool {
        let random = &mut self.random;
        match message.full_name().strip_prefix("google.protobuf.") {
            Some(name @ ("Timestamp" | "Duration")) => {
                let seconds = match random.once_in(20) {
                    true => *random.pick(&INTEGERS),
                    false => (random.next() >> 33) as i64 - (1 << 29),
                };
                let nanos = *random.pick(&[0, 1, 500_000_000, 999_999_999, 120_000, -5]);
                let nanos = match name {
                    "Duration" if seconds < 0 => -nanos,
                    _ => nanos,
                };
                tag(1, VARINT, out);
                varint(seconds as u64, out);
                tag(2, VARINT, out);
                varint(i64::from(nanos) as u64, out);
            }
            Some("FieldMask") => {
                for _ in 0..random.below(3) {
                    tag(1, BYTES, out);
                    let paths = ["a", "a_b", "foo_bar.baz_qux", "aB", "a__b", "f1"];
                    push_bytes(random.pick(&paths).as_bytes(), out);
                }
            }
            Some("Struct") if depth > 0 => {
                // One key: in generated code the fields of a Struct have no order.
                for _ in 0..random.below(3) {
                    let value = self.value(depth - 1);
                    let mut entry = vec![0x0a, 1, b'k', 0x12];
                    push_bytes(&value, &mut entry);
                    tag(1, BYTES, out);
                    push_bytes(&entry, out);
                }
            }
            Some("ListValue") if depth > 0 => {
                for _ in 0..random.below(3) {
                    let value = self.value(depth - 1);
                    tag(1, BYTES, out);
                    push_bytes(&value, out);
                }
            }
            Some("Value") => *out = self.value(depth),
            Some("Struct" | "ListValue") => {}
            Some("Any") => self.any(depth, out),
            _ => return false,
        }
        true
    }

    fn value(&mut self, depth: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let list_or_struct = if depth > 0 { 6 } else { 4 };
        match self.random.below(list_or_struct) {
            0 => out.extend([0x08, 0]),
            1 => {
                tag(2, FIXED64, &mut out);
                let numbers: &[f64] = &[0.0, -0.0, 1.5, 1e300, 3.0, 0.1];
                let number = match self.random.once_in(40) {
                    true => f64::NAN,
                    false => *self.random.pick(numbers),
                };
                out.extend_from_slice(&number.to_le_bytes());
            }
            2 => {
                tag(3, BYTES, &mut out);
                push_bytes(self.random.pick(&TEXTS).as_bytes(), &mut out);
            }
            3 => out.extend([0x20, u8::from(self.random.once_in(2))]),
            kind => {
                let name =
                    if kind == 4 { "google.protobuf.Struct" } else { "google.protobuf.ListValue" };
                let index = self.pool.message_index(name).unwrap();
                let inner = self.message(index, depth - 1);
                tag(kind as u32 + 1, BYTES, &mut out);
                push_bytes(&inner, &mut out);
            }
        }
        out
    }

    fn any(&mut self, depth: usize, out: &mut Vec<u8>) {
        if self.random.once_in(10) {
            return;
        }
        let name = *self.random.pick(&TYPES_OF_ANY);
        let value = match self.pool.message_index(name) {
            Some(index) if depth > 0 => self.message(index, depth - 1),
            Some(_) => Vec::new(),
            None => b"whatever".to_vec(),
        };
        tag(1, BYTES, out);
        push_bytes(format!("type.googleapis.com/{name}").as_bytes(), out);
        tag(2, BYTES, out);
        push_bytes(&value, out);
    }
}

const fn wire_type(kind: SingularKind) -> u32 {
    use ScalarType as S;
    match kind {
        SingularKind::Scalar(S::Double | S::Fixed64 | S::Sfixed64) => FIXED64,
        SingularKind::Scalar(S::Float | S::Fixed32 | S::Sfixed32) => FIXED32,
        SingularKind::Scalar(S::String | S::Bytes) | SingularKind::Message(_) => BYTES,
        SingularKind::Scalar(_) | SingularKind::Enum(_) => VARINT,
    }
}

fn tag(number: u32, wire_type: u32, out: &mut Vec<u8>) {
    varint(u64::from(number << 3 | wire_type), out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
