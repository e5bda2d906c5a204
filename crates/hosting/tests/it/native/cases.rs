//! What a program answers, whatever its language.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::HeaderValue;
use serde_json::{Value, json};
use tidewire_service::{Body, Call, Code, Codec, Context, Error, Frame, Method, Service};

use super::{Gateway, context, json_of, key};

pub(super) async fn all(command: &[String]) {
    let gateway =
        Gateway::start(command, Codec::Json, crate::limits(|limits| limits.queue_max = 1000)).await;
    unary_calls_carry_metadata(&gateway).await;
    errors_carry_details(&gateway).await;
    streams_of_all_kinds_flow(&gateway).await;
    a_handler_that_fails_within_its_stream_is_one_failed_call(&gateway).await;
    a_caller_that_does_not_end_its_stream_ends_its_own_call_alone(&gateway).await;
    a_stream_that_is_not_read_to_its_end_is_answered(&gateway).await;
    large_messages_pass_both_ways(&gateway).await;
    a_thousand_calls_at_once_are_answered(&gateway).await;
    who_gives_up_is_heard(&gateway).await;
    deadlines_are_told_and_heard(&gateway).await;
    a_command_that_has_begun_runs_on_although_its_caller_gave_up(&gateway).await;
    it_calls_back(&gateway).await;
    pages_pass_with_their_bodies(&gateway).await;
    answers_are_kept_until_what_they_are_made_of_changes(&gateway).await;
    answers_made_of_all_of_a_source_end_with_each_of_its_keys(&gateway).await;
    numbers_are_keys_by_one_text_in_all_languages(&gateway).await;
    gateway.stop().await;
    protobuf_passes_untouched(command).await;
    one_that_calls_itself_is_not_queued_behind_itself(command).await;
}

async fn unary_calls_carry_metadata(gateway: &Gateway) {
    assert_eq!(gateway.text("Echo", "héllo \u{1f30a}").await.unwrap(), "héllo \u{1f30a}");
    let mut asked = Context::default();
    asked.headers_mut().insert("x-ping", HeaderValue::from_static("7"));
    let reply = gateway.reply("Echo", asked, r#"{"text":"a"}"#).await.unwrap();
    assert_eq!(reply.headers["x-pong"], "7");
    assert_eq!(reply.trailers["x-pong-trailer"], "7");
}

async fn errors_carry_details(gateway: &Gateway) {
    let error = gateway.ask("Fail", json!({ "text": "tea" })).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::NotFound, "there is no tea"));
    assert_eq!(error.headers()["x-fail"], "yes");
    assert_eq!(error.trailers()["x-fail-trailer"], "late");
    let [detail] = error.details() else { panic!("{error:?}") };
    assert_eq!(detail.type_name, "tidewire.hosted.v1.Text");
    assert_eq!(detail.value, &b"\x0a\x01x"[..]);
    let error = gateway.ask("Do", json!({ "text": "raise" })).await.unwrap_err();
    let text = "the handler failed; its log says why";
    assert_eq!((error.code(), error.message()), (Code::Internal, text));
}

fn messages(all: impl IntoIterator<Item = Value, IntoIter: Send + 'static>) -> Body {
    let items = all.into_iter().map(|message| Ok(Bytes::from(message.to_string())));
    Body::stream(futures_util::stream::iter(items))
}

/// All messages of a streamed reply.
async fn collected(gateway: &Gateway, name: &str, body: impl Into<Body>) -> Vec<Value> {
    let reply = gateway.reply(name, Context::default(), body).await.unwrap();
    let Body::Stream(mut frames) = reply.body else { panic!("{name} does not stream") };
    let mut all = Vec::new();
    while let Some(frame) = frames.next().await {
        if let Frame::Data(message) = frame.unwrap() {
            all.push(serde_json::from_slice(&message).unwrap());
        }
    }
    all
}

