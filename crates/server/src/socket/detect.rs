//! What a connection speaks, by its first bytes, in bounded time.
//!
//! HTTP/2 begins with a preface of 24 bytes, over TLS too; the live protocol with a frame whose
//! head names it by its last four bytes of sixteen. What begins like neither is HTTP/1.1, which
//! says more of what is wrong with it. Nothing is kept for a connection until its first byte is
//! there.
//!
//! | what came | how long the rest may take |
//! |---|---|
//! | nothing | `limits.first_byte_timeout` |
//! | part of a preface, of a head of the live protocol | `limits.header_read_timeout` |

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::Limits;

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetectedProtocol {
    Http1,
    Http2,
    Live,
}

/// What a connection speaks, and the bytes that said so; `None` when it ended or took too long.
pub(crate) async fn detect(
    io: &mut (impl AsyncRead + Unpin),
    limits: &Limits,
) -> Option<(DetectedProtocol, Bytes)> {
    let mut first = BytesMut::new();
    within(limits.first_byte_timeout, "limits.first_byte_timeout", read(io, &mut first)).await?;
    let mut speaks = by_first_bytes(&first);
    if speaks.is_none() {
        let rest = async {
            while speaks.is_none() {
                read(io, &mut first).await?;
                speaks = by_first_bytes(&first);
            }
            Some(())
        };
        within(limits.header_read_timeout, "limits.header_read_timeout", rest).await?;
    }
    speaks.map(|speaks| (speaks, first.freeze()))
}

/// What begins so; `None` while it may be several.
fn by_first_bytes(first: &[u8]) -> Option<DetectedProtocol> {
    if first.starts_with(PREFACE) {
        return Some(DetectedProtocol::Http2);
    }
    match is_live(first) {
        Some(true) => Some(DetectedProtocol::Live),
        Some(false) => (!PREFACE.starts_with(first)).then_some(DetectedProtocol::Http1),
        None => None,
    }
}

/// Whether it is the hello of the live protocol; `None` while it may be. Its length, little-endian
/// in four bytes, is at most 65,536, which neither what HTTP begins with nor a record of TLS is.
fn is_live(first: &[u8]) -> Option<bool> {
    match first {
        [] | [_] | [_, _] | [_, _, 0] | [0, 0, 1] => None,
        [_, _, 0, 0, ..] | [0, 0, 1, 0, ..] => first.get(12..16).map(|magic| magic == LIVE),
        _ => Some(false),
    }
}

async fn within(
    timeout: Duration,
    name: &str,
    read: impl Future<Output = Option<()>>,
) -> Option<()> {
    let read = tokio::time::timeout(timeout, read).await;
    read.unwrap_or_else(|_| {
        tracing::debug!("a connection is closed after {name} = {timeout:?}");
        None
    })
}

/// Adds what is read to `into`; `None` at the end of the connection, or when it broke.
async fn read(io: &mut (impl AsyncRead + Unpin), into: &mut BytesMut) -> Option<()> {
    poll_fn(|cx| {
        // Here and not in the future: connections wait by the thousand.
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut space);
        let outcome = ready!(Pin::new(&mut *io).poll_read(cx, &mut buffer));
        into.extend_from_slice(buffer.filled());
        Poll::Ready((outcome.is_ok() && !buffer.filled().is_empty()).then_some(()))
    })
    .await
}

/// What ends the head of a hello, at its bytes 12 to 15.
const LIVE: &[u8] = b"TWLV";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What is read at once: the head of most requests.
const READ_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn prefaces_are_known_however_they_are_cut_and_all_else_is_http1() {
        for (sent, expected) in [
            (PREFACE, DetectedProtocol::Http2),
            (b"PRI * HTTP/2.0\r\n\r\nXY\r\n\r\n", DetectedProtocol::Http1),
            (b"P /", DetectedProtocol::Http1),
            (b"PR\0\0\0\0\0\0\x01\0\0\0TWLV", DetectedProtocol::Live),
            (b"PR\0\0\0\0\0\0\x01\0\0\0LIVE", DetectedProtocol::Http1),
            (b"\0\0\x01\0\0\0\0\0\x01\0\0\0TWLV", DetectedProtocol::Live),
            (b"\x16\x03\x01", DetectedProtocol::Http1),
            (b"\x16\x03\0\x02", DetectedProtocol::Http1),
            (b"GET / HTTP/1.1\r\n", DetectedProtocol::Http1),
        ] {
            for cut in 1..=sent.len() {
                let (mut client, mut server) = tokio::io::duplex(cut);
                let limits = Limits::default();
                let writes = async {
                    let _ = client.write_all(sent).await;
                    std::future::pending::<()>().await;
                };
                let found = tokio::select! {
                    found = detect(&mut server, &limits) => found,
                    () = writes => None,
                };
                let (speaks, first) = found.unwrap();
                assert_eq!(speaks, expected, "{cut}");
                assert!(sent.starts_with(&first));
            }
        }
    }

    #[tokio::test]
    async fn silence_and_part_of_a_preface_end_in_time() {
        let short = Duration::from_millis(20);
        let limits =
            Limits { first_byte_timeout: short, header_read_timeout: short, ..Limits::default() };
        for sent in [&b""[..], b"PRI"] {
            let (mut client, mut server) = tokio::io::duplex(64);
            client.write_all(sent).await.unwrap();
            assert!(detect(&mut server, &limits).await.is_none());
        }
    }
}
