//! Fields by path: read, set, cleared, walked over.

use serde_json::json;
use tidewire_schema::{Path, Value};

use crate::{compiled, item, schema, text};

#[test]
fn what_is_at_a_path_is_read_by_either_name() {
    let item = item(json!({
        "firstName": "Ada", "items": [{"name": "a"}, {"name": "b", "parts": {"7": {"count": 3}}}],
        "labels": {"a.b": "x"}, "flags": {"true": 1}, "country": "",
    }));
    let check = |path: &str, expected: &str| {
        let found = item.get(path).unwrap().map(|value| format!("{value:?}"));
        assert_eq!(found.unwrap_or_default(), expected, "{path}");
    };
    check("first_name", r#"String("Ada")"#);
    check("firstName", r#"String("Ada")"#);
    check("items[1].name", r#"String("b")"#);
    check("items.1.name", r#"String("b")"#);
    check("items[1].parts[7].count", "I64(3)");
    check("items[1].parts.7.count", "I64(3)");
    check("labels[a.b]", r#"String("x")"#);
    check(r#"labels["a.b"]"#, r#"String("x")"#);
    check("flags[true]", "I32(1)");
    check("country", r#"String("")"#);
    for absent in ["name", "count", "size", "items[2].name", "labels.no", "parent.parent.name"] {
        check(absent, "");
        assert!(!item.has(absent).unwrap(), "{absent}");
    }
}

#[test]
fn a_path_that_the_type_does_not_have_is_an_error_that_says_where() {
    let item = item(json!({"items": [{"name": "a"}]}));
    let check = |path: &str, expected: &str| {
        assert_eq!(item.get(path).unwrap_err().to_string(), expected);
    };
    check("nmae", "field nmae: shop.v1.Item has no such field");
    check("items[0].nmae", "field items[0].nmae: shop.v1.Item has no such field");
    check("items.x", "field items.x: not an index");
    check("items[0].name.x", "field items[0].name.x: what is before it has no fields");
    check("a..b", "field \"a..b\": not a path: a name is missing");
}

#[test]
fn a_path_is_checked_without_a_message() {
    let schema = schema();
    let item = schema.message_type("shop.v1.Item").unwrap();
    for fits in ["parent.parent.items[3].labels[x]", "notes.a.b[0]", "parts[-7].size"] {
        assert!(item.check(fits).is_ok(), "{fits}");
    }
    for wrong in ["parent.nmae", "parts[x]", "flags[1]", "tags.x", "count.x", "items[0].x"] {
        assert!(item.check(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_json_of_a_struct_is_walked_as_json() {
    let item = item(json!({"notes": {"user": {"tags": ["a", {"b": 1.5}]}}, "anyJson": [true]}));
    let found = item.get("notes.user.tags[1].b").unwrap().unwrap();
    assert!(found.matches(&json!(1.5)));
    assert!(item.get("anyJson[0]").unwrap().unwrap().matches(&json!(true)));
    assert!(item.get("notes.user.no.such").unwrap().is_none());
}

#[test]
fn messages_on_the_way_are_made() {
    let mut item = schema().message("shop.v1.Item").unwrap();
    item.set("parent.items[0].labels[color]", "red").unwrap();
    item.set("parent.items[1].name", "b").unwrap();
    item.set("parent.parts[7].size", 0).unwrap();
    item.set("notes.user.tags[0]", "x").unwrap();
    item.set("anyJson.a", 1).unwrap();
    let expected = concat!(
        r#"{"notes":{"user":{"tags":["x"]}},"anyJson":{"a":1.0},"parent":{"parts":{"7":{"size":0}},"#,
        r#""items":[{"labels":{"color":"red"}},{"name":"b"}]}}"#
    );
    assert_eq!(text(&item), expected);
}

#[test]
fn a_value_fits_where_its_json_does() {
    let mut item = schema().message("shop.v1.Item").unwrap();
    let made = "2026-01-02T03:04:05Z";
    item.set("count", 7).unwrap();
    item.set("count", "8").unwrap();
    item.set("price", 4.2).unwrap();
    item.set("color", "COLOR_RED").unwrap();
    item.set("color", 2).unwrap();
    item.set("key", &[255_u8, 254][..]).unwrap();
    item.set("made_at", made).unwrap();
    item.set("age", "1.5s").unwrap();
    item.set("maybe", i64::MAX).unwrap();
    item.set("serial", u64::MAX).unwrap();
    item.set("name", 12_i64).unwrap();
    item.set("any_json", true).unwrap();
    let expected = concat!(
        r#"{"name":"12","count":"8","price":4.2,"color":"COLOR_GREEN","key":"//4=","#,
        r#""madeAt":"2026-01-02T03:04:05Z","age":"1.500s","anyJson":true,"#,
        r#""maybe":"9223372036854775807","serial":"18446744073709551615"}"#
    );
    assert_eq!(text(&item), expected);
    for (path, value) in [
        ("count", Value::from("x")),
        ("count", Value::from(1.5)),
        ("size", Value::from(1_i64 << 40)),
        ("color", Value::from("COLOR_BLUE")),
        ("made_at", Value::from("yesterday")),
        ("sold", Value::from("true")),
        ("tags", Value::from("a")),
        ("labels", Value::from("a")),
        ("parent", Value::from(1)),
        ("tags[5]", Value::from("a")),
        ("parts[x].name", Value::from("a")),
    ] {
        let error = item.set(path, value).unwrap_err();
        assert!(error.to_string().contains(path.split(['[', '.']).next().unwrap()), "{error}");
    }
    assert_eq!(text(&item), expected, "what does not fit changes nothing");
}

#[test]
fn a_member_of_a_oneof_clears_the_others() {
    let mut item = item(json!({"country": "PE"}));
    assert_eq!(item.which("origin").unwrap().name(), "country");
    item.set("parent.name", "a").unwrap();
    assert_eq!(item.which("origin").unwrap().name(), "parent");
    assert!(!item.has("country").unwrap());
    item.clear("parent").unwrap();
    assert!(item.which("origin").is_none() && item.which("nothing").is_none());
}

#[test]
fn fields_elements_and_entries_are_cleared() {
    let mut item = item(json!({
        "name": "a", "tags": ["x", "y"], "labels": {"a": "1", "b": "2"}, "parent": {"count": 1},
    }));
    for path in
        ["name", "tags[0]", "labels.a", "parent.count", "tags[9]", "labels.no", "mask.paths"]
    {
        item.clear(path).unwrap();
    }
    assert_eq!(text(&item), r#"{"tags":["y"],"labels":{"b":"2"},"parent":{}}"#);
    assert!(item.clear("nmae").is_err());
}

#[test]
fn values_go_from_message_to_message_though_their_schemas_differ() {
    let other = compiled(
        r#"syntax = "proto3"; package other; enum Hue { HUE_NONE = 0; COLOR_GREEN = 9; }
        message To { string count = 1; double price = 2; Hue color = 3; repeated string tags = 4;
          map<int64, Part> parts = 5; string made_at = 6; string key = 7; }
        message Part { string name = 1; }"#,
    );
    let from = item(json!({
        "count": "7", "price": 1.5, "color": "COLOR_GREEN", "tags": ["a"], "key": "AAAA",
        "parts": {"3": {"name": "p", "count": 4}}, "madeAt": "2026-01-02T03:04:05Z", "sold": true,
    }));
    let mut to = other.message("other.To").unwrap();
    let mut refused = Vec::new();
    for (field, value) in from.fields() {
        if to.set(&Path::field(field.json_name()), value).is_err() {
            refused.push(field.name());
        }
    }
    assert_eq!(refused, ["sold"]);
    let expected = concat!(
        r#"{"count":"7","price":1.5,"color":"COLOR_GREEN","tags":["a"],"#,
        r#""parts":{"3":{"name":"p"}},"madeAt":"2026-01-02T03:04:05Z","key":"AAAA"}"#
    );
    assert_eq!(text(&to), expected);
}

#[test]
fn fields_are_walked_in_the_order_of_their_numbers() {
    let item = item(json!({"sold": true, "name": "a", "parent": {}, "size": 0, "tags": []}));
    let names: Vec<&str> = item.fields().map(|(field, _)| field.name()).collect();
    assert_eq!(names, ["name", "size", "parent", "sold"]);
}

#[test]
fn a_message_set_into_itself_again_and_again_ends_in_an_error() {
    let mut item = item(json!({"name": "a"}));
    let mut levels = 0;
    let error = loop {
        let inner = item.clone();
        match item.set("parent", &inner) {
            Ok(()) => levels += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("nest deeper than 100"), "{error}");
    assert_eq!(levels, 99);
    let text = text(&item);
    assert!(
        schema().decode("shop.v1.Item", tidewire_service::Codec::Json, text.as_bytes()).is_ok()
    );
}
