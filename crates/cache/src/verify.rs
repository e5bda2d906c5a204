//! The check of hits: a share of the cached replies is computed again and compared.
//!
//! A handler may read something without declaring it: a variable, a file, the clock. Nothing tells
//! the cache of its change, so the reply stays as it was. A hit whose turn has come runs the
//! service once more before it is given, and what differs is logged. It is given all the same.
//!
//! A difference counts only if the cached reply is still current after the second run, may not be
//! old by its own terms (`ttl`), and nothing that it read is external.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidewire_memo::{Ambient, CachedValue, OrderedReads, is_computing};
use tidewire_service::{Call, Lifetime, Reply, Result};

use crate::attempt::Attempt;
use crate::cached_reply::{CachedReply, CallerView, RunResult};
use crate::caching_service::{Shared, give};
use crate::http::From;
use crate::key::Key;
use crate::table::MethodMemo;

/// Which hits are checked: one of so many, none for 0.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    one_in: u32,
    hits: AtomicU32,
}

/// Marks what runs within a check: hits in it are not checked.
struct CheckScope;

impl Turns {
    /// Checks a share of the hits, between 0 and 1.
    pub(crate) fn of(share: f64) -> Self {
        let one_in = if share > 0.0 { (1.0 / share).clamp(1.0, 4e9).round() as u32 } else { 0 };
        Self { one_in, hits: AtomicU32::new(0) }
    }

    /// Counts a hit, and tells whether it is checked.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.one_in != 0 && self.counts()
    }

    #[cold]
    fn counts(&self) -> bool {
        if is_computing() || Ambient::current().get::<CheckScope>().is_some() {
            return false;
        }
        self.hits.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_multiple_of(self.one_in)
    }
}

impl Shared {
    /// Gives a cached reply after the service was asked again.
    pub(crate) async fn check_hit(
        self: Arc<Self>,
        place: Arc<MethodMemo>,
        key: Key,
        call: Call,
        cached: CachedValue<CachedReply>,
    ) -> Result<Reply> {
        let asker = CallerView::of(&call.context);
        let may_be_old =
            cached.ends_by_itself() || matches!(place.terms.lifetime, Lifetime::For(_));
        if !may_be_old {
            let attempt = Attempt::new(
                key.clone(),
                call.buffered().await?,
                Arc::clone(&self.inner),
                Arc::clone(&place.terms),
                Arc::clone(&self.table.room),
            );
            let ambient = Ambient::new(Ambient::current().tag()).with(CheckScope);
            // A write that it shows and that is not announced yet is no difference.
            let reads = OrderedReads::new(&self.table.graph);
            if let RunResult::Cacheable(again) =
                ambient.scope(reads.follow(attempt.produce())).await
                && let Some(difference) = cached.difference(&again)
                && place.memo.validate(&key, cached.version())
                && let Some(mismatch) = mismatch(&place, &key, difference)
            {
                (self.table.settings.on_mismatch.0)(&mismatch);
            }
        }
        give(&cached, &asker, From::Memory)
    }
}

/// A cached reply that differed when its method ran again, although nothing that it declared had
/// changed; see [`ReplyCache::verify`](crate::ReplyCache::verify).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The method, `/shop.v1.Items/Get`, or `pages` for plain handlers.
    pub method: String,
    /// The beginning of the request: its path, its message as JSON, or as protobuf in hexadecimal.
    pub key: String,
    /// What the reply depends on, as far as it was declared: `source(key)`, at most 100.
    pub declared: Vec<String>,
    /// The first thing that differs, such as `field "count"`.
    pub difference: String,
}

/// Who is told of a mismatch.
#[derive(Clone)]
pub(crate) struct OnMismatch(pub(crate) Arc<dyn Fn(&Mismatch) + Send + Sync>);

impl Default for OnMismatch {
    /// An error in the log.
    fn default() -> Self {
        Self(Arc::new(|mismatch| {
            tracing::error!(method = %mismatch.method, "{mismatch}");
        }))
    }
}

impl fmt::Debug for OnMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnMismatch")
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, key, declared, difference } = self;
        let declared = match &declared[..] {
            [] => "nothing".to_owned(),
            declared => declared.join(", "),
        };
        write!(
            f,
            "the cached reply of {method} to {key} is wrong: the method ran again and gave another \
             {difference}, although what it reads as far as it says ({declared}) has not changed; \
             read the rest through a source too, or give the method a ttl"
        )
    }
}

fn mismatch(place: &MethodMemo, key: &Key, difference: String) -> Option<Mismatch> {
    let found = place.memo.entry(key).filter(|found| !found.entry.is_external)?;
    let declared = found.dependencies.iter();
    Some(Mismatch {
        method: place.terms.name.clone(),
        key: key.summary(),
        declared: declared.map(|entry| format!("{}({})", entry.memo, entry.key)).collect(),
        difference,
    })
}
