//! Peers that say nothing, or too little: every one of them has to be closed.

use std::net::SocketAddr;

use tidewire_tests::http2::{END_HEADERS, END_STREAM, HEADERS, frame, hello, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::victim::{CHAT, ECHO};

/// Each kind of silence, and what is said before it.
fn kinds() -> Vec<(&'static str, Vec<u8>)> {
    let body = |path: &str, content_type: &str, length: &str, part: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: {content_type}");
        format!("{head}\r\n{length}\r\n\r\n{part}").into_bytes()
    };
    let half = frame(HEADERS, END_STREAM, 1, &post(ECHO, "application/grpc"));
    let open = frame(HEADERS, END_HEADERS, 1, &post(CHAT, "application/grpc"));
    vec![
        ("nothing", Vec::new()),
        ("part of the preface of HTTP/2", b"PRI".to_vec()),
        ("part of a head", b"GET / HTTP/1.1\r\nhost: a".to_vec()),
        ("HTTP/2 without a call", hello(&[])),
        ("HEADERS without their end", [hello(&[]), half].concat()),
        ("an open stream and no answer to PING", [hello(&[]), open].concat()),
        ("part of a body", body(ECHO, "application/json", "content-length: 100", "{")),
        ("part of a chunk", body(ECHO, "application/json", "transfer-encoding: chunked", "5\r\n{")),
        ("part of a body to nothing", body("/x", "text/plain", "content-length: 100", "x")),
        ("an answered request", b"GET /x HTTP/1.1\r\nhost: a\r\n\r\n".to_vec()),
    ]
}

/// Opens two hundred connections of each kind, and waits until all are closed.
pub(crate) async fn silent(address: SocketAddr) -> Result<String, String> {
    let mut peers = JoinSet::new();
    for (name, said) in kinds() {
        for _ in 0..200 {
            let said = said.clone();
            peers.spawn(async move {
                let mut stream = TcpStream::connect(address).await?;
                stream.write_all(&said).await?;
                let mut sink = [0; 1024];
                let closed = async { while stream.read(&mut sink).await.is_ok_and(|n| n > 0) {} };
                let in_time = tokio::time::timeout(IN_TIME, closed).await.is_ok();
                Ok::<_, std::io::Error>((name, in_time))
            });
        }
    }
    let count = peers.len();
    while let Some(peer) = peers.join_next().await {
        match peer.map_err(|error| error.to_string())? {
            Ok((_, true)) => {}
            Ok((name, false)) => return Err(format!("{name}: it is still open")),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(format!("all {count} were closed, with limits of 2 s"))
}

/// The limits are 2 s, and the machine may be busy.
const IN_TIME: std::time::Duration = std::time::Duration::from_secs(60);
