//! JSON both ways: text, styles, errors that name the place, bounds.

use serde_json::json;
use tidewire_schema::JsonStyle;
use tidewire_service::{Code, Codec};

use crate::{compiled, item, schema, text};

#[test]
fn a_float_prints_as_it_was_written() {
    assert_eq!(text(&item(json!({"price": 4.2}))), r#"{"price":4.2}"#);
    let inside = json!({"parent": {"parts": {"1": {"price": 0.1}}}, "price": 16_777_216});
    let expected = r#"{"price":16777216.0,"parent":{"parts":{"1":{"price":0.1}}}}"#;
    assert_eq!(text(&item(inside)), expected);
}

#[test]
fn a_double_is_read_to_its_last_bit() {
    let schema = compiled("syntax = \"proto3\"; message A { double d = 1; }");
    let read = |text: &str| {
        let message = schema.decode("A", Codec::Json, format!("{{\"d\":{text}}}").as_bytes());
        let bytes = message.unwrap().encode(Codec::Proto).unwrap();
        f64::from_le_bytes(bytes[1..].try_into().unwrap())
    };
    let known = ["6.6481508666027e+246", "6.648150866602699e+246", "5e-324", "9007199254740993.0"];
    for text in known {
        assert_eq!(read(text).to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
    }
    let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..10_000 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let value = f64::from_bits(bits);
        if value.is_finite() && value != 0.0 {
            assert_eq!(read(&format!("{value:e}")).to_bits(), bits, "{value:e}");
        }
    }
}

#[test]
fn a_style_changes_names_defaults_and_numbers() {
    let proto = r#"syntax = "proto3"; message A { int64 big_one = 1; repeated int32 many = 2;
        E kind = 3; optional int32 maybe = 4; A inner = 5; map<string, int64> sums = 6; }
        enum E { NONE = 0; ONE = 1; }"#;
    let schema = compiled(proto);
    let json = json!({"bigOne": "9007199254740993", "kind": "ONE", "inner": {}, "sums": {"a": 7}});
    let message = schema.from_json("A", &json).unwrap();
    let print = |style| message.as_ref().print(style).unwrap();
    assert_eq!(
        print(JsonStyle::default()),
        r#"{"bigOne":"9007199254740993","kind":"ONE","inner":{},"sums":{"a":"7"}}"#
    );
    assert_eq!(
        print(JsonStyle::default().with_proto_names().with_int64_as_numbers()),
        r#"{"big_one":"9007199254740993","kind":"ONE","inner":{},"sums":{"a":7}}"#
    );
    let inner = r#"{"bigOne":"0","many":[],"kind":0,"sums":{}}"#;
    assert_eq!(
        print(JsonStyle::default().with_defaults().with_enums_as_numbers()),
        format!(
            r#"{{"bigOne":"9007199254740993","many":[],"kind":1,"inner":{inner},"sums":{{"a":"7"}}}}"#
        )
    );
}

