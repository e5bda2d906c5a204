//! HTTP/1.1 connections: requests that do not wait for the answers before them, and those that
//! become something else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{CONNECTION, CONTENT_LENGTH, UPGRADE};
use http::{Method, StatusCode};
use tidewire_server::{Builder, Limits, RunningServer, Server};
use tidewire_service::{Body, Call, End, EndReason, Head, Observation, Observer, Reply, Upgrade};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// `/size/{count}` answers with so many bytes, `/waiting` once it is let go, `/upgrade` with a
/// connection that says back what it hears.
async fn server(let_go: &Arc<Notify>) -> RunningServer {
    let let_go = Arc::clone(let_go);
    let waiting = move |_: Call| {
        let let_go = Arc::clone(&let_go);
        async move {
            let_go.notified().await;
            Ok(Reply::text("at last"))
        }
    };
    let builder = Server::builder()
        .route(Method::GET, "/size/{count}", size)
        .route(Method::GET, "/waiting", waiting)
        .route(Method::GET, "/upgrade", echo);
    start(builder).await
}

async fn start(builder: Builder) -> RunningServer {
    builder.listen(SocketAddr::from(([127, 0, 0, 1], 0))).start().await.unwrap()
}

async fn size(call: Call) -> tidewire_service::Result<Reply> {
    let count = call.param("count")?;
    Ok(Reply::text(Body::from(vec![b'x'; count])))
}

async fn echo(_: Call) -> tidewire_service::Result<Reply> {
    let upgrade = Upgrade::new(|mut stream| async move {
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.unwrap();
        stream.write_all(&heard).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    Reply::upgrade(StatusCode::SWITCHING_PROTOCOLS, upgrade)
        .with_header(CONNECTION, "upgrade")?
        .with_header(UPGRADE, "echo")
}

async fn connect(server: &RunningServer) -> TcpStream {
    TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")
}

/// Reads up to and with `end`.
async fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        bytes.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_however_large_the_answers() {
    let server = server(&Arc::default()).await;
    let sizes = [1, 70_000, 3, 600_000, 5, 65_536, 65_300, 0];
    let mut stream = connect(&server).await;
    let mut requests: String = sizes.iter().map(|size| get(&format!("/size/{size}"))).collect();
    // More than the library looks at before it lets others have a turn.
    requests.push_str(&get("/size/2").repeat(100));
    stream.write_all(requests.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    let lengths: Vec<usize> = answers
        .split("HTTP/1.1 200 OK\r\n")
        .skip(1)
        .map(|answer| answer.split_once("\r\n\r\n").unwrap().1.len())
        .collect();
    assert_eq!(lengths, [&sizes[..], &[2; 100]].concat());
}

/// Tells of the end of every request.
struct Ends(tokio::sync::mpsc::UnboundedSender<End>);

impl Observer for Ends {
    fn begin(&self, _: &Head) -> Arc<dyn Observation> {
        Arc::new(Self(self.0.clone()))
    }
}

impl Observation for Ends {
    fn end(&self, end: &End) {
        self.0.send(end.clone()).unwrap();
    }
}

/// A program's page: its length is known, and its stream says later, or never, that it ends.
#[tokio::test]
async fn a_body_that_is_as_long_as_was_said_is_answered_and_not_canceled() {
    let page = async |call: Call| {
        let said = call.param::<u64>("length")?;
        let first = futures_util::stream::iter([Ok(Bytes::from_static(b"hello"))]);
        let body = Body::stream(first.chain(futures_util::stream::pending()));
        Reply::new(body).with_header(CONTENT_LENGTH, said)
    };
    let (ends, mut told) = tokio::sync::mpsc::unbounded_channel();
    let builder = Server::builder().observer(Ends(ends)).route(Method::GET, "/page/{length}", page);
    let server = start(builder).await;
    for (length, how) in [(5, EndReason::Answered), (6, EndReason::Canceled)] {
        let mut stream = connect(&server).await;
        stream.write_all(get(&format!("/page/{length}")).as_bytes()).await.unwrap();
        read_to(&mut stream, "\r\n\r\nhello").await;
        drop(stream);
        let end = told.recv().await.unwrap();
        assert_eq!((end.how, end.bytes_out), (how, 5), "{length}");
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_for_a_later_one() {
    let let_go = Arc::default();
    let server = server(&let_go).await;
    let mut stream = connect(&server).await;
    let requests = [get("/size/1"), get("/waiting"), get("/size/2")].concat();
    stream.write_all(requests.as_bytes()).await.unwrap();
    assert!(read_to(&mut stream, "\r\n\r\nx").await.contains("content-length: 1\r\n"));
    let_go.notify_one();
    read_to(&mut stream, "\r\n\r\nat last").await;
    read_to(&mut stream, "\r\n\r\nxx").await;
}

#[tokio::test]
async fn a_request_whose_body_nobody_reads_is_answered_with_the_end_of_its_connection() {
    let read = async |call: Call| Ok(Reply::text(call.body.collect(100).await?));
    let builder = Server::builder().route(Method::GET, "/size/{count}", size).route(
        Method::POST,
        "/read",
        read,
    );
    let server = start(builder).await;
    for (head, closes) in [
        ("GET /size/1 HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\r\n", true),
        ("GET /size/1 HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\r\nhello", false),
        ("POST /read HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\r\nhello", false),
        ("GET /size/1 HTTP/1.1\r\nhost: test\r\n\r\n", false),
    ] {
        let mut stream = connect(&server).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = read_to(&mut stream, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert_eq!(answer.contains("connection: close\r\n"), closes, "{head}{answer}");
    }
}

#[tokio::test]
async fn an_upgraded_connection_may_be_read_first() {
    let server = server(&Arc::default()).await;
    let mut stream = connect(&server).await;
    let upgrade =
        "GET /upgrade HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    stream.write_all([&get("/size/1"), upgrade].concat().as_bytes()).await.unwrap();
    read_to(&mut stream, "\r\n\r\nx").await;
    assert!(read_to(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 101 "));
    stream.write_all(b"hello").await.unwrap();
    let mut echoed = String::new();
    stream.read_to_string(&mut echoed).await.unwrap();
    assert_eq!(echoed, "hello");
}

#[tokio::test]
async fn a_client_that_does_not_finish_a_head_is_cut_off() {
    let mut limits = Limits::default();
    limits.header_read_timeout = Duration::from_millis(50);
    let server = start(Server::builder().limits(limits)).await;
    let mut stream = connect(&server).await;
    stream.write_all(b"GET / HT").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "");
}
