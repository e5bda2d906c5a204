//! Which replies are prepared for requests that come again (`socket/prepared.rs`).

use http::{Response, Version};
use tidewire_service::{Freshness, Service};

use crate::app::App;
use crate::socket::prepared::{CachedHit, HitWatch};

impl App {
    /// What a reply of `service` is prepared by, if the cache gave it; `None` where something would
    /// look at the next request before the cache.
    pub(crate) fn cached_hit(
        &self,
        service: &dyn Service,
        version: Version,
        freshness: &Freshness,
    ) -> Option<CachedHit> {
        let (kept, of) = freshness.cached_version()?;
        if version != Version::HTTP_11
            || self.traces.is_some()
            || self.faults
            || self.callers.is_some()
            || !self.prepared.is_on()
            || !service.keeps(&**kept)
        {
            return None;
        }
        self.prepared.begin();
        let mut hit = CachedHit::new(kept, of, self.edition);
        if self.watches() {
            hit.watched = HitWatch::Unknown;
        }
        Some(hit)
    }
}

/// Says of a response what it is prepared by.
pub(crate) fn mark<B>(response: &mut Response<B>, hit: Option<CachedHit>) {
    if let Some(hit) = hit {
        response.extensions_mut().insert(hit);
    }
}
