//! What front ends see: ids of the request in its answer, names of people, points in time.

use serde_json::{Value as Json, json};
use tidewire_mock::{Mock, RuleFiles};
use tidewire_schema::Schema;

use crate::harness::{TestClock, message};

const PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
service Cart {
  rpc GetUser(GetUserRequest) returns (User);
  rpc FindOrder(FindOrderRequest) returns (FindOrderReply);
  rpc ListOrders(FindOrderRequest) returns (ListOrdersReply);
  rpc CreateOrder(CreateOrderRequest) returns (Order);
  rpc At(AtRequest) returns (AtReply);
}
message GetUserRequest { int64 id = 1; }
message User { string id = 1; string name = 2; string display_name = 3; Team team = 4; }
message Team { string id = 1; string name = 2; }
message FindOrderRequest { string order_id = 1; string customer_id = 2; }
message FindOrderReply { Order order = 1; string note = 2; }
message ListOrdersReply { repeated Order orders = 1; }
message CreateOrderRequest { Order order = 1; }
message Order { string id = 1; string customer_id = 2; int32 count = 3; }
message AtRequest { google.protobuf.Timestamp at = 1; string text = 2; }
message AtReply { string note = 1; }
"#;

fn mock(rules: RuleFiles) -> Mock {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), PROTO).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let (mock, findings) = Mock::builder(schema, TestClock).rules(rules).build();
    assert!(findings.is_empty(), "{findings:?}");
    mock
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_one_thing_gets_that_thing() {
    let mock = mock(RuleFiles::new());
    for id in 1..20 {
        let user = message(&mock, "GetUser", json!({ "id": id })).await;
        assert_eq!(user["id"], id.to_string(), "{user}");
        assert_ne!(user["team"]["id"], id.to_string(), "the id of a user is not that of a team");
    }
    let request = json!({ "orderId": "o-7", "customerId": "c-3" });
    let found = message(&mock, "FindOrder", request.clone()).await;
    assert_eq!(
        (&found["order"]["id"], &found["order"]["customerId"]),
        (&json!("o-7"), &json!("c-3"))
    );
    let listed = message(&mock, "ListOrders", request).await;
    for order in listed["orders"].as_array().unwrap() {
        assert_eq!(order["customerId"], "c-3", "{listed}");
        assert_ne!(order["id"], "o-7", "a list does not hold one order again and again: {listed}");
    }
    let order = json!({ "order": { "id": "o-9", "customerId": "c-1", "count": 2 } });
    let created = message(&mock, "CreateOrder", order).await;
    assert_eq!((&created["id"], &created["customerId"]), (&json!("o-9"), &json!("c-1")));
    let made = message(&mock, "GetUser", json!({})).await;
    assert!(!made["id"].as_str().unwrap().is_empty(), "where none is asked for, one is made");
}

#[tokio::test(start_paused = true)]
async fn people_have_names_of_people() {
    let mock = mock(RuleFiles::new());
    for id in 1..20 {
        let user = message(&mock, "GetUser", json!({ "id": id })).await;
        for name in ["name", "displayName"] {
            let words: Vec<_> = user[name].as_str().unwrap().split(' ').collect();
            let is_capital = |word: &&str| word.starts_with(char::is_uppercase);
            assert!(words.len() == 2 && words.iter().all(is_capital), "{user}");
        }
        let team = user["team"]["name"].as_str().unwrap();
        assert!(team.split(' ').nth(1).unwrap().starts_with(char::is_lowercase), "{user}");
    }
}

#[tokio::test(start_paused = true)]
async fn points_in_time_compare_with_rfc_3339_whatever_the_zone() {
    const AT: &str = "2026-01-31T12:00:00Z";
    let at = |at: &str| json!({ "at": at });
    for (condition, request, expected) in [
        ("request.at: '2026-01-31T12:00:00Z'", at(AT), true),
        ("request.at: '2026-01-31T13:00:00+01:00'", at(AT), true),
        ("request.at: '2026-01-31T12:00:00.000Z'", at(AT), true),
        ("request.at: '2026-01-31T12:00:01Z'", at(AT), false),
        ("request.at: {in: ['2026-01-31T13:00:00+01:00']}", at(AT), true),
        ("request.at: {ne: '2026-01-31T12:00:00Z'}", at(AT), false),
        ("request.at: {gt: '2026-01-31T11:59:59Z', lt: '2026-02-01T00:00:00Z'}", at(AT), true),
        ("request.at: {gt: '2026-01-31T12:00:00Z'}", at(AT), false),
        ("request.at: {gte: '2026-01-31T12:00:00Z', lte: '2026-01-31T12:00:00Z'}", at(AT), true),
        ("request.at: {lt: '1970-01-01T00:00:00Z'}", at("1969-12-31T23:59:59.5Z"), true),
        ("request.at: {gt: 5}", at(AT), false),
        ("request.at: {regex: '^2026-01-'}", at(AT), true),
        ("request.at: {startsWith: '2026-01-31T'}", at(AT), true),
        ("request.at: {contains: 'T12:00'}", at(AT), true),
        ("request.at: {exists: true}", at(AT), true),
        ("request.at: {lt: '2026-01-31T12:00:00Z'}", json!({}), false),
        (
            "request.text: {lt: '2026-01-31T12:00:00Z'}",
            json!({ "text": "2025-01-01T00:00:00Z" }),
            true,
        ),
        ("request.text: {lt: '2026-01-31T12:00:00Z'}", json!({ "text": "yesterday" }), false),
    ] {
        let rule =
            format!("- {{when: {{{condition}}}, body: {{note: hit}}}}\n- body: {{note: miss}}\n");
        let mock = mock(RuleFiles::new().with("shop.v1.cart.at.yaml", &*rule));
        let answer: Json = message(&mock, "At", request).await;
        let expected = if expected { "hit" } else { "miss" };
        assert_eq!(answer["note"], expected, "{condition}");
    }
}
