//! `Pages`: what is kept of programs and upstreams, and the end of it.

use tidewire_service::{Context, Error, Reply, Result};

use crate::Inventory;
use crate::proto::tidewire::admin::v1::{
    InvalidatePagesReply, InvalidatePagesRequest, Pages, PagesOverviewReply, PagesOverviewRequest,
};

pub(crate) struct PagesApi(pub(crate) Inventory);

impl Pages for PagesApi {
    async fn overview(
        &self,
        _: Context,
        _: PagesOverviewRequest,
    ) -> Result<Reply<PagesOverviewReply>> {
        let stats = self.0.pages().map(tidewire_cache::PageCache::stats).unwrap_or_default();
        let reply = PagesOverviewReply {
            pages: stats.pages as u64,
            bytes: stats.bytes as u64,
            hits: stats.hits,
            misses: stats.misses,
            evicted: stats.evicted,
            invalidated: stats.invalidated,
            ..Default::default()
        };
        Ok(reply.into())
    }

    async fn invalidate(
        &self,
        _: Context,
        request: InvalidatePagesRequest,
    ) -> Result<Reply<InvalidatePagesReply>> {
        let InvalidatePagesRequest { tags, service, .. } = request;
        if tags.is_empty() && service.is_empty() {
            return Err(Error::invalid_argument("name tags, or a service"));
        }
        if tags.iter().any(String::is_empty) {
            return Err(Error::invalid_argument("a tag is not empty"));
        }
        let Some(pages) = self.0.pages() else {
            return Err(Error::failed_precondition("this server keeps no pages"));
        };
        let log = self.0.oplog();
        let published = log.map(|log| log.publish_count());
        let mut ended: usize = tags.iter().map(|tag| pages.changed(tag)).sum();
        if !service.is_empty() {
            ended += pages.service_changed(&service);
        }
        tracing::warn!(
            ?tags,
            service,
            ended,
            "the end of pages was asked for by the admin listener"
        );
        // Other hosts hear of tags by the log, where there is one.
        if let Some(log) = log.filter(|log| published != Some(log.publish_count()))
            && let Err(error) = log.published().await
        {
            let pages = if ended == 1 { "page" } else { "pages" };
            return Err(Error::unavailable(format!(
                "{ended} {pages} ended here, but other hosts are not told yet: the change log could \
                 not be written ({error}); this is tried again for as long as this host runs"
            )));
        }
        Ok(InvalidatePagesReply { pages: ended as u64, ..Default::default() }.into())
    }
}
