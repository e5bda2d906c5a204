//! Answers that go wrong on purpose, answers by their bytes, and those of a real service.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidewire_mock::{Mock, RealService, RuleFiles};
use tidewire_schema::Schema;
use tidewire_service::{Answer, Body, Call, Error, Fault, Reply};

use crate::harness::{PRICE, call, elapsed, json_of, message, shop, sku, stream, with_rules};

fn faults(reply: &Reply) -> Vec<Fault> {
    reply.script().map(|script| script.faults().to_vec()).unwrap_or_default()
}

#[tokio::test]
async fn a_rule_says_what_goes_wrong_and_how_often() {
    let mock = with_rules(
        PRICE,
        "responses:
  - {when: {request.sku: all}, body: {note: a}, fault: [{kind: reset, after: 2}, {kind: goaway}, {kind: truncate, after: 7}, {kind: dribble, bytes: 3, every: 5ms}, {kind: slow, every: 2ms}, {kind: drop_trailers}, {kind: content_type, value: text/html}]}
  - {when: {request.sku: never}, body: {note: a}, fault: {kind: reset, p: 0}}
  - {when: {request.sku: some}, body: {note: a}, fault: {kind: reset, p: 0.5}}
  - {body: {note: well}}
",
    );
    let all = call(&mock, "Price", &[sku("all")]).await.unwrap();
    assert_eq!(
        faults(&all),
        [
            Fault::ResetAfter(2),
            Fault::GoAwayAfter(0),
            Fault::TruncateAfter(7),
            Fault::Dribble { bytes: 3, every: Duration::from_millis(5) },
            Fault::FrameDelay(Duration::from_millis(2)),
            Fault::LoseTrailers,
            Fault::ContentType("text/html".parse().unwrap()),
        ]
    );
    assert_eq!(faults(&call(&mock, "Price", &[sku("never")]).await.unwrap()), []);
    let mut reset = 0;
    for _ in 0..200 {
        reset += faults(&call(&mock, "Price", &[sku("some")]).await.unwrap()).len();
    }
    assert!((50..150).contains(&reset), "{reset} of 200");
}

#[tokio::test(start_paused = true)]
async fn all_answers_go_wrong_while_that_is_set_for_all_or_for_a_method() {
    let mock = with_rules(PRICE, "[{body: {note: a}, delay: 10ms}]");
    mock.set_faults(None, "{delay: 5ms, fault: {kind: reset}}").unwrap();
    mock.set_faults(Some("Watch"), "fault: {kind: goaway, after: 1}").unwrap();
    let (took, reply) = elapsed(call(&mock, "Price", &[sku("a")])).await;
    assert_eq!(took, Duration::from_millis(15));
    assert_eq!(faults(&reply.unwrap()), [Fault::ResetAfter(0)]);
    let watched = call(&mock, "Watch", &[sku("a")]).await.unwrap();
    assert_eq!(faults(&watched), [Fault::ResetAfter(0), Fault::GoAwayAfter(1)]);
    assert_eq!(mock.faults().len(), 2);
    mock.set_faults(None, "").unwrap();
    let (took, reply) = elapsed(call(&mock, "Price", &[sku("a")])).await;
    assert_eq!((took, faults(&reply.unwrap())), (Duration::from_millis(10), vec![]));
    let why = mock.set_faults(None, "{fault: {kind: resett}}").unwrap_err();
    assert!(why.message().contains("write reset"), "{why}");
    assert!(mock.set_faults(Some("Nothing"), "delay: 1ms").is_err());
}

#[tokio::test]
async fn a_response_is_by_its_bytes_and_braces_are_text_where_it_says_so() {
    let mock = with_rules(
        PRICE,
        "responses:
  - {when: {request: {equals: {sku: bytes, quantity: 2}}}, body_base64: CgF4}
  - {when: {request: {equals: {sku: braces}}}, verbatim: true, body: {note: '{{request.sku}}'}, headers: {x-a: '{{b}}'}}
  - {body: {note: other}}
",
    );
    let bytes = json!({"sku": "bytes", "quantity": 2});
    assert_eq!(message(&mock, "Price", bytes).await, json!({"note": "x"}));
    assert_eq!(message(&mock, "Price", sku("bytes")).await["note"], "other");
    let braces = call(&mock, "Price", &[sku("braces")]).await.unwrap();
    assert_eq!(braces.headers.get("x-a").unwrap(), "{{b}}");
    assert_eq!(json_of(braces), json!({"note": "{{request.sku}}"}));
    let broken = RuleFiles::new().with(PRICE, "[{body_base64: '***'}]");
    let found = broken.check(&crate::harness::schema());
    assert!(found[0].is_error && found[0].to_string().contains("this is not base64"), "{found:?}");
}