async fn streams_of_all_kinds_flow(gateway: &Gateway) {
    let numbers: Vec<_> = (1..=2000).map(|number| json!({ "number": number })).collect();
    assert_eq!(collected(gateway, "Count", r#"{"number":2000}"#).await, numbers);
    assert!(collected(gateway, "Count", "{}").await.is_empty());
    let sum = gateway.reply("Sum", Context::default(), messages(numbers)).await.unwrap();
    assert_eq!(json_of(sum).await.unwrap(), json!({ "number": 2_001_000 }));
    let long = "x".repeat(40_000);
    let texts = || (0..50).map(|n| format!("{n} {}", if n % 10 == 0 { long.as_str() } else { "" }));
    let said: Vec<_> = texts().map(|text| json!({ "text": text })).collect();
    let heard: Vec<_> = texts().map(|text| json!({ "text": format!("re: {text}") })).collect();
    assert!(collected(gateway, "Chat", messages(said)).await == heard);
}

async fn a_handler_that_fails_within_its_stream_is_one_failed_call(gateway: &Gateway) {
    let pid = gateway.text("Do", "pid").await.unwrap();
    for before in [0, 3] {
        let said = (0..before).map(|_| "a").chain(["raise"]);
        let said: Vec<_> = said.map(|text| json!({ "text": text })).collect();
        let reply = gateway.reply("Chat", Context::default(), messages(said)).await;
        let (mut heard, mut ended) = (0, None);
        match reply.map(|reply| reply.body.into_frames()) {
            Err(error) => ended = Some(error),
            Ok(mut frames) => {
                while let Some(frame) = frames.next().await {
                    match frame {
                        Ok(_) => heard += 1,
                        Err(error) => ended = Some(error),
                    }
                }
            }
        }
        let text = "the handler failed; its log says why";
        let ended = ended.expect("it ends by its error");
        assert_eq!((heard, ended.code(), ended.message()), (before, Code::Internal, text));
    }
    assert_eq!(gateway.text("Do", "pid").await.unwrap(), pid, "the program goes on");
}

/// As it uploads: it goes away, its time is over, what it sends is broken.
async fn a_caller_that_does_not_end_its_stream_ends_its_own_call_alone(gateway: &Gateway) {
    let pid = gateway.text("Do", "pid").await.unwrap();
    let first = || futures_util::stream::iter([Ok(Bytes::from(r#"{"number":1}"#))]);
    let broken = || Err(Error::invalid_argument("it is broken"));
    let reply = gateway
        .reply(
            "Sum",
            Context::default(),
            Body::stream(first().chain(futures_util::stream::iter([broken()]))),
        )
        .await;
    assert_eq!(reply.unwrap_err().message(), "it is broken");
    let endless = || Body::stream(first().chain(futures_util::stream::pending()));
    let late = gateway.reply("Sum", context(Duration::from_millis(50)), endless()).await;
    assert_eq!(late.unwrap_err().code(), Code::DeadlineExceeded);
    let given_up = gateway.reply("Sum", Context::default(), endless());
    futures_util::future::select(Box::pin(given_up), Box::pin(gateway.text("Echo", "a"))).await;
    assert_eq!(gateway.text("Do", "pid").await.unwrap(), pid, "the program goes on");
}

/// Which it answers at the first.
async fn a_stream_that_is_not_read_to_its_end_is_answered(gateway: &Gateway) {
    for _ in 0..5 {
        let rest = (0..200).map(|number| json!({ "number": number }));
        let said = messages([json!({ "number": -1 })].into_iter().chain(rest));
        let reply = gateway.reply("Sum", context(Duration::from_secs(20)), said).await;
        assert_eq!(json_of(reply.unwrap()).await.unwrap(), json!({ "number": -1 }));
    }
}

async fn large_messages_pass_both_ways(gateway: &Gateway) {
    for size in [16_000, 16_400, 65_536, 1_000_000] {
        let text = "0123456789abcdef".repeat(size / 16);
        assert!(gateway.text("Echo", &text).await.unwrap() == text, "{size} bytes");
    }
}

async fn a_thousand_calls_at_once_are_answered(gateway: &Gateway) {
    let calls = (0..1000).map(|number| async move {
        let text = number.to_string();
        (gateway.text("Echo", &text).await, text)
    });
    for (answer, text) in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap(), text);
    }
}

async fn who_gives_up_is_heard(gateway: &Gateway) {
    let text = key();
    let request = json!({ "text": text }).to_string();
    let reply = gateway.reply("Drip", Context::default(), request).await.unwrap();
    let Body::Stream(mut frames) = reply.body else { panic!("it streams") };
    let first = frames.next().await.unwrap().unwrap();
    let Frame::Data(first) = first else { panic!("{first:?}") };
    assert_eq!(serde_json::from_slice::<Value>(&first).unwrap(), json!({ "number": 1 }));
    drop(frames);
    assert_eq!(gateway.text("Heard", &text).await.unwrap(), text);
}

async fn deadlines_are_told_and_heard(gateway: &Gateway) {
    let left = gateway.reply("Left", context(Duration::from_secs(60)), "{}").await.unwrap();
    let left = json_of(left).await.unwrap()["number"].as_i64().unwrap();
    assert!((1..=60_000).contains(&left), "{left} ms");
    let text = key();
    let request = json!({ "text": text }).to_string();
    let error = gateway.reply("Wait", context(Duration::from_secs(2)), request).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert_eq!(gateway.text("Heard", &text).await.unwrap(), text);
}

/// Large ones come as streams, which end at once when their caller gives up.
async fn a_command_that_has_begun_runs_on_although_its_caller_gave_up(gateway: &Gateway) {
    for size in [0, 20_000] {
        let [begun, goes_on, done] = [key(), key(), key()];
        let text = format!("{begun} {goes_on} {done} {}", "x".repeat(size));
        let request = json!({ "text": text }).to_string();
        let command = gateway.reply("Begin", context(Duration::from_secs(2)), request);
        let (command, heard) = tokio::join!(command, gateway.text("Heard", &begun));
        heard.unwrap();
        assert_eq!(command.unwrap_err().code(), Code::DeadlineExceeded);
        // Its words are there already.
        gateway.text("Begin", &format!("{goes_on} {goes_on} {goes_on}")).await.unwrap();
        assert_eq!(gateway.text("Heard", &done).await.unwrap(), done);
    }
}

async fn it_calls_back(gateway: &Gateway) {
    assert_eq!(gateway.text("Within", "a").await.unwrap(), "inner a");
    // A method that takes many gets the one that is sent.
    assert_eq!(gateway.text("Within", "sum").await.unwrap(), "5");
}

async fn pages_pass_with_their_bodies(gateway: &Gateway) {
    let expected = |text: String| (201, "yes".to_owned(), text);
    let page = gateway.page(http::Method::GET, Body::Empty).await;
    assert_eq!(page, expected("GET /a b?c=d ".to_owned()));
    for size in [5, 200_000] {
        let body = "x".repeat(size);
        let page = gateway.page(http::Method::POST, body.clone()).await;
        assert!(page == expected(format!("POST /a b?c=d {body}")), "{size} bytes");
    }
    let pieces = (0..100).map(|n| Ok(Bytes::from(format!("{n},"))));
    let page =
        gateway.page(http::Method::PUT, Body::stream(futures_util::stream::iter(pieces))).await;
    let text: String = (0..100).map(|n| format!("{n},")).collect();
    assert_eq!(page, expected(format!("PUT /a b?c=d {text}")));
}

async fn answers_are_kept_until_what_they_are_made_of_changes(gateway: &Gateway) {
    let (one, two) = (key(), key());
    for key in [&one, &two] {
        assert_eq!(gateway.number("Get", key).await, 1);
        assert_eq!(gateway.number("Get", key).await, 1, "it is kept");
        assert_eq!(gateway.number("Through", key).await, 1, "and so for others");
    }
    gateway.text("Set", &one).await.unwrap();
    assert_eq!(gateway.number("Get", &one).await, 2);
    assert_eq!(gateway.number("Through", &one).await, 2, "what depended on it ended too");
    assert_eq!(gateway.number("Get", &two).await, 1, "and nothing else");
    // What says nothing of what it depended on is never kept.
    assert_eq!(gateway.number("Bare", &one).await, 3);
    assert_eq!(gateway.number("Bare", &one).await, 4);
    // Without a key it is all of the source.
    let whole = gateway.number("Get", "").await;
    assert_eq!(gateway.number("Get", "").await, whole);
    gateway.text("Set", &two).await.unwrap();
    assert_eq!(gateway.number("Get", "").await, whole + 1);
    assert_eq!(gateway.number("Get", &two).await, 2);
    gateway.text("Set", "").await.unwrap();
    assert_eq!(gateway.number("Get", &two).await, 3);
    // Also where the first to ask is a program.
    let three = key();
    for _ in 0..2 {
        assert_eq!(gateway.number("Through", &three).await, 1, "both are kept");
    }
    gateway.text("Set", &three).await.unwrap();
    assert_eq!(gateway.number("Through", &three).await, 2, "both ended");
}

/// Which `Get` and `Set` take as they come.
async fn numbers_are_keys_by_one_text_in_all_languages(gateway: &Gateway) {
    let numbers =
        [(3.0, "3"), (-2.5, "-2.5"), (1e-7, "0.0000001"), (1e16, "10000000000000000"), (0.0, "0")];
    for (number, text) in numbers {
        let size = async || {
            let size = gateway.ask("Size", json!({ "number": number })).await.unwrap();
            (size["number"].as_i64().unwrap(), gateway.number("Get", text).await)
        };
        let (sized, got) = size().await;
        assert_eq!(size().await, (sized, got), "{number} is kept");
        gateway.text("Set", text).await.unwrap();
        let (sized, got) = (sized + 1, got + 1);
        assert_eq!(size().await, (sized, got), "{number} ends with {text}");
        gateway.ask("Resize", json!({ "number": number })).await.unwrap();
        assert_eq!(size().await, (sized + 1, got + 1), "{text} ends with {number}");
    }
}

async fn answers_made_of_all_of_a_source_end_with_each_of_its_keys(gateway: &Gateway) {
    let ran = async |number: i64| {
        let answer = gateway.ask("List", json!({ "number": number })).await.expect("an answer");
        answer["text"].as_str().unwrap().split(' ').next().unwrap().parse::<u32>().unwrap()
    };
    // Of all, said so or because so many cannot be named, and of two.
    for (number, by_another_key) in [(0, 2), (20_000, 2), (2, 1)] {
        assert_eq!((ran(number).await, ran(number).await), (1, 1), "{number}");
        gateway.text("Set", &key()).await.unwrap();
        assert_eq!(ran(number).await, by_another_key, "{number}");
        gateway.text("Set", "2").await.unwrap();
        assert_eq!(ran(number).await, by_another_key + 1, "{number}");
    }
    // What cannot be named ends at once.
    assert_eq!((ran(-1).await, ran(-1).await), (1, 2));
}

async fn protobuf_passes_untouched(command: &[String]) {
    let gateway = Gateway::start(command, Codec::Proto, crate::patient_limits()).await;
    // A field that nobody knows is there afterwards.
    let message = Bytes::from_static(b"\x0a\x01a\xf8\x07\x05");
    let echo = gateway.method("Echo");
    let said = said(&gateway, echo, message.clone()).await.unwrap();
    assert_eq!(said, message);
    gateway.stop().await;
}

async fn said(gateway: &Gateway, method: Method, message: Bytes) -> Result<Bytes, Error> {
    let call = Call::method(method, Context::default(), Codec::Proto, message);
    gateway.hosted.call(call).await?.body.collect(1 << 20).await
}

async fn one_that_calls_itself_is_not_queued_behind_itself(command: &[String]) {
    let limits = crate::limits(|limits| limits.concurrency = 1);
    let gateway = Gateway::start(command, Codec::Json, limits).await;
    assert_eq!(gateway.text("Within", "b").await.unwrap(), "inner b");
    // Nor behind somebody outside who asks for what it asks for, and waits for its place.
    let key = key();
    let both =
        futures_util::future::join(gateway.number("Through", &key), gateway.number("Get", &key));
    let (through, get) = both.await;
    assert!((1..=2).contains(&through) && (1..=2).contains(&get), "{through}, {get}");
    assert_eq!(gateway.hosted.status().starts, 1);
    gateway.stop().await;
}
