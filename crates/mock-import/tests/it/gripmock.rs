//! Stubs of GripMock in the forms of its documentation.

use serde_json::{Value as Json, json};
use tidewire_mock_import::Program;

use crate::harness::{Answers, NONE, imported, told};

fn grip(stubs: &str) -> Answers {
    Answers::of_all(Program::GripMock, "stubs.yaml", stubs)
}

/// One stub of GetPrice with this input, and what requests it fits.
async fn check(input: &str, fits: &[Json], does_not: &[Json]) {
    let stub = format!(
        "- service: shop.v1.Cart\n  method: GetPrice\n  input: {input}\n  output: {{data: {{note: fits}}}}\n"
    );
    let answers = grip(&stub);
    for request in fits {
        let note = answers.note("GetPrice", request.clone()).await;
        assert_eq!(note, "fits", "{input} and {request}\n{}", answers.rules());
    }
    for request in does_not {
        let note = answers.note("GetPrice", request.clone()).await;
        assert_eq!(note, NONE, "{input} and {request}\n{}", answers.rules());
    }
}

#[tokio::test]
async fn equals_compares_the_fields_that_it_names() {
    let tea = json!({"sku": "tea"});
    check(
        "{equals: {sku: tea}}",
        &[tea.clone(), json!({"sku": "tea", "quantity": 7})],
        &[json!({"sku": "teapot"}), json!({})],
    )
    .await;
    check(
        "{equals: {quantity: 0, active: false, size: SIZE_UNSET}}",
        &[tea.clone(), json!({})],
        &[json!({"quantity": 1}), json!({"size": "SIZE_LARGE"})],
    )
    .await;
    check(
        "{equals: {userId: 9007199254740993}}",
        &[json!({"userId": "9007199254740993"})],
        &[json!({"userId": "9007199254740992"})],
    )
    .await;
    check("{equals: {rank: 0}}", &[json!({}), json!({"rank": 0})], &[json!({"rank": 1})]).await;
    check(
        "{equals: {shop: {name: a, floor: 1}}}",
        &[json!({"shop": {"name": "a", "floor": 1}})],
        &[
            json!({"shop": {"name": "a"}}),
            json!({"shop": {"name": "a", "floor": 1, "tags": ["x"]}}),
        ],
    )
    .await;
    check(
        "{equals: {tags: [a, b]}}",
        &[json!({"tags": ["a", "b"]})],
        &[json!({"tags": ["b", "a"]}), json!({"tags": ["a", "b", "c"]})],
    )
    .await;
    check("{equals: {weight: 1.5}}", &[json!({"weight": 1.5})], &[json!({"weight": 1.25})]).await;
}

#[tokio::test]
async fn lists_are_equal_in_any_order_where_that_is_said() {
    check(
        "{ignoreArrayOrder: true, equals: {tags: [b, a, a]}}",
        &[json!({"tags": ["a", "b", "a"]})],
        &[
            json!({"tags": ["a", "b"]}),
            json!({"tags": ["a", "b", "b"]}),
            json!({"tags": ["a", "a", "b", "c"]}),
        ],
    )
    .await;
    check(
        "{ignoreArrayOrder: true, equals: {others: [{name: a, floor: 1}, {name: b}]}}",
        &[json!({"others": [{"name": "b"}, {"name": "a", "floor": 1}]})],
        &[json!({"others": [{"name": "b"}, {"name": "a"}]})],
    )
    .await;
    check(
        "{ignoreArrayOrder: true, equals: {shop: {name: a, tags: [b, a]}}}",
        &[
            json!({"shop": {"name": "a", "tags": ["a", "b"]}}),
            json!({"shop": {"name": "a", "tags": ["b", "a"]}}),
        ],
        &[
            json!({"shop": {"name": "a", "tags": ["a"]}}),
            json!({"shop": {"name": "a", "tags": ["a", "b"], "floor": 2}}),
            json!({"shop": {"tags": ["a", "b"]}}),
            json!({}),
        ],
    )
    .await;
}

