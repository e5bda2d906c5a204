//! What becomes stale is told to the session, and made again where its caller wants values.

use std::sync::Arc;

use tidewire_live_proto::{CallId, Change, OutgoingReply, Refresh};
use tidewire_service::{Body, Error, Freshness, Headers, Reply, Validator};

use crate::host::CallFailure;
use crate::link::expiry::Expired;
use crate::link::watch::RepeatableCall;
use crate::link::{Link, State};
use crate::reply_head::head_of;

impl State {
    /// Tells the session what became stale: before it is given an answer, and before it writes.
    pub(crate) fn tell_stale(&mut self, link: &Link) {
        match self.life.poll_expired(link.0.clock) {
            None => {}
            Some(Expired::Suspect) => {
                for call in self.watches.of_values() {
                    self.make_stale(link, call);
                }
            }
            Some(Expired::Again(waiting)) => {
                for (call, change) in waiting {
                    self.make_again(link, call, change);
                }
            }
        }
        for call in self.watches.take_stale(&self.session, link.0.clock) {
            // What is made for one that is late is not begun anew: it says itself whether it was
            // overtaken, and is given all the same.
            if !(self.is_made_again(call) && self.watches.is_late(call, link.0.clock)) {
                self.make_stale(link, call);
            }
        }
    }

    fn is_made_again(&self, call: CallId) -> bool {
        self.exchanges.get(&call).is_some_and(|exchange| exchange.task.is_some())
    }

    /// Tells the peer that an answer is stale, and makes that of a watch of values again.
    pub(crate) fn make_stale(&mut self, link: &Link, call: CallId) {
        match self.session.stale(call) {
            Some(change) => {
                self.watches.note_stale(call, link.0.clock);
                self.make_again(link, call, change);
            }
            None => self.watches.remove(call),
        }
    }

    /// Treats all watched answers as changed, and makes them with other default headers of their
    /// caller: what it may see, and for how long, may be another.
    pub(crate) fn ask_anew(&mut self, link: &Link, before: &Headers, now: &Headers) {
        for call in self.watches.with_defaults(before, now) {
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

    /// Answers with an error that its caller may watch: what was not there may come.
    pub(crate) fn fail_watched(
        &mut self,
        link: &Link,
        call: CallId,
        error: &Error,
        validator: Validator,
        again: Option<Arc<RepeatableCall>>,
    ) {
        if self.watches.watch(call, error.freshness(), link.0.clock, again) {
            self.session.stale(call);
        }
        self.session.reply_error(call, error, validator);
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
        if !state.session.is_last(call, change) {
            // Another is made in its place.
            return;
        }
        state.exchanges.remove(&call);
        let freshness = match &outcome {
            Ok(reply) => &reply.freshness,
            Err(error) => error.freshness(),
        };
        let is_known = freshness.validator().is_some() && freshness.is_known();
        let refresh = match (&outcome, freshness.validator()) {
            (Err(error), Some(validator)) if is_known => Refresh::Error(error.clone(), validator),
            (Err(error), _) => Refresh::Failed(error.clone()),
            (Ok(reply), _) if reply.is_unchanged() => Refresh::Unchanged,
            (Ok(reply), _) => Refresh::Value(match &reply.body {
                Body::Full(body) => head_of(reply, body),
                _ => head_of(reply, &[]),
            }),
        };
        // Whether it began before the last change.
        let is_overtaken = (outcome.is_ok() || is_known)
            && state.watches.watch(call, freshness, self.0.clock, Some(again));
        if is_overtaken {
            let is_late = state.watches.is_late(call, self.0.clock);
            if !is_late || state.session.refresh_outdated(call, refresh) {
                state.make_stale(self, call);
            }
        } else {
            state.session.refresh(call, change, refresh);
        }
        if !state.session.is_watch(call) {
            state.watches.remove(call);
        }
        state.wake();
    }
}
