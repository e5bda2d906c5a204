//! One call, of either side, as those see it who have a part in it: what was heard and not taken
//! yet.

use std::collections::VecDeque;
use std::sync::Weak;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tidewire_live_proto::{
    Continuation, IncomingReply, KeptItems, Metadata, MetadataMaps, Piece, varint,
};
use tidewire_service::{Body, Error, Freshness, Headers, Lifetime, Reply, Token, Tokens};
use tokio::task::AbortHandle;

use crate::dependencies::{self, Depends};
use crate::link::watcher::{AnswerState, Watcher};

/// A call, while anybody has a part in it.
#[derive(Default)]
pub(crate) struct Exchange {
    /// What was heard first, which is all of most calls.
    heard: Option<CallEvent>,
    later: VecDeque<CallEvent>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// What answers it, or sends its items.
    pub(crate) task: Option<AbortHandle>,
    /// Who is told of the answer, once it is there and watched.
    pub(crate) watcher: Option<Weak<dyn Watcher>>,
    is_held: bool,
    /// It may not be confirmed with those of its connection.
    is_suspect: bool,
    /// It was made without a connection, and never sent.
    pub(crate) is_unsent: bool,
}

/// What was heard of a call.
pub(crate) enum CallEvent {
    /// The answer, or its head.
    Reply(Box<PeerAnswer>),
    /// The items of a frame.
    Items(KeptItems),
    /// A piece of one.
    Piece(Piece),
    /// No more items; trailers.
    End(Box<Headers>),
    /// It ended without an answer, or with an error that was made of this.
    Failed(Error, Vec<Depends>),
}

/// An answer of the peer, or its head.
pub(crate) struct PeerAnswer {
    pub(crate) reply: Reply,
    pub(crate) then: Continuation,
    pub(crate) depends: Vec<Depends>,
}

impl CallEvent {
    /// What is heard of a call of which nobody is told any more.
    pub(crate) fn given_up() -> Self {
        Self::Failed(Error::canceled("the caller gave up"), Vec::new())
    }
}

impl PeerAnswer {
    pub(crate) fn of(incoming: &IncomingReply<'_>) -> Self {
        let validator = incoming.validator();
        let metadata = incoming.metadata();
        let mut reply = match validator {
            Some(validator) if incoming.is_unchanged() => Reply::unchanged(validator),
            _ => Reply::new(Body::Full(owned(incoming.payload(), || incoming.share_payload()))),
        };
        if let Some(status) = incoming.status() {
            // An answer that says of itself what no answer can say is none.
            let is_final = |status: &StatusCode| !status.is_informational();
            let status = StatusCode::from_u16(status).ok().filter(is_final);
            reply.status = status.unwrap_or(StatusCode::BAD_GATEWAY);
        }
        let mut depends = Vec::new();
        if !metadata.is_empty() {
            let MetadataMaps { headers, trailers } = metadata.to_maps();
            reply = reply.with_headers(headers).with_trailers(trailers);
            depends.extend(metadata.depends().map(dependencies::owned));
        }
        if validator.is_some() || incoming.max_age_ms().is_some() || !metadata.is_empty() {
            reply = reply.with_freshness(freshness(incoming, &metadata));
        }
        Self { reply, then: incoming.then(), depends }
    }
}

/// For how long an answer is right, as far as it says so.
fn freshness(incoming: &IncomingReply<'_>, metadata: &Metadata) -> Freshness {
    let tokens = metadata.tokens().map(Bytes::copy_from_slice).filter_map(Token::new);
    let freshness = Freshness::default()
        .with_validator(incoming.validator())
        .with_tokens(&tokens.collect::<Tokens>());
    match incoming.max_age_ms() {
        None => freshness,
        Some(varint::MAX) => freshness.with_lifetime(Lifetime::Immutable),
        Some(left) => freshness.with_lifetime(Lifetime::For(Duration::from_millis(left))),
    }
}

/// A payload by itself: small ones are copied, since whoever keeps a share of the read buffer keeps
/// all of it.
pub(crate) fn owned(payload: &[u8], share: impl FnOnce() -> Bytes) -> Bytes {
    if payload.len() <= COPIED_BYTES_MAX { Bytes::copy_from_slice(payload) } else { share() }
}

/// The largest payload that is copied.
const COPIED_BYTES_MAX: usize = 4096;

impl Exchange {
    /// Takes note of something, for whoever reads.
    pub(crate) fn hear(&mut self, heard: CallEvent) {
        if self.heard.is_none() && self.later.is_empty() {
            self.heard = Some(heard);
        } else {
            self.later.push_back(heard);
        }
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    /// It ended without an answer, or with an error.
    pub(crate) fn fail(&mut self, error: Error, metadata: &Metadata) {
        self.let_go();
        self.hear(CallEvent::Failed(error, metadata.depends().map(dependencies::owned).collect()));
        self.room();
    }

    /// What was heard next.
    pub(crate) fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<CallEvent> {
        if let Some(heard) = self.heard.take().or_else(|| self.later.pop_front()) {
            if self.is_held && self.later.is_empty() {
                // Held for long, perhaps beside many others: nothing but words comes from now on.
                self.later = VecDeque::new();
            }
            return Poll::Ready(heard);
        }
        self.wait_to_read(cx);
        Poll::Pending
    }

    /// Waits for what is heard next.
    pub(crate) fn wait_to_read(&mut self, cx: &Context<'_>) {
        if !self.reader.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            self.reader = Some(cx.waker().clone());
        }
    }

    /// Waits for room in its stream.
    pub(crate) fn wait_for_room(&mut self, cx: &Context<'_>) {
        self.writer = Some(cx.waker().clone());
    }

    /// Its stream has room, or takes nothing more.
    pub(crate) fn room(&mut self) {
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Takes note of an answer; of another one to what is held, whether it is the same.
    pub(crate) fn hear_reply(&mut self, reply: &IncomingReply<'_>) {
        let is_watched = reply.then() == Continuation::Watch;
        if self.is_held {
            let is_same = is_watched && reply.is_unchanged();
            return self.tell(if is_same { AnswerState::Confirmed } else { AnswerState::Stale });
        }
        self.is_held = is_watched && self.watcher.is_some();
        self.hear(CallEvent::Reply(Box::new(PeerAnswer::of(reply))));
    }

    /// Tells who holds the answer.
    pub(crate) fn tell(&mut self, word: AnswerState) {
        if !self.is_held {
            return;
        }
        // What is stale stays so, whatever becomes of the connection.
        self.is_held = word != AnswerState::Stale;
        self.is_suspect = word == AnswerState::Suspect;
        let watcher = self.watcher.as_ref().and_then(Weak::upgrade);
        watcher.into_iter().for_each(|watcher| watcher.tell(word));
    }

    /// It ended without another answer: nobody tells of the one that is held.
    pub(crate) fn let_go(&mut self) {
        self.tell(AnswerState::Suspect);
        self.is_held = false;
    }

    /// There is a connection again: what is held is what it was, unless something else was said.
    pub(crate) fn connected(&mut self, resumed: bool) {
        self.is_unsent = false;
        if resumed && !self.is_suspect {
            self.tell(AnswerState::Confirmed);
        }
    }

    /// Ends what answers it.
    pub(crate) fn stop(&mut self) {
        self.task.take().into_iter().for_each(|task| task.abort());
        self.room();
        self.reader.take().into_iter().for_each(Waker::wake);
    }
}
