//! The check of hits: a share of the cached replies is computed again and compared.
//!
//! A handler may read something without declaring it: a variable, a file, the clock. Nothing tells
//! the cache of its change, so the reply stays as it was. A hit whose turn has come runs the
//! service once more before it is given, and what differs is logged. It is given all the same.
//!
//! A difference counts only if the cached reply is still current after the second run, may not be
//! old by its own terms (`ttl`), and nothing that it read is external.

use std::sync::Arc;

use tidewire_memo::{Ambient, CachedValue, OrderedReads};
use tidewire_service::{Call, Lifetime, Reply, Result};

use crate::attempt::Attempt;
use crate::cached_reply::{CachedReply, CallerView, RunResult};
use crate::caching_service::{Shared, give};
use crate::http::From;
use crate::key::Key;
use crate::mismatch::Mismatch;
use crate::table::MethodMemo;
use crate::turns::CheckScope;

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
