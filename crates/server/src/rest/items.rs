//! A reply stream over REST: one JSON array, one message a line, or the chunks of a raw body.
//!
//! Messages that are ready together leave together, up to [`BATCH_BYTES`], so a long list costs
//! neither a write a row nor memory for more than a batch. An error before the first batch left is
//! an error response. After that an array ends without its bracket and the connection shows it; lines
//! end with one that holds `{"error":…}`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use tidewire_service::{Body, Error, Frame, Result};

use super::binding::Binding;
use super::http_body;
use crate::plain::error_json;

/// What a stream of replies looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `[{…},{…}]`.
    Array,
    /// `{…}\n{…}\n`.
    Lines,
    /// The bytes of each `google.api.HttpBody`.
    Raw,
}

/// The chunks of a reply.
pub(crate) struct Items {
    frames: Option<Frames>,
    binding: Arc<Binding>,
    style: Style,
    buffer: Vec<u8>,
    started: bool,
    failed: Option<Error>,
}

type Frames = Pin<Box<dyn Stream<Item = Result<Frame>> + Send>>;

impl Items {
    pub(crate) fn new(body: Body, binding: Arc<Binding>, style: Style) -> Self {
        let frames: Frames = match body {
            Body::Empty => Box::pin(futures_util::stream::empty()),
            Body::Full(bytes) => Box::pin(futures_util::stream::iter([Ok(Frame::Data(bytes))])),
            Body::Stream(frames) => frames,
        };
        let frames = Some(frames);
        Self { frames, binding, style, buffer: Vec::new(), started: false, failed: None }
    }

    /// Whether the whole reply was given.
    pub(crate) fn is_done(&self) -> bool {
        self.frames.is_none() && self.failed.is_none()
    }

    fn add(&mut self, message: &[u8]) -> Result<()> {
        match self.style {
            Style::Array => {
                self.buffer.push(if self.started { b',' } else { b'[' });
                self.binding.reply.print_into(message, &mut self.buffer)?;
            }
            Style::Lines => {
                let start = self.buffer.len();
                self.binding.reply.print_into(message, &mut self.buffer)?;
                // Line ends between tokens, as a service that prints prettily has them.
                self.buffer[start..].iter_mut().filter(|b| **b == b'\n').for_each(|b| *b = b' ');
                self.buffer.push(b'\n');
            }
            Style::Raw => {
                let picked = self.binding.reply.picked(message)?;
                self.buffer.extend_from_slice(&http_body::from_message(picked)?.1);
            }
        }
        self.started = true;
        Ok(())
    }

    fn end(&mut self) {
        self.frames = None;
        if self.style == Style::Array {
            self.buffer.extend_from_slice(if self.started { b"]" } else { b"[]" });
        }
    }

    fn fail(&mut self, error: Error) {
        self.frames = None;
        if self.style == Style::Lines {
            crate::plain::log(&error, &self.binding.method.path);
            self.buffer.extend_from_slice(b"{\"error\":");
            self.buffer.extend_from_slice(&error_json(&error));
            self.buffer.extend_from_slice(b"}\n");
        } else {
            self.failed = Some(error);
        }
    }
}

impl Stream for Items {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while let Some(frames) = &mut this.frames {
            match frames.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(Frame::Data(message)))) => {
                    if let Err(error) = this.add(&message) {
                        this.fail(error);
                    }
                }
                Poll::Ready(Some(Ok(Frame::Trailers(_)))) => {}
                Poll::Ready(Some(Err(error))) => this.fail(error),
                Poll::Ready(None) => this.end(),
                Poll::Pending if this.buffer.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
            if this.buffer.len() >= BATCH_BYTES {
                break;
            }
        }
        if !this.buffer.is_empty() && (this.failed.is_none() || this.style != Style::Array) {
            let capacity = this.buffer.len();
            let chunk = std::mem::replace(&mut this.buffer, Vec::with_capacity(capacity));
            return Poll::Ready(Some(Ok(chunk.into())));
        }
        Poll::Ready(this.failed.take().map(Err))
    }
}

/// How much is gathered before it leaves.
const BATCH_BYTES: usize = 32 << 10;
