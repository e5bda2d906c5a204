//! Messages of a run-time schema and of generated code agree: byte for byte in protobuf, text for
//! text in JSON, and in what they refuse.
//!
//! The messages are the same each time, so that a failure is of the change that it fails for:
//! `DYNAMIC_SEED=n` tries others, `DYNAMIC_MESSAGES` is how many.

mod hostile;
mod random;

use std::sync::LazyLock;

use buffa_descriptor::DescriptorPool;
use bytes::Bytes;
use tidewire_build_fixture::conformance;
use tidewire_build_fixture::conformance::protobuf_test_messages::{editions, proto2, proto3};
use tidewire_schema::{JsonStyle, Schema};
use tidewire_service::dispatch::Wire;
use tidewire_service::{Codec, Error, Result, register_types};

use random::{Random, Writer};

/// A generated type: its name, and its way from one codec to another.
struct Typed {
    name: &'static str,
    convert: fn(Codec, &[u8], Codec) -> Result<Bytes>,
}

fn typed<M: Wire>() -> Typed {
    Typed {
        name: M::FULL_NAME,
        convert: |from, bytes, to| to.encode(&from.decode_request::<M>(bytes)?),
    }
}

static TYPES: LazyLock<[Typed; 4]> = LazyLock::new(|| {
    register_types(conformance::register_types);
    [
        typed::<proto3::TestAllTypesProto3>(),
        typed::<proto2::TestAllTypesProto2>(),
        typed::<editions::TestAllTypesEdition2023>(),
        typed::<proto3::ForeignMessage>(),
    ]
});

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_descriptors(conformance::DESCRIPTOR_SET).unwrap());

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(conformance::DESCRIPTOR_SET).unwrap());

/// The same of a message of the run-time schema.
fn dynamic(name: &str, from: Codec, bytes: &[u8], to: Codec) -> Result<Bytes> {
    SCHEMA.decode(name, from, bytes)?.encode(to)
}

/// The seed of a run, and how many messages it tries.
fn run() -> (u64, u64) {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().unwrap());
    (number("DYNAMIC_SEED").unwrap_or(1), number("DYNAMIC_MESSAGES").unwrap_or(5_000))
}

/// What became of a run.
#[derive(Default)]
struct Tally {
    differences: Vec<String>,
    /// Messages that are the same text.
    texts: u64,
    /// Messages that neither way makes JSON of.
    refused: u64,
    /// Messages with extensions, which generated code sends after all fields, where they came.
    extended: u64,
    /// Messages with an `Any`, whose JSON generated code orders by name.
    trees: u64,
    /// Messages with a wrong wire type, which generated code refuses and protobuf has for unknown.
    mismatched: u64,
    /// Changed JSON that generated code reads in its own way; see `hostile`.
    known: u64,
}

impl Tally {
    /// Two outcomes are the same: equal, or both refused.
    fn compare(
        &mut self,
        what: &str,
        about: impl FnOnce() -> String,
        typed: &Result<Bytes>,
        dynamic: &Result<Bytes>,
    ) {
        let same = match (typed, dynamic) {
            (Ok(typed), Ok(dynamic)) => typed == dynamic,
            (Err(_), Err(_)) => true,
            _ => false,
        };
        if !same {
            self.differs(what, &about(), typed, dynamic);
        }
    }

    fn differs(&mut self, what: &str, about: &str, typed: &Result<Bytes>, dynamic: &Result<Bytes>) {
        let text = format!("{what}: {about}\n  typed   {typed:?}\n  dynamic {dynamic:?}");
        self.differences.push(text);
    }

    /// Compares what becomes of one random message.
    fn message(&mut self, seed: u64) {
        let mut writer = Writer { pool: &POOL, random: Random(seed), extended: false, left: 150 };
        let typed = writer.random.pick(&*TYPES);
        let depth = if writer.random.once_in(50) { 12 } else { 3 };
        let mut bytes = writer.message(POOL.message_index(typed.name).unwrap(), depth);
        if writer.random.once_in(200) {
            bytes.pop();
        }
        let about = || format!("{}, {seed}: {}", typed.name, hex(&bytes));
        if self.protobuf(typed, &bytes, writer.extended, about).is_none() {
            return;
        }
        let Some(json) = self.json(typed, &bytes, writer.extended, about) else { return };
        if !writer.extended {
            let by_type = (typed.convert)(Codec::Json, &json, Codec::Proto);
            let by_schema = dynamic(typed.name, Codec::Json, &json, Codec::Proto);
            let about = || format!("{}\n  {json:?}", about());
            self.compare("JSON to protobuf", about, &by_type, &by_schema);
            hostile::check(typed, &json, &mut writer.random, self);
        }
    }

