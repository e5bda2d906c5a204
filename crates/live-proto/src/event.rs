//! What a session tells its owner.
//!
//! Requests, answers and items are views of the buffer that they were read into, good until the
//! session is used again; everything else is owned.

use std::fmt;
use std::ops::Range;

use bytes::{Buf, Bytes};
use tidewire_service::{Error, Messages, Validator};

use crate::frame::{Head, flag};
use crate::message::{Change, Watch};
use crate::metadata::{CommandOrigin, Metadata};
use crate::methods::PeerMethod;
use crate::reason::Violation;
use crate::session::Session;
use crate::slots::{CallId, index};
use crate::{Micros, varint};

/// What a session tells its owner, in order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The handshake is done.
    Connected {
        /// Whether earlier calls and watches go on.
        resumed: bool,
    },
    /// The peer refused the connection; a session that there was is parked, and [`Event::Lost`]
    /// follows.
    Refused(Violation),
    /// The connection is lost. The session waits to be resumed, or is over if it cannot be.
    Lost,
    /// The session is over, for this reason; every call has ended.
    Closed(Violation),
    /// The peer takes no new calls; open ones end within this time (0: no limit).
    Draining {
        /// Milliseconds of grace.
        grace_ms: u32,
        /// Milliseconds after which to come back, 0 when it does not say.
        after_ms: u64,
    },
    /// The peer calls.
    Request(IncomingRequest<'a>),
    /// The peer answers: a whole answer, the head of a stream, or a value of a watch.
    Reply(IncomingReply<'a>),
    /// Stream items arrived, from either side. Call
    /// [`consumed`](crate::Session::consumed) with [`Items::bytes`] when done with them.
    Items {
        /// The call.
        call: CallId,
        /// The items.
        items: Items<'a>,
    },
    /// A piece of an item that is too large for a frame, from either side. Call
    /// [`consumed`](crate::Session::consumed) with its length when done with it.
    Piece {
        /// The call.
        call: CallId,
        /// The piece.
        piece: Piece,
    },
    /// No more items: the caller finished its stream, or the callee ended the call.
    End {
        /// The call.
        call: CallId,
        /// Trailers.
        metadata: Metadata,
    },
    /// A call of this side ended without an answer, or is answered with an error that it watches.
    Failed {
        /// The call.
        call: CallId,
        /// Why; its [`outcome`](Error::outcome) is what is known of the call.
        error: Error,
        /// The error is watched, under this validator; else the call is over.
        watched: Option<Validator>,
        /// What else came with it; nothing where it is this side's own.
        metadata: Metadata,
    },
    /// A call of the peer is over: it gave up, or is gone. Queries and streams should stop; a unary
    /// command runs to completion, and its reply is still given to the session.
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
    /// not be confirmed after a lost connection. An [`Event::Reply`] or [`Event::Confirmed`]
    /// follows.
    ///
    /// From [`Event::Lost`] on every watched answer is unconfirmed; [`Event::Connected`] with
    /// `resumed` confirms those that were not named here since.
    Suspect {
        /// The watch.
        call: CallId,
    },
    /// A suspect answer is what it was.
    Confirmed {
        /// The watch.
        call: CallId,
    },
    /// A value of a watch was held back until the caller had taken the one before: compute it again
    /// and give the outcome to [`refresh`](crate::Session::refresh).
    Recompute {
        /// The watch.
        call: CallId,
        /// What to give to `refresh`.
        change: Change,
    },
    /// This side may have slept: every watched answer is unconfirmed until [`Event::Sure`], those
    /// that are read or confirmed in between too.
    Unsure,
    /// The peer was heard since: the watched answers that are not suspect are good.
    Sure,
    /// A stream has room again after [`Push::Full`](crate::Push::Full).
    Writable {
        /// The call.
        call: CallId,
    },
    /// A call can be made again after [`CallRefusal::Full`](crate::CallRefusal::Full).
    Room,
    /// The peer replaced default headers; see [`peer_headers`](crate::Session::peer_headers). An
    /// acceptor answers with [`credential`](crate::Session::credential).
    Auth,
    /// What the peer says about the credential that was sent to it.
    Credential {
        /// Milliseconds for which it is good; 0 when it does not say.
        expires_ms: u64,
        /// It is refused: the one before stays in force while it is good.
        refused: Option<Error>,
    },
    /// The `FileDescriptorSet` of a hosted process.
    Descriptors(Bytes),
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
    Changed(ChangedSources),
}

/// The request line of an HTTP call.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    /// The method of HTTP.
    pub verb: &'a [u8],
    /// The target with its query.
    pub target: &'a [u8],
}

/// A call of the peer, as it lies in the session's read buffer: nothing is copied until the
/// application takes it.
pub struct IncomingRequest<'a> {
    /// Its handle.
    pub call: CallId,
    pub(crate) session: &'a Session,
}

impl<'a> IncomingRequest<'a> {
    /// The method's number on this connection, see [`peer_method`](crate::Session::peer_method);
    /// none for HTTP, and for a method that the caller did not number.
    #[inline]
    pub fn method(&self) -> Option<u32> {
        self.session.fields.method().map(|number| number as u32)
    }

