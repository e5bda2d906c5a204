//! Expressions of CEL in templates: values that keep their type, answers whose form depends on the
//! call.

use std::time::Duration;

use serde_json::json;
use tidewire_mock::RuleFiles;
use tidewire_service::{Code, Context};

use crate::harness::{PRICE, call, call_in, elapsed, message, shop, sku, stream, with_rules};

#[tokio::test(start_paused = true)]
async fn an_expression_alone_in_a_text_keeps_the_type_of_its_value() {
    let mock = with_rules(
        PRICE,
        r#"
responses:
  - body:
      note: "{{cel: request.tags.map(tag, tag.upperAscii()).join('+')}} of {{cel: {'n': request.quantity}}}"
      price: '{{cel: request.quantity * 9007199254740993}}'
      tags: "{{cel: request.tags.filter(tag, tag != 'b') + ['}}']}}"
      nested: >
        {{cel: {"name": request.sku, "size": request.quantity > 1 ? 10 : 1}}}
"#,
    );
    let request = json!({"sku": "tea", "quantity": 2, "tags": ["a", "b"]});
    assert_eq!(
        message(&mock, "Price", request).await,
        json!({
            "note": "A+B of {\"n\":2}",
            "price": "18014398509481986",
            "tags": ["a", "}}"],
            "nested": {"name": "tea", "size": 10},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn an_expression_sees_headers_state_variables_and_the_deadline() {
    let mock = with_rules(
        PRICE,
        "vars: {rate: 3}
responses:
  - set_state: {last: '{{cel: request.quantity + 1}}'}
    body:
      note: \"{{cel: metadata['x-a'] + string(attempt) + string(has(state.last) ? state.last : 0)}}\"
      price: '{{cel: vars.rate * request.quantity}}'
      nested: {size: '{{cel: timeout_ms}}'}
",
    );
    let context = || {
        let deadline = tokio::time::Instant::now().into_std() + Duration::from_secs(2);
        Context::default().with_deadline(deadline).with_header("x-a", "a").unwrap()
    };
    let request = [json!({"quantity": 2})];
    let reply = call_in(&mock, context(), "Price", &request).await.unwrap();
    let first = json!({"note": "a10", "price": "6", "nested": {"size": 2000}});
    assert_eq!(crate::harness::json_of(reply), first);
    let reply = call_in(&mock, context(), "Price", &request).await.unwrap();
    assert_eq!(crate::harness::json_of(reply)["note"], "a23");
    let context = Context::default().with_header("x-a", "b").unwrap();
    let reply = call_in(&mock, context, "Price", &request).await.unwrap();
    assert_eq!(crate::harness::json_of(reply)["nested"], json!({}), "null is not there");
}

#[tokio::test(start_paused = true)]
async fn headers_errors_and_delays_may_depend_on_the_call() {
    let mock = with_rules(
        PRICE,
        r#"
responses:
  - when: {request.quantity: {gt: 0}}
    headers: "{{cel: request.tags.map(tag, {'name': 'x-' + tag, 'value': [tag, 'again']})}}"
    trailers: {x-sku: '{{cel: request.sku}}', x-plain: '{{request.sku}}'}
    delay: '{{request.quantity}}ms'
    error:
      code: '{{cel: request.quantity}}'
      message: 'about {{request.sku}}'
      details:
        - {'@type': shop.v1.Nested, name: '{{request.sku}}'}
  - headers: {x-a: "{{cel: request.sku + '!'}}"}
    body: {note: '{{request.sku}}'}
"#,
    );
    let request = json!({"sku": "{{cel: 1}}", "quantity": 5, "tags": ["a", "b"]});
    let (took, reply) = elapsed(call(&mock, "Price", &[request])).await;
    let error = reply.unwrap_err();
    assert_eq!((took, error.code()), (Duration::from_millis(5), Code::NotFound));
    assert_eq!(error.message(), "about {{cel: 1}}", "nothing rendered is a template again");
    let values: Vec<_> = error.headers().get_all("x-b").iter().collect();
    assert_eq!(values, ["b", "again"]);
    assert_eq!(error.trailers()["x-sku"], "{{cel: 1}}");
    assert_eq!(error.trailers()["x-plain"], "{{request.sku}}", "as in wishmock");
    assert_eq!(&error.details()[0].value[..], b"\x0a\x0a{{cel: 1}}");
    let reply = call(&mock, "Price", &[sku("tea")]).await.unwrap();
    assert_eq!(reply.headers["x-a"], "tea!");
}

#[tokio::test(start_paused = true)]
async fn the_messages_of_a_stream_may_be_what_an_expression_gives() {
    let mock = with_rules(
        "shop.v1.cart.watch.yaml",
        r#"
responses:
  - when: {request.sku: rich}
    stream: >-
      {{cel: request.tags.map(tag, {"body": {"note": tag}, "delay": 50})
        + [{"error": {"code": "ABORTED", "message": "all " + string(size(request.tags))}}]}}
  - when: {request.sku: items}
    stream_items: "{{cel: request.tags.map(tag, {'note': tag})}}"
    stream_delay_ms: 10
  - stream: [{body: {note: '{{stream.index}}'}}, {body: {note: '{{stream.index}}'}, delay: '{{request.quantity}}ms'}]
"#,
    );
    let request = |sku: &str| json!({"sku": sku, "tags": ["a", "b"], "quantity": 7});
    let rich = stream(&mock, "Watch", &[request("rich")], 9).await;
    assert_eq!((rich.notes(), rich.times()), (vec!["a".into(), "b".into()], vec![50, 100]));
    let error = rich.error.unwrap();
    assert_eq!((error.code(), error.message()), (Code::Aborted, "all 2"));
    let items = stream(&mock, "Watch", &[request("items")], 9).await;
    assert_eq!((items.notes(), items.times()), (vec!["a".into(), "b".into()], vec![0, 10]));
    let late = stream(&mock, "Watch", &[request("")], 9).await;
    assert_eq!((late.notes(), late.times()), (vec!["0".into(), "1".into()], vec![0, 7]));
}

#[tokio::test(start_paused = true)]
async fn reactions_may_answer_with_what_the_first_message_says() {
    let mock = with_rules(
        "shop.v1.cart.chat.yaml",
        r#"
responses:
  - headers: "{{cel: [{'name': 'x-first', 'value': request.first.sku}]}}"
    on_message:
      - when: {request.first.quantity: {gt: 0}}
        send: [{body: '{{cel: {"note": request.first.tags[request.count - 1]}}}'}]
    stream_items: "{{cel: request.items.map(one, {'note': one.sku})}}"
"#,
    );
    let first = json!({"sku": "f", "quantity": 1, "tags": ["a", "b"]});
    let streamed = stream(&mock, "Chat", &[first, sku("g")], 9).await;
    assert_eq!(streamed.notes(), ["a", "b", "f", "g"]);
    let reply = call(&mock, "Chat", &[sku("h")]).await.unwrap();
    assert_eq!(reply.headers["x-first"], "h");
}

#[tokio::test(start_paused = true)]
async fn an_expression_without_a_value_is_an_error_that_says_why() {
    let text = "responses:
  - {when: {request.sku: a}, body: {note: '{{cel: request.tags[3]}}'}}
  - {when: {request.sku: b}, body: {note: '{{cel: request.nothing}}'}}
  - {when: {request.sku: c}, error: {code: '{{cel: request.sku}}'}}
  - {when: {request.sku: d}, body: {tags: \"{{cel: [0,1,2,3,4,5,6,7,8,9].map(a, [0,1,2,3,4,5,6,7,8,9].map(b, [0,1,2,3,4,5,6,7,8,9].map(c, [0,1,2,3,4,5,6,7,8,9].map(d, [0,1,2,3,4,5,6,7,8,9].map(e, [0,1,2,3,4,5,6,7,8,9].map(f, 1))))))}}\"}}
  - {when: {request.sku: e}, set_state: {a: '{{cel: 1 / 0}}'}, body: {note: e}}
";
    let (mock, findings) = shop().rules(RuleFiles::new().with(PRICE, text)).build();
    let told: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "shop.v1.cart.price.yaml:3:43: the expression has no value: shop.v1.PriceRequest has no field nothing"
        ]
    );
    for (which, why) in [
        ("a", "cel: request.tags[3]: "),
        ("b", "shop.v1.PriceRequest has no field nothing"),
        ("c", "c is not a code of an error"),
        ("d", "takes more than 1000000 steps"),
        ("e", "cel: 1 / 0: "),
    ] {
        let error = call(&mock, "Price", &[sku(which)]).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal, "{which}");
        assert!(error.message().contains(why), "{which}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_may_be_an_expression_over_any_value() {
    let mock = with_rules(
        PRICE,
        "responses:
  - {when: {request.quantity: {cel: 'this > 3 && this % 2 == 0'}}, body: {note: even}}
  - {when: {request.sku: {cel: 'this.size() == 3'}}, body: {note: three}}
  - {when: {request.tags: {any: {cel: 'this.startsWith(\"g\")'}}}, body: {note: g}}
  - {when: {request.tags: {cel: 'this.unique() && size(this) > 1'}}, body: {note: unique}}
  - {when: {metadata.x-a: {cel: 'int(this) > 3'}}, body: {note: header}}
  - {body: {note: none}}
",
    );
    for (request, note) in [
        (json!({"quantity": 4}), "even"),
        (json!({"quantity": 5}), "none"),
        (sku("tea"), "three"),
        (json!({"tags": ["a", "gold"]}), "g"),
        (json!({"tags": ["a", "b"]}), "unique"),
        (json!({"tags": ["a", "a"]}), "none"),
    ] {
        assert_eq!(message(&mock, "Price", request).await["note"], note);
    }
    let context = Context::default().with_header("x-a", "4").unwrap();
    let reply = call_in(&mock, context, "Price", &[json!({})]).await.unwrap();
    assert_eq!(crate::harness::json_of(reply)["note"], "header");
}
