//! A stream of replies as bytes: one JSON array, one message a line, or the chunks of a raw body.
//!
//! Messages that are ready together leave together, up to [`BATCH_BYTES`], so a long list costs
//! neither a write a row nor memory for more than a batch. An error before the first batch left is
//! an error response. After that an array ends without its bracket and the connection shows it;
//! lines end with one that holds `{"error":…}`.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use tidewire_service::{Error, Result};

use crate::binding::Binding;
use crate::http_body::Parts;
use crate::problem::error_json;
use crate::reply::JSON;

/// What a stream of replies looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `[{…},{…}]`.
    Array,
    /// `{…}\n{…}\n`.
    Lines,
    /// The bytes of each `google.api.HttpBody`.
    Raw,
}

impl Style {
    /// The content type of such a stream; that of raw bytes is in their first message.
    pub fn content_type(self) -> Option<HeaderValue> {
        match self {
            Self::Array => Some(JSON),
            Self::Lines => Some(NDJSON),
            Self::Raw => None,
        }
    }
}

/// The bytes of a stream of replies.
#[derive(Debug)]
pub struct Writer {
    binding: Arc<Binding>,
    style: Style,
    buffer: Vec<u8>,
    started: bool,
}

impl Writer {
    /// A stream without a message.
    pub fn new(binding: Arc<Binding>, style: Style) -> Self {
        Self { binding, style, buffer: Vec::new(), started: false }
    }

    /// Adds a message.
    ///
    /// # Errors
    /// [`Code::Internal`](tidewire_service::Code::Internal) for a reply that is not a message of
    /// its type.
    pub fn add(&mut self, message: &[u8]) -> Result<()> {
        match self.style {
            Style::Array => {
                self.buffer.push(if self.started { b',' } else { b'[' });
                self.binding.reply.print_into(message, &mut self.buffer)?;
            }
            Style::Lines => {
                self.binding.reply.print_into(message, &mut self.buffer)?;
                self.buffer.push(b'\n');
            }
            Style::Raw => {
                let parts = Parts::of(message, self.binding.reply.field)?;
                self.buffer.extend_from_slice(&message[parts.data]);
            }
        }
        self.started = true;
        Ok(())
    }

    /// Adds the end.
    pub fn end(&mut self) {
        if self.style == Style::Array {
            self.buffer.extend_from_slice(if self.started { b"]" } else { b"[]" });
        }
    }

    /// Ends with an error; whether it has a place among the bytes. If not, the connection has to
    /// show it.
    pub fn fail(&mut self, error: &Error) -> bool {
        match self.style {
            Style::Lines => {
                self.buffer.extend_from_slice(b"{\"error\":");
                self.buffer.extend_from_slice(&error_json(error));
                self.buffer.extend_from_slice(b"}\n");
            }
            Style::Array => self.buffer.clear(),
            Style::Raw => {}
        }
        self.style == Style::Lines
    }

    /// Whether enough is there to leave.
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= BATCH_BYTES
    }

    /// What was added since the last time.
    pub fn take(&mut self) -> Option<Bytes> {
        if self.buffer.is_empty() {
            return None;
        }
        let capacity = self.buffer.len();
        Some(std::mem::replace(&mut self.buffer, Vec::with_capacity(capacity)).into())
    }
}

/// How much is gathered before it leaves.
const BATCH_BYTES: usize = 32 << 10;
const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");
