//! The layer at work: look up, else run the service once for all who ask.
//!
//! ```text
//! compute ─ Attempt, ambient ─▶ memo ─ closure of table.rs ─▶ Attempt::run ─▶ inner.call
//! ```
//!
//! Memo decides whose attempt runs: it is given a key, and one of those who ask for it brings its
//! call along.

use std::any::Any;
use std::sync::Arc;

use tidewire_memo::{
    Ambient, CachedValue, ErrorKind, Graph, OrderedReads, is_computing, read_untracked,
};
use tidewire_service::{
    Answer, Body, CacheScope, CachedBody, Call, CallerKind, Clock, Context, Error, Layer, Phase,
    Progress, Reply, Result, Service, Target, WatchMode,
};

use crate::attempt::{Attempt, NotCached};
use crate::cached_reply::{CachedReply, CallerView, Entry};
use crate::http::{Credentials, From};
use crate::identity;
use crate::key::{BorrowedKey, Key, Parts};
use crate::settings::Settings;
use crate::table::{MethodMemo, Table};

/// The layer.
pub(crate) struct Memoize {
    pub(crate) graph: Graph,
    pub(crate) settings: Settings,
    pub(crate) timer: Arc<dyn Clock>,
    /// Whether replies of plain `GET`s are cached, and who shares them.
    pub(crate) pages: Option<CacheScope>,
}

impl Layer for Memoize {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        let Self { graph, settings, timer, pages } = self;
        let pages = pages.clone();
        let table = Table::new(graph.clone(), settings.clone(), Arc::clone(timer), pages);
        Arc::new(CachingService(Arc::new(Shared { inner, table })))
    }
}

/// A service whose answers are kept.
struct CachingService(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) inner: Arc<dyn Service>,
    pub(crate) table: Table,
}

impl Service for CachingService {
    fn call(&self, mut call: Call) -> Answer {
        let Some(place) = self.0.table.place(&call) else {
            read_untracked();
            return self.0.inner.call(call);
        };
        if let Some(method) = &place.method {
            call.target = Target::Method(method.clone());
        }
        let is_watched = call.context.watching() != WatchMode::No || is_computing();
        if !place.terms.is_cached() && !is_watched {
            return self.0.alone(call);
        }
        if matches!(call.body, Body::Stream(_)) {
            let shared = Arc::clone(&self.0);
            let place = Arc::clone(place);
            return Answer::pending(async move {
                if call.spec().is_some() {
                    call.message().await?;
                }
                shared.answer(&place, call).await
            });
        }
        self.0.answer(place, call)
    }

    fn keeps(&self, kept: &dyn CachedBody) -> bool {
        let table = &self.0.table;
        let kept: &dyn Any = kept;
        let Some(entry) = kept.downcast_ref::<Entry>() else { return false };
        let mut places = table.each();
        // A share of the hits is computed again.
        !table.settings.verify.is_some()
            && places.any(|it| it.terms.is_cached() && entry.is_on(&it.terms))
    }
}