/// Answers with what it was asked, and how many messages that were.
struct Echo;

impl RealService for Echo {
    fn answer(&self, schema: &Schema, mut call: Call) -> Answer {
        let schema = schema.clone();
        Answer::pending(async move {
            let streams = call.spec().is_some_and(|method| method.kind.client_streams());
            if !streams && call.message().await?.is_empty() {
                return Err(Error::not_found("nothing"));
            }
            let body = std::mem::take(&mut call.body);
            let mut count = 0;
            if let Body::Stream(mut frames) = body {
                while let Some(frame) = futures_util::StreamExt::next(&mut frames).await {
                    frame?;
                    count += 1;
                }
            }
            let json = json!({"note": "real", "price": count});
            let message = schema.from_json("shop.v1.PriceReply", &json)?;
            Ok(Reply::new(Body::Full(message.encode(tidewire_service::Codec::Proto)?)))
        })
    }
}

fn before_a_real_one(rule: &str) -> Mock {
    let files = RuleFiles::new().with(PRICE, rule).with("shop.v1.cart.sum.yaml", rule);
    shop().rules(files).upstream(Arc::new(Echo)).build().0
}

#[tokio::test]
async fn what_no_rule_answers_the_real_service_does() {
    let rule = "responses:
  - {when: {request.sku: mine}, body: {note: mock}}
  - {when: {request.count: 2}, body: {note: two}}
  - {when: {request.sku: theirs}, upstream: true}
";
    let mock = before_a_real_one(rule);
    let note = async |request| message(&mock, "Price", request).await["note"].clone();
    assert_eq!(note(sku("mine")).await, "mock");
    assert_eq!(note(sku("theirs")).await, "real");
    assert_eq!(note(sku("any")).await, "real", "no response holds");
    let sum = async |count: usize| {
        let asked = vec![sku("a"); count];
        json_of(call(&mock, "Sum", &asked).await.unwrap())
    };
    assert_eq!(sum(2).await["note"], "two");
    assert_eq!(sum(3).await, json!({"note": "real", "price": "3"}), "all messages are passed on");
    assert_eq!(call(&mock, "Price", &[json!({})]).await.unwrap_err().message(), "nothing");
    assert_eq!(mock.calls(&tidewire_mock::Calls::all()).len(), 6, "each call is in the log");
}

#[tokio::test]
async fn a_rule_that_asks_a_service_that_is_not_there_says_so() {
    let mock = with_rules(PRICE, "[{upstream: true}]");
    let error = call(&mock, "Price", &[sku("a")]).await.unwrap_err();
    assert!(error.message().contains("name one by --upstream URL"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_log_says_what_kept_an_answer_from_its_end() {
    let rules = "- {when: {request.sku: a}, body: {}, fault: {kind: reset}}\n\
                 - {when: {request.sku: b}, body: {}, fault: {kind: goaway}}\n- {body: {}}";
    let mock = with_rules(PRICE, rules);
    for name in ["a", "b", "c"] {
        call(&mock, "Price", &[sku(name)]).await.unwrap();
    }
    let calls = mock.calls(&tidewire_mock::Calls::all());
    let faults: Vec<_> = calls.iter().map(|call| call.fault).collect();
    assert_eq!(faults, [Some("reset"), None, None]);
}

#[tokio::test(start_paused = true)]
async fn the_log_says_nothing_of_a_fault_that_an_answer_ends_before() {
    let rules = "- {when: {request.sku: many}, body: {}, fault: {kind: reset, after: 2}}\n\
                 - {when: {request.sku: long}, body: {}, fault: {kind: truncate, after: 100}}\n\
                 - {when: {request.sku: no}, error: {code: ABORTED}, fault: {kind: reset}}\n\
                 - {body: {}, fault: {kind: truncate, after: 2}}";
    let watch = "- {stream_items: [{}, {}], stream_delay_ms: 0, fault: {kind: reset, after: 2}}";
    let files = RuleFiles::new().with(PRICE, rules).with("shop.v1.cart.watch.yaml", watch);
    let mock = shop().rules(files).build().0;
    for name in ["many", "long", "no", "cut"] {
        let _ = call(&mock, "Price", &[sku(name)]).await;
    }
    stream(&mock, "Watch", &[sku("a")], 2).await;
    let calls = mock.calls(&tidewire_mock::Calls::all());
    let faults: Vec<_> = calls.iter().map(|call| call.fault).collect();
    assert_eq!(faults, [None, None, None, Some("truncate"), Some("reset")]);
}
