//! Streams: when messages come, in which order, how they end, and what reacts to messages.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use tidewire_mock::{Calls, RuleFiles};
use tidewire_service::{Body, Call, Code, Codec, Context, Frame, Service};

use crate::harness::{method, shop, sku, stream, with_rules};

const WATCH: &str = "shop.v1.cart.watch.yaml";
const CHAT: &str = "shop.v1.cart.chat.yaml";

#[tokio::test(start_paused = true)]
async fn items_come_with_pauses_between_them_and_after_the_first_delay() {
    let mock = with_rules(
        WATCH,
        "responses:
  - stream_items: [{note: a}, {note: b}, {note: '{{stream.index + 1}} of {{stream.total}}'}]
    stream_delay_ms: 30
    delay_ms: 200
    trailers: {x-kind: item}
",
    );
    let streamed = stream(&mock, "Watch", &[sku("a")], 9).await;
    assert_eq!(streamed.notes(), ["a", "b", "3 of 3"]);
    assert_eq!(streamed.times(), [200, 230, 260]);
    assert_eq!(streamed.trailers["x-kind"], "item");
}

#[tokio::test(start_paused = true)]
async fn the_pause_is_100_ms_unless_said_and_0_is_none() {
    let mock = with_rules(WATCH, "responses: [{stream_items: [{note: a}, {note: b}]}]");
    assert_eq!(stream(&mock, "Watch", &[sku("a")], 9).await.times(), [0, 100]);
    let mock = with_rules(
        WATCH,
        "responses: [{stream_items: [{note: a}, {note: b}], stream_delay_ms: 0}]",
    );
    assert_eq!(stream(&mock, "Watch", &[sku("a")], 9).await.times(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn an_error_in_mid_stream_comes_after_the_messages_before_it() {
    let mock = with_rules(
        WATCH,
        "responses:
  - stream: [{body: {note: a}}, {body: {note: b}, delay: 50ms}, {repeat: 2}, {error: {code: UNAVAILABLE, message: gone}}]
    trailers: {x-left: '1'}
",
    );
    let streamed = stream(&mock, "Watch", &[sku("a")], 9).await;
    assert_eq!(
        (streamed.notes(), streamed.times()),
        (["a", "b", "a", "b"].map(str::to_owned).to_vec(), vec![0, 50, 50, 100])
    );
    let error = streamed.error.unwrap();
    assert_eq!((error.code(), error.message()), (Code::Unavailable, "gone"));
    assert_eq!(error.trailers()["x-left"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_made_ends_the_stream_with_an_error() {
    let text =
        "responses: [{stream_items: [{note: a}, {tags: none}, {note: c}], stream_delay_ms: 0}]";
    let files = RuleFiles::new().with(WATCH, text);
    let (mock, findings) = shop().rules(files).build();
    assert!(
        findings[0].to_string().contains("1:47: tags: the text \"none\" is not a valid list"),
        "{findings:?}"
    );
    let streamed = stream(&mock, "Watch", &[sku("a")], 9).await;
    assert_eq!(
        (streamed.notes(), streamed.error.unwrap().code()),
        (vec!["a".to_owned()], Code::Internal)
    );
}

#[tokio::test(start_paused = true)]
async fn a_loop_goes_on_for_ever_and_each_shuffled_round_has_every_message() {
    let mock = with_rules(
        WATCH,
        "responses:
  - {when: {request.sku: loop}, stream_items: [{note: a}, {note: b}], stream_loop: true, stream_delay_ms: 10}
  - {when: {request.sku: empty}, stream_items: [], stream_loop: true}
  - {stream_items: [{note: a}, {note: b}, {note: c}, {note: d}], stream_loop: true, stream_random_order: true, stream_delay_ms: 0}
",
    );
    let streamed = stream(&mock, "Watch", &[sku("loop")], 1000).await;
    assert_eq!((streamed.messages.len(), streamed.times()[999]), (1000, 9990));
    assert!(stream(&mock, "Watch", &[sku("empty")], 9).await.notes().is_empty());
    let streamed = stream(&mock, "Watch", &[sku("x")], 400).await;
    let rounds: Vec<_> = streamed.notes().chunks(4).map(<[_]>::to_vec).collect();
    assert!(rounds.iter().any(|round| *round != rounds[0]), "rounds differ");
    for mut round in rounds {
        round.sort_unstable();
        assert_eq!(round, ["a", "b", "c", "d"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_stream_without_pauses_lets_others_run() {
    let mock = with_rules(
        WATCH,
        "responses: [{stream_items: [{}], stream_loop: true, stream_delay_ms: 0}]",
    );
    let request = [sku("x")];
    let endless = stream(&mock, "Watch", &request, usize::MAX);
    let timeout = tokio::time::timeout(Duration::from_secs(1), async {
        tokio::select! {
            _ = endless => panic!("it has no end"),
            () = async { for _ in 0..100 { tokio::task::yield_now().await } } => {}
        }
    });
    timeout.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_requests_is_answered_by_what_all_of_it_says() {
    let mock = with_rules(
        "shop.v1.cart.sum.yaml",
        "responses:
  - {when: {request.count: {gte: 3}, request.last.sku: z}, body: {note: '{{request.first.sku}}{{request.items[1].sku}}{{request.last.sku}}', price: '{{request.count}}'}}
  - {body: {note: few}}
",
    );
    let reply = crate::harness::call(&mock, "Sum", &[sku("a"), sku("b"), sku("z")]).await.unwrap();
    assert_eq!(crate::harness::json_of(reply), json!({"note": "abz", "price": "3"}));
    let reply = crate::harness::call(&mock, "Sum", &[]).await.unwrap();
    assert_eq!(crate::harness::json_of(reply)["note"], "few");
}

#[tokio::test(start_paused = true)]
async fn reactions_answer_each_message_before_the_next_one_comes() {
    let mock = with_rules(
        CHAT,
        "responses:
  - headers: {x-chat: 'yes'}
    trailers: {x-said: all}
    on_message:
      - {when: {message.sku: bye}, send: [{note: bye}], end: true}
      - {when: {message.sku: {startsWith: bad}}, error: {code: INVALID_ARGUMENT, message: 'no {{message.sku}}'}}
      - {when: {message.quantity: {gt: 1}}, send: [{body: {note: 'slow {{message.sku}}'}, delay: 70ms}]}
      - {send: [{note: 'got {{message.sku}} as {{request.count}}'}]}
    stream_items: [{note: end}]
",
    );
    let method = method(&mock, "Chat");
    let (sender, receiver) = channel();
    let body = Body::stream(receiver);
    let reply =
        mock.call(Call::method(method, Context::default(), Codec::Json, body)).await.unwrap();
    assert_eq!(reply.headers["x-chat"], "yes");
    let Body::Stream(mut frames) = reply.body else { panic!("it is a stream") };
    let mut next = async || match frames.next().await {
        Some(Ok(Frame::Data(bytes))) => {
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()["note"].to_string()
        }
        Some(Ok(Frame::Trailers(trailers))) => format!("{:?}", trailers["x-said"]),
        Some(Err(error)) => error.to_string(),
        None => "end".to_owned(),
    };
    // Nothing more was said yet: each answer comes before the next message.
    sender.send(r#"{"sku":"a"}"#).unwrap();
    assert_eq!(next().await, "\"got a as 1\"");
    sender.send(r#"{"sku":"b","quantity":2}"#).unwrap();
    assert_eq!(next().await, "\"slow b\"");
    sender.send(r#"{"sku":"c"}"#).unwrap();
    assert_eq!(next().await, "\"got c as 3\"");
    drop(sender);
    assert_eq!(
        (next().await, next().await, next().await),
        ("\"end\"".into(), "\"all\"".into(), "end".into())
    );
    assert_eq!(mock.calls(&Calls::of("shop.v1.Cart/Chat").with("count", 3)).len(), 1);

    let streamed = stream(&mock, "Chat", &[sku("a"), sku("bad1"), sku("c")], 9).await;
    assert_eq!(streamed.notes(), ["got a as 1"]);
    assert_eq!(streamed.error.unwrap().message(), "no bad1");
    let streamed = stream(&mock, "Chat", &[sku("bye"), sku("c")], 9).await;
    assert_eq!(streamed.notes(), ["bye"]);
}

#[tokio::test(start_paused = true)]
async fn which_response_reacts_is_chosen_by_headers() {
    let mock = with_rules(
        CHAT,
        "responses:
  - {when: {metadata.x-mock-session: loud}, on_message: [{send: [{note: LOUD}]}]}
  - {on_message: [{send: [{note: quiet}]}]}
",
    );
    assert_eq!(stream(&mock, "Chat", &[sku("a")], 1).await.notes(), ["quiet"]);
    let context = crate::harness::session("loud");
    let reply = crate::harness::call_in(&mock, context, "Chat", &[sku("a")]).await.unwrap();
    let Body::Stream(mut frames) = reply.body else { panic!("it is a stream") };
    let Some(Ok(Frame::Data(first))) = frames.next().await else { panic!("there is a message") };
    assert_eq!(first, br#"{"note":"LOUD"}"#[..]);
}

/// Requests that a test sends one by one.
fn channel() -> (
    tokio::sync::mpsc::UnboundedSender<&'static str>,
    impl futures_util::Stream<Item = Result<bytes::Bytes, tidewire_service::Error>>,
) {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<&'static str>();
    let requests = futures_util::stream::poll_fn(move |cx| {
        receiver
            .poll_recv(cx)
            .map(|json| json.map(|json| Ok(bytes::Bytes::from_static(json.as_bytes()))))
    });
    (sender, requests)
}

#[tokio::test(start_paused = true)]
async fn the_first_message_and_the_error_of_a_stream_may_have_delays_of_their_own() {
    let mock = with_rules(
        WATCH,
        "responses:
  - stream: [{body: {note: a}, delay: 30ms}, {body: {note: b}}, {error: {code: ABORTED}, delay: 1s}]
",
    );
    let begun = tokio::time::Instant::now();
    let streamed = stream(&mock, "Watch", &[sku("x")], 9).await;
    assert_eq!((streamed.notes(), streamed.times()), (vec!["a".into(), "b".into()], vec![30, 30]));
    assert_eq!(streamed.error.unwrap().code(), Code::Aborted);
    assert_eq!(begun.elapsed().as_millis(), 1030);
}

#[tokio::test(start_paused = true)]
async fn a_reaction_counts_remembers_and_is_logged_as_any_answer() {
    let mock = with_rules(
        CHAT,
        "responses:
  - {name: once, times: 1, when: {}, set_state: {greeted: 'yes'}, on_message: [{send: [{note: 'hello {{attempt}}'}]}]}
  - {when: {state.greeted: 'yes'}, on_message: [{send: [{note: 'again {{attempt}}'}]}]}
",
    );
    assert_eq!(stream(&mock, "Chat", &[sku("a")], 9).await.notes(), ["hello 1"]);
    assert_eq!(stream(&mock, "Chat", &[sku("a")], 9).await.notes(), ["again 2"]);
    let calls = mock.calls(&Calls::of("shop.v1.Cart/Chat"));
    assert_eq!(calls[0].rule.as_ref().unwrap().name.as_deref(), Some("once"));
    // A caller that leaves in mid-stream was there all the same.
    let reply = crate::harness::call(&mock, "Chat", &[sku("b")]).await.unwrap();
    let Body::Stream(mut frames) = reply.body else { panic!("it is a stream") };
    frames.next().await.unwrap().unwrap();
    drop(frames);
    assert_eq!(mock.calls(&Calls::of("shop.v1.Cart/Chat").with("last.sku", "b")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_log_says_how_a_stream_ended() {
    let watch = "responses:
  - {when: {request.sku: error}, stream: [{body: {note: a}}, {error: {code: UNAVAILABLE}}]}
  - {when: {request.sku: forever}, stream_items: [{note: a}], stream_loop: true}
  - {stream_items: [{note: a}]}
";
    let chat = "responses:
  - fault: {kind: reset, after: 1}
    on_message: [{when: {message.sku: a}, send: [{note: a}]}]
";
    let files = RuleFiles::new().with(WATCH, watch).with(CHAT, chat);
    let mock = shop().rules(files).build().0;
    for name in ["error", "forever", "fine"] {
        stream(&mock, "Watch", &[sku(name)], 2).await;
    }
    stream(&mock, "Chat", &[sku("b")], 2).await;
    stream(&mock, "Chat", &[sku("a")], 2).await;
    let calls = mock.calls(&Calls::all());
    let told: Vec<_> = calls.iter().map(|call| (call.error, call.fault)).collect();
    let error = (Some(Code::Unavailable), None);
    let left = (Some(Code::Canceled), None);
    let reset = (None, Some("reset"));
    assert_eq!(told, [error, left, (None, None), (None, None), reset]);
}
