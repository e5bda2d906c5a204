//! The layer: look up, else run the service once for all who ask.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidewire_memo::{Ambient, Cached, ErrorKind, Graph};
use tidewire_service::{
    Answer, Body, Call, Error, Freshness, Layer, Lifetime, Phase, Reply, Result, Service, Timer,
    Validator,
};

use crate::attempt::{Attempt, Passing};
use crate::kept::Kept;
use crate::key::Key;
use crate::staleness::Tracked;
use crate::table::{Place, Table};

/// The layer that memoizes replies.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | [`caller_ttl`](Self::caller_ttl) | 60 s | how long an answer for one caller is kept |
/// | [`compute_timeout`](Self::compute_timeout) | 30 s | how long one run for all who ask may take |
/// | [`key_bytes_max`](Self::key_bytes_max) | 16 KiB | calls with a larger message pass through |
/// | [`reply_bytes_max`](Self::reply_bytes_max) | 1 MiB | larger replies are not kept |
///
/// The bytes of all answers count against the budget of the graph. Time passes in the graph only when
/// somebody says so: [`Graph::drive`] or [`Graph::advance`].
#[derive(Clone)]
#[must_use = "an edge does nothing until it is a layer of something"]
pub struct Edge {
    settings: Settings,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) graph: Graph,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) caller_ttl: Duration,
    pub(crate) compute_timeout: Duration,
    pub(crate) key_bytes_max: usize,
    pub(crate) reply_bytes_max: usize,
}

impl Edge {
    /// A layer that keeps answers in `graph`, in which what they are made of is too, and asks `timer` for
    /// the time.
    pub fn new(graph: Graph, timer: impl Timer) -> Self {
        let settings = Settings {
            graph,
            timer: Arc::new(timer),
            caller_ttl: Duration::from_secs(60),
            compute_timeout: Duration::from_secs(30),
            key_bytes_max: 16 << 10,
            reply_bytes_max: 1 << 20,
        };
        Self { settings }
    }

    /// Sets how long an answer that is shared with the same caller only is kept.
    pub fn caller_ttl(mut self, life: Duration) -> Self {
        self.settings.caller_ttl = life;
        self
    }

    /// Sets how long one run of the service may take: the deadline that it sees. Each caller's own
    /// deadline bounds its waiting.
    pub fn compute_timeout(mut self, timeout: Duration) -> Self {
        self.settings.compute_timeout = timeout;
        self
    }

    /// Sets the largest message or path that is looked up.
    pub fn key_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.key_bytes_max = bytes;
        self
    }

    /// Sets the largest reply that is kept.
    pub fn reply_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.reply_bytes_max = bytes;
        self
    }
}

impl Layer for Edge {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        let settings = self.settings.clone();
        Arc::new(Memoized(Arc::new(Shared { settings, inner, table: Table::default() })))
    }
}

/// A service whose answers are kept.
struct Memoized(Arc<Shared>);

struct Shared {
    settings: Settings,
    inner: Arc<dyn Service>,
    table: Table,
}

impl Service for Memoized {
    fn call(&self, mut call: Call) -> Answer {
        let Some(place) = self.0.table.place(&call, &self.0.settings) else {
            return self.0.inner.call(call);
        };
        let shared = Arc::clone(&self.0);
        if matches!(call.body, Body::Stream(_)) {
            return Answer::pending(async move {
                if call.spec().is_some() {
                    call.message().await?;
                }
                shared.answer(&place, call).await
            });
        }
        shared.answer(&place, call)
    }
}

impl Shared {
    /// The answer to a call whose message is complete.
    fn answer(self: &Arc<Self>, place: &Arc<Place>, call: Call) -> Answer {
        let key = Key::of(&call, &place.terms.sharing);
        let Some(key) = key.filter(|key| key.bytes() <= self.settings.key_bytes_max) else {
            return self.inner.call(call);
        };
        call.context.phase(Phase::Memo);
        if let Some(cached) = place.memo.cached(&key)
            && !cached.is_over(|| self.settings.timer.now())
        {
            let reply = self.give(place, key, &cached, &call.context.held());
            return Answer::ready(reply);
        }
        if place.terms.is_hopeless() {
            return self.inner.call(call);
        }
        let (shared, place) = (Arc::clone(self), Arc::clone(place));
        Answer::pending(async move { shared.compute(&place, key.detached(), call).await })
    }

    /// Runs the service, or waits for the run that is under way.
    async fn compute(&self, place: &Place, key: Key, call: Call) -> Result<Reply> {
        let held = call.context.held();
        let query = call.buffered().await?;
        let inner = Arc::clone(&self.inner);
        let attempt = Attempt::new(query.clone(), inner, Arc::clone(&place.terms));
        for is_first in [true, false] {
            // The number of the context outside, so that events tell which call it was.
            let ambient = Ambient::new(Ambient::current().tag()).with(Arc::clone(&attempt));
            match ambient.scope(place.memo.get(key.clone())).await {
                Ok(cached) if is_first && cached.is_over(|| self.settings.timer.now()) => {
                    place.memo.invalidate(&key);
                }
                Ok(cached) => return self.give(place, key, &cached, &held),
                Err(error) => {
                    if let Some(answer) = attempt.take_aside() {
                        return answer;
                    }
                    match (error.kind(), error.downcast_ref::<Passing>()) {
                        (_, Some(Passing::Shared(kept))) => {
                            return kept.give_as_it_came();
                        }
                        (ErrorKind::Failed | ErrorKind::Closed, _) => break,
                        _ => {
                            let failed = "the computation of the answer failed; see the log";
                            return Err(Error::internal(failed).with_cause(error));
                        }
                    }
                }
            }
        }
        // Another caller's run turned out to be that caller's alone.
        self.inner.call(query.into_call()).await
    }

    fn give(
        &self,
        place: &Place,
        key: Key,
        cached: &Cached<Kept>,
        held: &[Validator],
    ) -> Result<Reply> {
        let version = cached.version();
        if version == 0 {
            // Outdated while it was made: right for who asked before the change, and for nobody later.
            let mut reply = cached.give_as_it_came()?;
            reply.freshness = Freshness::default();
            return Ok(reply);
        }
        let own = cached.own();
        let staleness = Tracked::new(place.memo, key, version, own.staleness().cloned());
        let mut freshness = Freshness::tracked(Arc::new(staleness)).with_tokens(own.tokens());
        let (lifetime, age) = match own.lifetime() {
            Lifetime::Unknown => (place.terms.lifetime, Duration::ZERO),
            lifetime => (lifetime, own.age()),
        };
        if lifetime != Lifetime::Unknown {
            let age = age + cached.age(self.settings.timer.now());
            freshness = freshness.with_lifetime(lifetime).with_age(age);
        }
        cached.give(held, freshness)
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge")
            .field("caller_ttl", &self.settings.caller_ttl)
            .field("compute_timeout", &self.settings.compute_timeout)
            .field("key_bytes_max", &self.settings.key_bytes_max)
            .field("reply_bytes_max", &self.settings.reply_bytes_max)
            .finish_non_exhaustive()
    }
}
