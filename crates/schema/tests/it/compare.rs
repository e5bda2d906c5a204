//! When a value is what JSON says.

use serde_json::{Value, json};

use crate::{SHOP, compiled, item, schema};

#[track_caller]
fn check(field: Value, path: &str, same: &[Value], other: &[Value]) {
    let item = item(field);
    for json in same {
        assert!(item.matches(path, json).unwrap(), "{path} is {json}");
    }
    for json in other {
        assert!(!item.matches(path, json).unwrap(), "{path} is not {json}");
    }
}

#[test]
fn every_spelling_of_a_value_is_equal() {
    let big = "9007199254740993";
    check(
        json!({"count": big}),
        "count",
        &[json!(9_007_199_254_740_993_i64), json!(big), json!("9007199254740993.0")],
        &[json!(9_007_199_254_740_992_i64), json!("x"), json!(null), json!([])],
    );
    let names = [json!("COLOR_RED"), json!(1)];
    check(json!({"color": 1}), "color", &names, &[json!("COLOR_GREEN"), json!(2), json!("1")]);
    check(json!({"color": 77}), "color", &[json!(77)], &[json!("COLOR_RED"), json!(0)]);
    let alphabets = [json!("+/8="), json!("-_8"), json!("+/8")];
    check(json!({"key": "+/8="}), "key", &alphabets, &[json!("AAA="), json!("")]);
    check(json!({"price": 4.2}), "price", &[json!(4.2), json!("4.2")], &[json!(4.3)]);
    check(json!({"weight": "NaN"}), "weight", &[json!("NaN")], &[json!(0), json!("Infinity")]);
    let zones = [json!("2026-01-02T03:04:05Z"), json!("2026-01-02T05:04:05+02:00")];
    check(json!({"madeAt": "2026-01-02T03:04:05Z"}), "madeAt", &zones, &[json!("2026")]);
    check(json!({"age": "1.500s"}), "age", &[json!("1.5s")], &[json!("2s")]);
    check(json!({"maybe": "0"}), "maybe", &[json!(0), json!("0")], &[json!(1), json!(null)]);
    check(json!({"mask": "a,fooBar"}), "mask", &[json!("a,fooBar")], &[json!("a")]);
}

#[test]
fn messages_lists_and_maps_are_equal_by_their_contents() {
    let item = json!({"count": "1", "firstName": "a"});
    check(
        json!({"parent": item}),
        "parent",
        &[
            json!({"first_name": "a", "count": 1}),
            json!({"count": 1, "firstName": "a", "name": ""}),
        ],
        &[json!({"count": 1}), json!({"count": 1, "firstName": "a", "x": 1}), json!([])],
    );
    check(json!({"tags": ["a"]}), "tags", &[json!(["a"])], &[json!(["a", "b"]), json!("a")]);
    let flags = json!({"flags": {"true": 1, "false": 2}});
    let same = [json!({"false": 2, "true": 1})];
    check(flags, "flags", &same, &[json!({"true": 1}), json!({"true": 1, "x": 2}), json!({})]);
    let parts = json!({"parts": {"1": {}, "2": {}}});
    check(parts, "parts", &[json!({"2": {}, "1": {}})], &[json!({"1": {}, "01": {}})]);
    let notes = json!({"notes": {"a": [1, {"b": null}]}});
    check(notes, "notes", &[json!({"a": [1.0, {"b": null}]})], &[json!({"a": [1]}), json!({})]);
    let url = "type.googleapis.com/shop.v1.Found";
    let same = [json!({"count": "1", "name": "a", "@type": url})];
    let any = json!({"extra": {"@type": url, "name": "a", "count": "1"}});
    check(any, "extra", &same, &[json!({"@type": url, "name": "a"}), json!({})]);
}

#[test]
fn absent_is_the_default_only_where_there_is_no_presence() {
    let none = || json!({"parent": {}});
    for (path, default) in [
        ("name", json!("")),
        ("parent.count", json!("0")),
        ("count", json!(0)),
        ("color", json!("COLOR_NONE")),
        ("color", json!(0)),
        ("key", json!("")),
        ("sold", json!(false)),
        ("tags", json!([])),
        ("labels", json!({})),
        ("weight", json!(-0.0)),
    ] {
        check(none(), path, &[default, json!(null)], &[json!("x"), json!(1), json!([1])]);
    }
    check(none(), "size", &[json!(null)], &[json!(0)]);
    check(none(), "country", &[json!(null)], &[json!("")]);
    check(none(), "madeAt", &[json!(null)], &[json!("1970-01-01T00:00:00Z")]);
    check(none(), "tags[0]", &[json!(null)], &[json!("")]);
    check(json!({"size": 0}), "size", &[json!(0)], &[json!(null)]);
}

#[test]
fn two_messages_are_equal_though_their_schemas_were_loaded_apart() {
    let (a, b) = (schema(), compiled(SHOP));
    let json = json!({"weight": "NaN", "parts": {"1": {"name": "x"}}, "notes": {"a": [1]}});
    let a = a.from_json("shop.v1.Item", &json).unwrap();
    let mut b = b.from_json("shop.v1.Item", &json).unwrap();
    assert_eq!(a, b);
    b.set("parts[1].count", 1).unwrap();
    assert_ne!(a, b);
    assert_ne!(a, schema().message("shop.v1.Found").unwrap());
}
