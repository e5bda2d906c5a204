//! Conditions on well-known types, which have a JSON form, in rules and where calls are verified.

use serde_json::{Value as Json, json};
use tidewire_mock::{Calls, RuleFiles, Times};

use crate::harness::{call, message, schema, with_rules};

const PAINT: &str = "shop.v1.cart.paint.yaml";

fn request() -> Json {
    json!({
        "at": "2026-01-31T12:00:00Z", "took": "90s", "left": "5", "mask": "sku,quantity", "name": "ada",
        "facts": {"a": {"b": "x", "n": 3, "half": 3.5, "yes": true, "none": null}, "list": [1, "two"]},
        "fact": "q", "list": [1, 2], "ready": true, "raw": "AP8=", "names": ["x", "y"], "share": 0.5,
    })
}

/// A path in the request, a test of it, and whether that holds.
fn conditions() -> Vec<(&'static str, Json, bool)> {
    vec![
        ("took", json!("90s"), true),
        ("took", json!("90.0s"), true),
        ("took", json!("90000ms"), true),
        ("took", json!("91s"), false),
        ("took", json!({"gt": "89.5s"}), true),
        ("took", json!({"gt": "90s"}), false),
        ("took", json!({"gte": "90s", "lt": "2000000ms"}), true),
        ("took", json!({"startsWith": "9"}), true),
        ("took", json!({"in": ["1s", "90s"]}), true),
        ("took", json!({"ne": "90s"}), false),
        ("took", json!({"equals": "90s"}), true),
        ("took.seconds", json!(90), true),
        ("took.nanos", json!({"exists": false}), true),
        ("at", json!("2026-01-31T13:00:00+01:00"), true),
        ("at.seconds", json!({"exists": true}), true),
        ("name", json!("ada"), true),
        ("name", json!("eve"), false),
        ("name", json!({"regex": "^a"}), true),
        ("name", json!({"len": 3}), true),
        ("name.value", json!("ada"), true),
        ("name.length", json!(3), true),
        ("left", json!(5), true),
        ("left", json!("5"), true),
        ("left", json!({"gt": 4}), true),
        ("left", json!({"gt": 5}), false),
        ("left.value", json!({"lte": 5}), true),
        ("ready", json!(true), true),
        ("ready", json!(false), false),
        ("raw", json!("AP8="), true),
        ("share", json!(0.5), true),
        ("share", json!({"lt": 1}), true),
        ("mask", json!("sku,quantity"), true),
        ("mask", json!("sku"), false),
        ("mask", json!({"contains": "quantity"}), true),
        ("mask.paths", json!({"contains": "sku"}), true),
        ("names", json!("x,y"), true),
        ("names", json!({"contains": "y"}), true),
        ("names", json!({"any": "y"}), true),
        ("names", json!({"all": {"startsWith": "x"}}), false),
    ]
}

/// The same, of a `Struct` and of lists in it.
fn conditions_of_structs() -> Vec<(&'static str, Json, bool)> {
    vec![
        ("facts.a.b", json!("x"), true),
        ("facts.a.b", json!("y"), false),
        ("facts.a.b", json!({"in": ["x"]}), true),
        ("facts.a.b.length", json!(1), true),
        ("facts.a.n", json!(3), true),
        ("facts.a.n", json!({"gte": 3, "lt": 4}), true),
        ("facts.a.n", json!({"lt": 3}), false),
        ("facts.a.half", json!(3.5), true),
        ("facts.a.yes", json!(true), true),
        ("facts.a.none", json!(""), true),
        ("facts.a.other", json!({"exists": false}), true),
        ("facts.list[0]", json!(1), true),
        ("facts.list[1]", json!("two"), true),
        ("facts.list", json!("1,two"), true),
        ("facts.list", json!({"len": 2}), true),
        ("facts.list", json!({"any": "two"}), true),
        ("facts.list.length", json!(2), true),
        ("facts.list", json!({"none": {"gt": 1}}), true),
        ("facts.fields.a.struct_value.fields.b.string_value", json!("x"), true),
        ("facts.a.n.number_value", json!(3), true),
        ("facts", json!({"cel": "this.a.b == 'x'"}), true),
        ("fact", json!("q"), true),
        ("fact.string_value", json!("q"), true),
        ("name", json!({"like": "a***a"}), true),
        ("name", json!({"like": "a***d"}), false),
        ("name", json!({"like": "***"}), true),
        ("facts", json!({"like": {"a": "***", "list": [1, "t***"]}}), true),
        ("facts", json!({"like": {"a": "***"}}), false),
        ("facts", json!({"like": {"a": "***", "list": [1, "x***"]}}), false),
        ("names", json!({"like": ["x", "***"]}), true),
        ("names", json!({"like": ["x"]}), false),
        ("parts", json!({"like": "***"}), false),
        ("list", json!("1,2"), true),
        ("list[1]", json!(2), true),
        ("list.values", json!({"len": 2}), true),
    ]
}

#[tokio::test(start_paused = true)]
async fn they_compare_as_their_json_does() {
    for (path, test, holds) in conditions().into_iter().chain(conditions_of_structs()) {
        let rule = json!({"responses": [{"when": {format!("request.{path}"): test}, "body": {"note": "hit"}}]});
        let files = RuleFiles::new().with(PAINT, rule.to_string());
        assert_eq!(files.check(&schema()), [], "{path} {test}");
        let mock = with_rules(PAINT, &rule.to_string());
        let answer = message(&mock, "Paint", request()).await;
        assert_eq!(answer["note"] == "hit", holds, "{path} {test}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_verified_by_the_same_rule() {
    let mock = with_rules(PAINT, "- {body: {}}");
    call(&mock, "Paint", &[request()]).await.unwrap();
    for (path, test, holds) in conditions().into_iter().chain(conditions_of_structs()) {
        let wanted = Calls::of("/shop.v1.Cart/Paint").with(path, test.clone());
        let times = if holds { Times::Exactly(1) } else { Times::Never };
        assert_eq!(mock.verify(&wanted, times), Ok(()), "{path} {test}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unset_value_of_a_wrapper_is_its_default() {
    let rule = "- {when: {request.left: 0, request.ready: false, request.name: '', request.took: 0s}, body: {note: hit}}";
    let mock = with_rules(PAINT, rule);
    let request = json!({"left": "0", "ready": false, "name": "", "took": "0s"});
    assert_eq!(message(&mock, "Paint", request).await["note"], "hit");
    assert_eq!(message(&mock, "Paint", json!({})).await, json!({}));
}

#[test]
fn a_path_that_cannot_exist_is_found() {
    for (path, why) in [
        ("took.second", "google.protobuf.Duration has no field second"),
        ("name.text", "google.protobuf.StringValue has no field text"),
        ("list.a", "a ListValue is a list; what follows it is an index, not a"),
        ("mask.path", "google.protobuf.FieldMask has no field path"),
    ] {
        let files =
            RuleFiles::new().with(PAINT, format!("- {{when: {{request.{path}: a}}, body: {{}}}}"));
        let told: Vec<_> = files.check(&schema()).iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{path}: {told:?}");
        assert!(told[0].contains(why), "{told:?}");
    }
}