impl Shared {
    /// The answer to a call whose message is complete.
    fn answer(self: &Arc<Self>, place: &Arc<MethodMemo>, call: Call) -> Answer {
        // Who watches is not told of changes by a run of its own.
        let is_watched = call.context.watching() != WatchMode::No;
        let is_hopeless = !is_watched && place.terms.is_hopeless();
        if is_hopeless && place.terms.is_empty() {
            return self.pass(call);
        }
        let asked = BorrowedKey::of(&call, &place.terms.scope);
        let Some(asked) = asked.filter(|it| it.bytes() <= self.table.settings.key_bytes_max) else {
            return self.pass(call);
        };
        // A call within programs may use what is cached for calls from outside, but shares a run
        // only with calls within the same programs.
        let within = call.context.enclosing().map(|chain| asked.within(identity::of_chain(chain)));
        if !place.terms.is_cached() {
            let Some(key) = within.unwrap_or(asked).to_key() else { return self.pass(call) };
            let shared = Arc::clone(self);
            let place = Arc::clone(place);
            return Answer::pending(async move { shared.watch(&place, key, call).await });
        }
        call.context.phase(Phase::Memo);
        let hit = match within {
            None => lookup(asked, place.memo.cached::<dyn Parts + '_>(&asked)),
            // A miss here is not a read of absence: the reply under the other key is the same.
            Some(within) => lookup(asked, place.memo.peek::<dyn Parts + '_>(&asked))
                .or_else(|| lookup(within, place.memo.cached::<dyn Parts + '_>(&within))),
        };
        if let Some((asked, cached)) = hit {
            if self.table.settings.verify.is_due()
                && let Some(key) = asked.to_key()
            {
                let shared = Arc::clone(self);
                let place = Arc::clone(place);
                return Answer::pending(shared.check_hit(place, key, call, cached));
            }
            let asker = CallerView::of(&call.context);
            return Answer::ready(give(&cached, &asker, From::Memory));
        }
        call.context.phase(Phase::Computed);
        if is_hopeless {
            return self.pass(call);
        }
        let Some(key) = within.unwrap_or(asked).to_key() else { return self.pass(call) };
        let flight = match &place.terms.flights {
            Some(flights) => match flights.begin(&key) {
                Some(flight) => Some(flight),
                None => return self.pass(call),
            },
            None => None,
        };
        let shared = Arc::clone(self);
        let place = Arc::clone(place);
        Answer::pending(async move {
            let answer = shared.compute(&place, key, call).await;
            drop(flight);
            answer
        })
    }

    /// Runs the service, or waits for the run that is under way.
    async fn compute(&self, place: &MethodMemo, key: Key, call: Call) -> Result<Reply> {
        let asker = CallerView::of(&call.context);
        let query = call.buffered().await?;
        let attempt = Arc::new(Attempt::new(
            key.clone(),
            query.clone(),
            Arc::clone(&self.inner),
            Arc::clone(&place.terms),
            Arc::clone(&self.table.room),
        ));
        for is_first in [true, false] {
            // The number of the context outside, so that events tell which call it was.
            let ambient = Ambient::new(Ambient::current().tag()).with(Arc::clone(&attempt));
            match ambient.scope(place.memo.get(key.clone())).await {
                Ok(cached) if is_first && cached.is_over() => {
                    place.memo.invalidate(&key);
                }
                // Outdated while it was made.
                Ok(cached) if cached.version() == 0 => return cached.give_over(),
                Ok(cached) => {
                    // What is stale and nobody asks for again makes room for what comes.
                    place.memo.sweep(SWEPT_AT_ONCE);
                    return give(&cached, &asker, From::Service);
                }
                Err(error) => match self.not_kept(&attempt, error) {
                    Some(reply) => return reply,
                    None => break,
                },
            }
        }
        // Another caller's run turned out to be that caller's alone.
        self.pass(query.into_call()).await
    }

    /// What a run gave of which nothing is kept; `None` where it was another caller's alone.
    pub(crate) fn not_kept(
        &self,
        attempt: &Attempt,
        error: tidewire_memo::Error,
    ) -> Option<Result<Reply>> {
        read_untracked();
        if let Some(answer) = attempt.take_aside() {
            return Some(answer);
        }
        match (error.kind(), error.downcast_ref::<NotCached>()) {
            (_, Some(NotCached::Shared(kept))) => Some(kept.give_as_it_came()),
            (ErrorKind::Failed | ErrorKind::Closed, _) => None,
            _ => {
                let failed = "the computation of the answer failed; see the log";
                Some(Err(Error::internal(failed).with_cause(error)))
            }
        }
    }

    /// Runs the service for this caller alone. A computation that asks within, an answer that is
    /// made of this one, is told of no change of it by this layer and must not be kept.
    pub(crate) fn pass(&self, call: Call) -> Answer {
        read_untracked();
        self.alone(call)
    }

    /// Runs the service for one caller, in the order of reads: a reply that may show a write which
    /// is not announced yet waits for that.
    fn alone(&self, call: Call) -> Answer {
        let mut reads = OrderedReads::new(&self.table.graph);
        let answer = reads.note(|| self.inner.call(call));
        match answer.into_progress() {
            Progress::Ready(outcome) if reads.are_announced() => Progress::Ready(outcome).into(),
            Progress::Ready(outcome) => Answer::pending(reads.follow(async { Ok(*outcome?) })),
            Progress::Pending(pending) => Answer::pending(reads.follow(pending)),
        }
    }
}

/// What is cached under a key, and the key, unless its time is over.
fn lookup(
    asked: BorrowedKey<'_>,
    cached: Option<CachedValue<CachedReply>>,
) -> Option<(BorrowedKey<'_>, CachedValue<CachedReply>)> {
    cached.filter(|cached| !cached.is_over()).map(|cached| (asked, cached))
}

/// What is kept, given to one caller. A computation that asks within is told by the graph when this
/// is made anew, and not when it ends by what it said of itself.
pub(crate) fn give(
    cached: &CachedValue<CachedReply>,
    asker: &CallerView,
    from: From,
) -> Result<Reply> {
    if cached.ends_by_itself() {
        read_untracked();
    }
    cached.give(cached.version(), asker, from)
}

/// Answers that are looked at for each that is kept.
const SWEPT_AT_ONCE: usize = 4;

impl CallerView {
    pub(crate) fn of(context: &Context) -> Self {
        let CallerKind { is_known, has_certificate, .. } = context.caller_kind();
        Self {
            held: context.caller_validators(),
            is_conditional: context.is_conditional(),
            holds_any: context.holds_any(),
            credentials: Credentials { has_certificate, is_known },
        }
    }
}
