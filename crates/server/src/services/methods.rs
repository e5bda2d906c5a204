//! The methods of all services of a server, by path; and what a caller is told whose method is not
//! among them.

use std::borrow::Cow;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use http::StatusCode;
use tidewire_service::{Error, Interface, Method, RpcService, Service};

use crate::services::entry::Entry;
use crate::services::reloadable::ReloadableServices;

/// The methods of all services of a server, by path.
pub(crate) struct Methods {
    own: HashMap<String, Arc<Entry>>,
    /// Those that are others from time to time.
    offered: Option<Arc<ReloadableServices>>,
}

impl Methods {
    /// No methods but those that are offered.
    pub(crate) fn new(offered: Option<Arc<ReloadableServices>>) -> Self {
        Self { own: HashMap::new(), offered }
    }

    /// Adds the methods of a service.
    ///
    /// # Errors
    /// The path that is taken already.
    pub(crate) fn add(
        &mut self,
        interface: &Interface,
        service: &Arc<dyn Service>,
    ) -> Result<(), String> {
        for method in interface.methods() {
            let entry = Entry { method: method.clone(), service: Arc::clone(service) };
            let offered = self.offered.as_ref().map(|offered| offered.now());
            let is_taken =
                offered.is_some_and(|offered| offered.methods.contains_key(&*method.path));
            let before = self.own.insert(method.path.to_string(), Arc::new(entry));
            if is_taken || before.is_some() {
                return Err(method.path.to_string());
            }
        }
        Ok(())
    }

    /// The same with the methods of a service of the server's own; those of that name stay.
    pub(crate) fn with(mut self, service: impl RpcService) -> Self {
        let interface = service.interface();
        let service: Arc<dyn Service> = Arc::new(service);
        for method in interface.methods() {
            let entry = Entry { method: method.clone(), service: Arc::clone(&service) };
            self.own.entry(method.path.to_string()).or_insert_with(|| Arc::new(entry));
        }
        self
    }

    /// The method at a path, with its leading slash.
    #[inline]
    pub(crate) fn find(&self, path: &str) -> Option<Cow<'_, Arc<Entry>>> {
        if let Some(offered) = &self.offered
            && let Some(entry) = offered.now().methods.get(path)
        {
            return Some(Cow::Owned(Arc::clone(entry)));
        }
        self.own.get(path).map(Cow::Borrowed)
    }

    /// What is offered beside its own.
    pub(crate) fn reloadable(&self) -> Option<&Arc<ReloadableServices>> {
        self.offered.as_ref()
    }

    /// All there are but those that are offered.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Method> + Clone {
        self.own.values().map(|entry| &entry.method)
    }

    /// The error for a path at which there is no method, with those that there are.
    pub(crate) fn unknown(&self, path: &str) -> Error {
        let status = StatusCode::NOT_FOUND;
        Error::unimplemented(self.those_that_exist(path)).with_http_status(status)
    }

    fn those_that_exist(&self, path: &str) -> String {
        let service = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let prefix = format!("/{service}/");
        let offered = self.offered.as_ref().map(|offered| offered.now());
        let offered = offered.iter().flat_map(|offered| offered.methods.keys());
        let paths = || self.own.keys().chain(offered.clone());
        let mut known: Vec<_> = paths().filter_map(|p| p.strip_prefix(&prefix)).collect();
        known.sort_unstable();
        if known.is_empty() {
            let mut services: Vec<_> =
                paths().filter_map(|p| p.trim_start_matches('/').split('/').next()).collect();
            services.sort_unstable();
            services.dedup();
            return format!("no service {service}; there is {}", list(&services));
        }
        format!("no method {path}; {service} has {}", list(&known))
    }
}

fn list(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 12;
    match names {
        [] => "none".to_owned(),
        names if names.len() <= SHOWN_MAX => names.join(", "),
        names => format!("{} and {} more", names[..SHOWN_MAX].join(", "), names.len() - SHOWN_MAX),
    }
}
