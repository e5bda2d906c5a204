//! What a session tells its owner.

use bytes::Bytes;
use tidewire_service::{Error, Validator};

use crate::message::{HttpRequest, Watch};
use crate::metadata::Metadata;
use crate::reason::Violation;
use crate::slots::CallId;
use crate::{Micros, varint};

/// What a session tells its owner, in order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done.
    Connected {
        /// Whether earlier calls and watches go on.
        resumed: bool,
    },
    /// The connection is lost. The session waits to be resumed, or is over if it cannot be.
    Lost,
    /// The session is over, for this reason; every call has ended.
    Closed(Violation),
    /// The peer takes no new calls; open ones end within this time (0: no limit).
    Draining {
        /// Milliseconds of grace.
        grace_ms: u32,
    },
    /// The peer calls.
    Request(Incoming),
    /// The peer answers: a whole answer, the head of a stream, or a value of a watch.
    Reply(Answer),
    /// Stream items arrived, from either side. Call
    /// [`consumed`](crate::Session::consumed) with [`Items::bytes`] when done with them.
    Items {
        /// The call.
        call: CallId,
        /// The items.
        items: Items,
    },
    /// No more items: the caller finished its stream, or the callee ended the call.
    End {
        /// The call.
        call: CallId,
        /// Trailers.
        metadata: Metadata,
    },
    /// A call of this side ended without an answer.
    Failed {
        /// The call.
        call: CallId,
        /// Why.
        error: Error,
        /// No handler saw the call: sending it elsewhere is safe.
        unprocessed: bool,
    },
    /// A call of the peer is over: it gave up, or is gone. Queries and streams should stop;
    /// commands run to completion, and their reply is still given to the session.
    Cancelled {
        /// The call.
        call: CallId,
    },
    /// The callee wants no more items of this call.
    StopSending {
        /// The call.
        call: CallId,
    },
    /// An answer that this side watches is stale; the watch is over.
    Stale {
        /// The watch.
        call: CallId,
    },
    /// An answer that this side watches may be stale: a new value is computed, or the answer could
    /// not be confirmed after a lost connection. An [`Event::Reply`] follows.
    ///
    /// From [`Event::Lost`] on every watched answer is unconfirmed; [`Event::Connected`] with
    /// `resumed` confirms those that were not named here since.
    Suspect {
        /// The watch.
        call: CallId,
    },
    /// A stream has room again after [`Push::Full`](crate::Push::Full).
    Writable {
        /// The call.
        call: CallId,
    },
    /// A call can be made again after [`CallRefused::Full`](crate::CallRefused::Full).
    Room,
    /// The peer replaced default headers; see [`peer_headers`](crate::Session::peer_headers).
    Auth,
    /// A hosted process is ready.
    Ready,
    /// The peer has this many background jobs.
    Busy(u64),
    /// The peer logs.
    Log {
        /// 1 trace, 2 debug, 3 info, 4 warn, 5 error.
        level: u64,
        /// The text.
        text: String,
        /// Fields.
        metadata: Metadata,
    },
    /// Sources changed at the peer.
    Changed(Changed),
}

/// A call of the peer.
#[derive(Debug)]
pub struct Incoming {
    /// Its handle.
    pub call: CallId,
    /// The method's number on this connection, see
    /// [`peer_method`](crate::Session::peer_method); of no meaning for HTTP.
    pub method: u32,
    /// The request line of an HTTP call.
    pub http: Option<Box<HttpRequest>>,
    /// Headers of this call; defaults are in [`peer_headers`](crate::Session::peer_headers).
    pub metadata: Metadata,
    /// The message or whole body.
    pub payload: Bytes,
    /// Whether items follow.
    pub streaming: bool,
    /// Whether the caller asks for a watch.
    pub watch: Watch,
    /// The answer that the caller holds.
    pub validator: Option<Validator>,
    /// When the caller gives up.
    pub deadline: Option<Micros>,
    /// The command's id in this session; `None` for a query.
    pub command: Option<u64>,
}

/// An answer of the peer.
#[derive(Debug)]
pub struct Answer {
    /// The call.
    pub call: CallId,
    /// Headers and trailers.
    pub metadata: Metadata,
    /// The message or whole body.
    pub payload: Bytes,
    /// What follows.
    pub then: Then,
    /// The answer is what the request's validator named.
    pub unchanged: bool,
    /// Names the content.
    pub validator: Option<Validator>,
    /// How long it may be kept, in milliseconds; `u64::MAX` for ever.
    pub max_age_ms: Option<u64>,
    /// The HTTP status.
    pub status: Option<u16>,
}

/// What follows an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Nothing: the call is over.
    Nothing,
    /// Stream items.
    Items,
    /// The call stays open as a watch.
    Watch,
}

/// The items of one frame.
#[derive(Debug, Clone)]
pub struct Items {
    pub(crate) payload: Bytes,
}

impl Items {
    /// What to give back as credit when done.
    pub fn bytes(&self) -> u64 {
        self.payload.len() as u64
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.payload[..];
        std::iter::from_fn(move || varint::take_string(&mut rest))
    }

    /// The items in order, each a share of the frame's buffer.
    pub fn into_bytes(self) -> impl Iterator<Item = Bytes> {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let mut rest = &self.payload[offset..];
            let item = varint::take_string(&mut rest)?;
            let end = self.payload.len() - rest.len();
            let start = end - item.len();
            offset = end;
            Some(self.payload.slice(start..end))
        })
    }

    /// Whether every byte belongs to an item, and there is one.
    pub(crate) fn check(&self) -> bool {
        let mut rest = &self.payload[..];
        while !rest.is_empty() {
            if varint::take_string(&mut rest).is_none() {
                return false;
            }
        }
        !self.payload.is_empty()
    }
}

/// Sources that changed: pairs of source and key.
#[derive(Debug, Clone)]
pub struct Changed {
    pub(crate) payload: Bytes,
}

impl Changed {
    /// The pairs.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.payload[..];
        std::iter::from_fn(move || {
            Some((varint::take_string(&mut rest)?, varint::take_string(&mut rest)?))
        })
    }
}
