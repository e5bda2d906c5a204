//! Rules of a schema: where one that does not compile is, what is said of a request that breaks
//! one, and what no request can do. Verdicts are compared with protovalidate-go by
//! `examples/judge.rs`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod layer;

use std::sync::Arc;

use tidewire_schema::{Schema, SchemaError};
use tidewire_service::{Code, Codec, Error};
use tidewire_validate::{RuleSet, Violations, required_without_presence};

/// The schema of a file `t.proto` with this after its head.
fn schema(text: &str) -> Schema {
    let folder = tempfile::tempdir().unwrap();
    let head = "syntax = \"proto3\";\nimport \"buf/validate/validate.proto\";\n\
                import \"validate/validate.proto\";\nimport \"google/api/field_behavior.proto\";\n";
    std::fs::write(folder.path().join("t.proto"), format!("{head}{text}")).unwrap();
    Schema::from_folder(folder.path()).unwrap()
}

/// The broken rules of a message in JSON, as `field: rule`.
fn broken(schema: &Schema, name: &str, json: &str) -> Vec<String> {
    let message = schema.decode_exactly(name, json.as_bytes()).unwrap().encode(Codec::Proto);
    let rules = RuleSet::new(schema).unwrap();
    let rules = rules.rules(name);
    let found = rules.and_then(|rules| rules.violations(&message.unwrap()).unwrap());
    let list = |found: Violations| {
        found.iter().map(|one| format!("{}: {}", one.field(), one.rule_id())).collect()
    };
    found.map_or_else(Vec::new, list)
}

#[test]
fn a_rule_that_does_not_compile_is_an_error_with_its_line() {
    let check = |text: &str, place: &str, what: &str| {
        let error = RuleSet::new(&schema(text)).map(|_| ()).unwrap_err();
        assert!(matches!(error, SchemaError::Sources(_)));
        let error = error.to_string();
        assert!(error.starts_with(place) && error.contains(what), "{text}\n{error}");
    };
    // The head has four lines.
    check(
        "message A {\n  string name = 1 [(buf.validate.field).string.pattern = \"(\"];\n}",
        "t.proto:6:20: ",
        "rule of A.name: pattern: ",
    );
    check(
        "message A {\n  message B {\n    int32 n = 1 [(buf.validate.field).string.min_len = 1];\n  }\n}",
        "t.proto:7:18: ",
        "these rules are not for a field of type int",
    );
    check(
        "message A {\n  option (buf.validate.message).cel = {id: \"a\" expression: \"this.b\"};\n}",
        "t.proto:6:3: ",
        "cel \"a\": A has no field b",
    );
    check(
        "message A {\n  repeated int32 n = 1 [\n    (buf.validate.field).repeated.items.cel = {id: \"i\" expression: \"this + ''\"}];\n}",
        "t.proto:7:5: ",
        "\"+\" does not take int and string",
    );
    check(
        "message A {\n  option (buf.validate.message).oneof = {fields: [\"x\"]};\n  string y = 1;\n}",
        "t.proto:6:3: ",
        "oneof: there is no field x",
    );
    check(
        "message A {\n  int32 n = 1 [(validate.rules).string.min_len = 1];\n}",
        "t.proto:6:16: ",
        "rule of A.n",
    );
}

#[test]
fn expressions_that_make_no_sense_are_refused_and_none_takes_the_compiler_down() {
    let refused = |expression: &str, what: &str| {
        let text = format!(
            "message A {{ option (buf.validate.message).cel = {{id: \"a\" expression: {expression:?}}}; int32 n = 1; repeated string s = 2; }}"
        );
        let error = RuleSet::new(&schema(&text)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(what), "{expression}: {error}");
    };
    refused("this.n", "gives int");
    refused("this.n == 'x'", "does not take int and string");
    refused("this.n > 0 &&", "ends too early");
    refused("this.n.startsWith('a')", "startsWith() does not take (int, string)");
    refused("nothing > 1", "nothing is not defined");
    refused("this.s.all(1, true)", "takes a name for the items first");
    refused("this.s.foo()", "has no function foo()");
    refused("'a", "a string has no end");
    refused(&"(".repeat(5000), "more than 100 expressions");
    refused(&format!("{} this.n > 0", "!".repeat(5000)), "more than 100");
    refused(&format!("this.n > 0{}", " || this.n > 1".repeat(300)), "more than 100 operators");
    refused(&"[[{".repeat(40), "more than 100 expressions");
    refused(&"x".repeat(20_000), "more than 16384 bytes");
}

