//! An answer while it arrives; `verdict.rs` tells whether it succeeded.
//!
//! The codecs feed it; it keeps bodies and headers only when a check or an extraction asks for
//! them ([`Keep`]), so that the plain case copies nothing.

use crate::envelope::Envelopes;
use crate::failure::Failure;
use crate::verdict::{AnyStatus, Dialect};

/// Whether headers and bodies are kept for checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Only the verdict is needed.
    Nothing,
    /// Headers and body are kept until the next answer.
    Everything,
}

/// What every codec needs to know about the answers to expect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expectation {
    pub(crate) dialect: Dialect,
    pub(crate) keep: Keep,
    /// Any complete answer counts; a check decides about the status.
    pub(crate) any_status: AnyStatus,
}

/// A complete answer as the engine sees it.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The flight it answers.
    pub(crate) flight: u32,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    pub(crate) failure: Option<Failure>,
}

/// The kept parts of an answer.
#[derive(Debug, Default, Clone)]
pub(crate) struct ReplyParts {
    /// Header lines `name: value\r\n`, names as sent.
    pub(crate) headers: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// An answer that is still arriving.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) grpc_status: Option<u16>,
    pub(crate) bytes: u64,
    pub(crate) kept: ReplyParts,
    pub(crate) envelopes: Option<Envelopes>,
    keep: bool,
}

impl Reply {
    /// Makes ready for the next answer.
    pub(crate) fn reset(&mut self, expectation: &Expectation) {
        self.status = 0;
        self.grpc_status = None;
        self.bytes = 0;
        self.kept.headers.clear();
        self.kept.body.clear();
        self.envelopes = (expectation.dialect != Dialect::Plain).then(Envelopes::default);
        self.keep = expectation.keep == Keep::Everything;
    }

    pub(crate) fn header(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"grpc-status") {
            self.grpc_status = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        }
        if self.keep {
            for part in [name, b": ", value, b"\r\n"] {
                self.kept.headers.extend_from_slice(part);
            }
        }
    }

    pub(crate) fn body(&mut self, part: &[u8]) {
        if let Some(envelopes) = &mut self.envelopes {
            envelopes.receive(part);
        }
        if self.keep {
            self.kept.body.extend_from_slice(part);
        }
    }

    /// The verdict on the complete answer.
    pub(crate) fn answer(&self, flight: u32, expectation: &Expectation) -> Answer {
        Answer {
            flight,
            status: self.status,
            bytes: self.bytes,
            messages: self.envelopes.as_ref().map_or(0, Envelopes::messages),
            failure: self.failure(expectation),
        }
    }
}
