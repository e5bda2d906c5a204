//! Programs that answer one JSON object per connection: unmodified, and in all the ways in which
//! their protocol lets them go wrong.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, StatusCode};
use tidewire_hosting::{Host, HostedService, LifeLimits, Listen, Program};
use tidewire_proxy::{Route, Routes};
use tidewire_server::{Address, Server};
use tidewire_service::{Body, Code, Error, Reply, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{call, get, host, limits, patient_limits};

fn worker(mode: &str) -> Program {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pipe_json.py");
    Program::new("worker", ["python3", "-I", "-S", program, mode]).listen(Listen::PipeJson)
}

fn start(mode: &str, limits: LifeLimits) -> (Host, HostedService) {
    let host = host();
    let hosted = host.add(worker(mode), limits);
    (host, hosted)
}

async fn post(hosted: &HostedService, path: &str, body: &Bytes) -> Result<Reply, Error> {
    hosted.call(call(Method::POST, path, body.clone())).await
}

#[tokio::test]
async fn a_worker_is_called_however_it_finds_the_end_of_a_request() {
    for mode in ["parse", "end", "one"] {
        let (host, hosted) = start(mode, patient_limits());
        // No connection comes before the first request, which a worker would have to answer.
        assert_eq!(get(&hosted, "/connections").await.unwrap(), "1", "{mode}");
        let all_bytes: Bytes = (0..=255).collect();
        let large = Bytes::from(vec![b'l'; 3 << 20]);
        for body in [Bytes::new(), all_bytes, large] {
            let reply = post(&hosted, "/echo?a=b%20c&d", &body).await.unwrap();
            assert_eq!(reply.status, StatusCode::CREATED);
            assert_eq!(reply.headers["x-method"], "POST");
            assert_eq!(reply.headers["x-query"], "a=b%20c&d");
            let cookies = reply.headers.iter().filter(|(name, _)| *name == "set-cookie");
            assert_eq!(cookies.map(|(_, value)| value).collect::<Vec<_>>(), ["a=1", "b=2"]);
            assert!(reply.body.collect(4 << 20).await.unwrap() == body, "{mode}: it is as sent");
        }
        assert_eq!(hosted.status().starts, 1);
        host.stop().await;
    }
}

#[tokio::test]
async fn a_response_is_over_with_its_object_whatever_else_the_worker_does() {
    let (host, hosted) = start("parse", patient_limits());
    for (path, expected) in [("/open", "open"), ("/marked", "marked"), ("/length", "tea")] {
        let reply = crate::reply(&hosted, path).await.unwrap();
        assert!(!reply.headers.contains_key("content-length"), "{path}");
        assert_eq!(reply.body.collect(100).await.unwrap(), expected, "{path}");
    }
    let reply = crate::reply(&hosted, "/nothing").await.unwrap();
    assert_eq!((reply.status, reply.body.len()), (StatusCode::NO_CONTENT, Some(0)));
    let reply = hosted.call(call(Method::HEAD, "/marked", Body::Empty)).await.unwrap();
    assert_eq!(
        (reply.body.len(), &reply.headers["content-length"]),
        (Some(0), &"6".parse().unwrap())
    );
    assert_eq!(hosted.status().starts, 1);
    host.stop().await;
}

#[tokio::test]
async fn a_response_that_is_not_of_pipe_json_is_502_and_another_process_takes_over() {
    let bounded = limits(|limits| limits.response_bytes_max = 1 << 20);
    let (host, hosted) = start("parse", bounded);
    let mut before = get(&hosted, "/pid").await.unwrap();
    for path in ["/garbage", "/two", "/base64", "/status", "/injected", "/flood"] {
        let error = get(&hosted, path).await.unwrap_err();
        assert_eq!(error.http_status(), StatusCode::BAD_GATEWAY, "{path}");
        assert_eq!(error.message(), "worker answered with what is not of pipe-json", "{path}");
        assert_eq!(error.headers()["proxy-status"], "tidewire; error=http_protocol_error");
        let after = get(&hosted, "/pid").await.unwrap();
        assert_ne!(before, after, "{path}: it gets no more calls");
        before = after;
    }
    host.stop().await;
}

#[tokio::test]
async fn a_worker_that_ends_within_its_response_is_502_and_the_next_call_starts_anew() {
    let (host, hosted) = start("parse", patient_limits());
    for _ in 0..2 {
        let body = Bytes::from_static(b"a");
        let error = post(&hosted, "/crash", &body).await.unwrap_err();
        assert_eq!(error.http_status(), StatusCode::BAD_GATEWAY);
        assert_eq!(error.message(), "worker ended before it answered");
        get(&hosted, "/pid").await.unwrap();
    }
    // One that only closes the connection goes on.
    let error = get(&hosted, "/close").await.unwrap_err();
    assert_eq!(error.http_status(), StatusCode::BAD_GATEWAY);
    assert_eq!(error.message(), "worker broke the connection off before it answered");
    get(&hosted, "/pid").await.unwrap();
    assert_eq!(hosted.status().starts, 3);
    host.stop().await;
}

#[tokio::test]
async fn a_worker_that_does_not_answer_is_504_and_is_killed_if_it_answers_nobody() {
    let hurried = limits(|limits| limits.request_timeout = Duration::from_secs(3));
    let (host, hosted) = start("parse", hurried);
    get(&hosted, "/pid").await.unwrap();
    for ended in join_all((0..3).map(|_| get(&hosted, "/hang"))).await {
        assert_eq!(ended.unwrap_err().code(), Code::DeadlineExceeded);
    }
    hosted.until(|status| status.failure.is_some()).await;
    get(&hosted, "/pid").await.unwrap();
    assert_eq!(hosted.status().starts, 2);
    host.stop().await;
}

#[tokio::test]
async fn calls_wait_for_a_worker_whose_queue_of_connections_is_full() {
    let (host, hosted) = start("one", patient_limits());
    let bodies: Vec<_> = (0..50).map(|number| Bytes::from(number.to_string())).collect();
    let replies = join_all(bodies.iter().map(|body| post(&hosted, "/echo", body))).await;
    for (reply, body) in replies.into_iter().zip(bodies) {
        assert_eq!(reply.unwrap().body.collect(100).await.unwrap(), body, "each gets its own");
    }
    assert_eq!(hosted.status().starts, 1);
    host.stop().await;
}

#[tokio::test]
async fn a_worker_is_told_of_its_caller_what_every_program_is_told() {
    let (host, hosted) = start("end", patient_limits());
    let mut sites = Routes::new();
    sites.add(Route::new("/shop/*").unwrap().strip_prefix(true), hosted).unwrap();
    let address: Address = "127.0.0.1:0".parse().unwrap();
    let running = Server::builder().listen(address).mount("/", sites).start().await.unwrap();
    let ask = async |head: &str| {
        let address = running.url().replace("http://", "");
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("{head} HTTP/1.1\r\nhost: tea.example\r\nx-forwarded-for: 10.1.1.1\r\n");
        let more = "te: trailers\r\nx-tea: one\r\nx-tea: two\r\nconnection: close";
        stream.write_all(format!("{head}{more}\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let told = ask("GET /shop/told").await;
    assert!(told.ends_with("\r\n\r\ntea.example /shop one two 127.0.0.1"), "{told}");
    let length = ask("HEAD /shop/marked").await;
    assert!(length.contains("content-length: 6\r\n") && length.ends_with("\r\n\r\n"), "{length}");
    running.drain().await;
    host.stop().await;
}

#[tokio::test]
async fn a_websocket_to_a_worker_is_refused_as_what_it_cannot_be() {
    let (host, hosted) = start("parse", patient_limits());
    let mut asked = call(Method::GET, "/pid", Body::Empty);
    for (name, value) in [("connection", "upgrade"), ("upgrade", "websocket")] {
        let name = http::HeaderName::from_static(name);
        asked.context.headers_mut().insert(name, value.parse().unwrap());
    }
    let error = hosted.call(asked).await.unwrap_err();
    assert_eq!(error.http_status(), StatusCode::NOT_IMPLEMENTED);
    assert_eq!(hosted.status().starts, 1);
    host.stop().await;
}
