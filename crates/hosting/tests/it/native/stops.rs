//! How the first and the last moments of a process go: one that never gets ready, and one that is
//! asked to end with a call open.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tidewire_hosting::State;
use tidewire_service::{Body, Call, Code, Codec, Context, Frame, Frames, Service};
use tokio::sync::mpsc;

use super::{Gateway, dotnet, go, python};

/// Programs that run and never say that they can be called: one by its socket that nobody reads,
/// one in each language, and one that says hello and no more.
fn never_ready() -> Vec<Vec<String>> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let frames = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/frames.py");
    vec![
        owned(&[&crate::PYTHON[..], &["never"]].concat()),
        owned(&[crate::go(), "never"]),
        owned(&["python3", "-I", "-S", frames, "hello-only"]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_never_gets_ready_is_killed_and_who_waited_is_told() {
    for command in never_ready() {
        let limits = crate::limits(|limits| limits.start_timeout = Duration::from_millis(300));
        let gateway = Gateway::start(&command, Codec::Json, limits).await;
        let error = gateway.text("Echo", "a").await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{command:?}");
        let status = gateway.hosted.status();
        assert_eq!(
            status.failure.unwrap(),
            "it did not listen within start_timeout = 300ms",
            "{command:?}"
        );
        assert_eq!((status.starts, status.pids), (0, Vec::new()), "{command:?}");
        gateway.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_asked_to_end_serves_its_open_call_to_the_end() {
    for command in [python("threads"), python("async"), go(), dotnet()] {
        let gateway = Gateway::start(&command, Codec::Json, crate::patient_limits()).await;
        let before = gateway.text("Do", "pid").await.unwrap();
        let mut chat = Chat::open(&gateway, "a").await;
        assert_eq!(chat.hear().await, "re: a", "{command:?}");
        gateway.hosted.stop();
        // Who calls meanwhile gets another process, and the open call goes on at the old one.
        assert_ne!(gateway.text("Do", "pid").await.unwrap(), before, "{command:?}");
        assert_eq!(gateway.hosted.status().pids.len(), 2, "{command:?}");
        assert_eq!(chat.say("b").await, "re: b", "{command:?}");
        chat.ends().await;
        let status = gateway.hosted.until(|status| status.pids.len() == 1).await;
        assert_eq!((status.state, status.failure), (State::Ready, None), "{command:?}");
        gateway.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_ends_waits_for_the_open_call_of_a_process() {
    for command in [python("threads"), python("async"), go(), dotnet()] {
        let gateway = Gateway::start(&command, Codec::Json, crate::patient_limits()).await;
        let mut chat = Chat::open(&gateway, "a").await;
        assert_eq!(chat.hear().await, "re: a", "{command:?}");
        let (echo, hosted) = (gateway.method("Echo"), gateway.hosted.clone());
        let Gateway { host, running, .. } = gateway;
        let ends = tokio::spawn(host.stop());
        let refused = loop {
            let call = Call::method(echo.clone(), Context::default(), Codec::Json, "{}");
            if let Err(error) = hosted.call(call).await {
                break error;
            }
        };
        assert_eq!(refused.message(), "hosted is being ended");
        assert_eq!((hosted.status().calls, ends.is_finished()), (1, false), "{command:?}");
        assert_eq!(chat.say("b").await, "re: b", "{command:?}");
        chat.ends().await;
        ends.await.unwrap();
        let status = hosted.status();
        assert_eq!((status.pids, status.failure), (Vec::new(), None), "{command:?}");
        running.drain().await;
    }
}

/// A program without any help of ours.
fn frames() -> [String; 4] {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/frames.py");
    ["python3", "-I", "-S", script].map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_takes_no_more_calls_keeps_its_own_and_another_gets_the_next() {
    let gateway = Gateway::start(&frames(), Codec::Json, crate::patient_limits()).await;
    let first = gateway.text("Do", "who").await.unwrap();
    let mut waits = Box::pin(gateway.text("Wait", "a"));
    assert!(futures_util::poll!(&mut waits).is_pending());
    gateway.hosted.until(|status| status.calls == 1).await;
    assert_eq!(gateway.text("Do", "leave").await.unwrap(), first);
    let second = gateway.text("Do", "who").await.unwrap();
    assert_ne!(second, first);
    assert_eq!(gateway.hosted.status().calls, 1, "the open one goes on");
    // Also where no call is open, and at once.
    assert_eq!(gateway.text("Do", "leave").await.unwrap(), second);
    assert_ne!(gateway.text("Do", "who").await.unwrap(), second);
    assert_eq!(gateway.hosted.status().failure, None);
    drop(waits);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_breaks_a_rule_by_its_answer_ends_that_call_at_once() {
    for (method, text) in [("Fail", "no code"), ("Wait", "let in"), ("Fail", "a large code")] {
        let limits = crate::limits(|limits| limits.request_timeout = Duration::from_secs(3600));
        let gateway = Gateway::start(&frames(), Codec::Json, limits).await;
        let error = gateway.text(method, text).await.unwrap_err();
        match text {
            // A number of no code is none of these rules.
            "a large code" => assert_eq!(error.code(), Code::Unknown, "{error}"),
            "let in" => assert_eq!(error.code(), Code::Unavailable, "{error}"),
            _ => assert_eq!(error.message(), "hosted ended before it answered"),
        }
        gateway.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_finds_the_session_of_its_process_over_has_another_process() {
    let gateway = Gateway::start(&frames(), Codec::Json, crate::patient_limits()).await;
    let first = gateway.text("Do", "twice").await.unwrap();
    crate::until(|| !crate::is_alive(first.parse().unwrap())).await;
    assert_ne!(gateway.text("Do", "who").await.unwrap(), first);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_within_a_call_that_is_over_before_it_may_have_run() {
    let gateway = Gateway::start(&frames(), Codec::Json, crate::patient_limits()).await;
    assert_eq!(gateway.text("Do", "call back").await.unwrap(), "early");
    // ABORTED, unknown: who is told that it did not run makes it again.
    assert_eq!(gateway.text("Do", "told").await.unwrap(), "[10, 2]");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_key_that_is_no_text_is_one_of_any_key() {
    let gateway = Gateway::start(&frames(), Codec::Json, crate::patient_limits()).await;
    for (set, gets) in [("another", "1"), ("a", "2"), ("no text", "3")] {
        gateway.text("Get", "a").await.unwrap();
        gateway.text("Set", set).await.unwrap();
        gateway.text("Get", "a").await.unwrap();
        assert_eq!(gateway.text("Do", "gets").await.unwrap(), gets, "{set}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_made_without_a_part_that_it_asked_for_is_not_kept() {
    let gateway = Gateway::start(&frames(), Codec::Json, crate::patient_limits()).await;
    for (how, gets) in [("hurry", "2"), ("leave", "4"), ("refuse", "6")] {
        for _ in 0..2 {
            assert_eq!(gateway.number("Through", how).await, 1);
        }
        assert_eq!(gateway.text("Do", "gets").await.unwrap(), gets, "{how}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_made_of_a_cached_one_alone_is_kept() {
    let gateway = Gateway::start(&frames(), Codec::Json, crate::patient_limits()).await;
    for _ in 0..2 {
        assert_eq!(gateway.number("Through", "waits").await, 1);
    }
    assert_eq!(gateway.text("Do", "gets").await.unwrap(), "2", "each ran once");
    gateway.text("Set", "waits").await.unwrap();
    assert_eq!(gateway.number("Through", "waits").await, 1);
    assert_eq!(gateway.text("Do", "gets").await.unwrap(), "4", "each ran again");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_its_own_length_and_a_status_whatever_its_process_says() {
    let gateway = Gateway::start(&frames(), Codec::Json, crate::patient_limits()).await;
    for (said, length) in [("2/200", "6"), ("600/200", "6"), ("6/404", "6"), ("-/200", "6")] {
        let page = crate::get(&gateway.hosted, &format!("/{said}")).await;
        assert_eq!(page.unwrap(), "a page", "{said}");
        // As a caller reads it, who takes what is left for the next answer.
        let url = gateway.running.url();
        let mut caller = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        let ask = format!("GET /pages/{said} HTTP/1.1\r\nhost: a\r\n\r\n").repeat(2);
        caller.write_all(ask.as_bytes()).unwrap();
        let mut answers = String::new();
        while answers.matches("a page").count() < 2 {
            let mut some = [0; 1024];
            let read = caller.read(&mut some).unwrap();
            assert!(read > 0, "{said}: {answers}");
            answers.push_str(&String::from_utf8_lossy(&some[..read]));
        }
        let lengths = answers.lines().filter_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(lengths.collect::<Vec<_>>(), [length; 2], "{said}: {answers}");
    }
    for status in ["0", "99", "101", "199", "1000"] {
        let reply = crate::reply(&gateway.hosted, &format!("/6/{status}")).await.unwrap();
        assert_eq!(reply.status.as_u16(), 502, "{status}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_hello_is_refused_is_told_why_and_so_is_the_log() {
    let command = [&frames()[..], &["another-version".to_owned()]].concat();
    let gateway = Gateway::start(&command, Codec::Json, crate::patient_limits()).await;
    assert_eq!(gateway.text("Do", "who").await.unwrap_err().code(), Code::Unavailable);
    let failure = gateway.hosted.status().failure.unwrap();
    let why = "its hello is refused: version: the peer speaks 2..=2, this side 1..=1";
    assert!(failure.starts_with(why), "{failure}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_does_not_take_is_refused_at_once_and_does_not_reach_it() {
    let command = [&frames()[..], &["small".to_owned()]].concat();
    let limits = crate::limits(|limits| limits.request_timeout = Duration::from_secs(3600));
    let gateway = Gateway::start(&command, Codec::Json, limits).await;
    let error = gateway.text("Do", &"a".repeat(70_000)).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    assert!(error.message().contains("body_max"), "{error}");
    let mut headers = tidewire_service::Headers::new();
    headers.insert("x-large", "a".repeat(300).parse().unwrap());
    let body = json!({ "text": "who" }).to_string();
    let error = gateway.reply("Do", Context::new(headers), body).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    assert!(error.message().contains("metadata_max"), "{error}");
    // The session goes on.
    gateway.text("Do", "who").await.unwrap();
    assert_eq!(gateway.hosted.status().starts, 1);
    gateway.stop().await;
}

/// A call that streams both ways.
struct Chat {
    says: mpsc::Sender<String>,
    hears: Pin<Box<dyn Frames>>,
}

impl Chat {
    /// Begins with this, before which nothing is answered.
    async fn open(gateway: &Gateway, text: &str) -> Self {
        let (says, mut said) = mpsc::channel::<String>(1);
        says.try_send(text.to_owned()).unwrap();
        let body = Body::frames(futures_util::stream::poll_fn(move |cx| {
            let message = |text| json!({ "text": text }).to_string();
            let frame = |text| Ok(Frame::Data(Bytes::from(message(text))));
            said.poll_recv(cx).map(|text| text.map(frame))
        }));
        let reply = gateway.reply("Chat", Context::default(), body).await.unwrap();
        let Body::Stream(hears) = reply.body else { panic!("it streams") };
        Self { says, hears }
    }

    /// What is answered to this.
    async fn say(&mut self, text: &str) -> String {
        self.says.send(text.to_owned()).await.unwrap();
        self.hear().await
    }

    async fn hear(&mut self) -> String {
        let Some(Ok(Frame::Data(message))) = self.hears.next().await else { panic!("no answer") };
        let message: Value = serde_json::from_slice(&message).unwrap();
        message["text"].as_str().unwrap().to_owned()
    }

    /// Ends it in good order.
    async fn ends(self) {
        let Self { says, mut hears } = self;
        drop(says);
        while let Some(frame) = hears.next().await {
            assert!(matches!(frame, Ok(Frame::Trailers(_))), "{frame:?}");
        }
    }
}
