//! One run of the service for all who ask for one key.
//!
//! The run is given its own context: what is read of it is watched, no caller's validators are in
//! it but that of what was kept before (`previous.rs`), and its deadline is `compute_timeout`,
//! since callers come and go, until it is private and its caller's. What comes out is kept, or
//! given to all who wait, or put aside for the caller who started the run; the others then run by
//! themselves.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, select};
use tidewire_memo::{has_read, has_read_untracked};
use tidewire_service::{
    ContextWatch, Error, FormsBudget, Lifetime, Query, Reply, Result, Service, Target,
};

use crate::cached_reply::{CachedReply, Origin, RunResult};
use crate::key::Key;
use crate::method_policy::MethodPolicy;
use crate::privacy::Privacy;
use crate::refusal::Refusal;
use crate::runs::Run;

/// What a caller brings along to a run of the service.
pub(crate) struct Attempt {
    key: Key,
    pub(crate) query: Query,
    pub(crate) inner: Arc<dyn Service>,
    pub(crate) terms: Arc<MethodPolicy>,
    /// What forms of answers may take.
    room: Arc<FormsBudget>,
    /// An answer for the caller who brought this, and for nobody else.
    aside: Mutex<Option<Result<Reply>>>,
    /// Where the reply goes that is not cached, for those who watch it.
    run: Option<Arc<Run>>,
    has_run: AtomicBool,
}

/// What a run of the service came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A reply that is cached.
    Cached(CachedReply),
    /// A reply that is not cached, and that all who wait may have.
    Shared(Box<CachedReply>),
    /// A reply for the caller that began the run, which lies aside for it.
    Private,
}

/// What memo passes to everybody who waits for a computation without a value to store: memo stores
/// what is `Ok`, so this is where an [`Outcome`] that is not cached becomes an error of memo's, and
/// [`caching_service`](crate::caching_service) reads it back. It never reaches a caller.
#[derive(Debug)]
pub(crate) enum NotCached {
    /// See [`Outcome::Shared`].
    Shared(Box<CachedReply>),
    /// See [`Outcome::Private`]; or there was no run, for want of a caller.
    Private,
}

impl Outcome {
    /// In memo's terms.
    pub(crate) fn for_memo(self) -> Result<CachedReply, NotCached> {
        match self {
            Self::Cached(reply) => Ok(reply),
            Self::Shared(reply) => Err(NotCached::Shared(reply)),
            Self::Private => Err(NotCached::Private),
        }
    }
}

impl Attempt {
    pub(crate) fn new(
        key: Key,
        query: Query,
        inner: Arc<dyn Service>,
        terms: Arc<MethodPolicy>,
        room: Arc<FormsBudget>,
    ) -> Self {
        Self {
            key,
            query,
            inner,
            terms,
            room,
            aside: Mutex::new(None),
            run: None,
            has_run: AtomicBool::new(false),
        }
    }

    /// An attempt for callers who watch a reply that is not cached.
    pub(crate) fn with_run(mut self, run: &Arc<Run>) -> Arc<Self> {
        self.run = Some(Arc::clone(run));
        Arc::new(self)
    }

    /// Whether it is for this key of this method.
    pub(crate) fn is_of(&self, key: &Key, terms: &Arc<MethodPolicy>) -> bool {
        Arc::ptr_eq(&self.terms, terms) && self.key == *key
    }

    /// Whether the service ran for this caller, and not for one that it joined.
    pub(crate) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }

    /// What was put aside for this caller.
    pub(crate) fn take_aside(&self) -> Option<Result<Reply>> {
        self.aside.lock().take()
    }

    /// Runs the service: what can be given again, or the starter's alone.
    pub(crate) async fn produce(&self) -> RunResult {
        let terms = &self.terms;
        self.has_run.store(true, Ordering::Relaxed);
        let is_page = matches!(self.query.target(), Target::Http(_));
        let made = terms.timer.now();
        let deadline = made + terms.compute_timeout;
        let privacy = Arc::new(Privacy::new(terms.scope.clone(), is_page, deadline));
        let mut call = self.query.clone().into_call();
        let previous = terms.previous.of(&self.key);
        let content = previous.as_ref().and_then(|kept| kept.own().validator());
        call.context.set_held(content.into_iter().collect());
        call.context.watch(Arc::clone(&privacy) as Arc<dyn ContextWatch>);
        let answer = self.inner.call(call);
        let origin = Origin {
            key: self.key.clone(),
            terms: Arc::clone(terms),
            room: Arc::clone(&self.room),
            made,
        };
        let outcome = match select(answer, terms.timer.sleep_until(deadline)).await {
            Either::Left((outcome, _)) => outcome,
            // What is one caller's takes as long as that caller waits.
            Either::Right(((), answer)) if privacy.is_private() => answer.await,
            Either::Right(_) => {
                let message =
                    format!("took longer than compute_timeout {:?}", terms.compute_timeout);
                let error = Error::deadline_exceeded(message);
                return RunResult::Cacheable(CachedReply::error(error, origin));
            }
        };
        let outcome = match (outcome, previous) {
            (Ok(reply), Some(kept))
                if reply.is_unchanged() && reply.freshness.validator() == content =>
            {
                Ok(kept.renewed(reply))
            }
            (outcome, _) => outcome,
        };
        if let Some(part) = privacy.read_beside_key() {
            return RunResult::uncacheable(outcome, Refusal::Private(part));
        }
        CachedReply::of(outcome, origin)
    }

    /// Runs the service for all who wait: what is kept, or what has to be said instead.
    pub(crate) async fn run(&self) -> Outcome {
        let terms = &self.terms;
        let kept = match self.produce().await {
            RunResult::Cacheable(kept) => kept,
            RunResult::Uncacheable(reply) => {
                return self.put_aside(reply.outcome, &reply.refusal);
            }
        };
        let ends = terms.lifetime != Lifetime::Unknown || has_read() || kept.own().is_known();
        let refusal = match kept.passing_code() {
            Some(code) => Refusal::Code(code),
            None if !ends => Refusal::Untracked,
            None if has_read_untracked() => Refusal::Untold,
            None => {
                if let Some(run) = &self.run {
                    let digest = kept.digest();
                    run.put(kept);
                    return Outcome::Cached(digest);
                }
                terms.note_kept(&kept);
                return Outcome::Cached(kept);
            }
        };
        // What is tracked, or declared to be the same for all who ask at once, is theirs too.
        if ends || terms.coalesces {
            terms.note(&refusal);
            return Outcome::Shared(Box::new(kept));
        }
        self.put_aside(kept.give_as_it_came(), &refusal)
    }

    fn put_aside(&self, outcome: Result<Reply>, refusal: &Refusal) -> Outcome {
        self.terms.note(refusal);
        self.terms.note_page(&self.key, false);
        *self.aside.lock() = Some(outcome);
        Outcome::Private
    }
}

impl fmt::Display for NotCached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer is not kept")
    }
}

impl std::error::Error for NotCached {}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("query", &self.query).finish_non_exhaustive()
    }
}
