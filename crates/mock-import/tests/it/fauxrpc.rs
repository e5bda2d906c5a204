//! Stubs of FauxRPC in the forms of its documentation.

use serde_json::{Value as Json, json};
use tidewire_mock_import::Program;

use crate::harness::{Answers, imported, told};

fn faux(stubs: &str) -> Answers {
    Answers::of_all(Program::FauxRpc, "stubs.yaml", stubs)
}

#[tokio::test]
async fn a_stub_answers_where_it_is_active_and_the_schema_elsewhere() {
    let answers = faux(
        "stubs:
- id: bulk
  target: shop.v1.Cart/GetPrice
  active_if: req.quantity >= 100 && req.sku.startsWith('t')
  priority: 100
  content: {note: bulk, price: 4}
- id: gone
  target: shop.v1.Cart/GetPrice
  active_if: \"req.sku == 'gone' || method == 'Other'\"
  priority: 50
  error_code: 5
  error_message: no such item
",
    );
    let bulk = answers.call("GetPrice", json!({"sku": "tea", "quantity": 100})).await;
    assert_eq!(bulk, r#"{"note":"bulk","price":"4"}"#);
    assert_eq!(answers.call("GetPrice", json!({"sku": "gone"})).await, "not_found: no such item");
    for request in [json!({"sku": "tea", "quantity": 99}), json!({"sku": "milk", "quantity": 100})]
    {
        let made = answers.call("GetPrice", request).await;
        let made: Json = serde_json::from_str(&made).unwrap();
        assert!(made["note"].is_string() && made["note"] != "bulk", "{made}");
    }
}

#[tokio::test]
async fn an_expression_makes_the_message_and_gen_what_the_schema_says() {
    let answers = faux(
        "stubs:
- id: made
  target: shop.v1.Cart/GetPrice
  cel_content: |
    {
      'note': 'for ' + req.sku,
      'price': req.quantity * 3,
      'shop': {'name': gen, 'floor': 7}
    }
",
    );
    let made = answers.call("GetPrice", json!({"sku": "tea", "quantity": 2})).await;
    let made: Json = serde_json::from_str(&made).unwrap();
    assert_eq!((&made["note"], &made["price"]), (&json!("for tea"), &json!("6")));
    assert_eq!(made["shop"]["floor"], json!(7));
    assert!(made["shop"]["name"].as_str().is_some_and(|name| !name.is_empty()), "{made}");
    // What the expression does not name is not set.
    assert!(made["tags"].is_null() && made["shop"]["tags"].is_null(), "{made}");
}

#[tokio::test(start_paused = true)]
async fn streams_have_items_with_pauses_and_errors() {
    let answers = faux(
        r#"{"stubs": [{"ref": {"id": "w", "target": "shop.v1.Cart.Watch"}, "stream": {"items": [
            {"content": {"note": "a"}}, {"content": {"note": "b"}, "delay": "2s"},
            {"error": {"code": 8, "message": "enough"}}]}}]}"#,
    );
    let begun = tokio::time::Instant::now();
    let all = answers.call_with("Watch", &[json!({})], &[]).await;
    assert_eq!(all, [r#"{"note":"a"}"#, r#"{"note":"b"}"#, "resource_exhausted: enough"]);
    assert_eq!(begun.elapsed().as_secs(), 2);
}

#[tokio::test]
async fn json_with_comments_and_the_forms_of_protobuf_are_read() {
    let text = r#"{
	// One stub.
	"stubs": [
		{
			"ref": {"id": "x", "target": "shop.v1.Cart/GetPrice"}, /* its name */
			"json": "{\"note\": \"http://x {{y}}\"}",
			"activeIf": "req.active",
		},
		{"target": "shop.v1.Cart/ListPrices", "error": {"code": "ERROR_CODE_CANCELLED", "message": "m"}},
	],
}"#;
    let answers = Answers::of_all(Program::FauxRpc, "stubs.jsonc", text);
    assert_eq!(answers.note("GetPrice", json!({"active": true})).await, "http://x {{y}}");
    assert_eq!(answers.call("ListPrices", json!({})).await, "canceled: m");
}

#[tokio::test]
async fn what_has_no_counterpart_is_told_and_the_rest_is_served() {
    let made = imported(
        Program::FauxRpc,
        "stubs.yaml",
        "stubs:
- {id: a, target: shop.v1.Cart/GetPrice, active_if: 'fake_int() == 1', content: {note: x}}
- {id: b, target: shop.v1.Cart/GetPrice, content: {note: one}}
- {id: c, target: shop.v1.Cart/GetPrice, content: {note: two}}
- {id: d, target: shop.v1.Shop, content: {name: x}}
- {id: e, target: shop.v1.Cart/ListPrices, cel_content: \"{'note': fake_name(), 'price': 3}\"}
- {id: f, target: shop.v1.Cart/Nothing, content: {}}
- {id: g, target: shop.v1.Cart/Watch, stream: {items: [{content: {note: a}}], done_after: 3s}}
- {id: h, target: shop.v1.Cart/Sum, active_if: req.active, content: {note: x}}
",
    );
    assert_eq!(
        told(&made),
        [
            "stubs.yaml:2: active_if: the function fake_int has no counterpart; the stub is left out",
            "stubs.yaml:5: target: no method answers with shop.v1.Shop, and rules are of methods",
            "stubs.yaml:6: cel_content.note: the function fake_name has no counterpart; it is made from the schema",
            "stubs.yaml:7: target: shop.v1.Cart has no method Nothing; the stub is left out",
            "stubs.yaml:8: stream.done_after: has no counterpart; it is left out",
            "stubs.yaml:9: active_if: a condition of a method with a stream of requests, of which req is empty; the stub is left out",
            "stubs.yaml:4: priority: FauxRPC takes this or b at random; here that always answers",
        ]
    );
    let answers = Answers::of(made);
    assert_eq!(answers.note("GetPrice", json!({})).await, "one");
    let made: Json = serde_json::from_str(&answers.call("ListPrices", json!({})).await).unwrap();
    assert!(made["price"] == "3" && made["note"].is_string(), "{made}");
}
