//! A drain waits for calls and for nothing else, and what it says is true.
//!
//! The time for a drain is a day where it must not be needed.

use std::net::SocketAddr;
use std::time::Duration;

use tidewire::server::Tls;
use tidewire::{Builder, Limits, RunningServer};
use tidewire_tests::http2::{
    END_HEADERS, END_STREAM, HEADERS, frame, hello, post, read_frame, request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{SERVICE, behaviour, start};

/// A server whose drain may take so long.
async fn server(
    drain_timeout: Duration,
    more: impl Fn(Builder) -> Builder,
) -> (RunningServer, SocketAddr) {
    let mut limits = Limits::default();
    limits.drain_timeout = drain_timeout;
    start(more(behaviour().0.limits(limits))).await
}

const DAY: Duration = Duration::from_secs(86_400);

async fn connected(address: SocketAddr, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream
}

#[tokio::test]
async fn connections_without_a_call_are_not_waited_for() {
    let (running, address) = server(DAY, |builder| builder).await;
    let whole = b"GET /nowhere HTTP/1.1\r\nhost: test\r\n\r\n";
    let mut answered = connected(address, whole).await;
    let mut half = connected(address, &[&whole[..], b"GET"].concat()).await;
    for stream in [&mut answered, &mut half] {
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 404");
    }
    let _silent = [
        connected(address, b"").await,
        connected(address, b"PRI").await,
        connected(address, b"GET / HT").await,
    ];
    assert!(running.drain().await);
}

#[tokio::test]
async fn an_http2_peer_that_acknowledges_nothing_is_not_waited_for() {
    let (running, address) = server(DAY, |builder| builder).await;
    let half = frame(HEADERS, END_STREAM, 1, &post("/x", "text/plain"));
    let mut peers = Vec::new();
    for more in [&[][..], &half] {
        let mut stream = connected(address, &[&hello(&[]), more].concat()).await;
        read_frame(&mut stream).await.unwrap();
        peers.push(stream);
    }
    assert!(running.drain().await);
}

#[tokio::test]
async fn a_tls_handshake_is_not_waited_for() {
    let tls = Tls::new(
        include_bytes!("../fixtures/tls/server.pem"),
        include_bytes!("../fixtures/tls/server.key"),
    );
    let tls = tls.unwrap();
    let (running, address) = server(DAY, |builder| builder.tls(tls.clone())).await;
    let _silent = [connected(address, b"").await, connected(address, &[22, 3, 1, 2]).await];
    assert!(running.drain().await);
}

#[tokio::test]
async fn who_watches_the_health_hears_of_the_drain_and_is_not_waited_for() {
    let (running, address) = server(DAY, |builder| builder).await;
    let watch = request(1, "/grpc.health.v1.Health/Watch", "application/grpc", &[0; 5]);
    let mut stream = connected(address, &[hello(&[]), watch].concat()).await;
    while read_frame(&mut stream).await.unwrap().kind != HEADERS {}
    assert!(running.drain().await);
    let mut ended = false;
    while let Some(frame) = read_frame(&mut stream).await {
        ended |= frame.stream == 1 && frame.flags & END_STREAM != 0;
    }
    assert!(ended, "the watch ended before the connection");
}

#[tokio::test]
async fn calls_that_run_are_waited_for_and_then_cut_off() {
    for is_http2 in [false, true] {
        let (running, address) = server(Duration::from_millis(50), |builder| builder).await;
        let path = format!("{SERVICE}/Slow");
        let call = match is_http2 {
            // Stream 3 is answered at once, and shows that 1 is there.
            true => [
                hello(&[]),
                request(1, &path, "application/json", br#"{"millis":60000000}"#),
                request(3, "/nowhere", "text/plain", b""),
            ]
            .concat(),
            false => format!(
                "GET /nowhere HTTP/1.1\r\nhost: test\r\n\r\nPOST {path} HTTP/1.1\r\nhost: test\r\n\
                 content-type: application/json\r\ncontent-length: 19\r\n\r\n{{\"millis\":60000000}}"
            )
            .into_bytes(),
        };
        let mut stream = connected(address, &call).await;
        match is_http2 {
            true => while read_frame(&mut stream).await.unwrap().flags & END_HEADERS == 0 {},
            false => {
                stream.read_exact(&mut [0; 12]).await.unwrap();
            }
        }
        assert!(!running.drain().await, "HTTP/2: {is_http2}");
    }
}
