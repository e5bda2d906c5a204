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
use http::HeaderMap;
use tidewire_live_proto::{CallId, Change, Micros, OutgoingReply, Refresh, Session, Watch};
use tidewire_service::{
    Body, Error, Freshness, Lifetime, Reply, StaleSet, StaleSetEntry, WatchMode,
};

use crate::link::{CallMap, Link, State};
use crate::serve::{CallFailure, CallTarget, IncomingCall, head_of};
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
}

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
    fn with_defaults(&self, before: &HeaderMap, now: &HeaderMap) -> Arc<Self> {
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

    fn arrived(&self, held: &Freshness) -> IncomingCall {
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
    fn again(&self, call: CallId) -> Option<Arc<RepeatableCall>> {
        self.granted.get(&call)?.more.as_ref()?.again.clone()
    }

    pub(crate) fn clear(&mut self) {
        self.granted.clear();
        self.dues.clear();
    }

    /// Watches an answer; whether it is stale already.
    fn watch(
        &mut self,
        call: CallId,
        freshness: &Freshness,
        clock: SessionClock,
        again: Option<Arc<RepeatableCall>>,
    ) -> bool {
        self.remove(call);
        let due = match freshness.lifetime() {
            Lifetime::For(life) => {
                let left = life.saturating_sub(freshness.age()).as_micros();
                Some(clock.now().saturating_add(Micros::try_from(left).unwrap_or(Micros::MAX)))
            }
            _ => None,
        };
        let joined = freshness.staleness().map(|it| self.set.add(call.stream(), it));
        let is_stale = joined.as_ref().is_some_and(|joined| joined.is_stale());
        self.dues.extend(due.map(|due| (due, call)));
        let has_more = due.is_some() || again.is_some();
        let more = has_more.then(|| Box::new(WatchExtras { due, again }));
        self.granted.insert(call, WatchEntry { joined, more });
        is_stale
    }

    /// What became stale: those that rang and are, and those whose time is over.
    fn take_stale(&mut self, session: &Session, clock: SessionClock) -> Vec<CallId> {
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

impl State {
    /// Tells the session what became stale: before it is given an answer, and before it writes.
    pub(crate) fn tell_stale(&mut self, link: &Link) {
        self.look_at_expiry(link);
        for call in self.watches.take_stale(&self.session, link.0.clock) {
            self.make_stale(link, call);
        }
    }

    /// Tells the peer that an answer is stale, and makes that of a watch of values again.
    pub(crate) fn make_stale(&mut self, link: &Link, call: CallId) {
        match self.session.stale(call) {
            Some(change) => self.make_again(link, call, change),
            None => self.watches.remove(call),
        }
    }

    /// Treats all watched answers as changed, and makes them with other default headers of their
    /// caller: what it may see, and for how long, may be another.
    pub(crate) fn ask_anew(&mut self, link: &Link, before: &HeaderMap, now: &HeaderMap) {
        let calls: Vec<_> = self.watches.granted.keys().copied().collect();
        for call in calls {
            let watched = self.watches.granted.get_mut(&call).and_then(|it| it.more.as_mut());
            if let Some(again) = watched.and_then(|more| more.again.as_mut()) {
                *again = again.with_defaults(before, now);
            }
            self.make_stale(link, call);
        }
    }

    /// Answers with a reply that its caller may watch.
    pub(crate) fn reply_watched(
        &mut self,
        link: &Link,
        call: CallId,
        mut reply: OutgoingReply<'_>,
        freshness: &Freshness,
        again: Option<Arc<RepeatableCall>>,
    ) {
        if freshness.validator().is_none() || !freshness.is_known() {
            return self.session.reply(call, reply);
        }
        if self.watches.watch(call, freshness, link.0.clock, again) {
            self.session.stale(call);
            // It is not watched any more: who wants to go on asks again.
            reply.max_age_ms = Some(0);
        }
        self.session.reply(call, reply.watched());
        if !self.session.is_watch(call) {
            self.watches.remove(call);
        }
    }

    /// Makes the answer of a watch again, in a task that ends with the watch; not while its
    /// caller's credential has just expired, and another may come.
    pub(crate) fn make_again(&mut self, link: &Link, call: CallId, change: Change) {
        let Some(change) = self.life.defer(call, change) else { return };
        let again = self.watches.again(call);
        let (Some(again), Some(host)) = (again, link.0.host.clone()) else {
            let ended = Error::unavailable("the answer cannot be made again");
            self.watches.remove(call);
            return self.session.refresh(call, change, Refresh::Failed(ended));
        };
        let held = Freshness::default().with_validator(self.session.watched_validator(call));
        let link_again = link.clone();
        let made = async move {
            let outcome = host.answer(again.arrived(&held)).await;
            link_again.refresh(call, change, outcome, again).await;
        };
        let task = link.0.tasks.spawn(made).abort_handle();
        let exchange = self.exchanges.entry(call).or_default();
        // One that began before the last change gives no value.
        exchange.task.replace(task).into_iter().for_each(|before| before.abort());
    }
}

impl Link {
    async fn refresh(
        &self,
        call: CallId,
        change: Change,
        outcome: Result<Reply, CallFailure>,
        again: Arc<RepeatableCall>,
    ) {
        let outcome = match outcome {
            Ok(Reply { body: Body::Stream(_), .. }) => {
                Err(Error::internal("a watched answer became a stream"))
            }
            Ok(reply) => Ok(reply),
            Err(failed) => Err(failed.error),
        };
        let mut state = self.lock();
        match outcome {
            Err(error) => {
                state.watches.remove(call);
                state.exchanges.remove(&call);
                state.session.refresh(call, change, Refresh::Failed(error));
            }
            Ok(reply) => {
                state.exchanges.remove(&call);
                if state.watches.watch(call, &reply.freshness, self.0.clock, Some(again)) {
                    // It began before the last change, and gives no value.
                    state.make_stale(self, call);
                } else {
                    let refresh = match (&reply.body, reply.is_unchanged()) {
                        (_, true) => Refresh::Unchanged,
                        (Body::Full(body), _) => Refresh::Value(head_of(&reply, body)),
                        _ => Refresh::Value(head_of(&reply, &[])),
                    };
                    state.session.refresh(call, change, refresh);
                    if !state.session.is_watch(call) {
                        state.watches.remove(call);
                    }
                }
            }
        }
        state.wake();
    }
}