#[test]
fn an_error_names_the_field_the_line_and_the_column() {
    let check = |json: &str, parts: &[&str]| {
        let error = schema().decode_exactly("shop.v1.Item", json.as_bytes()).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        for part in parts {
            assert!(error.message().contains(part), "{json}: {}", error.message());
        }
    };
    check("{\n \"items\": [{}, {\"count\": \"x\"}]}", &["field items[1].count", "line 2 column"]);
    check(r#"{"parts": {"7": {"color": "PINK"}}}"#, &["field parts.7.color", "PINK"]);
    check(r#"{"parent": {"firstname": 1}}"#, &["unknown field \"firstname\"", "shop.v1.Item"]);
    check(r#"{"name": "a", "name": "b"}"#, &["name occurs twice"]);
    check(r#"{"firstName": "a", "first_name": "b"}"#, &["twice"]);
    check(r#"{"country": "a", "code": 1}"#, &["two members of oneof origin"]);
    check(r#"{"tags": [null]}"#, &["field tags[0]", "null"]);
    check(r#"{"name": }"#, &["not valid JSON", "line 1 column 10"]);
    check(r#"{} {}"#, &["trailing"]);
    check("", &["empty"]);
    check("[]", &["an object of shop.v1.Item"]);
    check(r#"{"age": "1"}"#, &["field age"]);
    check(r#"{"mask": "a_b"}"#, &["field mask", "camel"]);
    check(r#"{"extra": {"@type": "x"}}"#, &["field extra", "@type"]);
}

#[test]
fn unknown_fields_are_ignored_or_refused() {
    let json =
        br#"{"name": "a", "nmae": {"deep": [1]}, "extra": {"@type": "a/shop.v1.Found", "x": 1}}"#;
    let read = schema().decode("shop.v1.Item", Codec::Json, json).unwrap();
    assert_eq!(text(&read), r#"{"name":"a","extra":{"@type":"a/shop.v1.Found"}}"#);
    assert!(schema().decode_exactly("shop.v1.Item", json).is_err());
}

#[test]
fn unknown_protobuf_fields_and_enum_numbers_are_kept() {
    let bytes = b"\x20\x4d\xc0\x3e\x07";
    let message = schema().decode("shop.v1.Item", Codec::Proto, bytes).unwrap();
    assert!(message.as_ref().has_unknown_fields());
    assert_eq!(message.encode(Codec::Proto).unwrap(), bytes[..]);
    assert_eq!(text(&message), r#"{"color":77}"#);
}

#[test]
fn a_key_of_a_map_twice_is_the_later_entry() {
    let json =
        br#"{"labels": {"a": "1", "a": "2"}, "parts": {"1": {"count": 1}, "01": {"size": 2}}}"#;
    let read = schema().decode("shop.v1.Item", Codec::Json, json).unwrap();
    assert_eq!(text(&read), r#"{"labels":{"a":"2"},"parts":{"1":{"size":2}}}"#);
}

#[test]
fn an_any_of_an_unknown_type_is_base64_both_ways() {
    let json = json!({"extra": {"@type": "type.googleapis.com/no.Such", "value": "AAEC"}});
    let message = item(json.clone());
    assert_eq!(text(&message), json.to_string());
    let url = "type.googleapis.com/google.protobuf.Duration";
    let known = json!({"extra": {"@type": url, "value": "2s"}});
    assert_eq!(text(&item(known.clone())), known.to_string());
}

/// An item in an item, `depth` times.
fn nested(depth: usize) -> String {
    format!("{}{{}}{}", r#"{"parent":"#.repeat(depth), "}".repeat(depth))
}

#[test]
fn what_nests_as_deep_as_protobuf_allows_goes_both_ways() {
    let schema = schema();
    let read = |depth| schema.decode("shop.v1.Item", Codec::Json, nested(depth).as_bytes());
    let deep = read(100).unwrap();
    assert_eq!(text(&deep), nested(100));
    let bytes = deep.encode(Codec::Proto).unwrap();
    assert_eq!(schema.decode("shop.v1.Item", Codec::Proto, &bytes).unwrap(), deep);
    let error = read(101).unwrap_err();
    assert!(error.message().contains("nest deeper than 100"), "{error}");
    assert!(read(100_000).is_err());
}

#[test]
fn an_any_in_an_any_is_bounded_where_it_is_printed() {
    let schema = schema();
    let mut any = schema.message("google.protobuf.Any").unwrap();
    for _ in 0..150 {
        let inside = any.encode(Codec::Proto).unwrap();
        any.set("type_url", "type.googleapis.com/google.protobuf.Any").unwrap();
        any.set("value", &inside[..]).unwrap();
    }
    let error = any.encode(Codec::Json).unwrap_err();
    assert!(error.message().contains("nest deeper than 100"), "{error}");
}

#[test]
fn the_memory_of_elements_is_bounded() {
    let many = |count: usize| format!(r#"{{"tags":[{}""]}}"#, r#""","#.repeat(count));
    let read = |count| schema().decode("shop.v1.Item", Codec::Json, many(count).as_bytes());
    assert!(read(1_000).is_ok());
    let error = read(2_000_000).unwrap_err();
    assert!(error.message().contains("bytes of memory"), "{}", error.message());
}
