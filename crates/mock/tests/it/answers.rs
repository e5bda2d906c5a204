//! What one message is answered with: by literals, templates, errors, delays.

use std::time::Duration;

use serde_json::json;
use tidewire_mock::{DefaultReply, RuleFiles};
use tidewire_service::{Code, Freshness};

use crate::harness::{
    PRICE, call, call_in, elapsed, json_of, message, session, shop, sku, with_rules,
};

#[tokio::test(start_paused = true)]
async fn the_first_by_priority_answers_and_the_fallback_where_none_holds() {
    let mock = with_rules(
        PRICE,
        "responses:
  - {when: {request.sku: tea}, body: {note: tea}}
  - {when: {request.sku: {startsWith: t}}, priority: 2, body: {note: 't {{request.sku}}'}}
  - {when: {request.tags: {any: {glob: 'g?ld*'}}}, body: {note: gold}}
  - {when: {request.tags: {len: {gte: 3}}}, body: {note: many}}
  - {when: {request.sku: {any_of: [a, {endsWith: z}]}}, body: {note: any}}
  - {body: {note: fallback, price: 7}}
",
    );
    for (request, note) in [
        (sku("tea"), "t tea"),
        (sku("x"), "fallback"),
        (json!({"tags": ["golden"]}), "gold"),
        (json!({"tags": ["a", "b", "c"]}), "many"),
        (sku("a"), "any"),
        (sku("fizz"), "any"),
    ] {
        assert_eq!(message(&mock, "Price", request).await["note"], note);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expression_is_true_of_the_message_at_its_path() {
    let mock = with_rules(
        PRICE,
        "responses:
  - {when: {request: {cel: 'this.quantity > 3 && this.tags.exists(tag, tag == this.sku)'}}, body: {note: hit}}
  - {body: {note: miss}}
",
    );
    let hit = json!({"sku": "a", "quantity": 4, "tags": ["b", "a"]});
    assert_eq!(message(&mock, "Price", hit).await["note"], "hit");
    let miss = json!({"sku": "c", "quantity": 4, "tags": ["b", "a"]});
    assert_eq!(message(&mock, "Price", miss).await["note"], "miss");
    let deep = "(".repeat(10_000);
    let text = format!("- {{when: {{request: {{cel: '{deep}'}}}}, body: {{note: hit}}}}");
    let files = RuleFiles::new().with(PRICE, text);
    let (mock, findings) = shop().rules(files).build();
    assert!(findings[0].to_string().contains("the expression is never true"), "{findings:?}");
    assert_eq!(message(&mock, "Price", sku("a")).await, json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_template_has_the_json_of_well_known_types() {
    let request = json!({
        "at": "2026-01-31T12:00:00Z", "took": "1.500s", "left": "7", "mask": "sku,quantity",
        "name": "ada", "days": ["2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"],
        "nested": {"size": 1},
    });
    for (template, note) in [
        ("at {{request.at}}", "at 2026-01-31T12:00:00Z"),
        ("{{request.took}}", "1.500s"),
        ("{{request.left}} {{request.left + 1}}", "7 8"),
        ("{{request.mask}}", "sku,quantity"),
        ("{{request.name}}!", "ada!"),
        ("{{request.days}}", "2026-01-31T00:00:00Z,2026-02-01T00:00:00Z"),
        ("{{request.nested}}", "[object Object]"),
    ] {
        let rule = format!("- {{body: {{note: '{template}'}}}}");
        let mock = with_rules("shop.v1.cart.paint.yaml", &rule);
        assert_eq!(message(&mock, "Paint", request.clone()).await["note"], note, "{template}");
    }
}

#[tokio::test(start_paused = true)]
async fn stubs_of_a_method_or_of_all_are_removed_for_one_session_or_for_all_calls() {
    let mock = with_rules(PRICE, "- {body: {note: file}}");
    let stub =
        |session| mock.stub("shop.v1.Cart/Price", &json!({"body": {"note": "stub"}}), session);
    let ask = async || message(&mock, "Price", json!({})).await["note"].clone();
    let in_session = async || {
        let reply = call_in(&mock, session("t1"), "Price", &[json!({})]).await;
        json_of(reply.unwrap())["note"].clone()
    };
    stub(None).unwrap();
    stub(Some("t1")).unwrap();
    assert_eq!(mock.unstub(Some("shop.v1.Cart/Watch"), None), 0);
    assert_eq!(mock.unstub(Some("shop.v1.Cart/Price"), None), 1);
    assert_eq!((ask().await, in_session().await), ("file".into(), "stub".into()));
    assert_eq!(mock.unstub(None, Some("t2")), 0);
    assert_eq!(mock.unstub(None, Some("t1")), 1);
    assert_eq!(in_session().await, "file");
}

#[tokio::test(start_paused = true)]
async fn errors_have_code_message_details_headers_and_trailers() {
    let mock = with_rules(
        PRICE,
        "responses:
  - headers: {x-a: ['1', '{{request.sku}}']}
    trailers: {x-b: 2}
    error:
      code: FAILED_PRECONDITION
      message: no {{request.sku}}
      details:
        - {'@type': google.rpc.BadRequest, field_violations: [{field: sku, description: short}]}
        - {'@type': type.googleapis.com/shop.v1.Nested, name: x}
",
    );
    let error = call(&mock, "Price", &[sku("tea")]).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::FailedPrecondition, "no tea"));
    let headers = error.headers().get_all("x-a").iter();
    let headers: Vec<_> = headers.map(|value| value.to_str().unwrap()).collect();
    assert_eq!((headers, error.trailers()["x-b"].as_bytes()), (vec!["1", "tea"], &b"2"[..]));
    let types: Vec<_> = error.details().iter().map(|detail| detail.type_name.as_str()).collect();
    assert_eq!(types, ["google.rpc.BadRequest", "shop.v1.Nested"]);
    assert_eq!(&error.details()[1].value[..], b"\x0a\x01x");
}

#[tokio::test(start_paused = true)]
async fn delays_are_waited_for_on_every_kind_of_answer() {
    let mock = with_rules(
        PRICE,
        "responses:
  - {when: {request.sku: a}, delay_ms: 400, body: {note: late}}
  - {when: {request.sku: b}, delay: 1.5s, error: {code: 5, message: late}}
  - {when: {request.sku: c}, delay: {dist: uniform, min: 10ms, max: 20ms}, body: {}}
  - {when: {request.sku: d}, delay: {dist: lognormal, median: 80ms, sigma: 0.4}, body: {}}
",
    );
    let (took, reply) = elapsed(call(&mock, "Price", &[sku("a")])).await;
    assert_eq!(
        (took, json_of(reply.unwrap())["note"].as_str()),
        (Duration::from_millis(400), Some("late"))
    );
    let (took, reply) = elapsed(call(&mock, "Price", &[sku("b")])).await;
    assert_eq!((took, reply.unwrap_err().code()), (Duration::from_millis(1500), Code::NotFound));
    for _ in 0..50 {
        let (took, _) = elapsed(call(&mock, "Price", &[sku("c")])).await;
        assert!(
            (Duration::from_millis(10)..=Duration::from_millis(21)).contains(&took),
            "{took:?}"
        );
    }
    let mut all = Vec::new();
    for _ in 0..101 {
        all.push(elapsed(call(&mock, "Price", &[sku("d")])).await.0);
    }
    all.sort_unstable();
    assert!(
        all[50] > Duration::from_millis(55) && all[50] < Duration::from_millis(115),
        "{:?}",
        all[50]
    );
    assert!(all[100] > all[0] * 2, "{:?} to {:?}", all[0], all[100]);
}

#[tokio::test(start_paused = true)]
async fn a_method_without_a_rule_answers_from_the_schema_or_is_not_implemented() {
    let (mock, _) = shop().build();
    assert!(message(&mock, "Price", sku("a")).await["note"].is_string());
    let (mock, _) = shop().missing(DefaultReply::Unimplemented).build();
    let error = call(&mock, "Price", &[sku("a")]).await.unwrap_err();
    assert_eq!(error.message(), "No rule matched for shop.v1.Cart/Price");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_the_schema_cannot_hold_is_an_error_that_names_the_field() {
    let files = RuleFiles::new().with(PRICE, "responses: [{body: {nested: {size: many}}}]");
    let (mock, findings) = shop().rules(files).build();
    let told = findings[0].to_string();
    assert_eq!(
        told,
        "shop.v1.cart.price.yaml:1:36: nested.size: the text \"many\" is not a valid int32"
    );
    let error = call(&mock, "Price", &[sku("a")]).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    assert!(error.message().contains("nested.size"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn includes_and_variables_are_shared_between_files() {
    let files = RuleFiles::new()
        .with("rules/a/shop.v1.cart.price.yaml", "include: ../_all.yaml\nvars: {who: Ada}\nresponses:\n  - {when: {request.sku: tea}, body: {note: 'tea for {{vars.who}} in {{vars.city}}'}}\n")
        .with("rules/_all.yaml", "vars: {who: nobody, city: Oslo}\nresponses: [{body: {note: 'all for {{vars.who}}'}}]");
    let (mock, findings) = shop().rules(files).build();
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(message(&mock, "Price", sku("tea")).await["note"], "tea for Ada in Oslo");
    assert_eq!(message(&mock, "Price", sku("x")).await["note"], "all for Ada");
}

#[tokio::test(start_paused = true)]
async fn files_that_include_one_another_are_refused() {
    let files = RuleFiles::new()
        .with("shop.v1.cart.price.yaml", "include: _a.yaml\n")
        .with("_a.yaml", "include: _b.yaml\n")
        .with("_b.yaml", "include: _a.yaml\n");
    let (_, findings) = shop().rules(files).build();
    assert!(
        findings[0].to_string().contains("include one another more than 8 deep"),
        "{findings:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_request_says_is_never_read_as_a_template() {
    let mock = with_rules(PRICE, "responses: [{body: {note: '{{request.sku}}'}}]");
    let evil = "{{utils.format('%s', request.sku)}}{{request.sku}}";
    assert_eq!(message(&mock, "Price", sku(evil)).await["note"], evil);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_templates_make_too_large_is_an_error() {
    let line = "{{request.sku}}".repeat(200);
    let mock = with_rules(PRICE, &format!("responses: [{{body: {{note: '{line}'}}}}]"));
    let error = call(&mock, "Price", &[sku(&"x".repeat(400_000))]).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(error.message().contains("over 64 MiB"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn answers_to_queries_can_be_watched_and_are_never_stored() {
    let mock = with_rules(PRICE, "responses: [{body: {note: a}}]");
    let reply = call(&mock, "Price", &[sku("a")]).await.unwrap();
    assert!(!reply.is_ordinary(), "a cache stores ordinary replies only");
    let freshness: &Freshness = &reply.freshness;
    assert!(!freshness.is_stale());
    mock.reload(mock.schema(), &RuleFiles::new().with(PRICE, "responses: [{body: {note: b}}]"));
    assert!(freshness.is_stale(), "its rule is another one now");
}
