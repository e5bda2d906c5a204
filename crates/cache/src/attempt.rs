//! One run of the service for all who ask for one key.
//!
//! The run is given a context of its own: what is read of it is watched, no caller's validators are in it
//! but that of what was kept before (`previous.rs`),
//! and its deadline is `compute_timeout`, since callers come and go, until it is private and its caller's. What comes out is kept, or given to
//! all who wait, or put aside for the caller who started the run; the others then run by themselves.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{Either, select};
use tidewire_memo::{has_read, has_read_untracked};
use tidewire_service::{
    ContextWatch, Error, Lifetime, Query, Reply, Result, Room, Service, Target,
};

use crate::kept::{Kept, Origin};
use crate::key::Key;
use crate::privacy::Privacy;
use crate::refusal::Refusal;
use crate::table::Terms;
use crate::watched::Run;

/// What a caller brings along to a run of the service.
pub(crate) struct Attempt {
    key: Key,
    pub(crate) query: Query,
    pub(crate) inner: Arc<dyn Service>,
    pub(crate) terms: Arc<Terms>,
    /// What forms of answers may take.
    room: Arc<Room>,
    /// An answer for the caller who brought this, and for nobody else.
    aside: Mutex<Option<Result<Reply>>>,
    /// Where the reply goes that is not cached, for those who watch it.
    run: Option<Arc<Run>>,
    has_run: AtomicBool,
}

/// A reply that is its starter's alone, and why.
pub(crate) struct Aside {
    pub(crate) outcome: Result<Reply>,
    refusal: Refusal,
}

/// What a run has to say when nothing is kept of it.
#[derive(Debug)]
pub(crate) enum Passing {
    /// All who wait may have this.
    Shared(Box<Kept>),
    /// It is the starter's alone.
    Aside,
}

impl Attempt {
    pub(crate) fn new(
        key: Key,
        query: Query,
        inner: Arc<dyn Service>,
        terms: Arc<Terms>,
        room: Arc<Room>,
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
    pub(crate) fn is_of(&self, key: &Key, terms: &Arc<Terms>) -> bool {
        Arc::ptr_eq(&self.terms, terms) && self.key == *key
    }

    /// Whether the service ran for this caller, and not for one that it joined.
    pub(crate) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }

    /// What was put aside for this caller.
    pub(crate) fn take_aside(&self) -> Option<Result<Reply>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs the service: what can be given again, or the starter's alone.
    pub(crate) async fn produce(&self) -> Result<Kept, Aside> {
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
                return Ok(Kept::error(Error::deadline_exceeded(message), origin));
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
            return Err(Aside { outcome, refusal: Refusal::Private(part) });
        }
        Kept::of(outcome, origin).map_err(|refused| {
            let (outcome, refusal) = *refused;
            Aside { outcome, refusal }
        })
    }

    /// Runs the service for all who wait: what is kept, or what has to be said instead.
    pub(crate) async fn run(&self) -> Result<Kept, Passing> {
        let terms = &self.terms;
        let kept = match self.produce().await {
            Ok(kept) => kept,
            Err(Aside { outcome, refusal }) => return Err(self.put_aside(outcome, &refusal)),
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
                    return Ok(digest);
                }
                terms.note_kept(&kept);
                return Ok(kept);
            }
        };
        // What is tracked, or declared to be the same for all who ask at once, is theirs too.
        if ends || terms.coalesces {
            terms.note(&refusal);
            return Err(Passing::Shared(Box::new(kept)));
        }
        Err(self.put_aside(kept.give_as_it_came(), &refusal))
    }

    fn put_aside(&self, outcome: Result<Reply>, refusal: &Refusal) -> Passing {
        self.terms.note(refusal);
        self.terms.note_page(&self.key, false);
        *self.aside.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        Passing::Aside
    }
}

impl fmt::Display for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer is not kept")
    }
}

impl std::error::Error for Passing {}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("query", &self.query).finish_non_exhaustive()
    }
}