    /// Whether it names its method, as the first call of each does.
    pub fn names_method(&self) -> bool {
        self.session.fields.has_name()
    }

    /// The method of an RPC call, whether it has a number or not.
    pub fn peer_method(&self) -> Option<PeerMethod> {
        let raw = self.session.reader.metadata();
        match (self.method(), self.session.fields.name(raw)) {
            (Some(number), _) => self.session.peer_method(number).cloned(),
            (None, Some((codec, path))) => PeerMethod::read(codec, path).ok(),
            _ => None,
        }
    }

    /// The request line of an HTTP call.
    pub fn http(&self) -> Option<RequestLine<'a>> {
        let fields = &self.session.fields;
        let raw = self.session.reader.metadata();
        if !self.session.reader.head().has(flag::HTTP) {
            return None;
        }
        Some(RequestLine { verb: fields.http_method(raw)?, target: fields.target(raw)? })
    }

    /// Headers of this call; defaults are in [`peer_headers`](crate::Session::peer_headers).
    pub fn metadata(&self) -> Metadata {
        self.session.received_metadata()
    }

    /// The message or whole body.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.session.received_payload().bytes()
    }

    /// The message or whole body, kept without copying: a share of the read buffer, which lives as
    /// long as the longest share.
    pub fn share_payload(&self) -> Bytes {
        self.session.received_payload().share()
    }

    /// Whether items follow.
    #[inline]
    pub fn is_streaming(&self) -> bool {
        !self.session.reader.head().has(flag::END)
    }

    /// Whether the caller asks for a watch.
    #[inline]
    pub fn watch(&self) -> Watch {
        self.session.asked_watch(self.session.reader.head())
    }

    /// The answer that the caller holds.
    #[inline]
    pub fn validator(&self) -> Option<Validator> {
        self.session.fields.validator()
    }

    /// When the caller gives up; no later than the call that this one is part of.
    #[inline]
    pub fn deadline(&self) -> Option<Micros> {
        let left = Micros::from(self.session.reader.head().deadline_ms) * 1000;
        let own = if left == 0 { Micros::MAX } else { self.session.now.saturating_add(left) };
        let whole = self.parent().and_then(|parent| self.session.outgoing.get(parent.index()));
        let due = whole.map_or(own, |parent| own.min(parent.request.deadline));
        (due != Micros::MAX).then_some(due)
    }

    /// The call of this side that this one is part of: it runs in its scope, above the peer's
    /// concurrency, and is never queued.
    pub fn parent(&self) -> Option<CallId> {
        let stream = u32::try_from(self.session.fields.parent()?).ok()?;
        Some(self.session.own_call(index(stream)))
    }

    /// What the command was first sent as, in an earlier session. It may have run: only a service
    /// that keeps keys may run it now, others fail it with
    /// [`Outcome::Unknown`](tidewire_service::Outcome::Unknown).
    pub fn sent_before(&self) -> Option<CommandOrigin> {
        self.session.fields.key()
    }

    /// Names this command for ever, in this session and later ones; `None` for a query, and for
    /// what an acceptor calls.
    pub fn origin(&self) -> Option<CommandOrigin> {
        let session = self.session.session_id().map(|session| session.id);
        let own = || Some(CommandOrigin { session: session?, id: self.command()? });
        // Both directions count from 1: only the dialer's commands have keys.
        self.sent_before().or_else(|| if self.session.dialer { None } else { own() })
    }

    /// The consistency tokens that the answer must reflect.
    pub fn tokens(&self) -> Vec<Bytes> {
        self.metadata().tokens().map(Bytes::copy_from_slice).collect()
    }

    /// The command's id in this session; `None` for a query.
    #[inline]
    pub fn command(&self) -> Option<u64> {
        self.session.fields.command().map(|command| command.id)
    }
}

impl fmt::Debug for IncomingRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingRequest")
            .field("call", &self.call)
            .field("method", &self.method())
            .field("payload", &self.payload().len())
            .finish_non_exhaustive()
    }
}

/// An answer of the peer, as it lies in the session's read buffer.
pub struct IncomingReply<'a> {
    /// The call.
    pub call: CallId,
    pub(crate) session: &'a Session,
}

impl<'a> IncomingReply<'a> {
    /// Headers and trailers.
    pub fn metadata(&self) -> Metadata {
        self.session.received_metadata()
    }

