//! Messages of a type: values at the edges of its rules, edges of all types, and random ones.
//!
//! What a rule is about is taken from the options as they are: every number, text and duration in
//! them is a value to try, with its neighbours. Now and then a message is encoded as nobody would:
//! fields twice, of another wire type, unknown, cut off.

use std::sync::Arc;

use buffa::Message as _;
use buffa_descriptor::reflect::{DynamicMessage, ReflectMessage, Value, ValueRef};
use buffa_descriptor::{
    DescriptorPool, FieldDescriptor, FieldKind, MessageDescriptor, ScalarType, SingularKind,
};

use crate::random::Random;

/// Makes messages of one type.
pub(crate) struct Generator<'a> {
    pool: &'a Arc<DescriptorPool>,
    message: &'a MessageDescriptor,
}

/// Values that rules of a field are about.
#[derive(Debug, Default)]
struct Edges {
    integers: Vec<i128>,
    floats: Vec<f64>,
    texts: Vec<Vec<u8>>,
}

impl<'a> Generator<'a> {
    pub(crate) fn new(pool: &'a Arc<DescriptorPool>, name: &str) -> Option<Self> {
        Some(Self { pool, message: pool.message_by_name(name)? })
    }

    /// A message; number 0 is the empty one.
    pub(crate) fn message(&self, random: &mut Random, number: usize) -> Vec<u8> {
        let mut out = Vec::new();
        if number > 0 {
            self.fields(self.message, random, 3, &mut out);
        }
        if number % 11 == 10 {
            self.spoil(random, &mut out);
        }
        out
    }

    fn fields(
        &self,
        message: &MessageDescriptor,
        random: &mut Random,
        depth: usize,
        out: &mut Vec<u8>,
    ) {
        let oneofs: Vec<usize> = message
            .oneofs()
            .iter()
            .map(|one| random.below(one.field_indices().len() + 1))
            .collect();
        for (at, field) in message.fields().iter().enumerate() {
            let chosen = field.oneof_index().is_none_or(|one| {
                let members = message.oneofs()[usize::from(one)].field_indices();
                members.get(oneofs[usize::from(one)]) == Some(&(at as u16))
            });
            let often =
                if random.one_in(40) { 2 } else { usize::from(chosen && !random.one_in(5)) };
            for _ in 0..often {
                self.field(field, random, depth, out);
            }
        }
    }

