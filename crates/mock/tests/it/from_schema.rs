//! Answers that nobody wrote.

use std::sync::LazyLock;

use serde_json::json;
use tidewire_mock::RuleFiles;
use tidewire_service::Codec;
use tidewire_validate::RuleSet;

use crate::harness::{call, message, schema, shop, sku, with_rules};

/// How many rules of validation an answer breaks.
fn broken(answer: &serde_json::Value) -> Vec<String> {
    let schema = schema();
    let message = schema.from_json("shop.v1.CustomerReply", answer).unwrap();
    static RULES: LazyLock<RuleSet> =
        LazyLock::new(|| RuleSet::new(&crate::harness::schema()).unwrap());
    let rules = RULES.rules("shop.v1.CustomerReply").unwrap();
    let violations = rules.violations(&message.encode(Codec::Proto).unwrap()).unwrap();
    violations.map_or_else(Vec::new, |all| all.iter().map(|one| format!("{one:?}")).collect())
}

#[tokio::test(start_paused = true)]
async fn answers_follow_from_seed_and_request_alone() {
    let answer = async |seed: u64, name: &str| {
        let (mock, _) = shop().seed(seed).build();
        call(&mock, "Price", &[sku("warm")]).await.unwrap();
        message(&mock, "Customer", sku(name)).await
    };
    let first = answer(1, "tea").await;
    assert_eq!(first, answer(1, "tea").await);
    assert_ne!(first, answer(2, "tea").await);
    assert_ne!(first, answer(1, "milk").await);
}

#[tokio::test(start_paused = true)]
async fn names_and_rules_of_fields_are_honoured() {
    let (mock, _) = shop().build();
    for number in 0..100 {
        let answer = message(&mock, "Customer", sku(&number.to_string())).await;
        assert_eq!(broken(&answer), Vec::<String>::new(), "{answer}");
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        assert!(text("email").ends_with("@example.com"), "{answer}");
        assert!(text("createdAt").starts_with("2024-"), "{answer}");
        assert_eq!((text("nextPageToken"), text("kind")), (String::new(), "KIND_B".to_owned()));
        assert!(answer["names"].as_array().unwrap().len() >= 5);
        assert!((201..210).contains(&answer["age"].as_i64().unwrap()));
        assert!(
            answer["street"].is_string() != answer["latitude"].is_number(),
            "one of a oneof: {answer}"
        );
        assert!(answer["parent"].is_object(), "a message in itself ends somewhere");
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_answers_break_rules_as_were_asked_for() {
    for (probability, range) in [(0.0, 0..=0), (1.0, 100..=100), (0.3, 15..=45)] {
        let (mock, _) = shop().violate(probability).build();
        let mut count = 0;
        for number in 0..100 {
            let answer = message(&mock, "Customer", sku(&number.to_string())).await;
            count += usize::from(!broken(&answer).is_empty());
        }
        assert!(range.contains(&count), "{count} of 100 at {probability}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_lies_over_what_the_schema_makes() {
    let mock = with_rules(
        "shop.v1.cart.price.yaml",
        "responses: [{fake: true, body: {price: 0, tags: [only], nested: {name: '{{request.sku}}'}}}]",
    );
    let answer = message(&mock, "Price", sku("tea")).await;
    assert!(answer["note"].is_string(), "made: {answer}");
    assert_eq!(
        (&answer["price"], &answer["tags"]),
        (&json!(null), &json!(["only"])),
        "said: {answer}"
    );
    assert_eq!(answer["nested"]["name"], "tea");
    assert!(answer["nested"]["size"].is_number(), "made: {answer}");
}

#[tokio::test(start_paused = true)]
async fn a_seed_of_a_rule_goes_before_that_of_the_mock() {
    let files = || RuleFiles::new().with("shop.v1.cart.price.json", r#"[{"fake": {"seed": 7}}]"#);
    let (one, _) = shop().seed(1).rules(files()).build();
    let (other, _) = shop().seed(2).rules(files()).build();
    assert_eq!(message(&one, "Price", sku("a")).await, message(&other, "Price", sku("a")).await);
}
