//! The body of the response to a command: the command is over with it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tidewire_service::{Body, Code, Error, Frame, Frames, Messages, Reply, Result};

use super::command::Command;

/// Keeps a command under way until its response is complete, or its caller has enough of it. A
/// program that breaks its response off may have changed anything.
pub(super) fn until_complete(command: Command, mut reply: Reply) -> Reply {
    let length = reply.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let kind = reply.headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    let is_endless = kind.is_some_and(|kind| ENDLESS.iter().any(|it| kind.starts_with(it)));
    reply.body = match std::mem::take(&mut reply.body) {
        Body::Stream(frames) if !is_endless && length != Some(0) => {
            Body::batches(CommandBody { frames, command: Some(command), length, bytes: 0 })
        }
        body => {
            command.settle();
            body
        }
    };
    reply
}

/// Types of responses that have no end by themselves: the command is over with the head.
const ENDLESS: [&[u8]; 2] = [b"text/event-stream", b"application/grpc"];

struct CommandBody {
    frames: Pin<Box<dyn Frames>>,
    /// Until it is over.
    command: Option<Command>,
    /// As its head says.
    length: Option<u64>,
    /// What came of it.
    bytes: u64,
}

impl CommandBody {
    fn see(&mut self, frame: Option<&Result<Frame, Error>>) {
        match frame {
            Some(Ok(Frame::Data(data))) => self.bytes += data.len() as u64,
            Some(Ok(Frame::Trailers(_))) => {}
            // A caller was too slow, or it is more than is passed on.
            Some(Err(error)) if is_of_gateway(error) => self.settle(),
            // What it changed is not known.
            Some(Err(_)) => drop(self.command.take()),
            None => self.settle(),
        }
        // Whoever passes it on may not ask for more than it said.
        if self.length.is_some_and(|length| self.bytes >= length) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if let Some(command) = self.command.take() {
            command.settle();
        }
    }
}

fn is_of_gateway(error: &Error) -> bool {
    matches!(error.code(), Code::DeadlineExceeded | Code::ResourceExhausted)
}

impl Stream for CommandBody {
    type Item = Result<Frame, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = ready!(self.frames.as_mut().poll_next(cx));
        self.see(frame.as_ref());
        Poll::Ready(frame)
    }
}

impl Frames for CommandBody {
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Self::Item>> {
        let before = messages.payload_bytes();
        let polled = self.frames.as_mut().poll_messages(cx, messages);
        self.bytes += messages.payload_bytes().saturating_sub(before) as u64;
        let frame = ready!(polled);
        self.see(frame.as_ref());
        Poll::Ready(frame)
    }
}

impl Drop for CommandBody {
    fn drop(&mut self) {
        self.settle();
    }
}
