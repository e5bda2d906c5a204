//! How calls ended, as the log has it: refused, left by their callers, late, broken by a fault.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::json;
use tidewire_mock::{Calls, LoggedCall, Mock, RuleFiles, Times};
use tidewire_schema::Schema;
use tidewire_service::{
    Body, Call, Code, Codec, Context, Frame, Gate as _, Head, Reply, Service as _, Target,
};

use crate::harness::{
    PRICE, TestClock, call, call_in, method, session, shop, sku, stream, with_rules,
};

const WATCH: &str = "shop.v1.cart.watch.yaml";
const CHAT: &str = "shop.v1.cart.chat.yaml";
const CUSTOMER: &str = "shop.v1.cart.customer.yaml";

/// Outcomes as they are shown.
fn outcomes(mock: &Mock) -> Vec<String> {
    mock.calls(&Calls::all()).iter().map(|call| outcome(call)).collect()
}

fn outcome(call: &LoggedCall) -> String {
    match (call.is_running, call.error, call.fault) {
        (true, ..) => "running".to_owned(),
        (_, Some(code), _) => code.as_str().to_owned(),
        (_, None, Some(fault)) => fault.to_owned(),
        (_, None, None) => "ok".to_owned(),
    }
}

fn frames(reply: Reply) -> std::pin::Pin<Box<dyn tidewire_service::Frames>> {
    let Body::Stream(frames) = reply.body else { panic!("{reply:?} is a stream") };
    frames
}

