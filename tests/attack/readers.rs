//! Readers that stop: replies that are asked for and never taken.

use std::net::SocketAddr;
use std::time::Duration;

use tidewire_tests::http2::{
    END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, RST_STREAM, hello, next, request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::victim::ECHO;

/// What became of the streams of a connection.
#[derive(Default)]
struct Streams {
    answered: usize,
    refused: usize,
    reset: usize,
}

/// Ten connections whose streams have a window of 0, with as many streams as are let.
async fn stop_reading(address: SocketAddr, text: usize, streams: u32) -> Result<Streams, String> {
    let mut connections = JoinSet::new();
    for _ in 0..10 {
        connections.spawn(connection(address, text, streams));
    }
    let mut all = Streams::default();
    while let Some(streams) = connections.join_next().await {
        let streams = streams.map_err(|error| error.to_string())?.map_err(|e| e.to_string())?;
        all.answered += streams.answered;
        all.refused += streams.refused;
        all.reset += streams.reset;
    }
    Ok(all)
}

/// Calls on so many streams, and reads what comes until every stream is over.
async fn connection(address: SocketAddr, text: usize, count: u32) -> std::io::Result<Streams> {
    let mut stream = TcpStream::connect(address).await?;
    let body = format!(r#"{{"text":"{}"}}"#, "x".repeat(text));
    stream.write_all(&hello(&[(INITIAL_WINDOW_SIZE, 0)])).await?;
    let mut streams = Streams::default();
    // The first call is small, as the windows are until it is answered.
    stream.write_all(&request(1, ECHO, "application/json", b"{}")).await?;
    while next(&mut stream).await?.is_some_and(|found| found.kind != HEADERS) {}
    let over = async {
        for n in 1..count {
            let call = request(n * 2 + 1, ECHO, "application/json", body.as_bytes());
            stream.write_all(&call).await?;
            // The answer's head says that it waits.
            while let Some(found) = next(&mut stream).await? {
                match found.kind {
                    HEADERS if found.flags & END_STREAM != 0 => streams.refused += 1,
                    HEADERS => streams.answered += 1,
                    RST_STREAM => streams.reset += 1,
                    _ => {}
                }
                if matches!(found.kind, HEADERS | GOAWAY) {
                    break;
                }
            }
        }
        while streams.reset < streams.answered
            && let Some(found) = next(&mut stream).await?
        {
            streams.reset += usize::from(found.kind == RST_STREAM);
        }
        std::io::Result::Ok(())
    };
    match tokio::time::timeout(Duration::from_secs(60), over).await {
        // A connection that is closed has no streams.
        Ok(_) => Ok(streams),
        Err(_) => Err(std::io::Error::other("streams are still open after a minute")),
    }
}

/// Replies of 44 kB.
pub(crate) async fn window_zero(address: SocketAddr) -> Result<String, String> {
    let streams = stop_reading(address, 44_000, 250).await?;
    Ok(format!("{} replies waited, {} streams were reset", streams.answered, streams.reset))
}

/// Replies of 100 kB, of which 16 MiB may wait.
pub(crate) async fn bounded(address: SocketAddr) -> Result<String, String> {
    let streams = stop_reading(address, 100_000, 50).await?;
    Ok(format!("{} replies waited, {} streams were reset", streams.answered, streams.reset))
}

/// Twenty clients that ask for 3 MB three times, and read nothing.
pub(crate) async fn http1(address: SocketAddr) -> Result<String, String> {
    let body = format!(r#"{{"text":"{}"}}"#, "x".repeat(3_000_000));
    let mut readers = JoinSet::new();
    for _ in 0..20 {
        let head = format!(
            "POST {ECHO} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), body.as_bytes()].concat();
        readers.spawn(async move {
            let socket = TcpSocket::new_v4()?;
            // So that little of it is in the sockets.
            socket.set_recv_buffer_size(32 << 10)?;
            let mut stream = socket.connect(address).await?;
            // A server that waits for its replies to be read takes no more.
            for _ in 0..3 {
                let _ = tokio::time::timeout(STALL, stream.write_all(&request)).await;
            }
            // Until the server has given it up: what can be read then is what sockets hold.
            // tidy: allow-sleep reading nothing for a time is the attack
            tokio::time::sleep(3 * STALL).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            Ok::<_, std::io::Error>(rest.len())
        });
    }
    let mut most = 0;
    while let Some(reader) = readers.join_next().await {
        let length = reader.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        most = most.max(length);
    }
    if most >= 9_000_000 {
        return Err("all replies were kept for a reader that stopped".into());
    }
    Ok(format!("all were closed, with at most {} of 9000 kB in their sockets", most / 1000))
}

/// Longer than `limits.reply_progress_timeout`.
const STALL: Duration = Duration::from_secs(6);
