//! Server-Sent Events: over a plain socket, with curl, and in a browser whose connection is cut.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidewire::cache::MethodOverride;
use tidewire::http::Method;
use tidewire::{Call, Reply};
use tidewire_tests::program::root;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Notify;

use super::{may_read, set};
use crate::harness::{send, start};
use crate::memoized::{built, header, served, without_memory};
use crate::page::{cutting_proxy, visited};

/// Events as they are read.
struct Curl {
    lines: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Curl {
    fn get(address: SocketAddr, path: &str, headers: &[&str]) -> Self {
        let mut curl = Command::new("curl");
        curl.args(["-sSN", "--compressed", "-H", "accept: text/event-stream"]);
        curl.args(headers.iter().flat_map(|header| ["-H", header]));
        curl.arg(format!("http://{address}{path}")).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = curl.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { lines, child }
    }

    /// The fields of the next event but those of `retry`, or nothing at the end.
    async fn event(&mut self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            match line.split_once(": ") {
                Some(("retry", _)) => {}
                Some((name, value)) => fields.push((name.to_owned(), value.to_owned())),
                None if fields.is_empty() => {}
                None => break,
            }
        }
        fields
    }

    /// The next event's id and JSON.
    async fn answer(&mut self) -> (String, String) {
        match &self.event().await[..] {
            [(id, validator), (data, json)] if id == "id" && data == "data" => {
                (validator.clone(), json.clone())
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_reads_each_new_answer_and_comes_back_where_it_was() {
    let (_running, address, _) = served().await;
    set(address, 7, 40).await;
    let mut curl = Curl::get(address, "/rows/7", &[]);
    let (first, json) = curl.answer().await;
    assert!(json.contains("40"), "{json}");
    set(address, 7, 41).await;
    let (second, json) = curl.answer().await;
    assert!(json.contains("41") && first != second, "{json}");
    drop(curl);
    // Nothing changed since: the next event is the next change.
    let mut again = Curl::get(address, "/rows/7", &[&format!("last-event-id: {second}")]);
    set(address, 8, 1).await;
    set(address, 7, 42).await;
    assert!(again.answer().await.1.contains("42"));
    // Something did: it is told at once, also to whoever names what nobody knows.
    for id in [&*first, "x", ""] {
        let mut late = Curl::get(address, "/rows/7", &[&format!("last-event-id: {id}")]);
        assert!(late.answer().await.1.contains("42"), "{id}");
    }
}

#[tokio::test]
async fn an_event_stream_tells_proxies_to_pass_it_on_as_it_comes() {
    let (_running, address, _) = served().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /long/7 HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n\
                   accept-encoding: gzip\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut head = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
        head.push(line.to_lowercase());
    }
    for expected in [
        "http/1.1 200 ok",
        "content-type: text/event-stream",
        "cache-control: no-store, no-transform",
        "x-accel-buffering: no",
    ] {
        assert!(head.iter().any(|line| line == expected), "{expected} is not in {head:?}");
    }
    assert!(!head.iter().any(|line| line.starts_with("content-encoding")), "{head:?}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_followed_is_no_event_stream() {
    let asked = "\naccept: text/event-stream";
    let (builder, ..) = without_memory();
    let (_running, untracked) = start(builder).await;
    let answer = send(untracked, &format!("GET /rows/7{asked}"), b"").await;
    answer.check(406, &["nothing tells when this answer changes"]);
    let (_running, address, _) = served().await;
    let refused = send(address, &format!("GET /rows/x{asked}"), b"").await;
    refused.check(400, &["invalid_argument"]);
    let allowed = Arc::new(AtomicBool::new(false));
    let (_running, closed) = start(built().0.gate(may_read(&allowed))).await;
    send(closed, &format!("GET /rows/7{asked}"), b"").await.check(403, &["not any more"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_yet_is_an_event_and_rights_that_are_taken_away_end_the_stream() {
    let allowed = Arc::new(AtomicBool::new(true));
    let (_running, address) = start(built().0.gate(may_read(&allowed))).await;
    let mut curl = Curl::get(address, "/rows/100", &[]);
    let failed = |fields: Vec<(String, String)>, code: &str| {
        let [event, data] = &fields[..] else { panic!("{fields:?}") };
        assert_eq!((&*event.0, &*event.1, &*data.0), ("event", "failed", "data"));
        assert!(data.1.contains(code), "{}", data.1);
    };
    failed(curl.event().await, "not_found");
    allowed.store(false, Ordering::SeqCst);
    set(address, 100, 1).await;
    failed(curl.event().await, "permission_denied");
    assert!(curl.event().await.is_empty(), "it ended");
}

#[tokio::test]
async fn an_answer_that_never_changes_is_told_once_and_who_comes_back_is_sent_away() {
    let mut never = MethodOverride::default();
    never.immutable = Some(true);
    let (builder, _, graph) = without_memory();
    let cache = tidewire::ReplyCache::new(&graph).method("test.v1.Rows/Get", never);
    let (_running, address) = start(builder.memo(cache)).await;
    let events = "GET /rows/7\naccept: text/event-stream";
    let told = send(address, events, b"").await;
    told.check(200, &["data: {"]);
    let text = told.text();
    let id = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let again = send(address, &format!("{events}\nlast-event-id: {id}"), b"").await;
    again.check(204, &[]);
    // A cache that may answer without asking knows that there are two kinds of answers.
    let json = send(address, "GET /rows/7", b"").await;
    assert!(header(&json, "cache-control").unwrap().contains("max-age"));
    assert!(json.head.lines().any(|line| line.starts_with("vary:") && line.contains("accept")));
}

#[tokio::test]
async fn a_drain_ends_the_stream_in_good_order() {
    let (running, address, _) = served().await;
    let mut curl = Curl::get(address, "/rows/7", &[]);
    curl.answer().await;
    assert!(running.drain().await, "nothing was cut off");
    assert!(curl.event().await.is_empty(), "it ended");
    assert!(curl.child.wait().await.unwrap().success(), "and was whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_source_in_a_browser_goes_on_after_a_cut_and_misses_nothing() {
    let (builder, _) = built();
    let cut = Arc::new(Notify::new());
    let cuts = Arc::clone(&cut);
    let builder = builder.route(Method::POST, "/cut", move |_: Call| {
        cuts.notify_waiters();
        async { Ok(Reply::text("")) }
    });
    let page = std::fs::read(root().join("tests/foreign/node/events.html")).unwrap();
    let lines = visited(builder, page, async |server| cutting_proxy(server, cut).await).await;
    let failed: Vec<_> = lines.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(lines.lines().count(), 5, "{lines}");
}