/// A stream of requests of which one came, and others are to come.
fn one_and_on() -> Body {
    let first = futures_util::stream::iter([Ok(bytes::Bytes::from(r#"{"sku":"a"}"#))]);
    Body::stream(first.chain(futures_util::stream::pending()))
}

/// A mock with rules of validation, which refuses what breaks them.
fn strict() -> Mock {
    let folder = tempfile::tempdir().unwrap();
    let proto = r#"syntax = "proto3";
package shop.v1;
import "buf/validate/validate.proto";
service Cart {
  rpc Price(PriceRequest) returns (PriceReply);
  rpc Sum(stream PriceRequest) returns (PriceReply);
}
message PriceRequest { string sku = 1 [(buf.validate.field).string.min_len = 3]; }
message PriceReply { string note = 1; }
"#;
    std::fs::write(folder.path().join("shop.proto"), proto).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let rules = RuleFiles::new().with(PRICE, "[{when: {request.sku: tea}, body: {note: tea}}]");
    let mock = Mock::builder(schema, TestClock).rules(rules).build().0;
    mock.set_validation(true);
    mock
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_logged_and_counted_with_what_was_wrong() {
    let mock = strict();
    call(&mock, "Price", &[sku("tea")]).await.unwrap();
    let refused = call(&mock, "Price", &[sku("x")]).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(refused.message(), "sku: must be at least 3 characters");
    assert_eq!(outcomes(&mock), ["ok", "invalid_argument"]);
    let logged = mock.calls(&Calls::of("shop.v1.Cart/Price").with("sku", "x"));
    assert_eq!(logged[0].reason, "sku: must be at least 3 characters");
    mock.verify(&Calls::of("shop.v1.Cart/Price"), Times::Exactly(2)).unwrap();
    assert!(mock.near_misses().is_empty(), "no rule was asked");
    // So is a stream, at the message that is wrong.
    call(&mock, "Sum", &[sku("tea"), sku("x"), sku("milk")]).await.unwrap_err();
    let sums = mock.calls(&Calls::of("shop.v1.Cart/Sum").with("last.sku", "x").with("count", 2));
    assert_eq!((sums.len(), sums[0].error), (1, Some(Code::InvalidArgument)));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_read_is_logged_without_a_request() {
    let (mock, _) = shop().build();
    call(&mock, "Price", &[json!({"sku": 7})]).await.unwrap_err();
    let logged = mock.calls(&Calls::all()).remove(0);
    assert_eq!((logged.error, logged.requests.len()), (Some(Code::InvalidArgument), 0));
    assert!(logged.reason.contains("sku"), "{}", logged.reason);
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_until_its_answer_is_there_and_is_canceled_if_nobody_waits() {
    let mock = with_rules(PRICE, "[{delay: 1s, body: {note: a}}]");
    let asked = [sku("a")];
    let mut waiting = Box::pin(call(&mock, "Price", &asked));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(outcomes(&mock), ["running"]);
    mock.verify(&Calls::of("shop.v1.Cart/Price"), Times::Exactly(1)).unwrap();
    waiting.await.unwrap();
    let mut left = Box::pin(call(&mock, "Price", &asked));
    assert!(left.as_mut().now_or_never().is_none());
    drop(left);
    let late = Context::default().with_deadline(deadline(Duration::from_millis(200)));
    let late = call_in(&mock, late, "Price", &asked);
    tokio::time::timeout(Duration::from_millis(200), late).await.unwrap_err();
    assert_eq!(outcomes(&mock), ["ok", "canceled", "deadline_exceeded"]);
    let calls = mock.calls(&Calls::all());
    assert_eq!(calls[1].reason, "the caller left before the answer was complete");
    assert_eq!(calls[2].reason, "the deadline passed before the answer was complete");
    assert!(calls.iter().all(|call| call.rule.is_some()), "a rule was to answer each");
}

fn deadline(after: Duration) -> std::time::Instant {
    (tokio::time::Instant::now() + after).into_std()
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_replies_runs_until_its_last_message_and_is_canceled_before() {
    let mock = with_rules(WATCH, "[{stream_items: [{note: a}, {note: b}], stream_delay_ms: 50}]");
    let mut whole = frames(call(&mock, "Watch", &[sku("a")]).await.unwrap());
    whole.next().await.unwrap().unwrap();
    assert_eq!(outcomes(&mock), ["running"]);
    whole.next().await.unwrap().unwrap();
    assert!(whole.next().await.is_none());
    assert_eq!(outcomes(&mock), ["ok"]);
    let mut left = frames(call(&mock, "Watch", &[sku("a")]).await.unwrap());
    left.next().await.unwrap().unwrap();
    drop(left);
    let context = Context::default().with_deadline(deadline(Duration::from_millis(20)));
    let mut late = frames(call_in(&mock, context, "Watch", &[sku("a")]).await.unwrap());
    late.next().await.unwrap().unwrap();
    let second = tokio::time::timeout(Duration::from_millis(20), late.next()).await;
    assert!(second.is_err());
    drop(late);
    assert_eq!(outcomes(&mock), ["ok", "canceled", "deadline_exceeded"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_requests_is_logged_as_it_comes_and_when_it_is_taken_back() {
    let (mock, _) = shop().build();
    let call = Call::method(method(&mock, "Sum"), Context::default(), Codec::Json, one_and_on());
    let mut sum = Box::pin(mock.call(call));
    assert!(sum.as_mut().now_or_never().is_none());
    let running = mock.calls(&Calls::of("shop.v1.Cart/Sum").with("first.sku", "a"));
    assert!(running[0].is_running);
    drop(sum);
    assert_eq!(outcomes(&mock), ["canceled"]);
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_the_outcome_if_the_answer_got_so_far() {
    let rule = "[{fault: {kind: reset, after: 1}, stream_items: [{note: a}, {note: b}]}]";
    let mock = with_rules(WATCH, rule);
    drop(frames(call(&mock, "Watch", &[sku("a")]).await.unwrap()));
    let mut reset = frames(call(&mock, "Watch", &[sku("a")]).await.unwrap());
    reset.next().await.unwrap().unwrap();
    drop(reset);
    assert_eq!(outcomes(&mock), ["canceled", "reset"]);
    let mock = with_rules(WATCH, "[{fault: {kind: drop_trailers}, stream_items: [{note: a}]}]");
    drop(frames(call(&mock, "Watch", &[sku("a")]).await.unwrap()));
    stream(&mock, "Watch", &[sku("a")], 9).await;
    assert_eq!(outcomes(&mock), ["canceled", "drop_trailers"]);
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_caller_left_is_canceled_while_it_goes_on() {
    let mock = with_rules(CUSTOMER, "[{delay: 1s, set_state: {a: b}, body: {}}]");
    let mut head = Head::new(Target::Method(method(&mock, "Customer")), session("s"));
    assert!(matches!(
        mock.call_gate().admit(&mut head),
        tidewire_service::Admission::Ready(Ok(()))
    ));
    let parts = head.into_parts();
    let call =
        Call::method(method(&mock, "Customer"), parts.context, Codec::Json, Body::from("{}"));
    // As a server runs it: it goes on when the request is over.
    let mut running = Box::pin(mock.call(call));
    assert!(running.as_mut().now_or_never().is_none());
    assert_eq!(outcomes(&mock), ["running"]);
    drop(parts.permits);
    assert_eq!(outcomes(&mock), ["canceled"]);
    running.await.unwrap();
    assert_eq!(outcomes(&mock), ["canceled"], "what was said first stays");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_while_its_session_is_reset_does_not_come_back() {
    let mock = with_rules(PRICE, "[{delay: 1s, body: {}}]");
    let asked = [sku("a")];
    let mut waiting = Box::pin(call_in(&mock, session("s"), "Price", &asked));
    assert!(waiting.as_mut().now_or_never().is_none());
    mock.reset(None);
    let other = call(&mock, "Watch", &[sku("a")]).await.unwrap();
    waiting.await.unwrap();
    let calls = mock.calls(&Calls::all());
    assert_eq!((calls.len(), calls[0].number), (1, 1));
    assert_eq!(&*calls[0].method.method, "Watch");
    assert_eq!(outcomes(&mock), ["running"], "the end of the other call is not its own");
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn an_error_is_logged_with_its_message_and_a_long_one_with_its_beginning() {
    let long = "é".repeat(4000);
    let rules = format!(
        "- {{when: {{request.sku: a}}, error: {{code: NOT_FOUND, message: 'no a'}}}}\n\
         - {{error: {{code: ABORTED, message: '{long}'}}}}"
    );
    let mock = with_rules(PRICE, &rules);
    for name in ["a", "b"] {
        call(&mock, "Price", &[sku(name)]).await.unwrap_err();
    }
    let calls = mock.calls(&Calls::all());
    assert_eq!((calls[0].error, &*calls[0].reason), (Some(Code::NotFound), "no a"));
    assert_eq!(calls[1].reason, "é".repeat(2048));
}

#[tokio::test(start_paused = true)]
async fn a_reacting_stream_is_in_the_log_while_it_runs_with_what_was_said_so_far() {
    let mock = with_rules(CHAT, "[{on_message: [{send: [{note: 'got {{message.sku}}'}]}]}]");
    let call = Call::method(method(&mock, "Chat"), Context::default(), Codec::Json, one_and_on());
    let mut replies = frames(mock.call(call).await.unwrap());
    let Some(Ok(Frame::Data(first))) = replies.next().await else { panic!("it answers") };
    assert_eq!(first, br#"{"note":"got a"}"#[..]);
    let logged = mock.calls(&Calls::of("shop.v1.Cart/Chat").with("last.sku", "a")).remove(0);
    assert!(logged.is_running && logged.rule.is_some());
    drop(replies);
    assert_eq!(outcomes(&mock), ["canceled"]);
}