#[test]
fn lists_in_any_order_that_rules_cannot_express_leave_their_stub_out() {
    let stub = "{service: Cart, method: GetPrice, output: {data: {}}, \
                input: {ignoreArrayOrder: true, equals: {others: [{name: a, tags: [x, y]}]}}}";
    let made = imported(Program::GripMock, "a.yaml", stub);
    assert!(made.files.is_empty(), "{made:?}");
    let told = told(&made);
    assert!(told[0].contains("in any order within what is compared as a whole"), "{told:?}");
}

#[tokio::test]
async fn contains_is_a_part_of_objects_and_lists_and_not_of_texts() {
    check(
        "{contains: {sku: tea}}",
        &[json!({"sku": "tea", "quantity": 1})],
        &[json!({"sku": "teapot"})],
    )
    .await;
    check(
        "{contains: {shop: {name: a}}}",
        &[json!({"shop": {"name": "a", "floor": 3}})],
        &[json!({"shop": {"floor": 3}}), json!({})],
    )
    .await;
    check(
        "{contains: {tags: [b, a]}}",
        &[json!({"tags": ["a", "x", "b"]})],
        &[json!({"tags": ["a"]})],
    )
    .await;
    check(
        "{contains: {labels: {env: prod}}}",
        &[json!({"labels": {"env": "prod", "a": "b"}})],
        &[json!({"labels": {"env": "dev"}}), json!({})],
    )
    .await;
    check(
        "{contains: {others: [{name: b, floor: 2}]}}",
        &[json!({"others": [{"name": "a"}, {"name": "b", "floor": 2, "tags": ["z"]}]})],
        &[json!({"others": [{"name": "b", "floor": 1}, {"name": "a", "floor": 2}]})],
    )
    .await;
}

#[tokio::test]
async fn matches_needs_a_part_of_the_text() {
    check(r"{matches: {sku: '\d+'}}", &[json!({"sku": "SK-12-x"})], &[json!({"sku": "SK"})]).await;
    check(
        r"{matches: {sku: '^SK-\d+$'}}",
        &[json!({"sku": "SK-12"})],
        &[json!({"sku": "SK-12-x"})],
    )
    .await;
    check("{matches: {sku: '(?i)^TEA$'}}", &[json!({"sku": "tea"})], &[json!({"sku": "teas"})])
        .await;
    // What JavaScript does not have.
    check(
        r"{matches: {sku: '^[[:alpha:]]+\z'}}",
        &[json!({"sku": "tea"})],
        &[json!({"sku": "tea1"})],
    )
    .await;
    // A number that is not set is 0.
    check(
        r"{matches: {quantity: '^\d$'}}",
        &[json!({"quantity": 7}), json!({})],
        &[json!({"quantity": 17})],
    )
    .await;
    check(
        "{matches: {size: 'LARGE|UNSET'}}",
        &[json!({"size": 2}), json!({})],
        &[json!({"size": "SIZE_SMALL"})],
    )
    .await;
    check(
        "{matches: {tags: ['^a', '^b']}}",
        &[json!({"tags": ["b1", "a1"]})],
        &[
            json!({"tags": ["a1", "a2"]}),
            json!({"tags": ["a1", "b1", "a2"]}),
            json!({"tags": ["a1", "c"]}),
        ],
    )
    .await;
    check(
        "{glob: {sku: 'a*/b?'}}",
        &[json!({"sku": "axx/bc"})],
        &[json!({"sku": "a/x/bc"}), json!({"sku": "a/b"})],
    )
    .await;
}

#[tokio::test]
async fn matchers_of_one_stub_hold_together_and_alternatives_for_themselves() {
    check(
        "{equals: {active: true}, contains: {sku: tea}, matches: {sku: '^t'}}",
        &[json!({"active": true, "sku": "tea"})],
        &[json!({"sku": "tea"}), json!({"active": true, "sku": "tee"})],
    )
    .await;
    check(
        "{equals: {active: true}, anyOf: [{equals: {sku: tea}}, {matches: {sku: '^m'}}]}",
        &[json!({"active": true, "sku": "tea"}), json!({"active": true, "sku": "milk"})],
        &[json!({"sku": "tea"}), json!({"active": true, "sku": "rice"})],
    )
    .await;
}

