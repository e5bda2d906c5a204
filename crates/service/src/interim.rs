//! Interim responses (1xx, RFC 9110, section 15.2): what a server behind says before its response,
//! on their way to the caller.
//!
//! A server that can send them gives each call an [`InterimSender`] in its
//! [`Context`](crate::Context); whoever asks an upstream hands on what comes. 100 and 101 are not
//! among them: each connection has its own.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;

use crate::Headers;

/// Sends interim responses to the callers of one connection.
pub trait InterimSink: Send + Sync + 'static {
    /// Sends one, unless the response to the call of this number has begun.
    fn send(&self, call: u64, status: StatusCode, headers: Headers);
}

/// Sends interim responses to the caller of one call; cheap to clone.
#[derive(Clone)]
pub struct InterimSender {
    sink: Arc<dyn InterimSink>,
    call: u64,
}

impl InterimSender {
    /// That of the call of this number.
    pub fn new(sink: Arc<dyn InterimSink>, call: u64) -> Self {
        Self { sink, call }
    }

    /// Sends an interim response without the headers of its connection. What comes too late, 100
    /// and 101, and what is not an interim response are dropped.
    pub fn send(&self, status: StatusCode, headers: Headers) {
        let is_passed = status.is_informational()
            && !matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS);
        if is_passed {
            self.sink.send(self.call, status, crate::end_to_end(headers));
        }
    }
}

impl fmt::Debug for InterimSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterimSender").field("call", &self.call).finish_non_exhaustive()
    }
}
