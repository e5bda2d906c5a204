//! Watched answers of this side: who is told that they are stale, and when.
//!
//! ```text
//!  a change ─▶ staleness wakes its watch's ring ─▶ bell of the link ─▶ told with the next write of the
//!                                                                      session, before any later reply
//! ```
//!
//! All watches of a link ring one bell, from whatever thread a change comes; the bell takes no lock but
//! its own. Before the session is given any answer, what rang is told to it: a writer so hears of what its
//! command made stale before it has the command's reply. Where the caller wants values, the call is made
//! again as it came, through the gates.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use tidewire_live::{CallId, Change, Micros, OutgoingReply, Refresh, Watch};
use tidewire_service::{Body, Error, Freshness, Lifetime, Reply, Staleness};

use crate::clock::Clock;
use crate::link::{ByCall, Link, State};
use crate::serve::{Arrived, Asked, Failed, head_of};

/// The watches of a link.
#[derive(Default)]
pub(crate) struct Watches {
    granted: ByCall<Watched>,
    /// When answers end by time.
    dues: BTreeSet<(Micros, CallId)>,
    bell: Arc<Bell>,
}

/// One watched answer. There may be a hundred thousand: what few have is apart.
struct Watched {
    staleness: Option<Arc<dyn Staleness>>,
    more: Option<Box<More>>,
}

struct More {
    due: Option<Micros>,
    again: Option<Arc<Again>>,
}

/// How the answer is made again: the call as it came.
pub(crate) struct Again {
    target: Asked,
    context: tidewire_service::Context,
    message: Bytes,
}

/// What rang, and whom that wakes.
#[derive(Default)]
struct Bell {
    has_rung: AtomicBool,
    rung: Mutex<Vec<CallId>>,
    connection: Mutex<Option<Waker>>,
}

struct Ring {
    call: CallId,
    bell: Arc<Bell>,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let bell = &self.bell;
        bell.rung.lock().unwrap_or_else(PoisonError::into_inner).push(self.call);
        // Whoever rang first has woken the connection, which takes what rang after this too.
        if bell.has_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let connection = bell.connection.lock().unwrap_or_else(PoisonError::into_inner).clone();
        connection.into_iter().for_each(Waker::wake);
    }
}

impl Again {
    /// What is needed to make a call again, if it is watched for its values.
    pub(crate) fn of(arrived: &Arrived, watch: Watch) -> Option<Arc<Self>> {
        let Body::Full(message) = &arrived.body else { return None };
        (watch == Watch::Values).then(|| {
            Arc::new(Self {
                target: arrived.target.clone(),
                context: arrived.context.clone().with_deadline(None),
                message: message.clone(),
            })
        })
    }

    fn arrived(&self, held: &Freshness) -> Arrived {
        let mut context = self.context.clone();
        context.set_held(held.validator().into_iter().collect());
        let body = Body::Full(self.message.clone());
        Arrived { target: self.target.clone(), context, body, is_command: false, parent: None }
    }
}

impl Watches {
    /// Whom a change wakes from now on.
    pub(crate) fn wakes(&self, waker: &Waker) {
        let mut known = self.bell.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
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

    /// How an answer is made again, if it is watched for its values.
    fn again(&self, call: CallId) -> Option<Arc<Again>> {
        self.granted.get(&call)?.more.as_ref()?.again.clone()
    }

    pub(crate) fn clear(&mut self) {
        self.granted.clear();
        self.dues.clear();
    }

    /// Whether an answer is stale; otherwise it rings when it becomes so.
    fn is_stale(&self, call: CallId, staleness: &dyn Staleness) -> bool {
        let ring = Waker::from(Arc::new(Ring { call, bell: Arc::clone(&self.bell) }));
        staleness.poll_stale(&mut Context::from_waker(&ring)).is_ready()
    }

    /// Watches an answer; whether it is stale already.
    fn watch(
        &mut self,
        call: CallId,
        freshness: &Freshness,
        clock: Clock,
        again: Option<Arc<Again>>,
    ) -> bool {
        self.remove(call);
        let staleness = freshness.staleness().cloned();
        let due = match freshness.lifetime() {
            Lifetime::For(life) => {
                let left = life.saturating_sub(freshness.age()).as_micros();
                Some(clock.now().saturating_add(Micros::try_from(left).unwrap_or(Micros::MAX)))
            }
            _ => None,
        };
        let is_stale = staleness.as_deref().is_some_and(|it| self.is_stale(call, it));
        self.dues.extend(due.map(|due| (due, call)));
        let has_more = due.is_some() || again.is_some();
        let more = has_more.then(|| Box::new(More { due, again }));
        self.granted.insert(call, Watched { staleness, more });
        is_stale
    }

    /// What became stale: those that rang and are, and those whose time is over.
    fn take_stale(&mut self, clock: Clock) -> Vec<CallId> {
        let mut stale = Vec::new();
        // The time is not asked for where nothing ends by it: this is done for each answer.
        while let Some(&(due, call)) = self.dues.first().filter(|(due, _)| *due <= clock.now()) {
            self.dues.remove(&(due, call));
            stale.push(call);
        }
        if self.bell.has_rung.swap(false, Ordering::AcqRel) {
            let rung =
                std::mem::take(&mut *self.bell.rung.lock().unwrap_or_else(PoisonError::into_inner));
            stale.extend(rung.into_iter().filter(|call| {
                let watched = self.granted.get(call);
                let staleness = watched.and_then(|watched| watched.staleness.as_deref());
                staleness.is_some_and(|it| it.is_stale() || self.is_stale(*call, it))
            }));
        }
        stale
    }
}

impl State {
    /// Tells the session what became stale: before it is given an answer, and before it writes.
    pub(crate) fn tell_stale(&mut self, link: &Link) {
        for call in self.watches.take_stale(link.0.clock) {
            match self.session.stale(call) {
                Some(change) => self.make_again(link, call, change),
                None => self.watches.remove(call),
            }
        }
    }

    /// Answers with a reply that its caller may watch.
    pub(crate) fn reply_watched(
        &mut self,
        link: &Link,
        call: CallId,
        mut reply: OutgoingReply<'_>,
        freshness: &Freshness,
        again: Option<Arc<Again>>,
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

    /// Makes the answer of a watch again, in a task that ends with the watch.
    pub(crate) fn make_again(&mut self, link: &Link, call: CallId, change: Change) {
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
        outcome: Result<Reply, Failed>,
        again: Arc<Again>,
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
                let stale = state.watches.watch(call, &reply.freshness, self.0.clock, Some(again));
                let refresh = match (&reply.body, reply.is_unchanged()) {
                    (_, true) => Refresh::Unchanged,
                    (Body::Full(body), _) => {
                        let head = head_of(&reply, body);
                        Refresh::Value(head)
                    }
                    _ => Refresh::Value(head_of(&reply, &[])),
                };
                state.session.refresh(call, change, refresh);
                state.exchanges.remove(&call);
                if !state.session.is_watch(call) {
                    state.watches.remove(call);
                } else if stale && let Some(change) = state.session.stale(call) {
                    state.make_again(self, call, change);
                }
            }
        }
        state.wake();
    }
}