#[tokio::test]
async fn headers_are_compared_by_name_in_any_case() {
    let answers = grip(
        "service: shop.v1.Cart\nmethod: GetPrice\nheaders: {equals: {X-Tenant: acme}, matches: {authorization: '^Bearer '}}\n\
         input: {contains: {}}\noutput: {headers: {x-shard: '7'}, data: {note: fits}}",
    );
    let call = |headers: &'static [(&str, &str)]| {
        let answers = &answers;
        async move { answers.call_with("GetPrice", &[json!({})], headers).await }
    };
    assert!(call(&[("x-tenant", "acme"), ("authorization", "Bearer x")]).await[0].contains("fits"));
    assert_eq!(call(&[("x-tenant", "acme"), ("authorization", "Basic x")]).await, [NONE]);
    assert_eq!(call(&[("authorization", "Bearer x")]).await, [NONE]);
}

#[tokio::test]
async fn the_higher_priority_goes_first_and_then_who_names_more() {
    let answers = grip(
        "- {service: Cart, method: GetPrice, input: {contains: {}}, output: {data: {note: any}}}
- {service: Cart, method: GetPrice, input: {equals: {sku: tea}}, output: {data: {note: sku}}}
- {service: Cart, method: GetPrice, input: {equals: {sku: tea, quantity: 2}}, output: {data: {note: both}}}
- {service: Cart, method: GetPrice, priority: 9, input: {equals: {sku: rare, quantity: 1}}, output: {data: {note: high}}}
- {service: Cart, method: GetPrice, priority: 8, options: {times: 1}, input: {contains: {}}, output: {data: {note: once}}}",
    );
    for (request, note) in [
        (json!({"sku": "rare", "quantity": 1}), "high"),
        (json!({"sku": "tea", "quantity": 2}), "once"),
        (json!({"sku": "tea", "quantity": 2}), "both"),
        (json!({"sku": "tea"}), "sku"),
        (json!({}), "any"),
    ] {
        assert_eq!(answers.note("GetPrice", request).await, note, "{}", answers.rules());
    }
}

#[tokio::test]
async fn errors_have_their_codes_and_details() {
    let answers = grip(
        "- {service: Cart, method: GetPrice, input: {equals: {sku: a}}, output: {error: 'no {{.Request.sku}}', code: 5}}
- {service: Cart, method: GetPrice, input: {equals: {sku: b}}, output: {error: bad}}
- service: Cart
  method: GetPrice
  input: {equals: {sku: c}}
  output:
    error: wrong
    code: INVALID_ARGUMENT
    details: [{type: type.googleapis.com/google.rpc.ErrorInfo, reason: WHY}]",
    );
    assert_eq!(answers.note("GetPrice", json!({"sku": "a"})).await, "not_found: no a");
    assert_eq!(answers.note("GetPrice", json!({"sku": "b"})).await, "aborted: bad");
    assert_eq!(answers.note("GetPrice", json!({"sku": "c"})).await, "invalid_argument: wrong");
}

