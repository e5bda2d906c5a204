//! The layer at work: look up, else run the service once for all who ask.

use std::sync::Arc;
use std::time::Duration;

use tidewire_memo::{Ambient, Cached, ErrorKind, Graph};
use tidewire_service::{
    Answer, Body, Call, Context, Error, Freshness, Layer, Lifetime, Phase, Reply, Result, Service,
    Timer, Validator,
};

use crate::attempt::{Attempt, Passing};
use crate::edge::Settings;
use crate::http::From;
use crate::kept::Kept;
use crate::key::Key;
use crate::staleness::Tracked;
use crate::table::{Place, Table};

/// The layer.
pub(crate) struct Memoize {
    pub(crate) graph: Graph,
    pub(crate) settings: Settings,
    pub(crate) timer: Arc<dyn Timer>,
}

impl Layer for Memoize {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        let Self { graph, settings, timer } = self;
        let table = Table::new(graph.clone(), settings.clone(), Arc::clone(timer));
        Arc::new(Memoized(Arc::new(Shared { inner, table })))
    }
}

/// What matters of who asks.
struct Asker {
    held: Vec<Validator>,
    /// Whether HTTP's rules for caches hold for the answer.
    is_conditional: bool,
}

impl Asker {
    fn of(context: &Context) -> Self {
        Self { held: context.held(), is_conditional: context.is_conditional() }
    }
}

/// A service whose answers are kept.
struct Memoized(Arc<Shared>);

struct Shared {
    inner: Arc<dyn Service>,
    table: Table,
}

impl Service for Memoized {
    fn call(&self, mut call: Call) -> Answer {
        let Some(place) = self.0.table.place(&call) else {
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
        let is_hopeless = place.terms.is_hopeless();
        if is_hopeless && place.terms.is_empty() {
            return self.inner.call(call);
        }
        let key = Key::of(&call, &place.terms.sharing);
        let Some(key) = key.filter(|key| key.bytes() <= self.table.settings.key_bytes_max) else {
            return self.inner.call(call);
        };
        call.context.phase(Phase::Memo);
        if let Some(cached) = place.memo.cached(&key)
            && !cached.is_over(|| self.table.timer.now())
        {
            let asker = Asker::of(&call.context);
            return Answer::ready(self.give(place, key, &cached, &asker, From::Memory));
        }
        if is_hopeless {
            return self.inner.call(call);
        }
        let (shared, place) = (Arc::clone(self), Arc::clone(place));
        Answer::pending(async move { shared.compute(&place, key.detached(), call).await })
    }

    /// Runs the service, or waits for the run that is under way.
    async fn compute(&self, place: &Place, key: Key, call: Call) -> Result<Reply> {
        let asker = Asker::of(&call.context);
        let query = call.buffered().await?;
        let inner = Arc::clone(&self.inner);
        let attempt = Attempt::new(key.clone(), query.clone(), inner, Arc::clone(&place.terms));
        for is_first in [true, false] {
            // The number of the context outside, so that events tell which call it was.
            let ambient = Ambient::new(Ambient::current().tag()).with(Arc::clone(&attempt));
            match ambient.scope(place.memo.get(key.clone())).await {
                Ok(cached) if is_first && cached.is_over(|| self.table.timer.now()) => {
                    place.memo.invalidate(&key);
                }
                Ok(cached) => return self.give(place, key, &cached, &asker, From::Service),
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
        asker: &Asker,
        from: From,
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
            let age = age + cached.age(self.table.timer.now());
            freshness = freshness.with_lifetime(lifetime).with_age(age);
        }
        let mut outcome = cached.give(&asker.held, freshness);
        if asker.is_conditional {
            let headers = match &mut outcome {
                Ok(reply) => &mut reply.headers,
                Err(error) => error.headers_mut(),
            };
            place.terms.rules.add(headers, from, cached.age(self.table.timer.now()));
        }
        outcome
    }
}
