//! Watched answers of this side: who is told that they are stale, and when.
//!
//! ```text
//!  a change ─▶ stream number, in the set of the link ─▶ told with the next write of the session, before
//!                                                        any later reply
//! ```
//!
//! All watches of a link are in one set, by the numbers of their streams, from whatever thread a
//! change comes. Before the session is given any answer, what is in the set is told to it: a writer
//! so hears of what its command made stale before it has the command's reply. Where the caller
//! wants values, the call is made again as it came, through the gates.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use tidewire_live_proto::{CallId, Micros, Session, Watch};
use tidewire_service::{Body, Freshness, Headers, Lifetime, StaleSet, StaleSetEntry, WatchMode};

use crate::host::{CallTarget, IncomingCall};
use crate::link::call_map::CallMap;
use crate::session_clock::SessionClock;

/// The watches of a link.
#[derive(Default)]
pub(crate) struct Watches {
    granted: CallMap<WatchEntry>,
    /// When answers end by time.
    dues: BTreeSet<(Micros, CallId)>,
    set: StaleSet,
}

/// One watched answer. There may be a hundred thousand: what few have is apart.
struct WatchEntry {
    joined: Option<Box<dyn StaleSetEntry>>,
    more: Option<Box<WatchExtras>>,
}

struct WatchExtras {
    due: Option<Micros>,
    again: Option<Arc<RepeatableCall>>,
    stale_since: Option<Micros>,
}

/// For how long a watch of values is given nothing but what nothing disturbed: then it is given
/// what was overtaken, too, which is newer than what it has.
const PATIENCE: Micros = 1_000_000;

/// How the answer is made again: the call as it came.
pub(crate) struct RepeatableCall {
    target: CallTarget,
    context: tidewire_service::Context,
    message: Bytes,
}

impl RepeatableCall {
    /// What is needed to make a call again, if it is watched for its values.
    pub(crate) fn of(arrived: &IncomingCall, watch: Watch) -> Option<Arc<Self>> {
        let Body::Full(message) = &arrived.body else { return None };
        (watch == Watch::Values).then(|| {
            Arc::new(Self {
                target: arrived.target.clone(),
                context: arrived.context.clone().with_deadline(None),
                message: message.clone(),
            })
        })
    }

    /// The same call with other default headers of its caller: those that it said itself stay.
    fn with_defaults(&self, before: &Headers, now: &Headers) -> Arc<Self> {
        let mut context = self.context.clone();
        let headers = context.headers_mut();
        let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
        for name in names {
            if !headers.get_all(name).iter().eq(before.get_all(name)) {
                continue;
            }
            headers.remove(name);
            for value in now.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let target = self.target.clone();
        let message = self.message.clone();
        Arc::new(Self { target, context, message })
    }

    /// The call, of somebody who has this.
    pub(crate) fn arrived(&self, held: &Freshness) -> IncomingCall {
        let mut context = self.context.clone();
        context.set_held(held.validator().into_iter().collect());
        context.set_watching(WatchMode::Continues);
        let body = Body::Full(self.message.clone());
        IncomingCall {
            target: self.target.clone(),
            context,
            body,
            is_command: false,
            is_sent_again: false,
            parent: None,
        }
    }
}

impl Watches {
    /// Whom a change wakes from now on.
    pub(crate) fn wakes(&self, waker: &Waker) {
        self.set.wakes(waker);
    }

    /// When an answer ends by time.
    pub(crate) fn poll_timeout(&self) -> Option<Micros> {
        self.dues.first().map(|(due, _)| *due)
    }

    /// The peer is told no more of an answer.
    pub(crate) fn remove(&mut self, call: CallId) {
        let more = self.granted.remove(&call).and_then(|watched| watched.more);
        if let Some(due) = more.and_then(|more| more.due) {
            self.dues.remove(&(due, call));
        }
    }