#[tokio::test(start_paused = true)]
async fn streams_of_replies_have_their_pauses_and_their_end() {
    let answers = grip(
        "- service: Cart
  method: Watch
  input: {equals: {sku: tea}}
  output:
    delay: 200ms
    stream: [{note: 'a {{.Request.sku}}'}, {_gripmock: {delay: 1s}, note: b}, {data: {note: c}, delay: 50ms}]
    error: late
    code: 14",
    );
    let begun = tokio::time::Instant::now();
    let all = answers.call_with("Watch", &[json!({"sku": "tea"})], &[]).await;
    assert_eq!(
        all,
        [r#"{"note":"a tea"}"#, r#"{"note":"b"}"#, r#"{"note":"c"}"#, "unavailable: late"]
    );
    assert_eq!(begun.elapsed().as_millis(), 1250);
}

#[tokio::test]
async fn streams_of_requests_are_compared_message_by_message() {
    let answers = grip(
        "- {service: Cart, method: Sum, inputs: [{equals: {sku: a}}, {matches: {sku: '^b'}}], output: {data: {note: 'two, {{(index .Requests 0).sku}}'}}}
- {service: Cart, method: Sum, inputs: [{equals: {active: true}}], output: {data: {note: 'all {{len .Requests}}'}}}",
    );
    let call = |requests: &'static [&str]| {
        let requests: Vec<Json> =
            requests.iter().map(|one| serde_json::from_str(one).unwrap()).collect();
        let answers = &answers;
        async move { answers.call_with("Sum", &requests, &[]).await.remove(0) }
    };
    assert_eq!(call(&[r#"{"sku":"a"}"#, r#"{"sku":"b1"}"#]).await, r#"{"note":"two, a"}"#);
    assert_eq!(call(&[r#"{"sku":"a"}"#, r#"{"sku":"c"}"#]).await, NONE);
    assert_eq!(call(&[r#"{"sku":"a"}"#]).await, NONE);
    assert_eq!(
        call(&[r#"{"active":true}"#, r#"{"active":true,"sku":"x"}"#]).await,
        r#"{"note":"all 2"}"#
    );
    assert_eq!(call(&[r#"{"active":true}"#, r#"{"sku":"x"}"#]).await, NONE);
}

#[tokio::test]
async fn a_conversation_is_answered_message_by_message() {
    let answers = grip(
        "- service: Cart
  method: Chat
  inputs: [{equals: {sku: hello}}, {equals: {sku: bye}}]
  output: {stream: [{note: hi}, {note: 'see you'}]}",
    );
    let say = |texts: &'static [&str]| {
        let requests: Vec<Json> = texts.iter().map(|sku| json!({"sku": sku})).collect();
        let answers = &answers;
        async move { answers.call_with("Chat", &requests, &[]).await }
    };
    assert_eq!(say(&["hello", "bye"]).await, [r#"{"note":"hi"}"#, r#"{"note":"see you"}"#]);
    assert_eq!(say(&["hello", "what"]).await, [r#"{"note":"hi"}"#, NONE]);
}

#[tokio::test]
async fn what_has_no_counterpart_is_told_and_the_rest_is_served() {
    let made = imported(
        Program::GripMock,
        "stubs.yaml",
        "- service: Cart
  method: GetPrice
  input: {equals: {sku: tea}}
  output:
    data: {note: '{{faker.Person.FirstName}}', price: 4}
    delay: '{{backoff .AttemptNumber 1 2}}'
  effects: [{action: delete, id: x}]
- {service: Cart, method: GetPrice, input: {equals: {skku: tea}}, output: {data: {note: x}}}
- {service: Cart, method: GetPrice, input: {matches: {active: true, sku: '('}}, output: {data: {note: x}}}
- {service: Cart, method: Gone, output: {data: {}}}
- {service: Other, method: Gone, output: {data: {}}}
- {service: Cart, method: GetPrice, input: {equals: {quantity: many}}, output: {data: {note: x}}}
- {service: Cart, method: GetPrice}
",
    );
    assert_eq!((made.stubs_read, made.stubs_written), (7, 1));
    assert_eq!(
        told(&made),
        [
            "stubs.yaml:7: effects: has no counterpart; use set_state and state in rules",
            "stubs.yaml:6: output.delay: the delay \"{{backoff .AttemptNumber 1 2}}\" has no counterpart; it is left out",
            "stubs.yaml:5: output.data.note: the template {{faker.Person.FirstName}} has no counterpart; it is left out",
            "stubs.yaml:8: input.equals.skku: shop.v1.PriceRequest has no field skku; the stub is left out",
            "stubs.yaml:9: input.matches.sku: the pattern does not compile: unclosed group; the stub is left out",
            "stubs.yaml:10: method: shop.v1.Cart has no method Gone; the stub is left out",
            "stubs.yaml:11: method: the schema has no service Other; the stub is left out",
            "stubs.yaml:12: input.equals.quantity: text in place of an integer; the stub is left out",
            "stubs.yaml:13: output: a stub has an output; the stub is left out",
        ]
    );
    let answers = Answers::of(made);
    assert_eq!(answers.call("GetPrice", json!({"sku": "tea"})).await, r#"{"price":"4"}"#);
    assert_eq!(answers.call("GetPrice", json!({"sku": "milk"})).await, NONE);
}
