//! The messages of a request as the body of a call: bytes that are read when somebody asks.
//!
//! A message that came with its head is in the call at once. Otherwise the body is a stream that
//! gives each message as it is complete; of a unary request, its one message. For a command that is
//! the moment at which it begins to run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tidewire_service::{Frame, Result};
use tidewire_wire::{Coders, ReadStep, Requests};

use crate::request::body::RequestBody;
use crate::request::command::Command;

/// The messages of a request.
pub(super) struct Messages {
    pub(super) body: RequestBody,
    pub(super) requests: Requests,
    pub(super) coders: Arc<Coders>,
    /// Begins with its message.
    pub(super) command: Option<Command>,
    /// Whether nothing has to come between two messages.
    pub(super) pauses: bool,
    pub(super) looks: Looks,
    /// Whether bytes, or their end, came since there was nothing to read.
    pub(super) is_fed: bool,
}

/// How often it is still looked what is there of the first message, before it is waited for:
/// nothing has to come as long as it is looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    No,
    Once,
    /// Over HTTP/1.1 what came with the head is there when the library was at work once more.
    Twice,
}

impl Messages {
    /// The next message.
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        loop {
            if self.is_fed {
                match self.requests.read(&self.coders) {
                    Ok(ReadStep::Message(message)) => return Poll::Ready(Some(Ok(message))),
                    Ok(ReadStep::End) => return Poll::Ready(None),
                    Ok(ReadStep::More) => self.is_fed = false,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            let pauses = self.pauses && !self.requests.is_within_message();
            self.body.may_pause(pauses || self.looks != Looks::No);
            match ready!(self.body.poll_piece(cx)) {
                Some(Ok(Frame::Data(data))) => {
                    self.is_fed = true;
                    self.requests.push(data);
                    if self.body.is_over() {
                        self.requests.finish();
                    }
                }
                Some(Ok(Frame::Trailers(_))) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.is_fed = true;
                    self.requests.finish();
                }
            }
        }
    }
}

impl futures_core::Stream for Messages {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = ready!(self.poll_message(cx));
        Poll::Ready(message.map(|message| {
            let message = message?;
            if let Some(command) = &mut self.command {
                command.begin()?;
            }
            Ok(Frame::Data(message))
        }))
    }
}
