//! The place of one replica: what the server answered last, and what it said of that since.
//!
//! What a memo made of an answer stays valid when the next answer is equal, and with it the value
//! that the memo keeps; so that value holds on to the place, and the place to the newest answer and
//! its watch.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::StatusCode;
use tidewire_live::{AnswerState, WatchGuard, Watcher};
use tidewire_memo::Source;
use tidewire_service::{
    Body, CachedBody, Forms, Freshness, Lifetime, Reply, Staleness, ThinHeaders, Validator, Wakers,
};

use super::Shared;
use super::key::Key;

/// The place of a replica.
pub(crate) struct ReplicaEntry {
    key: Key,
    told: Source<Key>,
    shelf: Weak<Shared>,
    /// How often it ceased to be known as right.
    doubts: AtomicU32,
    /// The answer that is held is right, and says nothing of itself but that. Written under the
    /// lock of the state, read by each hit.
    is_plain: AtomicBool,
    state: Mutex<State>,
}

/// An answer that the server tells of, as the memo keeps it.
pub(crate) struct Replica {
    place: Arc<ReplicaEntry>,
    content: Content,
    forms: Forms,
}

#[derive(Default)]
struct State {
    asked: u64,
    held: Option<WatchedAnswer>,
    waiting: Wakers,
}

/// An answer that the server tells of.
struct WatchedAnswer {
    /// Which time it was asked for.
    nth: u64,
    ear: Arc<StaleListener>,
    content: Content,
    _hold: WatchGuard,
}

/// Hears what the server says of one answer.
pub(crate) struct StaleListener {
    place: Weak<ReplicaEntry>,
    standing: AtomicU8,
    nth: u64,
}

/// What is known of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ReplicaStatus {
    Right,
    Unconfirmed,
    Suspect,
    Stale,
}

/// What the server answered; clones share the body.
#[derive(Clone)]
pub(crate) struct Content {
    status: StatusCode,
    headers: ThinHeaders,
    trailers: ThinHeaders,
    body: Bytes,
    pub(crate) validator: Option<Validator>,
    /// What it said of itself.
    pub(crate) freshness: Freshness,
}

impl ReplicaEntry {
    pub(crate) fn new(key: Key, told: Source<Key>, shelf: Weak<Shared>) -> Arc<Self> {
        let doubts = AtomicU32::new(0);
        let is_plain = AtomicBool::new(false);
        Arc::new(Self { key, told, shelf, doubts, is_plain, state: Mutex::default() })
    }

    /// What hears of the answer that is asked for next.
    pub(crate) fn ear(self: &Arc<Self>) -> Arc<StaleListener> {
        let mut state = self.state.lock();
        state.asked += 1;
        let standing = AtomicU8::new(ReplicaStatus::Right as u8);
        Arc::new(StaleListener { place: Arc::downgrade(self), standing, nth: state.asked })
    }

    /// Keeps an answer; whether none that was asked for later is here.
    pub(crate) fn keep(&self, ear: Arc<StaleListener>, content: Content, hold: WatchGuard) -> bool {
        let mut state = self.state.lock();
        if state.held.as_ref().is_some_and(|held| held.nth > ear.nth) {
            return false;
        }
        let before = state.held.replace(WatchedAnswer { nth: ear.nth, ear, content, _hold: hold });
        self.look(&state);
        drop(state);
        drop(before);
        true
    }

    /// What is known of the answer that is held, and the answer.
    pub(crate) fn snapshot(&self) -> Option<(ReplicaStatus, Content)> {
        let state = self.state.lock();
        state.held.as_ref().map(|held| (held.ear.standing(), held.content.clone()))
    }

    /// Whether hits need to look no further than the number of doubts.
    fn look(&self, state: &State) {
        let is_plain = state.held.as_ref().is_some_and(|held| {
            let own = &held.content.freshness;
            let says_more = own.lifetime() == Lifetime::Immutable || !own.tokens().is_empty();
            held.ear.standing() == ReplicaStatus::Right && !says_more
        });
        self.is_plain.store(is_plain, Ordering::SeqCst);
    }

    fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::SeqCst);
        self.told.changed(&self.key);
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        waiting.wake();
    }
}

