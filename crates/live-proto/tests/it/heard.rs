//! What a session said, kept: events are views that end with the next use of the session.

use tidewire_live_proto::{
    CallId, Change, CommandOrigin, Continuation, Metadata, PeerMethod, Session, Violation, Watch,
};
use tidewire_service::{Error, Validator};

#[derive(Debug)]
#[allow(dead_code, reason = "some is read only when an assertion fails")]
pub(crate) enum Event {
    Connected { resumed: bool },
    Refused(Violation),
    Lost,
    Closed(Violation),
    Draining { grace_ms: u32, after_ms: u64 },
    Request(Incoming),
    Reply(Answer),
    Items { call: CallId, items: Items },
    Piece { call: CallId, bytes: Vec<u8>, last: bool },
    End { call: CallId, metadata: Metadata },
    Failed { call: CallId, error: Error, watched: Option<Validator> },
    Cancelled { call: CallId },
    StopSending { call: CallId },
    Stale { call: CallId },
    Suspect { call: CallId },
    Confirmed { call: CallId },
    Recompute { call: CallId, change: Change },
    Unsure,
    Sure,
    Writable { call: CallId },
    Room,
    Auth,
    Credential { expires_ms: u64, refused: Option<Error> },
    Descriptors(Vec<u8>),
    Ready,
    Busy(u64),
    Log { level: u64, text: String, metadata: Metadata },
    Changed(Vec<(Vec<u8>, Vec<u8>)>),
}

#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) call: CallId,
    pub(crate) method: Option<u32>,
    pub(crate) path: Option<PeerMethod>,
    pub(crate) http: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) metadata: Metadata,
    pub(crate) payload: Vec<u8>,
    pub(crate) streaming: bool,
    pub(crate) watch: Watch,
    pub(crate) validator: Option<Validator>,
    pub(crate) deadline: Option<u64>,
    pub(crate) command: Option<u64>,
    pub(crate) origin: Option<CommandOrigin>,
    pub(crate) sent_before: bool,
    pub(crate) parent: Option<CallId>,
    pub(crate) tokens: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) call: CallId,
    pub(crate) metadata: Metadata,
    pub(crate) payload: Vec<u8>,
    pub(crate) then: Continuation,
    pub(crate) unchanged: bool,
    pub(crate) large: bool,
    pub(crate) suspect: bool,
    pub(crate) validator: Option<Validator>,
    pub(crate) max_age_ms: Option<u64>,
    pub(crate) status: Option<u16>,
}

#[derive(Debug)]
pub(crate) struct Items {
    bytes: u64,
    items: Vec<Vec<u8>>,
}

impl Items {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.items.iter().map(Vec::as_slice)
    }
}

impl From<tidewire_live_proto::Items<'_>> for Items {
    fn from(items: tidewire_live_proto::Items<'_>) -> Self {
        let mut kept = items.keep();
        for item in items.iter() {
            assert_eq!(kept.take_credit(), 0, "not all are taken");
            assert_eq!(kept.next().as_deref(), Some(item));
        }
        assert_eq!((kept.next(), kept.take_credit(), kept.take_credit()), (None, items.bytes(), 0));
        Self { bytes: items.bytes(), items: items.iter().map(<[u8]>::to_vec).collect() }
    }
}

impl From<tidewire_live_proto::IncomingRequest<'_>> for Incoming {
    fn from(incoming: tidewire_live_proto::IncomingRequest<'_>) -> Self {
        assert_eq!(incoming.share_payload(), incoming.payload());
        Self {
            call: incoming.call,
            method: incoming.method(),
            path: incoming.peer_method(),
            http: incoming.http().map(|line| (line.verb.to_vec(), line.target.to_vec())),
            metadata: incoming.metadata(),
            payload: incoming.payload().to_vec(),
            streaming: incoming.is_streaming(),
            watch: incoming.watch(),
            validator: incoming.validator(),
            deadline: incoming.deadline(),
            command: incoming.command(),
            origin: incoming.origin(),
            sent_before: incoming.sent_before().is_some(),
            parent: incoming.parent(),
            tokens: incoming.tokens().iter().map(|token| token.to_vec()).collect(),
        }
    }
}

impl From<tidewire_live_proto::IncomingReply<'_>> for Answer {
    fn from(answer: tidewire_live_proto::IncomingReply<'_>) -> Self {
        assert_eq!(answer.share_payload(), answer.payload());
        Self {
            call: answer.call,
            metadata: answer.metadata(),
            payload: answer.payload().to_vec(),
            then: answer.then(),
            unchanged: answer.is_unchanged(),
            large: answer.is_large(),
            suspect: answer.is_suspect(),
            validator: answer.validator(),
            max_age_ms: answer.max_age_ms(),
            status: answer.status(),
        }
    }
}

impl From<tidewire_live_proto::Event<'_>> for Event {
    fn from(event: tidewire_live_proto::Event<'_>) -> Self {
        use tidewire_live_proto::Event as Live;
        match event {
            Live::Connected { resumed } => Self::Connected { resumed },
            Live::Refused(violation) => Self::Refused(violation),
            Live::Lost => Self::Lost,
            Live::Closed(violation) => Self::Closed(violation),
            Live::Draining { grace_ms, after_ms } => Self::Draining { grace_ms, after_ms },
            Live::Request(incoming) => Self::Request(incoming.into()),
            Live::Reply(answer) => Self::Reply(answer.into()),
            Live::Items { call, items } => Self::Items { call, items: items.into() },
            Live::End { call, metadata } => Self::End { call, metadata },
            Live::Failed { call, error, watched, .. } => Self::Failed { call, error, watched },
            Live::Piece { call, piece } => {
                Self::Piece { call, bytes: piece.bytes.to_vec(), last: piece.last }
            }
            Live::Recompute { call, change } => Self::Recompute { call, change },
            Live::Unsure => Self::Unsure,
            Live::Sure => Self::Sure,
            Live::Credential { expires_ms, refused } => Self::Credential { expires_ms, refused },
            Live::Descriptors(bytes) => Self::Descriptors(bytes.to_vec()),
            Live::Cancelled { call } => Self::Cancelled { call },
            Live::StopSending { call } => Self::StopSending { call },
            Live::Stale { call } => Self::Stale { call },
            Live::Suspect { call } => Self::Suspect { call },
            Live::Confirmed { call } => Self::Confirmed { call },
            Live::Writable { call } => Self::Writable { call },
            Live::Room => Self::Room,
            Live::Auth => Self::Auth,
            Live::Ready => Self::Ready,
            Live::Busy(jobs) => Self::Busy(jobs),
            Live::Log { level, text, metadata } => Self::Log { level, text, metadata },
            Live::Changed(changed) => Self::Changed(
                changed.iter().map(|(source, key)| (source.to_vec(), key.to_vec())).collect(),
            ),
            other => panic!("an event that the tests do not know: {other:?}"),
        }
    }
}

/// The next event, kept.
pub(crate) fn hear(session: &mut Session, now: u64) -> Option<Event> {
    session.poll_event(now).map(Event::from)
}