#[test]
fn a_violation_names_the_field_and_is_in_the_details() {
    let schema = schema(
        "message Order { repeated Item items = 1; }\n\
         message Item { map<string, int32> price_of = 1 [(buf.validate.field).map.values.int32.gt = 0]; }",
    );
    let order = schema.decode_exactly("Order", br#"{"items":[{},{"priceOf":{"a":-1}}]}"#).unwrap();
    let rules = RuleSet::new(&schema).unwrap();
    let bytes = order.encode(Codec::Proto).unwrap();
    let found = rules.rules("Order").unwrap().violations(&bytes).unwrap().unwrap();
    let one = found.iter().next().unwrap();
    assert_eq!(one.field(), "items[1].price_of[\"a\"]");
    assert_eq!(one.json_field(), "items[1].priceOf[\"a\"]");
    assert_eq!((one.rule(), one.rule_id()), ("map.values.int32.gt".to_owned(), "int32.gt"));
    let error = found.into_error(Codec::Json);
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(error.message(), "items[1].priceOf[\"a\"]: must be greater than 0");
    let names: Vec<_> = error.details().iter().map(|detail| &*detail.type_name).collect();
    assert_eq!(names, ["buf.validate.Violations", "google.rpc.BadRequest"]);
    // The details say the same to whoever has the schema of protovalidate.
    let details = schema
        .decode("buf.validate.Violations", Codec::Proto, &error.details()[0].value)
        .unwrap()
        .encode(Codec::Json)
        .unwrap();
    let details = String::from_utf8(details.to_vec()).unwrap();
    for part in [r#""fieldName":"price_of""#, r#""stringKey":"a""#, r#""ruleId":"int32.gt""#] {
        assert!(details.contains(part), "{details}");
    }
    assert!(error.details()[1].value.ends_with(b"\x1a\x08INT32_GT"));
}

#[test]
fn rules_of_protoc_gen_validate_are_read_as_the_same_rules() {
    let schema = schema(
        "message A {\n\
           string name = 1 [(validate.rules).string = {min_len: 2, ignore_empty: true}];\n\
           A inner = 2 [(validate.rules).message.required = true];\n\
           A skipped = 3 [(validate.rules).message.skip = true];\n\
           repeated int32 numbers = 4 [(validate.rules).repeated = {max_items: 2, items: {int32: {gt: 0}}}];\n\
           oneof one { option (validate.required) = true; int32 x = 5; }\n\
         }\n\
         message Off { option (validate.disabled) = true; string s = 1 [(validate.rules).string.min_len = 5]; }",
    );
    let found = broken(&schema, "A", r#"{"name":"x","skipped":{},"numbers":[1,0,2]}"#);
    let expected = [
        "one: required",
        "name: string.min_len",
        "inner: required",
        "numbers: repeated.max_items",
        "numbers[1]: int32.gt",
    ];
    assert_eq!(found, expected);
    assert!(broken(&schema, "Off", "{}").is_empty());
}

#[test]
fn required_fields_are_missing_when_empty_and_numbers_need_presence() {
    let schema = schema(
        "message A {\n\
           string text = 1 [(google.api.field_behavior) = REQUIRED];\n\
           repeated int32 list = 2 [(google.api.field_behavior) = REQUIRED];\n\
           A message = 3 [(google.api.field_behavior) = REQUIRED];\n\
           int32 number = 4 [(google.api.field_behavior) = REQUIRED];\n\
           optional int32 present = 5 [(google.api.field_behavior) = REQUIRED];\n\
           string free = 6 [(google.api.field_behavior) = OUTPUT_ONLY];\n\
         }",
    );
    let found = broken(&schema, "A", "{}");
    assert_eq!(
        found,
        ["text: required", "list: required", "message: required", "present: required"]
    );
    let warnings = required_without_presence(&schema);
    assert_eq!(warnings.len(), 1);
    assert_eq!((warnings[0].line, warnings[0].column), (Some(9), Some(19)));
    assert!(warnings[0].message.contains("A.number"), "{}", warnings[0]);
}

#[test]
fn messages_without_rules_are_not_looked_into() {
    let schema = schema("message A { B b = 1; }\nmessage B { A a = 1; string s = 2; }");
    let rules = RuleSet::new(&schema).unwrap();
    assert!(rules.rules("A").is_none() && rules.rules("NoSuchType").is_none());
    assert!(rules.check("A", b"no message at all").is_ok());
}

#[test]
fn parts_of_a_message_that_come_apart_are_checked_together() {
    let schema = schema(
        "message A { B b = 1; oneof one { int32 x = 2 [(buf.validate.field).int32.gt = 0]; int32 y = 3; } }\n\
         message B { string s = 1 [(buf.validate.field).required = true]; string t = 2 [(buf.validate.field).required = true]; }",
    );
    let rules = RuleSet::new(&schema).unwrap();
    let check =
        |message: &[u8]| rules.check("A", message).map_err(|error| error.message().to_owned());
    assert_eq!(check(b"\x0a\x03\x0a\x01s\x0a\x03\x12\x01t"), Ok(()));
    assert_eq!(check(b"\x0a\x03\x0a\x01s"), Err("b.t: value is required".to_owned()));
    // A message may come as a group, and is checked as well.
    assert_eq!(check(b"\x0b\x0a\x01s\x0c"), Err("b.t: value is required".to_owned()));
    // The last member of a oneof is the one that is set.
    assert_eq!(check(b"\x10\x00\x18\x00"), Ok(()));
    assert_eq!(check(b"\x18\x00\x10\x00"), Err("x: must be greater than 0".to_owned()));
}

#[test]
fn no_message_makes_a_rule_run_for_long() {
    let schema = schema(
        "message A {\n\
           option (buf.validate.message).cel = {id: \"pairs\" message: \"m\"\n\
             expression: \"this.n.all(a, this.n.all(b, this.n.all(c, a + b + c >= 0)))\"};\n\
           repeated int32 n = 1;\n\
         }",
    );
    let rules = RuleSet::new(&schema).unwrap();
    let list = |count: usize| {
        let mut message = vec![0x0a, (count & 0x7f) as u8 | 0x80, (count >> 7) as u8];
        message.extend(std::iter::repeat_n(1, count));
        rules.check("A", &message)
    };
    assert!(list(40).is_ok());
    let error: Error = list(2000).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(error.message(), "A: rule \"pairs\": takes more than 1000000 steps");
}

#[test]
fn no_bytes_make_checking_panic() {
    let schema = Arc::new(schema(
        "message A { A a = 1; repeated A list = 2; map<string, A> map = 3; string s = 4 [(buf.validate.field).string.email = true];\n\
         repeated sint32 n = 5 [(buf.validate.field).repeated = {unique: true, items: {sint32: {lt: 5}}}]; oneof o { int32 x = 6; A y = 7; } }",
    ));
    let rules = RuleSet::new(&schema).unwrap();
    let deep = (0..2000).fold(Vec::new(), |inner: Vec<u8>, _| {
        let mut length = Vec::new();
        let mut rest = inner.len();
        while rest >= 0x80 {
            length.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        length.push(rest as u8);
        [&[0x0a], &*length, &*inner].concat()
    });
    assert_eq!(rules.check("A", &deep).unwrap_err().message(), "not a valid A");
    let mut state = 1_u64;
    for round in 0..200_000_usize {
        let mut message = [0_u8; 24];
        for byte in &mut message {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let fields =
                [0x0a, 0x12, 0x1a, 0x22, 0x2a, 0x28, 0x30, 0x3a, 0x0b, 0x0c, 1, 2, 3, 5, 0xff, 0];
            *byte = fields[(state >> 60) as usize];
        }
        if let Err(error) = rules.check("A", &message[..round % 24]) {
            assert_eq!(error.code(), Code::InvalidArgument);
        }
    }
}

#[test]
fn numbers_pass_up_to_their_bounds_and_not_beyond() {
    let schema = schema(
        "message A {\n\
           optional int32 a = 1 [(buf.validate.field).int32 = {gt: -5, lte: 7}];\n\
           optional uint64 b = 2 [(buf.validate.field).uint64.gte = 3];\n\
           optional sint64 c = 3 [(buf.validate.field).sint64.lt = 0];\n\
           optional fixed32 d = 4 [(buf.validate.field).fixed32.const = 9];\n\
           optional int64 e = 5 [(buf.validate.field).int64 = {lt: 0, gt: 10}];\n\
           optional int32 f = 6 [(buf.validate.field).int32 = {gt: 0, in: [1, 2]}];\n\
           optional double g = 7 [(buf.validate.field).double = {gt: 0.5, lte: 1}];\n\
           optional sfixed64 h = 8 [(buf.validate.field).sfixed64.gte = -9223372036854775808];\n\
         }",
    );
    for (field, well, wrong) in [
        ("a", vec!["-4", "0", "7"], vec!["-5", "8", "-2147483648", "2147483647"]),
        ("b", vec!["3", "18446744073709551615"], vec!["0", "2"]),
        ("c", vec!["-1", "-9223372036854775808"], vec!["0", "9223372036854775807"]),
        ("d", vec!["9"], vec!["0", "8", "10", "4294967295"]),
        ("e", vec!["-1", "11"], vec!["0", "5", "10"]),
        ("f", vec!["1", "2"], vec!["0", "3", "-1"]),
        ("g", vec!["0.6", "1"], vec!["0.5", "1.5", "\"NaN\""]),
        ("h", vec!["-9223372036854775808", "9223372036854775807"], vec![]),
    ] {
        for (values, broken_rules) in [(well, 0), (wrong, 1)] {
            for value in values {
                let found = broken(&schema, "A", &format!(r#"{{"{field}":{value}}}"#));
                assert_eq!(found.is_empty(), broken_rules == 0, "{field} {value}: {found:?}");
            }
        }
    }
}
