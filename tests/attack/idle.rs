//! Connections by the thousand that do nothing after one call.

use std::net::SocketAddr;
use std::time::Duration;

use tidewire_tests::http2::{END_STREAM, HEADERS, hello, next, request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::victim::ECHO;

/// As many connections as descriptors allow, and at most ten thousand.
fn count() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok());
    soft.unwrap_or(1024).saturating_sub(200).min(10_000)
}

async fn held(
    connections: impl Future<Output = std::io::Result<Vec<TcpStream>>>,
) -> Result<String, String> {
    let connections = connections.await.map_err(|error| error.to_string())?;
    // tidy: allow-sleep being idle is the attack
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(format!("{} connections held", connections.len()))
}

/// Over HTTP/1.1.
pub(crate) async fn http1(address: SocketAddr) -> Result<String, String> {
    held(async {
        let mut connections = Vec::new();
        for _ in 0..count() {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(b"GET /x HTTP/1.1\r\nhost: a\r\n\r\n").await?;
            stream.read_exact(&mut [0; 12]).await?;
            connections.push(stream);
        }
        Ok(connections)
    })
    .await
}

/// Over HTTP/2.
pub(crate) async fn http2(address: SocketAddr) -> Result<String, String> {
    held(async {
        let mut connections = Vec::new();
        let call = [hello(&[]), request(1, ECHO, "application/grpc", &[0; 5])].concat();
        for _ in 0..count() {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(&call).await?;
            while let Some(found) = next(&mut stream).await? {
                if found.kind == HEADERS && found.flags & END_STREAM != 0 {
                    break;
                }
            }
            connections.push(stream);
        }
        Ok(connections)
    })
    .await
}