impl Replica {
    pub(crate) fn new(place: Arc<ReplicaEntry>, content: Content, forms: Forms) -> Arc<Self> {
        Arc::new(Self { place, content, forms })
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// How long the answer stays true, for whoever is given it now; nothing to go by if it is not
    /// known to be right any more.
    pub(crate) fn freshness(self: &Arc<Self>) -> Freshness {
        let place = &*self.place;
        // Before the look: a doubt is there to be seen before it counts.
        let doubts = place.doubts.load(Ordering::SeqCst);
        let freshness = || Freshness::cached(Arc::clone(self) as _, doubts.into());
        if place.is_plain.load(Ordering::SeqCst) {
            return freshness();
        }
        let Some((ReplicaStatus::Right, content)) = place.snapshot() else {
            return Freshness::lasting(std::time::Duration::ZERO);
        };
        let freshness = freshness().with_tokens(content.freshness.tokens());
        match content.freshness.lifetime() {
            Lifetime::Immutable => freshness.with_lifetime(Lifetime::Immutable),
            // The server tells of the end of any other lifetime.
            _ => freshness,
        }
    }
}

impl CachedBody for Replica {
    fn validator(&self) -> Option<Validator> {
        self.content.validator
    }

    fn is_stale(&self, doubts: u64) -> bool {
        u64::from(self.place.doubts.load(Ordering::SeqCst)) != doubts
    }

    fn staleness(&self, doubts: u64) -> Arc<dyn Staleness> {
        Arc::new(GivenReplica(Arc::clone(&self.place), doubts))
    }

    fn body(&self) -> &Bytes {
        &self.content.body
    }

    fn forms(&self) -> &Forms {
        &self.forms
    }
}

/// Equal content leaves what depended on it valid.
impl PartialEq for Replica {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl Drop for ReplicaEntry {
    fn drop(&mut self) {
        if let Some(shelf) = self.shelf.upgrade() {
            shelf.forget(&self.key);
        }
    }
}

impl StaleListener {
    pub(crate) fn standing(&self) -> ReplicaStatus {
        match self.standing.load(Ordering::SeqCst) {
            0 => ReplicaStatus::Right,
            1 => ReplicaStatus::Unconfirmed,
            2 => ReplicaStatus::Suspect,
            _ => ReplicaStatus::Stale,
        }
    }
}

impl Watcher for StaleListener {
    fn tell(&self, word: AnswerState) {
        let standing = match word {
            AnswerState::Confirmed => ReplicaStatus::Right,
            AnswerState::Unconfirmed => ReplicaStatus::Unconfirmed,
            AnswerState::Suspect => ReplicaStatus::Suspect,
            AnswerState::Stale => ReplicaStatus::Stale,
        };
        self.standing.store(standing as u8, Ordering::SeqCst);
        let Some(place) = self.place.upgrade() else { return };
        place.look(&place.state.lock());
        if standing != ReplicaStatus::Right {
            place.doubt();
        }
        if let Some(shelf) = place.shelf.upgrade() {
            shelf.changed.notify_waiters();
        }
    }
}

/// A replica as it was when somebody was given it: stale with the first doubt since.
struct GivenReplica(Arc<ReplicaEntry>, u64);

impl Staleness for GivenReplica {
    fn is_stale(&self) -> bool {
        u64::from(self.0.doubts.load(Ordering::SeqCst)) != self.1
    }

    fn poll_stale(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.state.lock();
        // Under the lock: who doubts takes it after the count, so no waker is left behind.
        if self.is_stale() {
            return Poll::Ready(());
        }
        state.waiting.add(cx.waker());
        Poll::Pending
    }
}

impl Content {
    /// What can be given again of a reply.
    pub(crate) fn of(reply: Reply) -> Self {
        let validator = reply.freshness.validator();
        let Reply { status, headers, trailers, body, freshness, .. } = reply;
        let body = match body {
            Body::Full(body) => body,
            _ => Bytes::new(),
        };
        Self { status, headers, trailers, body, validator, freshness }
    }

    /// The same, of which the server says that it is what it has.
    pub(crate) fn renewed(&self, reply: &Reply) -> Self {
        Self { freshness: reply.freshness.clone(), ..self.clone() }
    }

    /// The answer for one caller; *unchanged* to one who holds it.
    pub(crate) fn give(&self, freshness: Freshness, held: &[Validator]) -> Reply {
        let freshness = freshness.with_validator(self.validator);
        match self.validator {
            Some(validator) if held.contains(&validator) => {
                Reply::unchanged(validator).with_freshness(freshness)
            }
            _ => Reply::new(Body::Full(self.body.clone()))
                .with_status(self.status)
                .with_headers(self.headers.clone())
                .with_trailers(self.trailers.clone())
                .with_freshness(freshness),
        }
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body
            && self.status == other.status
            && self.headers == other.headers
            && self.trailers == other.trailers
    }
}
