//! Replicas: a remote query is a memo in the caller's graph.
//!
//! ```text
//!  caller, or a memo of the caller ─▶ memo by call ─ hit: nothing is sent
//!                                        │ miss
//!                                        ▼
//!                       held: is it what the server has? ─ yes, no word against it: the same value, not sent
//!                                        │ no                    (replica/place.rs)
//!                                        ▼
//!                       asked with the validator of what is held; the server tells of it from then on
//! ```
//!
//! The server's word makes the memo stale, and with it all that the caller's own memos made of it;
//! so dependencies chain across hosts, also through one that serves what it made of its replicas.
//! The word comes before the reply to the command that caused it, so a writer never reads an older
//! value than the one it wrote.
//!
//! | the connection | what is read |
//! |---|---|
//! | is there | the replica |
//! | is lost, [`WhenLost::Wait`] | waits until the replica is confirmed or asked for anew |
//! | is lost, [`WhenLost::Serve`] | what is held, marked: `freshness.is_over()`. What depends on it is not stored |
//! | is back | all that did not change is confirmed by one exchange; the rest is asked for when it is read |
//!
//! What is known to be stale is never served. An answer that the server does not watch, and an
//! error, is its reader's alone: neither is kept, nor what depends on it.

mod entry;
mod key;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidewire_memo::{CachedValue, Graph, Memo, Source, Suspension};
use tidewire_service::{Answer, Call, Code, Error, Forms, FormsBudget, Freshness, Reply, Result};
use tokio::sync::Notify;

use self::entry::{Content, Replica, ReplicaEntry, ReplicaStatus};
pub(crate) use self::key::BorrowedKey;
use self::key::{Key, KeyView};
use crate::live::Live;

/// How remote queries are replicated; see [`Builder::replicas`](crate::Builder::replicas).
///
/// ```
/// # mod tidewire {
/// #     pub mod client { pub use tidewire_client::*; }
/// #     pub use tidewire_client::Client;
/// #     pub use tidewire_service::*;
/// # }
/// # use tidewire_memo as memo;
/// use memo::Graph;
/// use tidewire::Client;
/// use tidewire::client::{Replicas, WhenLost};
///
/// // What is asked for once is answered here until the server says that it changed.
/// let replicas = Replicas::new(&Graph::global()).when_lost(WhenLost::Serve);
/// let client = Client::builder("ws://10.0.0.7:8080").replicas(replicas).build()?;
/// assert_eq!(client.replicas_held(), 0);
/// # Ok::<(), tidewire::client::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "it is a setting of a client"]
pub struct Replicas {
    graph: Graph,
    when_lost: WhenLost,
}

/// What a reader of a replica gets while the connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenLost {
    /// It waits until the replica is confirmed, no longer than its deadline.
    #[default]
    Wait,
    /// What is held, if it was right when the connection was lost. The freshness of such a reply
    /// [is over](Freshness::is_over).
    Serve,
}

impl Replicas {
    /// Replicas are memos of `graph`; its memos that read them depend on them.
    pub fn new(graph: &Graph) -> Self {
        Self { graph: graph.clone(), when_lost: WhenLost::default() }
    }

    /// Sets what is read while the connection is lost.
    pub fn when_lost(mut self, when_lost: WhenLost) -> Self {
        self.when_lost = when_lost;
        self
    }
}

/// The replicas of a client.
pub(crate) struct ReplicaSet {
    memo: Memo<Key, QueryOutcome>,
    shared: Arc<Shared>,
}

/// What memos and replicas know of their shelf.
pub(crate) struct Shared {
    live: Weak<Live>,
    when_lost: WhenLost,
    /// What the server says is not right any more.
    told: Source<Key>,
    /// Whoever reads this is not kept.
    passing: Source<()>,
    _never_kept: Suspension,
    places: Mutex<HashMap<Key, Weak<ReplicaEntry>>>,
    /// None: whoever gives an answer on makes other forms of it, and may keep them.
    room: Arc<FormsBudget>,
    /// The standing of a replica changed.
    changed: Notify,
}

/// What a run of a query gave.
enum QueryOutcome {
    /// An answer that the server tells of.
    Held(Arc<Replica>),
    /// The same, while nobody knows whether it is right.
    Unconfirmed(Content),
    /// An answer for whoever asked.
    Passing(Content),
}

impl ReplicaSet {
    pub(crate) fn new(settings: &Replicas, name: &str, live: Weak<Live>) -> Self {
        let Replicas { graph, when_lost } = settings;
        let passing = Source::new_in(graph, &format!("{name} (not kept)"));
        let shared = Arc::new(Shared {
            live,
            when_lost: *when_lost,
            told: Source::new_in(graph, name),
            passing,
            _never_kept: passing.suspend(),
            places: Mutex::default(),
            room: Arc::new(FormsBudget::new(0)),
            changed: Notify::new(),
        });
        let weak = Arc::downgrade(&shared);
        let memo = Memo::new_in(graph, name, move |key: Key| {
            let shared = weak.upgrade();
            async move {
                let gone = || Error::unavailable("the client of a replica was dropped");
                shared.ok_or_else(gone)?.run(key).await
            }
        });
        Self { memo, shared }
    }

    /// The replica that answers a query, if there is one.
    pub(crate) fn hit(&self, asked: &BorrowedKey<'_>, call: &Call) -> Option<Reply> {
        let cached = self.memo.cached::<dyn KeyView + '_>(asked)?;
        Some(self.shared.give(&cached, call))
    }