    /// From protobuf to protobuf; `None` where there is nothing to go on with.
    fn protobuf(
        &mut self,
        typed: &Typed,
        bytes: &[u8],
        extended: bool,
        about: impl Fn() -> String,
    ) -> Option<()> {
        let by_type = (typed.convert)(Codec::Proto, bytes, Codec::Proto);
        let by_schema = dynamic(typed.name, Codec::Proto, bytes, Codec::Proto);
        match (&by_type, &by_schema) {
            (Err(error), _) if mismatches(error) => {
                self.mismatched += 1;
                return None;
            }
            // Generated code does not look into extensions, whose text may be not UTF-8.
            (Ok(_), Err(_)) if extended => {
                self.extended += 1;
                return None;
            }
            (Ok(a), Ok(b)) if extended => {
                self.extended += 1;
                let read = |bytes| SCHEMA.decode(typed.name, Codec::Proto, bytes).unwrap();
                if read(a) != read(b) {
                    self.differs("protobuf with extensions", &about(), &by_type, &by_schema);
                }
            }
            _ => self.compare("protobuf to protobuf", about, &by_type, &by_schema),
        }
        Some(())
    }

    /// From protobuf to JSON, which is given back.
    fn json(
        &mut self,
        typed: &Typed,
        bytes: &[u8],
        extended: bool,
        about: impl Fn() -> String,
    ) -> Option<Bytes> {
        let by_type = (typed.convert)(Codec::Proto, bytes, Codec::Json);
        let by_schema = dynamic(typed.name, Codec::Proto, bytes, Codec::Json);
        match (&by_type, &by_schema) {
            // In an Any.
            (Err(error), _) if mismatches(error) => {
                self.mismatched += 1;
                return None;
            }
            (Ok(a), Ok(b)) if a != b && (extended || contains(a, b"@type")) => {
                self.trees += 1;
                if !same_tree(&tree(a), &tree(b)) {
                    self.differs("protobuf to JSON, as trees", &about(), &by_type, &by_schema);
                }
            }
            _ => self.compare("protobuf to JSON", &about, &by_type, &by_schema),
        }
        let mut printed = Vec::new();
        let message_type = SCHEMA.message_type(typed.name).unwrap();
        let by_bytes = message_type.print_reply(bytes, JsonStyle::default(), &mut printed);
        let by_bytes = by_bytes.map(|()| Bytes::from(printed));
        self.compare("a message and its bytes to JSON", &about, &by_schema, &by_bytes);
        match by_schema {
            Ok(json) => {
                self.texts += 1;
                Some(json)
            }
            Err(_) => {
                self.refused += 1;
                None
            }
        }
    }
}

/// Text that is not UTF-8, in what a later value takes the place of: an entry of a map, and deep in
/// a message of a oneof.
#[test]
fn messages_that_random_runs_found_different_are_the_same() {
    let mut tally = Tally::default();
    for seed in [225_160_726_211, 146_345_558_925] {
        tally.message(seed);
    }
    assert!(tally.differences.is_empty(), "{}", tally.differences.join("\n"));
}

#[test]
fn random_messages_are_the_same_bytes_and_the_same_text() {
    let (seed, count) = run();
    println!("DYNAMIC_SEED={seed} DYNAMIC_MESSAGES={count}");
    let mut tally = Tally::default();
    for round in 0..count {
        tally.message(seed.wrapping_mul(1 << 20) + round);
    }
    let Tally { differences, texts, refused, extended, trees, mismatched, known } = tally;
    println!("{texts} texts, {refused} refused, {extended} with extensions, {trees} as trees");
    println!("{mismatched} with a wrong wire type, {known} of changed JSON read in its own way");
    let shown: Vec<_> = differences.iter().take(20).map(String::as_str).collect();
    assert!(shown.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
    assert!(texts > count / 2 && refused > 0, "the messages are of both sorts");
}

/// Whether generated code refuses a field for its wire type.
fn mismatches(error: &Error) -> bool {
    error.message().contains("wire type mismatch")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn tree(json: &[u8]) -> serde_json::Value {
    serde_json::from_slice(json).unwrap()
}

/// Equal but for the order of members, and for floats: in an `Any` generated code orders by name
/// and prints a `float` as the nearest double.
fn same_tree(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value as V;
    match (a, b) {
        (V::Number(a), V::Number(b)) => {
            a == b || a.as_f64().map(|a| a as f32) == b.as_f64().map(|b| b as f32)
        }
        (V::Array(a), V::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_tree(a, b))
        }
        (V::Object(a), V::Object(b)) => {
            // Generated code leaves extensions that are groups out of JSON.
            let groups = b.keys().filter(|key| key.starts_with('[') && !a.contains_key(*key));
            a.len() + groups.count() == b.len()
                && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_tree(a, b)))
        }
        (a, b) => a == b,
    }
}
