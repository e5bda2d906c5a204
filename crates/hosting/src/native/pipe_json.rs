//! `pipe-json`: a program that answers one request per connection to its Unix socket, each message
//! one JSON object.
//!
//! ```text
//! gateway ─▶ {"method": "GET", "uri": "/a?b=c", "headers": [["host", "x"]], "body": "BASE64"}
//! gateway ◀─ {"status": 200, "headers": {"content-type": "text/plain"}, "body": "BASE64"}
//! ```
//!
//! The protocol has no lengths, no ids and no errors. What the gateway makes of that:
//!
//! | of the protocol | here |
//! |---|---|
//! | a request has no end | the gateway closes its half of the connection after it, so that programs may read to the end or parse what came |
//! | a response ends with the connection | it ends with its object ([`message_end`]); whoever closes or does not is as good |
//! | a queue of connections that is full refuses them | the connection is tried again until `request_timeout` |
//! | a program may answer before it has read all | the gateway reads while it writes |
//! | messages have no ids | a connection has one request and one response; a second one is refused |
//! | messages have any size | a response has up to [`LifeLimits::response_bytes_max`] |
//!
//! A response that is not of the protocol is 502 for its caller, and the process that sent it gets
//! no more calls; one that breaks off is told as that of a program of plain HTTP
//! (`call/policy.rs`).

mod message;
mod message_end;

use std::fmt;
use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use http::{Method, StatusCode};
use tidewire_service::{Body, Call, Error, Outcome, Reply, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use self::message_end::{MessageEnd, Progress};
use crate::limits::LifeLimits;
use crate::process::ready::Socket;

/// A process that speaks it.
#[derive(Debug)]
pub(crate) struct PipeJson {
    socket: Socket,
    response_bytes_max: usize,
}

impl PipeJson {
    pub(crate) fn new(socket: Socket, life: &LifeLimits) -> Self {
        Self { socket, response_bytes_max: life.response_bytes_max }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// `unavailable` where the process cannot be reached or breaks off; an error with a
    /// [`ProtocolViolation`] where its response is not of the protocol; any of the call's body.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(crate) async fn call(&self, mut call: Call) -> Result<Reply> {
        if tidewire_proxy::upgrade_header(&call).is_some() {
            return Err(tidewire_proxy::refused_upgrade("pipe-json"));
        }
        // The server bounds it by `limits.body_bytes_max`.
        let body = std::mem::replace(&mut call.body, Body::Empty).collect(usize::MAX).await?;
        let Some(target) = call.http_target() else {
            return Err(Error::unimplemented("a program of pipe-json answers plain HTTP only"));
        };
        let request = message::request(target, call.context.headers(), &body)?;
        let is_head = target.method == Method::HEAD;
        drop(body);
        let stream = self.connect().await?;
        let response = exchange(stream, &request, self.response_bytes_max).await?;
        message::response(&response, is_head).map_err(ProtocolViolation::error)
    }

    async fn connect(&self) -> Result<UnixStream> {
        let mut wait = FIRST_WAIT;
        loop {
            match UnixStream::connect(self.socket.path()).await {
                Ok(stream) => return Ok(stream),
                // Connections wait for the program already, as many as it lets wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
                Err(error) => {
                    let seen = Error::unavailable("the program takes no connection");
                    return Err(seen.with_outcome(Outcome::NotRun).with_cause(error));
                }
            }
        }
    }
}

/// Sends a request and receives the response, both at once: a program may answer before it has read
/// everything.
async fn exchange(mut stream: UnixStream, request: &[u8], bytes_max: usize) -> Result<BytesMut> {
    let (mut reader, mut writer) = stream.split();
    let mut response = pin!(receive(&mut reader, bytes_max));
    let mut sending = pin!(async {
        writer.write_all(request).await?;
        writer.shutdown().await
    });
    let mut is_sent = false;
    loop {
        tokio::select! {
            biased;
            response = &mut response => return response,
            // A program that reads no further may have answered all the same.
            _ = &mut sending, if !is_sent => is_sent = true,
        }
    }
}

async fn receive(reader: &mut (impl AsyncReadExt + Unpin), bytes_max: usize) -> Result<BytesMut> {
    let mut text = BytesMut::with_capacity(READ_BYTES);
    let mut end = MessageEnd::default();
    loop {
        text.reserve(READ_BYTES);
        let seen = text.len();
        match reader.read_buf(&mut text).await {
            Ok(0) if text.is_empty() => {
                return Err(Error::unavailable("it closed the connection without a response"));
            }
            Ok(0) => {
                return Err(Error::unavailable("it closed the connection within its response"));
            }
            Ok(_) => {}
            Err(error) => {
                return Err(Error::unavailable("the connection broke").with_cause(error));
            }
        }
        let progress = end.scan(&text[seen..]);
        if text.len() > bytes_max {
            let why = format!("its response is larger than response_bytes_max = {bytes_max}");
            return Err(ProtocolViolation(why).into_error());
        }
        match progress {
            Progress::More => {}
            Progress::Ended => return Ok(text),
            Progress::NotAnObject => {
                return Err(
                    ProtocolViolation("its response is not a JSON object".to_owned()).into_error()
                );
            }
            Progress::Excess => {
                let why = "something follows the JSON object of its response".to_owned();
                return Err(ProtocolViolation(why).into_error());
            }
        }
    }
}

/// Why a response is not of the protocol.
#[derive(Debug)]
pub(crate) struct ProtocolViolation(String);

impl ProtocolViolation {
    /// What an error says of it, if it is one.
    pub(crate) fn of(error: &Error) -> Option<&Self> {
        std::error::Error::source(error)?.downcast_ref()
    }

    fn error(why: String) -> Error {
        Self(why).into_error()
    }

    fn into_error(self) -> Error {
        Error::internal("its response is not of pipe-json")
            .with_http_status(StatusCode::BAD_GATEWAY)
            .with_cause(self)
    }
}

impl fmt::Display for ProtocolViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProtocolViolation {}

/// How much is read at once, at least.
const READ_BYTES: usize = 8 << 10;
/// Between two tries to connect to a program whose queue is full.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(25);
