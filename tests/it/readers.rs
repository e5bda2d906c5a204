//! Clients that stop reading: what waits for them is bounded, and ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidewire::http::Method;
use tidewire::service::{End, Observation, Observer};
use tidewire::{Body, Call, Head, Limits, Reply, RunningServer, Server};
use tidewire_tests::http2::{
    DATA, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM, WINDOW_UPDATE,
    envelope, frame, hello, next, read_frame, request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::harness::{SERVICE, behaviour, send, start};

const SHORT: Duration = Duration::from_millis(50);

async fn server(limits: Limits) -> (RunningServer, SocketAddr) {
    start(behaviour().0.limits(limits)).await
}

/// A message of `Echo` with so long a text.
fn echo(length: usize) -> Vec<u8> {
    let mut message = vec![0x0a];
    let mut rest = length;
    while rest >= 128 {
        message.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    message.push(rest as u8);
    message.resize(message.len() + length, b'x');
    envelope(&message)
}

/// A call of `Echo` over gRPC whose reply has so many bytes.
fn call(stream: u32, length: usize) -> Vec<u8> {
    request(stream, &format!("{SERVICE}/Echo"), "application/grpc", &echo(length))
}

fn window(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

#[tokio::test]
async fn a_stream_that_is_not_read_is_reset_and_its_neighbours_are_not() {
    let mut limits = Limits::default();
    limits.reply_progress_timeout = SHORT;
    let (_running, address) = server(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let hello = hello(&[(INITIAL_WINDOW_SIZE, 0)]);
    stream.write_all(&[hello, call(1, 20_000), call(3, 20_000)].concat()).await.unwrap();
    let mut reset = Vec::new();
    while reset.len() < 2 {
        let frame = next(&mut stream).await.unwrap().unwrap();
        assert!(!matches!(frame.kind, DATA | GOAWAY), "{frame:?}");
        if frame.kind == RST_STREAM {
            reset.push(frame.stream);
        }
    }
    reset.sort_unstable();
    assert_eq!(reset, [1, 3]);
    stream.write_all(&[call(5, 10), window(5, 1000)].concat()).await.unwrap();
    loop {
        let frame = next(&mut stream).await.unwrap().unwrap();
        if frame.stream == 5 && frame.flags & END_STREAM != 0 {
            assert_eq!(frame.kind, HEADERS, "the trailers");
            break;
        }
    }
}

#[tokio::test]
async fn what_is_left_of_a_reply_ends_its_connection_when_nobody_takes_it() {
    let mut limits = Limits::default();
    limits.reply_progress_timeout = SHORT;
    let (_running, address) = server(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The last piece is the library's as soon as a byte of it may be sent.
    let hello = hello(&[(INITIAL_WINDOW_SIZE, 1)]);
    stream.write_all(&[hello, call(1, 1000)].concat()).await.unwrap();
    let mut data = 0;
    while let Some(found) = read_frame(&mut stream).await {
        data += if found.kind == DATA { found.payload.len() } else { 0 };
        if found.kind == PING && found.flags == 0 {
            stream.write_all(&frame(PING, 1, 0, &found.payload)).await.unwrap();
        }
    }
    assert_eq!(data, 1);
}

#[tokio::test]
async fn replies_on_top_of_what_waits_are_refused() {
    let mut limits = Limits::default();
    limits.reply_bytes_waiting_max = 100_000;
    let (_running, address) = server(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&hello(&[(INITIAL_WINDOW_SIZE, 0)])).await.unwrap();
    // Each reply waits before the next call, as its head shows.
    for (id, is_refused) in [(1, false), (3, true), (5, true)] {
        stream.write_all(&call(id, 60_000)).await.unwrap();
        let head = next(&mut stream).await.unwrap().unwrap();
        assert_eq!((head.kind, head.stream), (HEADERS, id));
        assert_eq!(head.flags & END_STREAM != 0, is_refused, "{id}");
    }
    // Once the first is read there is room again.
    stream.write_all(&[window(1, 100_000), window(0, 100_000)].concat()).await.unwrap();
    while next(&mut stream).await.unwrap().unwrap().flags & END_STREAM == 0 {}
    stream.write_all(&call(7, 60_000)).await.unwrap();
    let head = next(&mut stream).await.unwrap().unwrap();
    assert_eq!((head.kind, head.stream, head.flags & END_STREAM), (HEADERS, 7, 0));
}

/// Tells of the end of every request.
struct Ends(mpsc::UnboundedSender<End>);

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

fn sizes() -> tidewire::Builder {
    let size =
        async |call: Call| Ok(Reply::text(Body::from(vec![b'x'; call.param::<usize>("count")?])));
    Server::builder().route(Method::GET, "/size/{count}", size)
}

/// Asks for more than sockets hold, and reads only the head of the answer.
async fn asks(address: SocketAddr, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /size/{bytes} HTTP/1.1\r\nhost: test\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    stream
}

#[tokio::test]
async fn over_http1_a_reply_that_is_not_read_ends_with_its_connection() {
    let (ends, mut told) = mpsc::unbounded_channel();
    let mut limits = Limits::default();
    limits.reply_progress_timeout = SHORT;
    let (running, address) = start(sizes().observer(Ends(ends)).limits(limits)).await;
    let _reader = asks(address, 64 << 20).await;
    // The end is told when the reply is given up.
    told.recv().await.unwrap();
    assert!(running.drain().await);
}

#[tokio::test]
async fn what_waits_on_one_connection_counts_on_all() {
    let mut limits = Limits::default();
    limits.reply_bytes_waiting_all_max = 1_000_000;
    let (_running, address) = start(sizes().limits(limits)).await;
    send(address, "GET /size/2000000", b"").await.check(200, &[]);
    let reader = asks(address, 64 << 20).await;
    send(address, "GET /size/2000000", b"")
        .await
        .check(429, &["resource_exhausted", "limits.reply_bytes_waiting_all_max = 1000000"]);
    send(address, "GET /size/100", b"").await.check(200, &[]);
    drop(reader);
}
