//! HTTP/1.1: requests that are none, and heads without an end.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What is sent, and the status that has to come.
const TABLE: &[(&str, &str)] = &[
    ("GET / HTTP/1.1\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nhost: a b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nhost : a\r\n\r\n", "400"),
    ("GET / HTTP/3.0\r\nhost: a\r\n\r\n", "400"),
    ("POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", "400"),
    ("POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "400"),
    ("POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551615\r\n\r\n", "431"),
    ("POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"),
    ("POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "400"),
    ("POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n", "400"),
    ("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "400"),
    ("\x16\x03\x01\x02\x00\x01\x00\x01\x7c\x03\x03", "400"),
];

/// Sends every line of the table many times.
pub(crate) async fn framing(address: SocketAddr) -> Result<String, String> {
    let mut connections = 0;
    while connections < 4000 {
        for (sent, expected) in TABLE {
            let mut stream =
                TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            stream.write_all(sent.as_bytes()).await.map_err(|error| error.to_string())?;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            let answer = String::from_utf8_lossy(&answer);
            if answer.split(' ').nth(1) != Some(expected) {
                return Err(format!("{sent:?} is answered {answer:?}, not {expected}"));
            }
            connections += 1;
        }
    }
    Ok(format!("each of {} kinds is answered as it should be, and closed", TABLE.len()))
}

/// Sends headers until the server has enough.
pub(crate) async fn endless_head(address: SocketAddr) -> Result<String, String> {
    let mut sent = 0_usize;
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nx: ").await;
        let part = [b'x'; 16 << 10];
        let mut of_this = 0;
        while stream.write_all(&part).await.is_ok() {
            of_this += part.len();
            if of_this > 64 << 20 {
                return Err("64 MiB of one header were taken".into());
            }
        }
        sent = sent.max(of_this);
    }
    Ok(format!("refused after {} KiB at most", sent >> 10))
}