    /// Answers a query of which there is no replica.
    pub(crate) fn answer(&self, key: Key, call: Call) -> Answer {
        let memo = self.memo;
        let shared = Arc::clone(&self.shared);
        Answer::pending(async move {
            let asked = async { memo.get(key).await };
            let outcome = match call.context.deadline() {
                None => asked.await,
                Some(at) => tokio::time::timeout_at(at.into(), asked).await.map_err(|_| {
                    Error::deadline_exceeded("the replica was not confirmed in time")
                })?,
            };
            match outcome {
                Ok(cached) => Ok(shared.give(&cached, &call)),
                Err(error) => {
                    // Nobody tells when it would succeed.
                    shared.passing.read(&());
                    let own = error.downcast_ref::<Error>().cloned();
                    Err(own.unwrap_or_else(|| {
                        Error::internal("the replica was not made").with_cause(error)
                    }))
                }
            }
        })
    }

    /// A command of this client is over. What was asked for before may be older than what it did,
    /// and the server tells only of answers that it watches. So this is a change: whoever asks from
    /// now on is not given what an earlier run was answered of which nobody tells.
    pub(crate) fn command_ended(&self) {
        self.shared.passing.changed(&());
    }

    /// How many answers the server tells of.
    pub(crate) fn len(&self) -> usize {
        let places = self.shared.places.lock();
        places.values().filter(|place| place.strong_count() > 0).count()
    }
}

impl Drop for ReplicaSet {
    fn drop(&mut self) {
        self.memo.close();
    }
}

impl Shared {
    /// One run of a query, for all who ask.
    async fn run(self: Arc<Self>, key: Key) -> Result<QueryOutcome> {
        loop {
            self.told.read(&key);
            let place = self.place(&key);
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Before the look, so that no word after it is missed.
            changed.as_mut().enable();
            match place.snapshot() {
                Some((ReplicaStatus::Right, content)) => return Ok(self.replica_of(place, content)),
                Some((ReplicaStatus::Unconfirmed, content)) => match self.when_lost {
                    WhenLost::Wait => changed.await,
                    WhenLost::Serve => return Ok(self.unconfirmed(content)),
                },
                held => return self.ask(key, place, held).await,
            }
        }
    }

    /// Asks the server, which is told what is held.
    async fn ask(
        &self,
        key: Key,
        place: Arc<ReplicaEntry>,
        held: Option<(ReplicaStatus, Content)>,
    ) -> Result<QueryOutcome> {
        let live = self.live.upgrade();
        let live = live.ok_or_else(|| Error::unavailable("the client was dropped"))?;
        let validator = held.as_ref().and_then(|(_, content)| content.validator);
        let call = key.call(validator, live.timeout.unwrap_or(TIMEOUT));
        let link = live.remote.link();
        let ear = place.ear();
        let (reply, hold) = match link.call_held(call, Arc::clone(&ear) as _).await {
            Ok(answered) => answered,
            Err(error) => {
                let is_away = error.code() == Code::Unavailable;
                return match held {
                    // What is known to be stale is not served.
                    Some((ReplicaStatus::Suspect, content))
                        if is_away && self.when_lost == WhenLost::Serve =>
                    {
                        Ok(self.unconfirmed(content))
                    }
                    _ => Err(error),
                };
            }
        };
        let content = match held {
            Some((_, held)) if reply.is_unchanged() => held.renewed(&reply),
            _ => Content::of(reply),
        };
        if let Some(hold) = hold
            && place.keep(ear, content.clone(), hold)
        {
            return Ok(self.replica_of(place, content));
        }
        self.passing.read(&());
        Ok(QueryOutcome::Passing(content))
    }

    fn replica_of(&self, place: Arc<ReplicaEntry>, content: Content) -> QueryOutcome {
        QueryOutcome::Held(Replica::new(place, content, Forms::new(Arc::clone(&self.room))))
    }

    fn unconfirmed(&self, content: Content) -> QueryOutcome {
        self.passing.read(&());
        QueryOutcome::Unconfirmed(content)
    }

    /// What one caller is given.
    fn give(&self, cached: &CachedValue<QueryOutcome>, call: &Call) -> Reply {
        let over = || Freshness::lasting(Duration::ZERO);
        let (content, freshness) = match &**cached {
            // Outdated while it was made: right for whoever asked before the change.
            QueryOutcome::Held(replica) if cached.version() == 0 => (replica.content(), over()),
            QueryOutcome::Held(replica) => (replica.content(), replica.freshness()),
            QueryOutcome::Unconfirmed(content) => {
                self.passing.read(&());
                (content, over())
            }
            QueryOutcome::Passing(content) => {
                self.passing.read(&());
                (content, content.freshness.clone())
            }
        };
        content.give(freshness, &call.context.caller_validators())
    }

    /// The place of a replica, for as long as somebody has it.
    fn place(self: &Arc<Self>, key: &Key) -> Arc<ReplicaEntry> {
        let mut places = self.places.lock();
        if let Some(place) = places.get(key).and_then(Weak::upgrade) {
            return place;
        }
        let place = ReplicaEntry::new(key.clone(), self.told, Arc::downgrade(self));
        places.insert(key.clone(), Arc::downgrade(&place));
        place
    }

    /// Nobody has the place any more.
    fn forget(&self, key: &Key) {
        let mut places = self.places.lock();
        if places.get(key).is_some_and(|known| known.strong_count() == 0) {
            places.remove(key);
        }
    }
}

/// Equal content leaves what depended on it valid.
impl PartialEq for QueryOutcome {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Held(one), Self::Held(two)) => one == two,
            _ => false,
        }
    }
}

impl fmt::Debug for ReplicaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("held", &self.len()).finish_non_exhaustive()
    }
}

/// How long one run of a query may take, if the client has no timeout.
const TIMEOUT: Duration = Duration::from_secs(30);
