//! JSON that is wrong in one place, or spelled in an unusual way: both refuse it, or both read the
//! same.

use bytes::Bytes;
use serde_json::{Value, json};
use tidewire_service::{Codec, Result};

use super::random::Random;
use super::{SCHEMA, Tally, Typed, dynamic};

/// Changes one place of a message's JSON, and compares what becomes of it.
pub(super) fn check(typed: &Typed, text: &[u8], random: &mut Random, tally: &mut Tally) {
    let Typed { name, convert } = typed;
    let mut tree: Value = serde_json::from_slice(text).unwrap();
    change(&mut tree, random);
    let text = serde_json::to_vec(&tree).unwrap();
    let by_type = convert(Codec::Json, &text, Codec::Proto);
    let by_schema = dynamic(name, Codec::Json, &text, Codec::Proto);
    if is_known(&by_type, &by_schema) || same_but_for_order(name, &by_type, &by_schema) {
        tally.known += 1;
        return;
    }
    let about = || format!("{name}: {}", String::from_utf8_lossy(&text));
    tally.compare("changed JSON to protobuf", about, &by_type, &by_schema);
}

/// Where generated code is not as the JSON mapping of protobuf says, and the schema is:
///
/// | JSON | generated code |
/// |---|---|
/// | `"1"` or `1.0` in a list, a map or a wrapper of 32-bit integers | refuses it |
/// | `null` in a list or a map of enums | reads the first value |
/// | an array in place of a message | reads its elements as the fields in their order |
fn is_known(typed: &Result<Bytes>, dynamic: &Result<Bytes>) -> bool {
    match (typed, dynamic) {
        (Err(error), Ok(_)) => {
            let why = error.message();
            why.contains("invalid type")
                && (why.contains("expected i32") || why.contains("expected u32"))
        }
        (Ok(_), Err(error)) => {
            let why = error.message();
            why.contains("null is not an element")
                || why.contains("invalid type: sequence, expected an object of")
        }
        _ => false,
    }
}

/// The fields of a `google.protobuf.Struct` have no order in generated code.
fn same_but_for_order(name: &str, typed: &Result<Bytes>, dynamic: &Result<Bytes>) -> bool {
    let (Ok(typed), Ok(dynamic)) = (typed, dynamic) else { return false };
    let read = |bytes| SCHEMA.decode(name, Codec::Proto, bytes).unwrap();
    typed != dynamic && typed.len() == dynamic.len() && read(typed) == read(dynamic)
}

fn change(tree: &mut Value, random: &mut Random) {
    let inside = !random.once_in(4);
    match tree {
        Value::Object(members) if inside && !members.is_empty() => {
            let index = random.below(members.len());
            let member = members.values_mut().nth(index).unwrap();
            change(member, random);
        }
        Value::Array(items) if inside && !items.is_empty() => {
            let index = random.below(items.len());
            change(&mut items[index], random);
        }
        leaf => *leaf = odd(random),
    }
}

fn odd(random: &mut Random) -> Value {
    let odd = [
        json!(null),
        json!(true),
        json!("true"),
        json!(0),
        json!(-1),
        json!(1.0),
        json!(1.5),
        json!(-0.0),
        json!("1"),
        json!("1.0"),
        json!("1e3"),
        json!(" 1"),
        json!(9_223_372_036_854_775_807_i64),
        json!(9_223_372_036_854_775_808_u64),
        json!(18_446_744_073_709_551_615_u64),
        json!("9223372036854775808"),
        json!("18446744073709551615"),
        json!("18446744073709551616"),
        json!("-9223372036854775809"),
        json!(4_294_967_296_i64),
        json!(1e300),
        json!(3.5e38),
        json!("NaN"),
        json!("Infinity"),
        json!("-Infinity"),
        json!("nan"),
        json!("inf"),
        json!(""),
        json!("FOO"),
        json!("FOREIGN_BAR"),
        json!("NEG"),
        json!("foo"),
        json!("+/8="),
        json!("-_8"),
        json!("A"),
        json!("AA=="),
        json!("AB"),
        json!("2026-01-02T03:04:05Z"),
        json!("2026-01-02T03:04:05.120+02:00"),
        json!("1.5s"),
        json!("a,fooBar"),
        json!("a_b"),
        json!([]),
        json!([null]),
        json!([1, "2"]),
        json!({}),
        json!({"a": 1}),
        json!({"1": 1, "+1": 2, "01": 3}),
        json!({"true": true}),
        json!({"unknown": {"a": [1]}}),
        json!({"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s"}),
        json!({"@type": "x", "value": "1s"}),
        json!({"@type": "a/nowhere.Unknown", "value": "AAAA"}),
    ];
    random.pick(&odd).clone()
}
