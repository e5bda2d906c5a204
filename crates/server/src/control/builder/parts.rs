//! What a server is put together of: routes of plain HTTP, layers, the gate of access rules.

use std::sync::Arc;

use http::Method;
use tidewire_cache::ReplyCache;
use tidewire_service::{CacheScope, Interface, Layer, Service, stack};

use crate::builtin::reflection::Reflection;
use crate::control::start_error::StartError;
use crate::runtime::clock::TokioClock;
use crate::services::methods::Methods;
use crate::services::reloadable::ReloadableServices;
use crate::services::routes::{RouteError, Routes};

/// A plain HTTP service: for one verb, or mounted for all below a prefix.
pub(super) struct Route {
    pub(super) verb: Option<Method>,
    pub(super) template: String,
    pub(super) service: Arc<dyn Service>,
}

/// What services and handlers are wrapped in, the outermost first.
pub(super) struct LayerStack {
    pub(super) outer: Vec<Arc<dyn Layer>>,
    pub(super) cache: Option<ReplyCache>,
    pub(super) inner: Vec<Arc<dyn Layer>>,
}

impl LayerStack {
    /// The layers of methods, and of handlers whose replies are not cached.
    pub(super) fn of_methods(&self) -> Vec<Arc<dyn Layer>> {
        let cache = self.cache.as_ref();
        self.around(cache.map(|cache| Arc::new(cache.layer(TokioClock)) as Arc<dyn Layer>))
    }

    /// The layers of a plain HTTP handler whose replies are cached.
    pub(super) fn of_page(&self, scope: CacheScope) -> Vec<Arc<dyn Layer>> {
        let layer = |cache: &ReplyCache| -> Arc<dyn Layer> {
            Arc::new(cache.page_layer(TokioClock, scope.clone()))
        };
        self.around(self.cache.as_ref().map(layer))
    }

    fn around(&self, cache: Option<Arc<dyn Layer>>) -> Vec<Arc<dyn Layer>> {
        self.outer.iter().chain(&cache).chain(&self.inner).cloned().collect()
    }
}

pub(super) fn add_reflection(
    methods: &mut Methods,
    own: &[Interface],
    offer: Option<&Arc<ReloadableServices>>,
) -> Result<(), StartError> {
    let reflection = Reflection::new(own, offer.cloned())
        .map_err(|error| StartError::Descriptors(error.to_string()))?;
    for (interface, service) in reflection.services() {
        let _ = methods.add(&interface, &service);
    }
    Ok(())
}

pub(super) fn templates(routes: &[Route]) -> impl Iterator<Item = &str> {
    routes.iter().map(|route| &*route.template)
}

/// The table of plain HTTP handlers, each within `layers`, or within `cached` where its replies are
/// cached.
pub(super) fn routes(
    routes: Vec<Route>,
    layers: &[Arc<dyn Layer>],
    cached: impl Fn(CacheScope) -> Vec<Arc<dyn Layer>>,
) -> Result<Routes, RouteError> {
    let mut table = Routes::default();
    for Route { verb, template, service } in routes {
        let service = match service.cache() {
            Some(scope) => stack(&cached(scope), service),
            None => stack(layers, service),
        };
        match verb {
            Some(verb) => table.add(verb, &template, service)?,
            None => table.mount(&template, service)?,
        }
    }
    Ok(table)
}
