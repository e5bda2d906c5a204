//! Messages of a run-time schema and of generated code agree: byte for byte in protobuf, text for
//! text in JSON, and in what they refuse.
//!
//! `DYNAMIC_MESSAGES` is how many random messages are tried, `DYNAMIC_SEED` repeats a run.

mod hostile;
mod random;

use std::sync::LazyLock;

use buffa_descriptor::DescriptorPool;
use bytes::Bytes;
use tidewire_build_fixture::conformance;
use tidewire_build_fixture::conformance::protobuf_test_messages::{editions, proto2, proto3};
use tidewire_schema::Schema;
use tidewire_service::dispatch::Wire;
use tidewire_service::{Codec, Error, Result, register_types};

use random::{Random, Writer};

/// A generated type: its name, and its way from one codec to another.
struct Typed {
    name: &'static str,
    convert: fn(Codec, &[u8], Codec) -> Result<Bytes>,
}

fn typed<M: Wire>() -> Typed {
    Typed { name: M::FULL_NAME, convert: |from, bytes, to| to.encode(&from.decode::<M>(bytes)?) }
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
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = number("DYNAMIC_SEED").unwrap_or(now.as_nanos() as u64 % 1_000_000);
    (seed, number("DYNAMIC_MESSAGES").unwrap_or(5_000))
}

/// What did not agree.
#[derive(Default)]
struct Differences {
    found: Vec<String>,
    /// How many are among those that are known; see `hostile`.
    known: u64,
}

impl Differences {
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
            let about = about();
            self.found.push(format!("{what}: {about}\n  typed   {typed:?}\n  dynamic {dynamic:?}"));
        }
    }
}

#[test]
fn random_messages_are_the_same_bytes_and_the_same_text() {
    let (seed, count) = run();
    println!("DYNAMIC_SEED={seed} DYNAMIC_MESSAGES={count}");
    let mut differences = Differences::default();
    let (mut texts, mut refused, mut extended, mut with_any, mut mismatched) = (0, 0, 0, 0, 0);
    for round in 0..count {
        let seed = seed.wrapping_mul(1 << 20) + round;
        let mut writer = Writer { pool: &POOL, random: Random(seed), extended: false, left: 150 };
        let Typed { name, convert } = writer.random.pick(&*TYPES);
        let depth = if writer.random.once_in(50) { 12 } else { 3 };
        let mut bytes = writer.message(POOL.message_index(name).unwrap(), depth);
        if writer.random.once_in(200) {
            bytes.pop();
        }
        let about = || format!("{name}, round {round}: {}", hex(&bytes));

        let by_type = convert(Codec::Proto, &bytes, Codec::Proto);
        let by_schema = dynamic(name, Codec::Proto, &bytes, Codec::Proto);
        if by_type.as_ref().is_err_and(mismatches) {
            // Generated code refuses what protobuf has for an unknown field.
            mismatched += 1;
            continue;
        }
        if writer.extended && by_type.is_ok() && by_schema.is_err() {
            // Generated code does not look into extensions, whose text may be no UTF-8.
            extended += 1;
            continue;
        }
        if let (true, Ok(a), Ok(b)) = (writer.extended, &by_type, &by_schema) {
            // Generated code sends extensions after all fields, where they came.
            extended += 1;
            let again = |bytes| SCHEMA.decode(name, Codec::Proto, bytes).unwrap();
            assert_eq!(again(a), again(b), "{}", about());
        } else {
            differences.compare("protobuf to protobuf", about, &by_type, &by_schema);
        }

        let by_type = convert(Codec::Proto, &bytes, Codec::Json);
        let by_schema = dynamic(name, Codec::Proto, &bytes, Codec::Json);
        if by_type.as_ref().is_err_and(mismatches) {
            // In an Any.
            mismatched += 1;
            continue;
        }
        let json = match (&by_type, &by_schema) {
            (Ok(a), Ok(b)) if a != b && (contains(a, b"@type") || writer.extended) => {
                with_any += 1;
                if !same_tree(&tree(a), &tree(b)) {
                    differences.compare("protobuf to JSON, as trees", about, &by_type, &by_schema);
                }
                b
            }
            _ => {
                differences.compare("protobuf to JSON", about, &by_type, &by_schema);
                let Ok(json) = &by_schema else {
                    refused += 1;
                    continue;
                };
                json
            }
        };
        texts += 1;
        if !writer.extended {
            let by_type = convert(Codec::Json, json, Codec::Proto);
            let by_schema = dynamic(name, Codec::Json, json, Codec::Proto);
            let about = || format!("{}\n  {json:?}", about());
            differences.compare("JSON to protobuf", about, &by_type, &by_schema);
        }
        if !writer.extended {
            hostile::check(name, *convert, json, &mut writer.random, &mut differences);
        }
    }
    println!("{texts} texts, {refused} refused, {extended} with extensions, {with_any} by tree");
    println!("{} of changed JSON that generated code reads in its own way", differences.known);
    println!("{mismatched} with a wrong wire type, which generated code refuses");
    let shown: Vec<_> = differences.found.iter().take(40).map(String::as_str).collect();
    assert!(shown.is_empty(), "{} differences:\n{}", differences.found.len(), shown.join("\n"));
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