    fn field(&self, field: &FieldDescriptor, random: &mut Random, depth: usize, out: &mut Vec<u8>) {
        let edges = self.edges(field);
        let number = field.number();
        match field.kind() {
            FieldKind::Singular(kind) => {
                self.value(kind, field.is_delimited(), number, &edges, random, depth, out);
            }
            FieldKind::List(kind) => {
                let count = *random.pick(&[0, 1, 1, 2, 3, 4, 5, 6, 20]);
                let packable = matches!(kind, SingularKind::Enum(_))
                    || matches!(kind, SingularKind::Scalar(scalar) if !is_text(scalar));
                if packable && random.one_in(2) {
                    let mut packed = Vec::new();
                    for _ in 0..count {
                        self.bare(kind, &edges, random, &mut packed);
                    }
                    push(out, number, 2);
                    varint(out, packed.len() as u64);
                    out.extend(packed);
                    return;
                }
                for _ in 0..count {
                    self.value(kind, field.is_delimited(), number, &edges, random, depth, out);
                }
            }
            FieldKind::Map { key, value } => {
                for _ in 0..*random.pick(&[0, 1, 1, 2, 3, 4, 6]) {
                    let mut entry = Vec::new();
                    if !random.one_in(12) {
                        self.value(
                            SingularKind::Scalar(key),
                            false,
                            1,
                            &edges,
                            random,
                            depth,
                            &mut entry,
                        );
                    }
                    if !random.one_in(12) {
                        self.value(value, false, 2, &edges, random, depth, &mut entry);
                    }
                    push(out, number, 2);
                    varint(out, entry.len() as u64);
                    out.extend(entry);
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one value, and all that it depends on")]
    fn value(
        &self,
        kind: SingularKind,
        delimited: bool,
        number: u32,
        edges: &Edges,
        random: &mut Random,
        depth: usize,
        out: &mut Vec<u8>,
    ) {
        let SingularKind::Message(index) = kind else {
            push(out, number, wire(kind));
            return self.bare(kind, edges, random, out);
        };
        let message = self.pool.message(index);
        let mut inner = Vec::new();
        match message.full_name() {
            "google.protobuf.Any" => {
                let url = edges.texts.iter().find(|_| random.one_in(2));
                let url = url
                    .cloned()
                    .unwrap_or_else(|| b"type.googleapis.com/google.protobuf.Empty".to_vec());
                push(&mut inner, 1, 2);
                varint(&mut inner, url.len() as u64);
                inner.extend(url);
            }
            "google.protobuf.FieldMask" => {
                for _ in 0..random.below(4) {
                    self.value(
                        SingularKind::Scalar(ScalarType::String),
                        false,
                        1,
                        edges,
                        random,
                        0,
                        &mut inner,
                    );
                }
            }
            "google.protobuf.Timestamp" | "google.protobuf.Duration" => {
                for (number, values) in [(1, SECONDS), (2, NANOS)] {
                    let value = match edges.integers.as_slice() {
                        [] => *random.pick(values),
                        known if random.one_in(2) => {
                            (*random.pick(known)).clamp(-1 << 40, 1 << 40) as i64
                        }
                        _ => *random.pick(values),
                    };
                    if !random.one_in(4) {
                        push(&mut inner, number, 0);
                        varint(&mut inner, value.cast_unsigned());
                    }
                }
            }
            name if name.starts_with("google.protobuf.") => {
                if let Some(field) = message.fields().first().filter(|_| !random.one_in(6))
                    && let FieldKind::Singular(kind @ SingularKind::Scalar(_)) = field.kind()
                {
                    self.value(kind, false, 1, edges, random, depth, &mut inner);
                }
            }
            _ if depth > 0 => self.fields(message, random, depth - 1, &mut inner),
            _ => {}
        }
        if delimited {
            push(out, number, 3);
            out.extend(inner);
            push(out, number, 4);
        } else {
            push(out, number, 2);
            varint(out, inner.len() as u64);
            out.extend(inner);
        }
    }

    /// A value without its tag.
    fn bare(&self, kind: SingularKind, edges: &Edges, random: &mut Random, out: &mut Vec<u8>) {
        let scalar = match kind {
            SingularKind::Scalar(scalar) => scalar,
            SingularKind::Enum(_) | SingularKind::Message(_) => ScalarType::Int32,
        };
        let integer = match random.below(4) {
            0 | 1 if !edges.integers.is_empty() => *random.pick(&edges.integers),
            3 => i128::from(random.next().cast_signed() >> random.below(64)),
            _ => *random.pick(INTEGERS),
        };
        let float = match random.below(3) {
            0 | 1 if !edges.floats.is_empty() => *random.pick(&edges.floats),
            _ => *random.pick(FLOATS),
        };
        match scalar {
            ScalarType::String | ScalarType::Bytes => {
                let text = text(edges, random, scalar == ScalarType::Bytes);
                varint(out, text.len() as u64);
                out.extend(text);
            }
            ScalarType::Double => out.extend(float.to_le_bytes()),
            ScalarType::Float => out.extend((float as f32).to_le_bytes()),
            ScalarType::Fixed64 | ScalarType::Sfixed64 => {
                out.extend((integer as u64).to_le_bytes())
            }
            ScalarType::Fixed32 | ScalarType::Sfixed32 => {
                out.extend((integer as u32).to_le_bytes())
            }
            ScalarType::Bool => varint(out, (integer & 1) as u64),
            ScalarType::Sint32 => {
                let number = integer as i32;
                varint(out, u64::from(((number << 1) ^ (number >> 31)).cast_unsigned()));
            }
            ScalarType::Sint64 => {
                let number = integer as i64;
                varint(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
            }
            ScalarType::Uint32 => varint(out, u64::from(integer as u32)),
            ScalarType::Int32 => varint(out, i64::from(integer as i32).cast_unsigned()),
            ScalarType::Int64 | ScalarType::Uint64 => varint(out, integer as u64),
        }
    }

    /// What the rules of a field are about.
    fn edges(&self, field: &FieldDescriptor) -> Edges {
        let mut edges = Edges::default();
        let Some(options) = field.options() else { return edges };
        let Some(index) = self.pool.message_index("google.protobuf.FieldOptions") else {
            return edges;
        };
        let options =
            DynamicMessage::decode(Arc::clone(self.pool), index, &options.encode_to_vec());
        if let Ok(options) = options {
            edges.of(&options);
        }
        edges
    }

    /// Makes of a message one that nobody would encode.
    fn spoil(&self, random: &mut Random, out: &mut Vec<u8>) {
        match random.below(5) {
            0 => out.truncate(random.below(out.len() + 1)),
            1 => {
                push(out, 200_000, 0);
                varint(out, 7);
            }
            2 => {
                let number = self.message.fields().first().map_or(1, |field| field.number());
                push(out, number, *random.pick(&[0, 5]));
                out.extend([0; 4]);
            }
            3 => out.extend(out.clone()),
            _ => {
                push(out, 3, 3);
                push(out, 3, 4);
            }
        }
    }
}

impl Edges {
    fn of(&mut self, message: &DynamicMessage) {
        message.for_each_set(&mut |_, value| {
            let ValueRef::Message(inner) = &value else { return self.add(&value.to_owned()) };
            self.of(&inner.to_dynamic());
        });
    }

    fn add(&mut self, value: &Value) {
        let integer = match value {
            Value::I32(number) | Value::EnumNumber(number) => i128::from(*number),
            Value::I64(number) => i128::from(*number),
            Value::U32(number) => i128::from(*number),
            Value::U64(number) => i128::from(*number),
            Value::F32(number) => {
                return self.float(f64::from(*number), f64::from(number.next_up()));
            }
            Value::F64(number) => return self.float(*number, number.next_up()),
            Value::String(text) => return self.text(text.as_bytes()),
            Value::Bytes(bytes) => return self.text(bytes),
            Value::Message(message) => return self.of(message),
            Value::List(items) => return items.iter().for_each(|item| self.add(item)),
            Value::Bool(_) | Value::Map(_) => return,
        };
        self.integers.extend([integer, integer - 1, integer + 1]);
        if (1..100).contains(&integer) {
            for length in [integer - 1, integer, integer + 1] {
                self.texts.push(vec![b'a'; length as usize]);
                self.texts.push("ü".repeat(length as usize).into_bytes());
            }
        }
    }

    fn float(&mut self, number: f64, next: f64) {
        self.floats.extend([number, next, -number, number - 1.0, number + 1.0]);
    }

    fn text(&mut self, text: &[u8]) {
        let text = text.to_vec();
        self.texts.extend([[b"x", &*text].concat(), [&*text, b"x"].concat(), text]);
    }
}

fn text(edges: &Edges, random: &mut Random, bytes: bool) -> Vec<u8> {
    match random.below(6) {
        0..=2 if !edges.texts.is_empty() => random.pick(&edges.texts).clone(),
        0 if bytes => {
            (0..*random.pick(&[0, 1, 3, 4, 5, 15, 16, 17])).map(|_| random.next() as u8).collect()
        }
        1 => {
            let alphabet = b"aB1.:/-@%[]_ \t\n#?";
            (0..random.below(12)).map(|_| *random.pick(alphabet)).collect()
        }
        2 => {
            // A known text with one byte of it changed.
            let mut text = random.pick(TEXTS).as_bytes().to_vec();
            if text.is_ascii() && !text.is_empty() {
                let at = random.below(text.len());
                text[at] = *random.pick(b"a0.:/-@%[]");
            }
            text
        }
        _ => random.pick(TEXTS).as_bytes().to_vec(),
    }
}

fn is_text(scalar: ScalarType) -> bool {
    matches!(scalar, ScalarType::String | ScalarType::Bytes)
}

fn wire(kind: SingularKind) -> u32 {
    match kind {
        SingularKind::Scalar(scalar) => match scalar {
            ScalarType::Double | ScalarType::Fixed64 | ScalarType::Sfixed64 => 1,
            ScalarType::Float | ScalarType::Fixed32 | ScalarType::Sfixed32 => 5,
            scalar if is_text(scalar) => 2,
            _ => 0,
        },
        SingularKind::Enum(_) => 0,
        SingularKind::Message(_) => 2,
    }
}

fn push(out: &mut Vec<u8>, number: u32, wire: u32) {
    varint(out, u64::from(number << 3 | wire));
}

pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const INTEGERS: &[i128] = &[
    0,
    1,
    -1,
    2,
    3,
    4,
    5,
    7,
    8,
    10,
    99,
    128,
    -128,
    i32::MAX as i128,
    i32::MIN as i128,
    i64::MAX as i128,
    i64::MIN as i128,
    1 << 63,
    u64::MAX as i128,
    1_060_000_000,
];
const FLOATS: &[f64] =
    &[0.0, -0.0, 1.0, -1.0, 0.5, 1e300, -1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-310];
const SECONDS: &[i64] = &[
    0,
    1,
    -1,
    5,
    10,
    60,
    3600,
    1_060_000_000,
    1_700_000_000,
    4_000_000_000,
    1 << 40,
    i64::MAX,
    i64::MIN,
];
const NANOS: &[i64] = &[0, 1, -1, 999_999_999, 1_000_000_000, 500_000_000];
const TEXTS: &[&str] = &[
    "",
    "a",
    "foo",
    "bar",
    "abc",
    "foobar",
    "FOO",
    "ünïcödé",
    "日本語",
    "a.b.c",
    "true",
    "1",
    "42",
    "user@example.com",
    "foo@",
    "a@b",
    "User <u@example.com>",
    "example.com",
    "example.com.",
    "-a.com",
    "a_b.com",
    "1.2.3.4",
    "256.1.1.1",
    "1.2.3.4/8",
    "10.0.0.0/8",
    "::1",
    "fe80::1%eth0",
    "::/0",
    "2001:db8::/32",
    "2001:db8::1/32",
    "1:2:3:4:5:6:7:8",
    "::ffff:1.2.3.4",
    "[::1]:80",
    "localhost:80",
    "localhost:99999",
    "1.2.3.4:",
    "https://example.com/a?b#c",
    "foo/bar?x=y",
    "//host/path",
    "http://[::1]/",
    "http://a b",
    "urn:isbn:1",
    "http://u@h:1/%zz",
    "/a/b",
    "../x",
    "123e4567-e89b-12d3-a456-426614174000",
    "123e4567e89b12d3a456426614174000",
    "ulid",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "x-header",
    ":path",
    "bad header",
    "value\nline",
    "v\u{7f}",
    "\0",
    "foo.Bar",
    ".foo.Bar",
    "foo..Bar",
    "1foo",
    "a/b",
    "a//b",
    "dir/file.txt",
    "😀😀😀",
    "proto",
    "type.googleapis.com/google.protobuf.Duration",
    "a.b",
    "a.b.c",
    "a",
    "ab",
];
