//! HTTP/2 by hand: frames as bytes, for peers that do what no library would.
//!
//! Headers are written as HPACK literals without compression (RFC 7541, section 6.2.2); those of
//! the server are not read, only the frames that they come in.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its type, such as [`DATA`].
    pub kind: u8,
    /// Its flags, such as [`END_STREAM`].
    pub flags: u8,
    /// The stream that it is of, 0 for the connection.
    pub stream: u32,
    /// What is in it.
    pub payload: Vec<u8>,
}

/// The start of every connection.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a body.
pub const DATA: u8 = 0;
/// Headers or trailers.
pub const HEADERS: u8 = 1;
/// The end of a stream by error.
pub const RST_STREAM: u8 = 3;
/// Settings of a side.
pub const SETTINGS: u8 = 4;
/// A question whether the other side is there.
pub const PING: u8 = 6;
/// The last word of a side.
pub const GOAWAY: u8 = 7;
/// Leave to send more.
pub const WINDOW_UPDATE: u8 = 8;
/// More of headers.
pub const CONTINUATION: u8 = 9;
/// Nothing more comes on the stream.
pub const END_STREAM: u8 = 1;
/// The answer to a PING or SETTINGS.
pub const ACK: u8 = 1;
/// Nothing more comes of these headers.
pub const END_HEADERS: u8 = 4;
/// The setting of how much of a stream may be sent at first.
pub const INITIAL_WINDOW_SIZE: u16 = 4;

/// A frame as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is small").to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The preface, and settings.
pub fn hello(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in settings {
        payload.extend(name.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    [PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat()
}

/// Headers as a block.
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            length(text.len(), &mut block);
            block.extend(text.as_bytes());
        }
    }
    block
}

/// An integer with a prefix of seven bits (RFC 7541, section 5.1).
fn length(length: usize, block: &mut Vec<u8>) {
    let Some(mut rest) = length.checked_sub(127) else {
        return block.push(u8::try_from(length).expect("it is below 127"));
    };
    block.push(127);
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).expect("it is below 128") | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).expect("it is below 128"));
}

/// The head of a POST to a method.
pub fn post(path: &str, content_type: &str) -> Vec<u8> {
    block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", content_type),
        ("te", "trailers"),
    ])
}

/// A whole POST.
pub fn request(stream: u32, path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = frame(HEADERS, END_HEADERS, stream, &post(path, content_type));
    let mut bytes = head;
    let mut pieces = body.chunks(16 << 10).peekable();
    if pieces.peek().is_none() {
        bytes.extend(frame(DATA, END_STREAM, stream, b""));
    }
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { END_STREAM } else { 0 };
        bytes.extend(frame(DATA, flags, stream, piece));
    }
    bytes
}

/// A message in the envelope of gRPC.
pub fn envelope(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a message is small").to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// The next frame; `None` at the end of the connection, however it ends.
pub async fn read_frame(stream: &mut TcpStream) -> Option<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let [a, b, c, kind, flags, id @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some(Frame { kind, flags, stream: u32::from_be_bytes(id), payload })
}

/// Answers settings and pings until a frame comes that is something else.
///
/// # Errors
/// When nothing can be written any more.
pub async fn next(stream: &mut TcpStream) -> io::Result<Option<Frame>> {
    while let Some(found) = read_frame(stream).await {
        match (found.kind, found.flags & ACK) {
            (SETTINGS | PING, 0) => {
                stream.write_all(&frame(found.kind, ACK, 0, answer(&found))).await?;
            }
            (SETTINGS | PING | WINDOW_UPDATE, _) => {}
            _ => return Ok(Some(found)),
        }
    }
    Ok(None)
}

/// A PING is answered by what is in it, SETTINGS by nothing.
fn answer(found: &Frame) -> &[u8] {
    if found.kind == PING { &found.payload } else { b"" }
}
