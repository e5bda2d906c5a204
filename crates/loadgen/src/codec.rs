//! One connection's protocol, without its socket.
//!
//! This is the seam for transports: each is one variant here, behind the same few methods.

use crate::failure::Failure;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::live::Live;
use crate::plan::{Plan, Reuse};
use crate::reply::{Answer, ReplyParts};
use crate::request::{Transport, Wire};
use crate::websocket::WebSocket;

/// A client-side protocol state machine.
#[derive(Debug)]
pub(crate) enum Codec {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
    WebSocket(Box<WebSocket>),
    Live(Box<Live>),
}

macro_rules! each {
    ($self:expr, $codec:ident => $do:expr) => {
        match $self {
            Self::Http1($codec) => $do,
            Self::Http2($codec) => $do,
            Self::WebSocket($codec) => $do,
            Self::Live($codec) => $do,
        }
    };
}

impl Codec {
    /// The codec of a fresh connection.
    pub(crate) fn new(plan: &Plan) -> Self {
        let depth = if plan.reuse == Reuse::NewPerRequest { 1 } else { plan.depth };
        let expectation = plan.workload.expectation();
        match plan.workload.speech.transport {
            Transport::Http1 => Self::Http1(Box::new(Http1::new(expectation, depth))),
            Transport::Http2 => Self::Http2(Box::new(Http2::new(expectation, depth))),
            Transport::WebSocket => {
                let authority = &plan.target.authority;
                let path = &plan.target.path;
                Self::WebSocket(Box::new(WebSocket::new(expectation, depth, authority, path)))
            }
            Transport::Live => {
                Self::Live(Box::new(Live::new(expectation, depth, plan.workload.speech.codec)))
            }
        }
    }

    /// Queues what the client says first on a new connection.
    pub(crate) fn connected(&self, out: &mut Vec<u8>) {
        match self {
            Self::Http1(_) => {}
            Self::Http2(codec) => codec.connected(out),
            Self::WebSocket(codec) => codec.connected(out),
            Self::Live(codec) => codec.connected(out),
        }
    }

    /// How many more requests can be started now.
    pub(crate) fn capacity(&self) -> usize {
        each!(self, codec => codec.capacity())
    }

    pub(crate) fn start(&mut self, flight: u32, wire: &Wire, out: &mut Vec<u8>) {
        match self {
            Self::Http1(codec) => codec.start(flight, &wire.head, out),
            Self::Http2(codec) => codec.start(flight, wire, out),
            Self::WebSocket(codec) => codec.start(flight, &wire.head, out),
            Self::Live(codec) => codec.start(flight, wire, out),
        }
    }

    /// The next complete answer in `input`; call until `None`.
    pub(crate) fn receive(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Answer> {
        match self {
            Self::Http1(codec) => codec.receive(input),
            Self::Http2(codec) => codec.receive(input, out),
            Self::WebSocket(codec) => codec.receive(input, out),
            Self::Live(codec) => codec.receive(input, out),
        }
    }

    /// The target ended the connection.
    pub(crate) fn end_of_input(&mut self) -> Option<Answer> {
        match self {
            Self::Http1(codec) => codec.end_of_input(),
            Self::Http2(_) | Self::WebSocket(_) | Self::Live(_) => None,
        }
    }

    /// Whether the connection takes no further request.
    pub(crate) fn is_closing(&self) -> bool {
        each!(self, codec => codec.is_closing())
    }

    /// Whether no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        each!(self, codec => codec.is_idle())
    }

    /// Why the target will not take requests on this connection, if it said so.
    pub(crate) fn refusal(&self) -> Option<Failure> {
        match self {
            Self::WebSocket(codec) => codec.refusal(),
            Self::Live(codec) => codec.refusal(),
            Self::Http1(_) | Self::Http2(_) => None,
        }
    }

    /// Gives up one request without ending the connection; false if the protocol cannot.
    pub(crate) fn cancel(&mut self, flight: u32, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Http2(codec) => codec.cancel(flight, out),
            Self::Http1(_) | Self::WebSocket(_) | Self::Live(_) => false,
        }
    }

    /// Headers and body of the last answer, if they are kept.
    pub(crate) fn reply_parts(&self) -> &ReplyParts {
        each!(self, codec => codec.reply_parts())
    }
}
