//! Frames in binary messages of a WebSocket (RFC 6455), each message of whole frames.
//!
//! | message | what it is |
//! |---|---|
//! | binary, of one or more whole frames | read |
//! | binary, with part of a frame, or of none; text | the connection error `malformed` |
//! | larger than the largest frame, or of several frames and over 65,536 bytes | `too_large` |
//! | close | the end |
//!
//! The handshake is whoever's who has the HTTP request; what it needs beside headers is here.
//! Extensions are not negotiated: compressing would mix secrets with what others choose.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use futures_util::Sink;
use tidewire_live_proto::frame::{HEAD_BYTES, Head, PAYLOAD_BYTES_MAX};
use tidewire_live_proto::{Reason, Violation};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::transport::{Transport, TransportEnd};

/// The path at which a server takes WebSockets of the protocol.
pub const PATH: &str = "/tidewire.live.v1";
/// The subprotocol, which both sides name.
pub const SUBPROTOCOL: &str = "tidewire.live.v1";

/// The largest message of several frames.
const MESSAGE_BYTES_MAX: usize = 65_536;
/// The largest frame.
const FRAME_BYTES_MAX: usize = HEAD_BYTES + u16::MAX as usize + PAYLOAD_BYTES_MAX;
/// What the code of a close has to be added to: RFC 6455, section 7.4.2.
const CLOSE_CODE: u16 = 4000;

/// Frames in the binary messages of a WebSocket.
pub struct WebSocket<S> {
    socket: WebSocketStream<S>,
    /// The close was handed over.
    closes: bool,
}

/// The header `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`.
pub fn accept_key(key: &[u8]) -> String {
    handshake::derive_accept_key(key)
}

/// A random `Sec-WebSocket-Key`.
pub fn random_key() -> String {
    handshake::client::generate_key()
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> WebSocket<S> {
    /// The side that answered the handshake.
    pub async fn server(stream: S) -> Self {
        Self::new(stream, Role::Server).await
    }

    /// The side that began the handshake.
    pub async fn client(stream: S) -> Self {
        Self::new(stream, Role::Client).await
    }

    async fn new(stream: S, role: Role) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(2 * FRAME_BYTES_MAX)
            .max_message_size(Some(FRAME_BYTES_MAX))
            .max_frame_size(Some(FRAME_BYTES_MAX));
        let socket = WebSocketStream::from_raw_socket(stream, role, Some(config)).await;
        Self { socket, closes: false }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Transport for WebSocket<S> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<usize, TransportEnd>> {
        loop {
            let message = match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                None => return Poll::Ready(Ok(0)),
                Some(Ok(message)) => message,
                Some(Err(error)) => return Poll::Ready(broken(error)),
            };
            match message {
                Message::Binary(frames) => {
                    check(&frames).map_err(TransportEnd::Violation)?;
                    into.extend_from_slice(&frames);
                    return Poll::Ready(Ok(frames.len()));
                }
                Message::Text(_) => {
                    let text = "a text message; frames go in binary messages";
                    return Poll::Ready(Err(violation(Reason::Malformed, text)));
                }
                Message::Close(_) => return Poll::Ready(Ok(0)),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(io_error)?;
            let rest = out.split_off(message_length(out));
            let message = Message::Binary(Bytes::from(std::mem::replace(out, rest)));
            Pin::new(&mut self.socket).start_send(message).map_err(io_error)?;
        }
        Pin::new(&mut self.socket).poll_flush(cx).map_err(io_error)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, reason: Option<u8>) -> Poll<io::Result<()>> {
        if !self.closes {
            ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(io_error)?;
            self.closes = true;
            let close = reason.map(|reason| CloseFrame {
                code: (CLOSE_CODE + u16::from(reason)).into(),
                reason: Reason::from_number(reason.into()).as_str().into(),
            });
            Pin::new(&mut self.socket).start_send(Message::Close(close)).map_err(io_error)?;
        }
        Pin::new(&mut self.socket).poll_flush(cx).map_err(io_error)
    }
}

impl<S> fmt::Debug for WebSocket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebSocket")
    }
}

/// How long the frame is that begins here; `None` when its head is not whole.
fn frame_length(rest: &[u8]) -> Option<usize> {
    rest.first_chunk().map(|head| HEAD_BYTES.saturating_add(Head::decode(head).len as usize))
}

/// Checks that a message is one or more whole frames.
fn check(message: &[u8]) -> Result<(), Violation> {
    let mut rest = message;
    while let Some(frame) = frame_length(rest).filter(|length| *length <= rest.len()) {
        rest = &rest[frame..];
        if frame < message.len() && message.len() > MESSAGE_BYTES_MAX {
            let text = "a message of several frames is over 65,536 bytes";
            return Err(Violation::new(Reason::TooLarge, text));
        }
    }
    if message.is_empty() || !rest.is_empty() {
        let text = "a message that is not one or more whole frames";
        return Err(Violation::new(Reason::Malformed, text));
    }
    Ok(())
}

/// How much of these frames the next message holds: as many as fit, and one at least.
fn message_length(frames: &[u8]) -> usize {
    let mut length = 0;
    while let Some(frame) = frame_length(&frames[length..]) {
        if length > 0 && length + frame > MESSAGE_BYTES_MAX {
            break;
        }
        length += frame;
    }
    length.min(frames.len()).max(1)
}

fn broken(error: Error) -> Result<usize, TransportEnd> {
    Err(match error {
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return Ok(0),
        Error::Io(error) => TransportEnd::Lost(error),
        Error::Capacity(_) => violation(Reason::TooLarge, "a message larger than any frame"),
        Error::Protocol(_) | Error::Utf8(_) => {
            violation(Reason::Malformed, "bytes that are not WebSocket")
        }
        other => TransportEnd::Lost(io::Error::other(other)),
    })
}

fn violation(reason: Reason, text: &'static str) -> TransportEnd {
    TransportEnd::Violation(Violation::new(reason, text))
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// What is read at once.
const READ_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use tidewire_live_proto::frame::{Kind, put};

    use super::*;

    fn frames(sizes: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        for &size in sizes {
            put(&mut out, Kind::Ping, 0, 0, &vec![0; size]);
        }
        out
    }

    #[test]
    fn a_message_holds_whole_frames_up_to_its_size_and_one_larger_frame_alone() {
        for (sizes, expected) in [
            (&[1, 2][..], vec![17 + 18]),
            (&[40_000, 20_000, 10_000], vec![60_032, 10_016]),
            (&[1, 65_536, 1], vec![17, 65_552, 17]),
        ] {
            let mut rest = frames(sizes);
            let mut messages = Vec::new();
            while !rest.is_empty() {
                let length = message_length(&rest);
                assert_eq!(check(&rest[..length]), Ok(()));
                messages.push(length);
                rest.drain(..length);
            }
            assert_eq!(messages, expected, "{sizes:?}");
        }
    }

    #[test]
    fn a_message_of_part_of_a_frame_or_none_is_malformed_and_many_frames_are_too_large() {
        let reason = |message: &[u8]| check(message).unwrap_err().reason;
        let two = frames(&[4, 4]);
        for cut in 0..two.len() {
            if cut != 20 {
                assert_eq!(reason(&two[..cut]), Reason::Malformed, "{cut}");
            }
        }
        assert_eq!(reason(&frames(&[40_000, 40_000])), Reason::TooLarge);
    }
}
