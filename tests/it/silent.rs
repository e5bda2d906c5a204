//! Peers that say nothing, or too little, hold nothing for ever: each phase has a limit that is
//! named.
//!
//! One limit is short and all others are a day, so that the end that a test waits for is that
//! limit's.

use std::net::SocketAddr;
use std::time::Duration;

use tidewire::http::Method;
use tidewire::server::Tls;
use tidewire::{Call, Limits, RunningServer};
use tidewire_tests::http2::{
    END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, envelope, frame, hello, next, post,
    read_frame,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{SERVICE, behaviour, start};

const DAY: Duration = Duration::from_secs(86_400);
const SHORT: Duration = Duration::from_millis(50);

/// The limits with every time a day, but for what `shorten` changes.
fn patient(shorten: impl Fn(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    for timeout in [
        &mut limits.handshake_timeout,
        &mut limits.first_byte_timeout,
        &mut limits.header_read_timeout,
        &mut limits.idle_timeout,
        &mut limits.keep_alive_interval,
        &mut limits.keep_alive_timeout,
        &mut limits.body_progress_timeout,
        &mut limits.reply_progress_timeout,
    ] {
        *timeout = DAY;
    }
    shorten(&mut limits);
    limits
}

async fn server(shorten: impl Fn(&mut Limits)) -> (RunningServer, SocketAddr) {
    let (builder, _) = behaviour();
    let sink = async |call: Call| Ok(call.body.collect(usize::MAX).await?.len().to_string());
    start(builder.limits(patient(shorten)).route(Method::POST, "/sink", sink)).await
}

/// Sends something, and reads until the server closes.
async fn heard(address: SocketAddr, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")
}

#[tokio::test]
async fn a_connection_on_which_nothing_comes_is_closed() {
    let (_running, address) = server(|limits| limits.first_byte_timeout = SHORT).await;
    assert_eq!(heard(address, b"").await, "");
}

#[tokio::test]
async fn a_connection_with_part_of_a_head_is_closed_whatever_it_speaks() {
    let (_running, address) = server(|limits| limits.header_read_timeout = SHORT).await;
    for part in ["P", "PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n", "G", "GET / HTTP/1.1\r\nhost: te"] {
        assert_eq!(heard(address, part.as_bytes()).await, "", "{part:?}");
    }
    // Also behind a request that was answered.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(get("/nowhere").as_bytes()).await.unwrap();
    stream.read_exact(&mut [0; 12]).await.unwrap();
    stream.write_all(b"GET").await.unwrap();
    while stream.read(&mut [0; 100]).await.is_ok_and(|count| count > 0) {}
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_has_no_more_time_for_it() {
    let (_running, address) = server(|limits| limits.header_read_timeout = SHORT).await;
    for start in ["PRI * HTTP/2.0\r\n\r\n", "GET / HTTP/1.1\r\nx-long: "] {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let drip = async {
            let mut often = tokio::time::interval(SHORT / 10);
            let endless = start.bytes().chain(std::iter::repeat(b'x'));
            // Of a preface no more than it has.
            let drops = if start.starts_with('G') { usize::MAX } else { start.len() };
            for byte in endless.take(drops) {
                often.tick().await;
                if write.write_all(&[byte]).await.is_err() {
                    break;
                }
            }
            std::future::pending::<()>().await;
        };
        let mut answer = Vec::new();
        tokio::select! {
            _ = read.read_to_end(&mut answer) => {}
            () = drip => {}
        }
        assert_eq!(answer, b"", "{start:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_http2_says_so_first() {
    let (_running, address) = server(|limits| limits.idle_timeout = SHORT).await;
    let answer = heard(address, get("/nowhere").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");

    for more in [Vec::new(), frame(HEADERS, END_STREAM, 1, &post("/x", "text/plain"))] {
        // With the head of a request that is never completed, too.
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&[hello(&[]), more].concat()).await.unwrap();
        let last = next(&mut stream).await.unwrap();
        assert!(last.is_none_or(|frame| frame.kind == GOAWAY));
        while read_frame(&mut stream).await.is_some() {}
    }
}

#[tokio::test]
async fn an_http2_peer_that_does_not_answer_is_closed_also_with_a_call_running() {
    let (_running, address) = server(|limits| {
        limits.keep_alive_interval = SHORT;
        limits.keep_alive_timeout = SHORT;
    })
    .await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let chat = post(&format!("{SERVICE}/Chat"), "application/grpc");
    let call = frame(HEADERS, END_HEADERS, 1, &chat);
    stream.write_all(&[hello(&[]), call].concat()).await.unwrap();
    while read_frame(&mut stream).await.is_some() {}
}

#[tokio::test]
async fn a_body_that_stands_still_is_answered_on_every_route() {
    let (_running, address) = server(|limits| limits.body_progress_timeout = SHORT).await;
    let part = envelope(b"x");
    for (path, content_type, part, answer) in [
        (format!("{SERVICE}/Echo"), "application/json", &b"{"[..], "HTTP/1.1 408"),
        (format!("{SERVICE}/Echo"), "application/proto", b"\x0a", "HTTP/1.1 408"),
        (format!("{SERVICE}/Echo"), "application/grpc-web+proto", &part[..4], "grpc-status: 4"),
        (format!("{SERVICE}/Sum"), "application/connect+proto", &part[..5], "deadline_exceeded"),
        (format!("{SERVICE}/Sum"), "application/grpc-web+proto", &part[..5], "grpc-status: 4"),
        ("/sink".to_owned(), "text/plain", b"abc", "HTTP/1.1 408"),
        ("/nowhere".to_owned(), "text/plain", b"abc", "HTTP/1.1 404"),
    ] {
        for length in ["content-length: 1000", "transfer-encoding: chunked"] {
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: {content_type}");
            let part = match length {
                "content-length: 1000" => part.to_vec(),
                _ => [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat(),
            };
            let head = format!("{head}\r\n{length}\r\n\r\n");
            let heard = heard(address, &[head.as_bytes(), &part].concat()).await;
            assert!(heard.contains(answer), "{path} {content_type} {length}: {heard}");
            let is_told =
                answer == "HTTP/1.1 404" || heard.contains("limits.body_progress_timeout");
            assert!(is_told, "{path} {content_type} {length}: {heard}");
        }
    }
}

#[tokio::test]
async fn over_http2_a_message_has_to_go_on_and_a_stream_may_pause_between_two() {
    let (_running, address) = server(|limits| limits.body_progress_timeout = SHORT).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let chat = post(&format!("{SERVICE}/Chat"), "application/grpc");
    let echo = post(&format!("{SERVICE}/Echo"), "application/grpc");
    // Of stream 1 nothing, of 3 half a message, of 5 half the only message.
    let calls = [
        hello(&[]),
        frame(HEADERS, END_HEADERS, 1, &chat),
        frame(HEADERS, END_HEADERS, 3, &chat),
        frame(0, 0, 3, &envelope(b"\x0a\x01x")[..6]),
        frame(HEADERS, END_HEADERS, 5, &echo),
        frame(0, 0, 5, b"\0"),
    ];
    stream.write_all(&calls.concat()).await.unwrap();
    let mut over = Vec::new();
    while over.len() < 2 {
        let frame = next(&mut stream).await.unwrap().unwrap();
        assert_ne!(frame.kind, GOAWAY);
        let is_end = frame.kind == RST_STREAM || frame.flags & END_STREAM != 0;
        if is_end && !over.contains(&frame.stream) {
            over.push(frame.stream);
        }
    }
    over.sort_unstable();
    assert_eq!(over, [3, 5]);
    // The one that paused goes on.
    stream.write_all(&frame(0, END_STREAM, 1, &envelope(b"\x0a\x01y"))).await.unwrap();
    loop {
        let frame = next(&mut stream).await.unwrap().unwrap();
        if frame.stream == 1 && frame.payload.ends_with(b"y") {
            break;
        }
        assert!(frame.stream != 1 || frame.kind == HEADERS, "{frame:?}");
    }
}

#[tokio::test]
async fn a_tls_handshake_that_is_never_finished_is_closed() {
    let (builder, _) = behaviour();
    let tls = Tls::new(
        include_bytes!("../fixtures/tls/server.pem"),
        include_bytes!("../fixtures/tls/server.key"),
    );
    let limits = patient(|limits| limits.handshake_timeout = SHORT);
    let (_running, address) = start(builder.tls(tls.unwrap()).limits(limits)).await;
    // Nothing, and the start of a hello of 512 bytes.
    for part in [&b""[..], &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]] {
        assert_eq!(heard(address, part).await, "");
    }
}
