//! What an application gives to a session: requests and replies.

use bytes::Bytes;
use tidewire_service::{Error, Validator};

use crate::Micros;
use crate::metadata::{CommandOrigin, Metadata};
use crate::slots::CallId;

/// A method that this side calls, registered with [`Session::method`](crate::Session::method).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MethodId(pub(crate) u32);

/// A call to be made.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is called.
    pub destination: Destination,
    /// What a repeated call does.
    pub kind: CallKind,
    /// Whether to be told when the answer becomes stale.
    pub watch: Watch,
    /// Headers.
    pub metadata: Metadata,
    /// The message, or the whole body; must be empty when `body` is [`RequestBody::Stream`].
    pub payload: Bytes,
    /// Whether the payload is all, or items follow.
    pub body: RequestBody,
    /// The answer that the caller holds: if it is current, the reply says so and has no payload.
    pub validator: Option<Validator>,
    /// When to give up; [`Micros::MAX`] for never.
    pub deadline: Micros,
    /// What few requests have.
    pub extra: Option<Box<Extra>>,
}

/// What few requests have.
#[derive(Debug, Clone, Default)]
pub struct Extra {
    /// The command was sent before, in a session that is lost: what it was sent as then, which is
    /// its key.
    pub origin: Option<CommandOrigin>,
    /// When that was, or before; `None` for now. A command whose key may be forgotten at the peer
    /// is not sent again, and ends with an unknown outcome.
    pub first_sent: Option<Micros>,
    /// The peer's call that this one is part of; needs feature HOSTED.
    pub parent: Option<CallId>,
    /// Consistency tokens that other peers gave: the answer must reflect them.
    pub tokens: Vec<Bytes>,
}

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A method.
    Method(MethodId),
    /// A plain HTTP request.
    Http(Box<HttpRequest>),
}

/// The request line of an HTTP call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The verb.
    pub method: Bytes,
    /// Path and query.
    pub target: Bytes,
}

/// What a repeated call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Nothing changes: it may be repeated at will.
    Query,
    /// Runs at most once; repeated after a session was lost only under its key.
    Command,
    /// Repeated after a session was lost, though the first may still run: it does no harm.
    Idempotent,
}

/// Whether to be told when an answer becomes stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// No.
    No,
    /// Once, without the new value.
    Notify,
    /// By sending each new value.
    Values,
}

/// Whether a request has more to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBody {
    /// The payload is all.
    Whole,
    /// Items follow.
    Stream,
}

impl Request {
    /// A query of a method.
    pub fn query(method: MethodId, payload: impl Into<Bytes>) -> Self {
        Self {
            destination: Destination::Method(method),
            kind: CallKind::Query,
            watch: Watch::No,
            metadata: Metadata::default(),
            payload: payload.into(),
            body: RequestBody::Whole,
            validator: None,
            deadline: Micros::MAX,
            extra: None,
        }
    }

    /// A command.
    pub fn command(method: MethodId, payload: impl Into<Bytes>) -> Self {
        Self { kind: CallKind::Command, ..Self::query(method, payload) }
    }

    /// A plain HTTP request with a whole body. `GET`, `HEAD` and `OPTIONS` are queries.
    pub fn http(method: &str, target: &str, body: impl Into<Bytes>) -> Self {
        let kind = match method {
            "GET" | "HEAD" | "OPTIONS" => CallKind::Query,
            _ => CallKind::Command,
        };
        let http = HttpRequest {
            method: Bytes::copy_from_slice(method.as_bytes()),
            target: Bytes::copy_from_slice(target.as_bytes()),
        };
        Self {
            destination: Destination::Http(Box::new(http)),
            kind,
            ..Self::query(MethodId(0), body)
        }
    }

    /// Items follow in place of the payload.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.body = RequestBody::Stream;
        self.payload = Bytes::new();
        self
    }

    /// Asks to be told when the answer becomes stale.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watch = watch;
        self
    }

    /// Names the answer that the caller holds.
    #[must_use]
    pub fn validator(mut self, validator: impl Into<Option<Validator>>) -> Self {
        self.validator = validator.into();
        self
    }

    /// Sets when to give up.
    #[must_use]
    pub fn deadline(mut self, deadline: impl Into<Option<Micros>>) -> Self {
        self.deadline = deadline.into().unwrap_or(Micros::MAX);
        self
    }

    /// Sets what few requests have.
    #[must_use]
    pub fn extra(mut self, extra: Extra) -> Self {
        self.extra = Some(Box::new(extra));
        self
    }

    /// Sets headers.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// A successful answer to be sent: whole, or the head of a stream.
#[derive(Debug, Clone, Default)]
pub struct OutgoingReply<'a> {
    /// Headers, and trailers of a whole answer.
    pub metadata: Metadata,
    /// The message or body; empty for the head of a stream. It is copied into the output.
    pub payload: &'a [u8],
    /// Names the content.
    pub validator: Option<Validator>,
    /// How long it may be kept, in milliseconds; [`varint::MAX`](crate::varint::MAX) for ever.
    pub max_age_ms: Option<u64>,
    /// The consistency token of what the answer reflects; empty for none.
    pub token: &'a [u8],
    /// The HTTP status.
    pub status: Option<u16>,
    /// Grants a watch, if the caller asked for one and there is room. The answer is what it would
    /// be if it were computed now, or [`Session::stale`](crate::Session::stale) has said otherwise.
    pub watch: bool,
}

impl<'a> OutgoingReply<'a> {
    /// An answer with a payload.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { payload, ..Self::default() }
    }

    /// Names the content.
    #[must_use]
    pub fn validator(mut self, validator: impl Into<Option<Validator>>) -> Self {
        self.validator = validator.into();
        self
    }

    /// Grants a watch if the caller asked for one.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.watch = true;
        self
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets headers and trailers.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// Which change of a watched answer a computation began after; see
/// [`Session::stale`](crate::Session::stale).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change(pub(crate) u32);

/// What became of a stale watch of mode *values* after it was computed again.
#[derive(Debug)]
pub enum Refresh<'a> {
    /// It is what it was.
    Unchanged,
    /// A new value, with its validator.
    Value(OutgoingReply<'a>),
    /// It cannot be computed, or the caller may no longer see it: the watch ends.
    Failed(Error),
    /// The answer is an error now, with its validator; the watch goes on.
    Error(Error, Validator),
}

/// Why a call could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRefusal {
    /// As many calls are open as the peer allows; try again when one ends.
    Full {
        /// The peer's `calls_max`.
        calls_max: u32,
    },
    /// The peer or this side is going away; use another connection.
    Draining,
    /// The session is over.
    Closed,
}

impl std::fmt::Display for CallRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full { calls_max } => {
                write!(f, "{calls_max} calls are open, the peer's calls_max; wait for one to end")
            }
            Self::Draining => f.write_str("the connection is going away; use another"),
            Self::Closed => f.write_str("the session is over; open another"),
        }
    }
}

impl std::error::Error for CallRefusal {}

/// Whether an item found room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Push {
    /// It is queued.
    Queued,
    /// It is not: wait for [`Event::Writable`](crate::Event::Writable) and push it again.
    Full,
    /// The call is over, or takes no more items; drop it.
    Over,
    /// It is over the peer's `body_max` and can never be sent.
    TooLarge,
}