    /// The calls whose answers are watched for their values.
    pub(crate) fn of_values(&self) -> Vec<CallId> {
        let has_values =
            |watched: &WatchEntry| watched.more.as_ref().is_some_and(|more| more.again.is_some());
        let watched = self.granted.iter().filter(|(_, watched)| has_values(watched));
        watched.map(|(call, _)| *call).collect()
    }

    /// How an answer is made again, if it is watched for its values.
    pub(crate) fn again(&self, call: CallId) -> Option<Arc<RepeatableCall>> {
        self.granted.get(&call)?.more.as_ref()?.again.clone()
    }

    /// Notes when an answer that is watched for its values became stale.
    pub(crate) fn note_stale(&mut self, call: CallId, clock: SessionClock) {
        let more = self.granted.get_mut(&call).and_then(|watched| watched.more.as_mut());
        if let Some(more) = more.filter(|more| more.again.is_some()) {
            more.stale_since.get_or_insert_with(|| clock.now());
        }
    }

    /// Whether a watch of values has been stale for so long that it is given what was overtaken.
    pub(crate) fn is_late(&self, call: CallId, clock: SessionClock) -> bool {
        let since = self.stale_since(call);
        since.is_some_and(|since| clock.now().saturating_sub(since) >= PATIENCE)
    }

    fn stale_since(&self, call: CallId) -> Option<Micros> {
        self.granted.get(&call)?.more.as_ref()?.stale_since
    }

    /// Makes answers from now on with other default headers of their caller; returns all calls.
    pub(crate) fn with_defaults(&mut self, before: &Headers, now: &Headers) -> Vec<CallId> {
        let watched = self.granted.iter_mut().map(|(call, watched)| {
            let again = watched.more.as_mut().and_then(|more| more.again.as_mut());
            again.into_iter().for_each(|again| *again = again.with_defaults(before, now));
            *call
        });
        watched.collect()
    }

    pub(crate) fn clear(&mut self) {
        self.granted.clear();
        self.dues.clear();
    }

    /// Watches an answer; whether it is stale already.
    pub(crate) fn watch(
        &mut self,
        call: CallId,
        freshness: &Freshness,
        clock: SessionClock,
        again: Option<Arc<RepeatableCall>>,
    ) -> bool {
        let stale_since = self.stale_since(call);
        self.remove(call);
        let left = match freshness.lifetime() {
            Lifetime::For(life) => Some(life.saturating_sub(freshness.age()).as_micros()),
            _ => None,
        };
        let due = left
            .filter(|left| *left > 0)
            .map(|left| clock.now().saturating_add(Micros::try_from(left).unwrap_or(Micros::MAX)));
        let joined = freshness.staleness().map(|it| self.set.add(call.stream(), it));
        let is_over = left == Some(0);
        let is_stale = is_over || joined.as_ref().is_some_and(|joined| joined.is_stale());
        self.dues.extend(due.map(|due| (due, call)));
        let has_more = due.is_some() || again.is_some();
        let stale_since = stale_since.filter(|_| is_stale);
        let more = has_more.then(|| Box::new(WatchExtras { due, again, stale_since }));
        self.granted.insert(call, WatchEntry { joined, more });
        is_stale
    }

    /// What became stale: those that rang and are, and those whose time is over.
    pub(crate) fn take_stale(&mut self, session: &Session, clock: SessionClock) -> Vec<CallId> {
        let mut stale = Vec::new();
        // The time is not asked for where nothing ends by it: this is done for each answer.
        while let Some(&(due, call)) = self.dues.first().filter(|(due, _)| *due <= clock.now()) {
            self.dues.remove(&(due, call));
            stale.push(call);
        }
        let mut rung = Vec::new();
        self.set.take(&mut rung);
        stale.extend(rung.into_iter().filter_map(|stream| session.call_of_peer(stream)).filter(
            |call| {
                let joined = self.granted.get(call).and_then(|watched| watched.joined.as_ref());
                joined.is_some_and(|joined| joined.is_stale())
            },
        ));
        stale
    }
}