    /// The message or whole body.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.session.received_payload().bytes()
    }

    /// The message or whole body, kept without copying: a share of the read buffer, which lives as
    /// long as the longest share.
    pub fn share_payload(&self) -> Bytes {
        self.session.received_payload().share()
    }

    /// What follows.
    #[inline]
    pub fn then(&self) -> Continuation {
        Continuation::of(self.session.reader.head())
    }

    /// The answer is what the request's validator named.
    #[inline]
    pub fn is_unchanged(&self) -> bool {
        self.session.reader.head().has(flag::UNCHANGED)
    }

    /// The answer is too large for a watch: it is named by its validator, and its own query,
    /// without a watch, gets it.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.session.reader.head().has(flag::MORE)
    }

    /// The watched answer is stale already; another follows.
    #[inline]
    pub fn is_suspect(&self) -> bool {
        self.session.reader.head().has(flag::SUSPECT)
    }

    /// Names the content.
    #[inline]
    pub fn validator(&self) -> Option<Validator> {
        self.session.fields.validator()
    }

    /// How long it may be kept, in milliseconds; [`varint::MAX`] for ever. Only while
    /// [`Session::writes`] is what it was when the request was made.
    #[inline]
    pub fn max_age_ms(&self) -> Option<u64> {
        self.session.fields.max_age()
    }

    /// The HTTP status.
    #[inline]
    pub fn status(&self) -> Option<u16> {
        self.session.fields.status()
    }
}

impl fmt::Debug for IncomingReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingReply")
            .field("call", &self.call)
            .field("then", &self.then())
            .field("payload", &self.payload().len())
            .finish_non_exhaustive()
    }
}

/// What follows an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// Nothing: the call is over.
    Nothing,
    /// Stream items.
    Items,
    /// The call stays open as a watch.
    Watch,
}

impl Continuation {
    /// What the flags of a reply say, which does not set both.
    #[inline]
    pub(crate) fn of(head: Head) -> Self {
        if head.has(flag::END) {
            Self::Nothing
        } else if head.has(flag::WATCHED) {
            Self::Watch
        } else {
            Self::Items
        }
    }
}

/// A payload as it lies in the buffer that it was read into.
#[derive(Debug, Clone)]
pub(crate) struct Payload<'a> {
    pub(crate) buffer: &'a Bytes,
    pub(crate) range: Range<usize>,
}

impl<'a> Payload<'a> {
    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        &self.buffer[self.range.clone()]
    }

    pub(crate) fn share(&self) -> Bytes {
        self.buffer.slice(self.range.clone())
    }

    /// For longer than the frame: whoever keeps a share of the read buffer keeps all of it, so
    /// small ones are copied.
    fn keep(&self) -> Bytes {
        const COPIED_BYTES_MAX: usize = 4096;
        if self.range.len() <= COPIED_BYTES_MAX {
            Bytes::copy_from_slice(self.bytes())
        } else {
            self.share()
        }
    }
}

/// The items of one frame, as they lie in the session's read buffer.
#[derive(Debug, Clone)]
pub struct Items<'a>(pub(crate) Payload<'a>);

impl<'a> Items<'a> {
    /// What to give back as credit when done.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.0.range.len() as u64
    }

    /// The items in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.0.bytes();
        std::iter::from_fn(move || varint::take_string(&mut rest))
    }

    /// The items, kept for longer than the frame: small ones together in a copy, others as a share
    /// of the read buffer.
    pub fn keep(&self) -> KeptItems {
        KeptItems { credit: self.bytes(), rest: self.0.keep() }
    }
}

/// The items of one frame, owned: they are taken apart as they are taken.
#[derive(Debug, Default)]
pub struct KeptItems {
    rest: Bytes,
    credit: u64,
}

impl KeptItems {
    /// What to give back as credit once all items are taken; nothing before, and nothing again.
    #[inline]
    pub fn take_credit(&mut self) -> u64 {
        if self.rest.is_empty() { std::mem::take(&mut self.credit) } else { 0 }
    }
}

impl KeptItems {
    /// Moves the next items to `messages`, as long as they are small and it takes them.
    pub fn add_to(&mut self, messages: &mut Messages) {
        const SMALL_BYTES_MAX: usize = 1024;
        let mut rest = &self.rest[..];
        let mut after = rest;
        while let Some(item) = varint::take_string(&mut after)
            && item.len() <= SMALL_BYTES_MAX
            && messages.takes(item.len())
            && messages.add(item)
        {
            rest = after;
        }
        let taken = self.rest.len() - rest.len();
        self.rest.advance(taken);
    }
}

impl Iterator for KeptItems {
    type Item = Bytes;

    #[inline]
    fn next(&mut self) -> Option<Bytes> {
        let mut after = &self.rest[..];
        let size = varint::take_string(&mut after)?.len();
        let end = self.rest.len() - after.len();
        // The last one takes the place of the rest.
        if after.is_empty() {
            let mut last = std::mem::take(&mut self.rest);
            last.advance(end - size);
            return Some(last);
        }
        let item = self.rest.slice(end - size..end);
        self.rest.advance(end);
        Some(item)
    }
}

/// A piece of a large item.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The bytes, at least one: a share of the read buffer.
    pub bytes: Bytes,
    /// Whether the item is complete with this piece.
    pub last: bool,
}

/// Sources that changed: pairs of source and key.
#[derive(Debug, Clone)]
pub struct ChangedSources {
    pub(crate) payload: Bytes,
}

impl ChangedSources {
    /// The pairs.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.payload[..];
        std::iter::from_fn(move || {
            Some((varint::take_string(&mut rest)?, varint::take_string(&mut rest)?))
        })
    }
}
