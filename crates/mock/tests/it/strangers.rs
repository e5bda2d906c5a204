//! The call log, its verification and sessions, as somebody uses them who has read the guide only:
//! many at once, very large, oddly named, and taken back in the middle.

use futures_util::future::join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::json;
use tidewire_mock::{Calls, Mock, RuleFiles, Times};
use tidewire_service::{Body, Code, Context};

use crate::harness::{PRICE, call, call_in, json_of, session, shop, sku, stream, with_rules};

const CHAT: &str = "shop.v1.cart.chat.yaml";
const WATCH: &str = "shop.v1.cart.watch.yaml";

fn price() -> Calls {
    Calls::of("shop.v1.Cart/Price")
}

fn in_session(name: &str) -> Context {
    let value = http::HeaderValue::from_bytes(name.as_bytes()).unwrap();
    Context::default().with_header("x-mock-session", value).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_hundred_streams_at_once_are_a_hundred_calls_each_with_its_own_messages() {
    let (mock, _) = shop().build();
    let calls = (0..100).map(|number| {
        let asked: Vec<_> = (0..=number % 3).map(|_| sku(&format!("s{number}"))).collect();
        let mock = mock.clone();
        async move { call(&mock, "Sum", &asked).await.map(drop) }
    });
    for done in join_all(calls).await {
        done.unwrap();
    }
    let sums = || Calls::of("shop.v1.Cart/Sum");
    mock.verify(&sums(), Times::Exactly(100)).unwrap();
    mock.verify(&sums().with("count", 3), Times::Exactly(33)).unwrap();
    mock.verify(&sums().with("last.sku", "s42"), Times::Exactly(1)).unwrap();
    let numbers: Vec<_> = mock.calls(&sums()).iter().map(|call| call.number).collect();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_reset_among_running_calls_leaves_those_that_come_after_it() {
    let mock = with_rules(PRICE, "[{delay: 1s, body: {}}]");
    let asked = [sku("a")];
    let mut before: Vec<_> = (0..50).map(|_| Box::pin(call(&mock, "Price", &asked))).collect();
    for one in &mut before {
        assert!(one.as_mut().now_or_never().is_none());
    }
    mock.verify(&price(), Times::Exactly(50)).unwrap();
    mock.reset(None);
    mock.verify(&price(), Times::Never).unwrap();
    let after = (0..3).map(|_| call(&mock, "Price", &asked));
    let (before, after) = tokio::join!(join_all(before), join_all(after));
    assert!(before.iter().chain(&after).all(Result::is_ok), "a reset ends no call");
    mock.verify(&price(), Times::Exactly(3)).unwrap();
    assert!(mock.calls(&price()).iter().all(|call| !call.is_running));
}

#[tokio::test(start_paused = true)]
async fn huge_messages_push_out_older_calls_and_what_is_forgotten_is_no_success() {
    let (mock, _) = shop().build();
    for number in 0..10 {
        let asked = json!({"sku": "x".repeat(3 << 20), "quantity": number});
        call(&mock, "Price", &[asked]).await.unwrap();
    }
    let kept: Vec<_> = mock.calls(&price()).iter().map(|call| call.number).collect();
    assert_eq!(kept, [6, 7, 8, 9, 10], "16 MiB");
    let told = mock.verify(&price(), Times::Exactly(10)).unwrap_err().to_string();
    assert!(told.contains("got 5; the log has forgotten 5 calls"), "{told}");
    mock.verify(&price(), Times::AtLeast(5)).unwrap();
    // One that is larger than the log is there all the same, until the next one comes.
    call(&mock, "Price", &[sku(&"y".repeat(20 << 20))]).await.unwrap();
    mock.verify(&price().with("sku", json!({"len": 20 << 20})), Times::AtLeast(1)).unwrap();
    call(&mock, "Price", &[sku("small")]).await.unwrap();
    assert_eq!(mock.calls(&price()).len(), 1);
    let told = mock.verify(&price().with("sku", "x"), Times::AtLeast(1)).unwrap_err().to_string();
    assert!(told.len() < 1000, "what came is shown by its beginning: {}", told.len());
}

#[tokio::test(start_paused = true)]
async fn a_huge_stream_leaves_room_for_other_calls_and_says_how_much_of_it_is_kept() {
    let (mock, _) = shop().build();
    call(&mock, "Price", &[sku("small")]).await.unwrap();
    let large: Vec<_> = (0..30).map(|_| sku(&"x".repeat(1 << 20))).collect();
    call(&mock, "Sum", &large).await.unwrap();
    let many: Vec<_> = (0..150).map(|number| json!({"quantity": number})).collect();
    call(&mock, "Sum", &many).await.unwrap();
    let sums = mock.calls(&Calls::of("shop.v1.Cart/Sum"));
    let kept: Vec<_> = sums.iter().map(|call| (call.requests.len(), call.request_count)).collect();
    assert_eq!(kept.last(), Some(&(100, 150)));
    let wanted = Calls::of("shop.v1.Cart/Sum").with("count", 150);
    let told = mock.verify(&wanted, Times::Exactly(1)).unwrap_err().to_string();
    assert!(told.contains("(the log has the first 100 of its 150 messages)"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_session_may_have_any_name() {
    let (mock, _) = shop().build();
    let long = "n".repeat(5000);
    let names = ["a b", "größe", "-x", "'\"\\", "{{x}}", "*", "a,b", "null", "日本", &*long];
    for name in names {
        let stub = json!({"verbatim": true, "body": {"note": name}});
        mock.stub("shop.v1.Cart/Price", &stub, Some(name)).unwrap();
    }
    for name in names {
        let reply = call_in(&mock, in_session(name), "Price", &[sku("a")]).await.unwrap();
        assert_eq!(json_of(reply)["note"], name);
    }
    for name in names {
        mock.verify(&Calls::all().in_session(name), Times::Exactly(1)).unwrap();
        mock.reset(Some(name));
        mock.verify(&Calls::all().in_session(name), Times::Never).unwrap();
    }
    assert!(mock.list_sessions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn calls_without_a_session_are_in_no_session_and_counted_among_all() {
    let (mock, _) = shop().build();
    call(&mock, "Price", &[sku("a")]).await.unwrap();
    call_in(&mock, session("t"), "Price", &[sku("a")]).await.unwrap();
    mock.verify(&price(), Times::Exactly(2)).unwrap();
    mock.verify(&price().in_session("t"), Times::Exactly(1)).unwrap();
    mock.verify(&price().in_session("T"), Times::Never).unwrap();
    mock.verify(&price().in_session(""), Times::Exactly(1)).unwrap();
    mock.reset(Some("t"));
    mock.verify(&price(), Times::Exactly(1)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_reset_in_the_middle_of_a_stream_does_not_end_it() {
    let rule = "[{on_message: [{send: [{note: '{{message.sku}}'}]}], stream_items: [{note: end}]}]";
    let mock = with_rules(CHAT, rule);
    let asked = [sku("a"), sku("b")];
    let reply = call_in(&mock, session("s"), "Chat", &asked).await.unwrap();
    let Body::Stream(mut frames) = reply.body else { panic!("it is a stream") };
    frames.next().await.unwrap().unwrap();
    mock.reset(Some("s"));
    let mut rest = 0;
    while let Some(frame) = frames.next().await {
        frame.unwrap();
        rest += 1;
    }
    assert_eq!(rest, 2);
    mock.verify(&Calls::all(), Times::Never).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_log_that_is_off_answers_streams_and_verifies_nothing() {
    let files = RuleFiles::new().with(WATCH, "[{stream_items: [{note: a}, {note: b}]}]");
    let (mock, _) = shop().rules(files).log_calls(0).build();
    assert_eq!(stream(&mock, "Watch", &[sku("a")], 9).await.notes(), ["a", "b"]);
    let left = call(&mock, "Watch", &[sku("a")]).await.unwrap();
    drop(left);
    assert!(mock.calls(&Calls::all()).is_empty() && mock.near_misses().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_running_call_that_the_log_forgets_stays_forgotten() {
    let files = RuleFiles::new().with(WATCH, "[{stream_items: [{note: a}]}]");
    let (mock, _) = shop().rules(files).log_calls(2).build();
    let reply = call(&mock, "Watch", &[sku("a")]).await.unwrap();
    for _ in 0..2 {
        call(&mock, "Price", &[sku("a")]).await.unwrap();
    }
    drop(reply);
    let calls = mock.calls(&Calls::all());
    let outcomes: Vec<_> = calls.iter().map(|call| (call.number, call.error)).collect();
    assert_eq!(outcomes, [(2, None), (3, None)]);
    let told = mock.verify(&Calls::of("shop.v1.Cart/Watch"), Times::Exactly(1)).unwrap_err();
    assert!(told.to_string().contains("the log has forgotten 1 call"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_each_of_many_callers_is_its_own() {
    let rules = "- {when: {request.sku: slow}, delay: 1s, body: {}}\n\
                 - {when: {request.sku: bad}, error: {code: NOT_FOUND}}\n- {body: {}}";
    let mock = with_rules(PRICE, rules);
    let ask = |name: &'static str| {
        let mock: Mock = mock.clone();
        async move { call(&mock, "Price", &[sku(name)]).await.map(drop) }
    };
    let calls = (0..60).map(|number| {
        let asked = ask(["slow", "bad", "fine"][number % 3]);
        let patience = std::time::Duration::from_millis(if number % 2 == 0 { 2000 } else { 500 });
        tokio::time::timeout(patience, asked)
    });
    join_all(calls).await;
    let count = |error: Option<Code>| {
        mock.calls(&price()).iter().filter(|call| call.error == error && !call.is_running).count()
    };
    assert_eq!(count(Some(Code::Canceled)), 10);
    assert_eq!(count(Some(Code::NotFound)), 20);
    assert_eq!(count(None), 30);
}
