//! One connection's protocol, without its socket.
//!
//! This is the seam for further transports: `live` becomes one more variant here, with its session
//! behind the same few methods.

use crate::http1::Http1;
use crate::reply::{Answer, Expectation, Kept};
use crate::request::{Transport, Wire};

/// A client-side protocol state machine.
#[derive(Debug)]
pub(crate) enum Codec {
    Http1(Http1),
}

impl Codec {
    /// `depth` requests may be under way at once.
    pub(crate) fn new(transport: Transport, expectation: Expectation, depth: usize) -> Self {
        match transport {
            Transport::Http1 | Transport::Http2 | Transport::WebSocket => {
                Self::Http1(Http1::new(expectation, depth))
            }
        }
    }

    /// Queues what the client says first on a new connection.
    pub(crate) fn connected(&mut self, _out: &mut Vec<u8>) {
        match self {
            Self::Http1(_) => {}
        }
    }

    /// How many more requests can be started now.
    pub(crate) fn capacity(&self) -> usize {
        match self {
            Self::Http1(codec) => codec.capacity(),
        }
    }

    pub(crate) fn start(&mut self, flight: u32, wire: &Wire, out: &mut Vec<u8>) {
        match self {
            Self::Http1(codec) => codec.start(flight, &wire.head, out),
        }
    }

    /// The next complete answer in `input`; call until `None`.
    pub(crate) fn receive(&mut self, input: &mut &[u8], _out: &mut Vec<u8>) -> Option<Answer> {
        match self {
            Self::Http1(codec) => codec.receive(input),
        }
    }

    /// The target ended the connection.
    pub(crate) fn end_of_input(&mut self) -> Option<Answer> {
        match self {
            Self::Http1(codec) => codec.end_of_input(),
        }
    }

    /// Whether the connection takes no further request.
    pub(crate) fn is_closing(&self) -> bool {
        match self {
            Self::Http1(codec) => codec.is_closing(),
        }
    }

    /// Whether no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Http1(codec) => codec.is_idle(),
        }
    }

    /// Gives up one request without ending the connection; false if the protocol cannot.
    pub(crate) fn cancel(&mut self, _flight: u32, _out: &mut Vec<u8>) -> bool {
        match self {
            Self::Http1(_) => false,
        }
    }

    /// Headers and body of the last answer, if they are kept.
    pub(crate) fn kept(&self) -> &Kept {
        match self {
            Self::Http1(codec) => codec.kept(),
        }
    }
}
