//! From a builder to what the connections of a server share: each part is made of those before it,
//! once.

use std::mem::take;
use std::sync::Arc;

use tidewire_service::{Interface, RpcService as _};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::app::{AppHandle, EditionParts, Shared};
use crate::builtin::docs::{self, Docs};
use crate::builtin::freshness;
use crate::builtin::health::Health;
use crate::control::builder::Builder;
use crate::control::builder::parts::{LayerStack, Offer, add_reflection, routes, templates};
use crate::control::edition::Settings;
use crate::control::start_error::StartError;
use crate::dispatch::server_state::ServerState;
use crate::gate::GateState;
use crate::protocols::live::Live;
use crate::protocols::rest::Rest;
use crate::request::command::Commands;
use crate::runtime::latest::Latest;
use crate::runtime::stop::Stop;
use crate::runtime::usage::Counters;
use crate::services::methods::Methods;
use crate::services::reloadable::layered;
use crate::services::routes::Routes;
use crate::socket::activity::UnreadBytes;
use crate::socket::prepared::PreparedReplies;

/// What a server serves, within its layers.
struct Tables {
    methods: Methods,
    interfaces: Arc<[Interface]>,
    routes: Routes,
    rest: Rest,
    has_docs: bool,
}

impl Builder {
    /// Makes all of it but sockets.
    ///
    /// # Errors
    /// [`StartError`]: routes, methods or settings that exclude each other.
    pub(super) fn assemble(
        mut self,
        with_reflection: bool,
    ) -> Result<(Arc<ServerState>, Health), StartError> {
        let own = self.own_interfaces();
        let offered = self.offer.iter().flat_map(|offer| offer.source.services());
        let offered: Vec<_> = offered.map(|(interface, _)| interface).collect();
        if let Some(cache) = &self.memo {
            let interfaces = own.iter().chain(&offered);
            let methods = interfaces.flat_map(Interface::methods).map(|method| &**method);
            cache.check(methods).map_err(StartError::Terms)?;
        }
        let layers =
            LayerStack::new(take(&mut self.layers), self.memo.take(), take(&mut self.inner_layers));
        let offer = self.offer.take();
        let offer = offer.map(|source| Offer::new(source, layers.of_methods(), self.validation));
        let reloadable = offer.as_ref().map(|offer| &offer.reloadable);
        let has_document = *self.rest.openapi.get_or_insert(with_reflection);
        let rest = self.rest_table(offer.as_ref())?;
        let names = self.services.iter().map(|(interface, _)| interface.name().to_owned());
        let health = Health::new(names, reloadable.cloned());
        let mut methods = Methods::new(reloadable.cloned());
        health.add_to(&mut methods);
        if with_reflection {
            add_reflection(&mut methods, &own, reloadable)?;
        }
        let counters = Arc::new(Counters::default());
        let interfaces = own.iter().chain(&offered);
        let ruled = methods.each().chain(interfaces.flat_map(Interface::methods));
        let edition_parts = EditionParts {
            state: GateState::new(&counters),
            of_program: take(&mut self.gates),
            served: ruled.cloned().collect(),
            cache: layers.cache().cloned(),
            has_document,
        };
        let tables = self.tables(&layers, methods, offer, rest, with_reflection)?;
        Ok((self.state(tables, edition_parts, counters)?, health))
    }

    /// The services of the program, and those that every server has.
    fn own_interfaces(&self) -> Vec<Interface> {
        let mut own: Vec<_> = self.services.iter().map(|(i, _)| i.clone()).collect();
        own.push(Health::new([], None).service().interface());
        own.push(freshness::service(AppHandle::default()).interface());
        own
    }

    /// The REST bindings of all services.
    fn rest_table(&mut self, offer: Option<&Offer>) -> Result<tidewire_rest::Rest, StartError> {
        let offered = offer.into_iter().flat_map(|offer| &offer.edition.services);
        let served = self.services.iter().chain(offered);
        let served: Vec<_> = served.map(|(interface, _)| interface.clone()).collect();
        let options = take(&mut self.rest);
        let plain = self.routes.iter().map(|route| (route.verb.as_ref(), &*route.template));
        tidewire_rest::Rest::new(served.iter(), plain, options).map_err(StartError::Rest)
    }

    /// What it serves.
    fn tables(
        &mut self,
        layers: &LayerStack,
        mut methods: Methods,
        offer: Option<Offer>,
        rest: tidewire_rest::Rest,
        with_reflection: bool,
    ) -> Result<Tables, StartError> {
        let docs_asked = with_reflection && self.docs.unwrap_or_else(|| self.is_local());
        let has_services = !self.services.is_empty() || offer.is_some();
        let has_docs =
            docs_asked && has_services && docs::is_free(&rest, templates(&self.routes), self.docs);
        let mut services = layered(take(&mut self.services), layers.of_methods(), self.validation)?;
        for (interface, service) in &services {
            methods.add(interface, service).map_err(StartError::DuplicateMethod)?;
        }
        let interfaces: Arc<[Interface]> =
            services.iter().map(|(interface, _)| interface.clone()).collect();
        if let Some(offer) = &offer {
            services.extend(offer.edition.services.iter().cloned());
        }
        let plain = take(&mut self.routes);
        let mut routes = routes(plain, layers.of_methods(), |scope| layers.of_page(scope))?;
        if has_docs || with_reflection && self.front_page.is_some() {
            let reloadable = offer.map(|offer| offer.reloadable);
            let docs = Arc::new(Docs::new(Vec::from(&*interfaces), reloadable, &rest));
            if let Some(text) = &self.front_page {
                docs.add_front_page(&mut routes, text, has_docs);
            }
            if has_docs {
                docs.add_to(&mut routes);
            }
        }
        Ok(Tables { methods, interfaces, routes, rest: Rest::new(rest, &services), has_docs })
    }

    /// What the connections share.
    fn state(
        self,
        tables: Tables,
        edition_parts: EditionParts,
        counters: Arc<Counters>,
    ) -> Result<Arc<ServerState>, StartError> {
        let Tables { methods, interfaces, routes, rest, has_docs } = tables;
        let settings = Settings {
            limits: self.limits.clone(),
            access: self.access,
            cors: self.cors,
            callers: self.callers,
        };
        let rest = Arc::new(rest);
        let tasks = TaskTracker::new();
        let latest = self.reload.app();
        let live = Live::new(latest.clone(), &self.limits, self.command_keys, tasks.clone());
        let source = methods.reloadable().map(|reloadable| reloadable.source());
        let shared = Shared {
            latest: latest.clone(),
            followers: Arc::new(Semaphore::new(self.limits.followers_max)),
            interfaces,
            methods: methods.with(freshness::service(latest)),
            coders: Arc::default(),
            routes,
            hosts: self.hosts,
            commands: Commands::new(self.limits.commands_max),
            validates: self.validation,
            shows_host: !edition_parts.of_program.is_empty(),
            edition_parts,
            observers: self.observers,
            counters,
            traces: self.traces,
            tasks,
            stop: Stop::new(),
            faults: self.faults,
            web_json_to_routes: self.web_json_to_routes,
            methods_see_host: self.methods_see_host,
            waiting: Arc::new(UnreadBytes::new(&self.limits)),
            prepared: Arc::new(PreparedReplies::new(self.limits.prepared_bytes_max, source)),
            has_docs,
        };
        let app = settings.edition(Arc::new(shared), &rest, 0)?;
        let latest = Arc::new(Latest::new(0, app));
        Ok(self.reload.start(ServerState { latest, rest, live }))
    }
}
