//! What a server is put together of: routes of plain HTTP, layers, services that may change.

use std::sync::Arc;

use http::Method;
use tidewire_cache::ReplyCache;
use tidewire_service::{CacheScope, Interface, Layer, Service, ServiceSource, stack};

use crate::builtin::reflection::Reflection;
use crate::control::start_error::StartError;
use crate::runtime::clock::TokioClock;
use crate::services::methods::Methods;
use crate::services::reloadable::{Edition, ReloadableServices, Validation};
use crate::services::routes::{RouteError, Routes};

/// A plain HTTP service: for one verb, or mounted for all below a prefix.
pub(super) struct Route {
    pub(super) verb: Option<Method>,
    pub(super) template: String,
    pub(super) service: Arc<dyn Service>,
}

/// What services and handlers are wrapped in, the outermost first.
pub(super) struct LayerStack {
    outer: Vec<Arc<dyn Layer>>,
    cache: Option<ReplyCache>,
    inner: Vec<Arc<dyn Layer>>,
    methods: Vec<Arc<dyn Layer>>,
}

impl LayerStack {
    /// The layers of a server, with replies cached between the outer and the inner ones.
    pub(super) fn new(
        outer: Vec<Arc<dyn Layer>>,
        cache: Option<ReplyCache>,
        inner: Vec<Arc<dyn Layer>>,
    ) -> Self {
        let of_cache = cache.as_ref();
        let of_cache = of_cache.map(|cache| Arc::new(cache.layer(TokioClock)) as Arc<dyn Layer>);
        let mut stack = Self { outer, cache, inner, methods: Vec::new() };
        stack.methods = stack.around(of_cache);
        stack
    }

    /// The cache of replies.
    pub(super) fn cache(&self) -> Option<&ReplyCache> {
        self.cache.as_ref()
    }

    /// The layers of methods, and of handlers whose replies are not cached.
    pub(super) fn of_methods(&self) -> &[Arc<dyn Layer>] {
        &self.methods
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

/// Services that may change, and what is told whether they are to refuse invalid requests, if they
/// do that themselves.
pub(super) struct OfferedSource {
    pub(super) source: Arc<dyn ServiceSource>,
    pub(super) validation_switch: Option<Box<dyn FnOnce(bool) + Send>>,
}

/// Services that may change, as they are while a server is put together.
pub(super) struct Offer {
    pub(super) reloadable: Arc<ReloadableServices>,
    pub(super) edition: Arc<Edition>,
}

impl Offer {
    /// This source, within `layers`.
    pub(super) fn new(offered: OfferedSource, layers: &[Arc<dyn Layer>], validates: bool) -> Self {
        let OfferedSource { source, validation_switch } = offered;
        let validation = match (validates, &validation_switch) {
            (false, _) => Validation::Nobody,
            (true, None) => Validation::Server,
            (true, Some(_)) => Validation::Services,
        };
        if let Some(switch) = validation_switch {
            switch(validates);
        }
        let reloadable = Arc::new(ReloadableServices::new(source, layers.to_vec(), validation));
        Self { edition: reloadable.now(), reloadable }
    }
}

/// Adds reflection.
///
/// # Errors
/// Descriptors that do not fit together.
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
