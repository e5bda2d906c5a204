//! A service whose pages are not kept: its commands say what they have changed of others.

use std::sync::Arc;

use http::uri::PathAndQuery;
use tidewire_service::{Answer, Call, Service};

use super::commands::{CHANGED, ignore, tags_changed};
use super::page_cache::PageCache;
use super::run_command::{is_command, run};

/// A service whose pages are not kept, and whose commands say what they have changed.
pub(crate) struct Changes {
    cache: PageCache,
    name: Arc<str>,
    service: Arc<dyn Service>,
}

impl Changes {
    pub(crate) fn new(cache: &PageCache, name: &Arc<str>, service: Arc<dyn Service>) -> Self {
        Self { cache: cache.clone(), name: Arc::clone(name), service }
    }
}

impl Service for Changes {
    fn call(&self, call: Call) -> Answer {
        let Self { cache, name, service } = self;
        if !is_command(&call) {
            let Some(target) = call.http_target() else { return service.call(call) };
            let path = target.uri.path_and_query().cloned();
            let cache = cache.clone();
            let name = Arc::clone(name);
            let answer = service.call(call);
            return Answer::pending(async move {
                let mut reply = answer.await?;
                let path = path.as_ref().map_or("/", PathAndQuery::path);
                ignore(&cache, &name, path, &mut reply);
                Ok(reply)
            });
        }
        let service = Arc::clone(service);
        let of = cache.clone();
        let by = Arc::clone(name);
        Answer::pending(run(cache, name, call, |call| async move {
            let mut reply = service.call(call).await?;
            tags_changed(&of, &by, &reply);
            reply.headers.remove(CHANGED);
            Ok(reply)
        }))
    }
}
