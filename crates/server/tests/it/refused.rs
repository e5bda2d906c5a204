//! Refusals reach a client that is still sending: over HTTP/2 curl, as it is installed, and over
//! HTTP/1.1 one that sends as it likes.

use std::future::poll_fn;
use std::io::Write as _;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Method, Request, StatusCode};
use tidewire_server::{Builder, Hosts, Limits, RunningServer, Server};
use tidewire_service::{Admission, Body, Call, Error, Gate, Head, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::host::start;
use crate::rest::service::schema;

/// Refuses as the header `x-refuse` says.
struct Refusing;

impl Gate for Refusing {
    fn admit(&self, head: &mut Head) -> Admission {
        let wanted = head.context.headers().get("x-refuse").map_or(&b""[..], |it| it.as_bytes());
        Admission::Ready(match wanted {
            b"401" => Err(Error::unauthenticated("this call needs a credential, and none came")),
            b"429" => Err(Error::resource_exhausted("too many calls; wait")),
            _ => Ok(()),
        })
    }
}

/// Posts a body of so many bytes by curl; its exit code, the status, and what was answered.
async fn post(server: &RunningServer, path: &str, bytes: usize, header: &str) -> (i32, String) {
    let mut body = tempfile::NamedTempFile::new().unwrap();
    body.write_all(&vec![b'x'; bytes]).unwrap();
    let output = Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "-X", "POST", "-w", "\n%{http_code}"])
        .args(["-H", "content-type: application/json", "-H", header])
        .args(["--data-binary", &format!("@{}", body.path().display())])
        .arg(format!("{}{path}", server.url()))
        .output()
        .await
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn curl_reads_every_refusal_over_http2_although_it_is_still_sending() {
    let unread = async |_: Call| Err::<Reply, _>(Error::not_found("no such item"));
    let builder = Server::builder().route(Method::POST, "/items", unread).gate(Refusing);
    let server = start(builder).await;
    for (path, header, status) in [
        ("/items", "x-refuse: 401", StatusCode::UNAUTHORIZED),
        ("/items", "x-refuse: 429", StatusCode::TOO_MANY_REQUESTS),
        ("/nothing", "x-refuse: no", StatusCode::NOT_FOUND),
        ("/items", "x-refuse: no", StatusCode::NOT_FOUND),
        ("/items", "host: u@a", StatusCode::BAD_REQUEST),
    ] {
        for bytes in [1, 100, 20_000, 100_000, 900_000].repeat(4) {
            let (exit, answer) = post(&server, path, bytes, header).await;
            assert_eq!(exit, 0, "{path} {status} {bytes}: {answer}");
            assert!(answer.ends_with(status.as_str()), "{path} {status} {bytes}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_grpc_call_that_a_gate_keeps_from_a_route_has_a_grpc_status() {
    let unread = async |_: Call| Err::<Reply, _>(Error::not_found("no such item"));
    let builder = Server::builder().route(Method::POST, "/a.B/Get", unread).gate(Refusing);
    let server = start(builder).await;
    for (kind, header, expected) in [
        ("application/grpc", "x-refuse: 401", &["HTTP/2 200", "grpc-status: 16"][..]),
        ("application/grpc+proto", "x-refuse: 429", &["HTTP/2 200", "grpc-status: 8"]),
        ("application/json", "x-refuse: 401", &["HTTP/2 401"]),
    ] {
        let output = Command::new("curl")
            .args(["-sSi", "--http2-prior-knowledge", "-X", "POST", "-H", "te: trailers"])
            .args(["-H", &format!("content-type: {kind}"), "-H", header])
            .arg(format!("{}/a.B/Get", server.url()))
            .output()
            .await
            .unwrap();
        let answer = String::from_utf8(output.stdout).unwrap();
        let lacks = expected.iter().find(|line| !answer.contains(**line));
        assert_eq!(lacks, None, "{kind} {header}: {answer}");
    }
}

#[tokio::test]
async fn a_body_that_somebody_keeps_until_after_the_reply_is_taken_in_then() {
    let (give, mut held) = tokio::sync::mpsc::unbounded_channel();
    let keeping = move |call: Call| {
        give.send(call.body).unwrap();
        let error = Error::unauthenticated("this call needs a credential, and none came");
        std::future::ready(Err::<Reply, _>(error))
    };
    let server = start(Server::builder().route(Method::POST, "/items", keeping)).await;
    let socket = TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post(format!("{}/items", server.url()))
        .header("content-type", "application/json")
        .body(())
        .unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    let mut response = response.await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    while let Some(piece) = response.body_mut().data().await {
        let bytes = piece.unwrap().len();
        response.body_mut().flow_control().release_capacity(bytes).unwrap();
    }
    drop(held.recv().await.unwrap());
    let mut left = 900_000;
    while left > 0 {
        body.reserve_capacity(left);
        let room = poll_fn(|cx| body.poll_capacity(cx)).await.expect("the stream is not reset");
        let bytes = left.min(room.unwrap());
        body.send_data(vec![b'x'; bytes].into(), bytes == left).unwrap();
        left -= bytes;
    }
    drop((client, body, response));
    connection.await.unwrap().unwrap();
}

async fn connect(server: &RunningServer) -> TcpStream {
    TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap()
}

/// The head of a post that is refused, with these headers about its body.
fn refused_head(about_body: &str) -> String {
    format!("POST /items HTTP/1.1\r\nhost: test\r\nx-refuse: 401\r\n{about_body}\r\n")
}

/// The head of the next answer.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    head
}

/// Reads until the server closes the connection, whichever way.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_refusal_over_http1_does_not_wait_for_the_body_and_the_connection_goes_on() {
    let mut limits = Limits::default();
    limits.body_progress_timeout = Duration::from_secs(3600);
    limits.unread_body_timeout = Duration::from_secs(3600);
    let server = start(Server::builder().limits(limits).gate(Refusing)).await;
    for (about_body, first, then) in [
        ("content-length: 100000\r\n", "x".repeat(10), "x".repeat(99_990)),
        ("content-length: 3000000\r\n", "x".repeat(10), "x".repeat(2_999_990)),
        ("transfer-encoding: chunked\r\n", "5\r\nhello\r\n".to_owned(), "0\r\n\r\n".to_owned()),
    ] {
        let mut stream = connect(&server).await;
        let begun = [refused_head(about_body), first].concat();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let head = answer(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 401 "), "{about_body}{head}");
        // Who goes on sending may send the next request on the same connection.
        stream.write_all(then.as_bytes()).await.unwrap();
        stream.write_all(b"GET /nothing HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
        let head = answer(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 404 "), "{about_body}{head}");
    }
}

#[tokio::test]
async fn who_goes_on_without_end_or_not_at_all_after_a_refusal_over_http1_is_closed() {
    let mut limits = Limits::default();
    limits.body_progress_timeout = Duration::from_secs(3600);
    limits.unread_body_timeout = Duration::from_millis(50);
    limits.body_bytes_max = 100_000;
    limits.unread_body_bytes_max = 100_000;
    let server = start(Server::builder().limits(limits).gate(Refusing)).await;
    let mut silent = connect(&server).await;
    silent.write_all(refused_head("content-length: 1000\r\n").as_bytes()).await.unwrap();
    assert!(rest(&mut silent).await.starts_with("HTTP/1.1 401 "));

    let (mut reads, mut writes) = connect(&server).await.into_split();
    let endless = async {
        writes.write_all(refused_head("transfer-encoding: chunked\r\n").as_bytes()).await?;
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
        loop {
            writes.write_all(chunk.as_bytes()).await?;
        }
    };
    let read = async {
        let mut head = [0; 13];
        reads.read_exact(&mut head).await.unwrap();
        head
    };
    let (written, head): (std::io::Result<()>, _) = tokio::join!(endless, read);
    assert_eq!(&head, b"HTTP/1.1 401 ");
    written.unwrap_err();
}

#[tokio::test]
async fn who_sends_everything_before_it_reads_sees_the_refusal_over_http1() {
    let mut limits = Limits::default();
    limits.body_bytes_max = 100_000;
    let unread = async |_: Call| Err::<Reply, _>(Error::not_found("no such item"));
    let builder = Server::builder().route(Method::POST, "/items", unread).limits(limits);
    let server = start(builder.gate(Refusing)).await;
    for (headers, status) in [
        ("x-refuse: 401\r\ncontent-length: 900000\r\n", "401"),
        ("content-length: 900000\r\n", "413"),
        ("content-length: 90000\r\n", "404"),
        ("transfer-encoding: gzip, chunked\r\n", "501"),
    ] {
        for _ in 0..10 {
            let mut stream = connect(&server).await;
            let head = format!("POST /items HTTP/1.1\r\nhost: test\r\n{headers}\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let bytes = if status == "404" { 90_000 } else { 900_000 };
            for _ in 0..bytes / 1000 {
                stream.write_all(&[b'x'; 1000]).await.unwrap();
                tokio::task::yield_now().await;
            }
            let answer = answer(&mut stream).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{headers}{answer}");
        }
    }
}

#[tokio::test]
async fn who_waits_to_be_told_to_go_on_is_refused_instead() {
    let server = start(Server::builder().gate(Refusing)).await;
    let mut stream = connect(&server).await;
    let head = refused_head("expect: 100-continue\r\ncontent-length: 1000\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let head = answer(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    assert!(head.contains("connection: close\r\n"), "{head}");
}

/// Lets all pass, and not at once.
struct Waiting;

impl Gate for Waiting {
    fn admit(&self, _: &mut Head) -> Admission {
        Admission::Waits
    }

    fn wait<'a>(&'a self, _: &'a mut Head) -> BoxFuture<'a, tidewire_service::Result<()>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(())
        })
    }
}

/// Methods over REST and Connect, and the route `/plain`, all of which refuse as the header
/// `x-deny` says, before they read their message.
fn methods() -> Builder {
    let answer = async |call: Call| {
        if call.context.headers().contains_key("x-deny") {
            return Err(Error::unauthenticated("this call needs a credential, and none came"));
        }
        call.body.collect(1 << 24).await?;
        Ok::<_, Error>(Reply::new(Body::Empty))
    };
    let service = schema().serve("rest.v1.Echo", answer).unwrap();
    Server::builder().service(service).route(Method::POST, "/plain", answer).gate(Refusing)
}

/// Sends a head and what may follow it; the head of the answer, which is the last.
async fn last_answer(server: &RunningServer, head: &str, body: &[u8]) -> String {
    let (mut reads, mut writes) = connect(server).await.into_split();
    let mut answer = Vec::new();
    let send = async {
        writes.write_all(head.as_bytes()).await.unwrap();
        let _ = writes.write_all(body).await;
    };
    let read = async {
        // Who closes while something is still sent may reset the connection.
        let _ = reads.read_to_end(&mut answer).await;
    };
    tokio::join!(send, read);
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_reply_after_which_the_connection_is_closed_says_so() {
    let mut limits = Limits::default();
    limits.body_bytes_max = 100_000;
    limits.message_bytes_max = 100_000;
    let (rest, connect) = ("/whole", "/rest.v1.Echo/Whole");
    for (at, about_body, sent, status) in [
        (rest, "content-length: 900000", 0, "413"),
        (rest, "transfer-encoding: chunked", 900_000, "413"),
        (connect, "content-length: 900000", 900_000, "429"),
        (connect, "content-length: 900000\r\ncontent-encoding: zip", 0, "501"),
        ("/plain", "content-length: 900000", 0, "413"),
        ("/nothing", "content-length: 900000", 0, "404"),
    ] {
        for waits in [false, true] {
            let builder = methods().limits(limits.clone());
            let builder = if waits { builder.gate(Waiting) } else { builder };
            let server = start(builder).await;
            let head = format!(
                "POST {at} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
                 {about_body}\r\n\r\n"
            );
            let mut body = vec![b'x'; sent];
            if about_body.contains("chunked") {
                body.splice(..0, *b"fffff\r\n");
            }
            let answer = last_answer(&server, &head, &body).await;
            let says = (answer.get(9..12), answer.contains("connection: close\r\n"));
            assert_eq!(says, (Some(status), true), "{at} {about_body} {waits}: {answer}");
        }
    }
}

#[tokio::test]
async fn who_asks_whether_to_send_a_body_that_nobody_reads_is_not_told_to() {
    let mut limits = Limits::default();
    limits.body_bytes_max = 100_000;
    let server = start(methods().limits(limits).hosts(Hosts::local())).await;
    let (rest, connect) = ("/whole", "/rest.v1.Echo/Whole");
    for (at, headers, status) in [
        ("/nothing", "host: localhost", "404"),
        ("/plain", "host: localhost\r\nx-refuse: 401", "401"),
        ("/plain", "host: localhost\r\nx-deny: 1", "401"),
        ("/plain", "host: shop.example", "421"),
        ("/plain", "host: u@a", "400"),
        ("/plain", "host: localhost\r\nexpect: 100-Continue\r\nx-deny: 1", "401"),
        (rest, "host: localhost\r\nx-refuse: 429", "429"),
        (rest, "host: localhost\r\nx-deny: 1", "401"),
        ("/whole?text=a", "host: localhost", "400"),
        (rest, "host: localhost\r\ncontent-encoding: gzip", "415"),
        ("/items/7", "host: localhost", "405"),
        (connect, "host: localhost\r\nx-refuse: 429", "429"),
        (connect, "host: localhost\r\nx-deny: 1", "401"),
        (connect, "host: localhost\r\ncontent-encoding: zip", "501"),
        ("/rest.v1.Echo/Nothing", "host: localhost", "404"),
    ] {
        let head = format!(
            "POST {at} HTTP/1.1\r\n{headers}\r\ncontent-type: application/json\r\n\
             content-length: 2\r\nexpect: 100-continue\r\n\r\n"
        );
        let answer = last_answer(&server, &head, b"").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}{answer}");
        assert!(answer.contains("connection: close\r\n"), "{head}{answer}");
    }
}

#[tokio::test]
async fn who_asks_whether_to_send_a_body_is_told_to_once_it_is_read() {
    let server = start(methods()).await;
    for at in ["/plain", "/whole", "/rest.v1.Echo/Whole"] {
        let mut stream = connect(&server).await;
        let head = format!(
            "POST {at} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
             content-length: 2\r\nexpect: 100-continue\r\n\r\n"
        );
        for _ in 0..2 {
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut told = [0; 25];
            stream.read_exact(&mut told).await.unwrap();
            assert_eq!(told, *b"HTTP/1.1 100 Continue\r\n\r\n", "{at}");
            stream.write_all(b"{}").await.unwrap();
            let head = answer(&mut stream).await;
            assert!(head.starts_with("HTTP/1.1 200 "), "{at}{head}");
            assert!(!head.contains("connection: close"), "{at}{head}");
        }
    }
}
