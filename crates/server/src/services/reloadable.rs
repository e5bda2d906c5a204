//! Services that are others from time to time ([`ServiceSource`]), as a server has them: within its
//! layers, by path.
//!
//! A look-up compares one number; where it is another, the caller who sees that first makes the
//! table anew, and others go on with the old one meanwhile. What has no offer pays one look at an
//! `Option`. REST bindings, `/openapi.json` and the rules of access are those of the start.

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidewire_rest::Schemas;
use tidewire_schema::SchemaError;
use tidewire_service::{Answer, Call, Error, Interface, Layer, Service, ServiceSource, stack};
use tidewire_validate::Validate;

use crate::services::entry::Entry;

type ServedMethods = Vec<(Interface, Arc<dyn Service>)>;

/// Who refuses requests that break rules of validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validation {
    Nobody,
    /// The server, before the services see them.
    Server,
    /// The services themselves.
    Services,
}

/// An offer, within the layers of a server.
pub(crate) struct ReloadableServices {
    offer: Arc<dyn ServiceSource>,
    layers: Vec<Arc<dyn Layer>>,
    validation: Validation,
    now: RwLock<Arc<Edition>>,
    making: Mutex<()>,
}

/// What is offered at a time.
#[derive(Default)]
pub(crate) struct Edition {
    number: u64,
    pub(crate) services: ServedMethods,
    pub(crate) methods: HashMap<String, Arc<Entry>, RandomState>,
}

impl ReloadableServices {
    /// What is offered at the start.
    pub(crate) fn new(
        offer: Arc<dyn ServiceSource>,
        layers: Vec<Arc<dyn Layer>>,
        validation: Validation,
    ) -> Self {
        let now = RwLock::default();
        let making = Mutex::default();
        let offered = Self { offer, layers, validation, now, making };
        let first = offered.edition(offered.offer.edition());
        *offered.now.write() = Arc::new(first);
        offered
    }

    /// Where it comes from.
    pub(crate) fn source(&self) -> Arc<dyn ServiceSource> {
        Arc::clone(&self.offer)
    }

    /// What is offered now.
    pub(crate) fn now(&self) -> Arc<Edition> {
        let number = self.offer.edition();
        let now = self.last();
        if now.number == number {
            return now;
        }
        let Some(_making) = self.making.try_lock() else { return now };
        *self.now.write() = Arc::new(self.edition(number));
        self.last()
    }

    fn last(&self) -> Arc<Edition> {
        Arc::clone(&self.now.read())
    }

    /// A service whose rules of validation do not compile answers with what is wrong with them, and
    /// the others as ever.
    fn edition(&self, number: u64) -> Edition {
        let mut edition = Edition { number, ..Edition::default() };
        let mut schemas = Schemas::default();
        for (interface, service) in self.offer.services() {
            let is_checked = self.validation != Validation::Nobody;
            let service =
                match is_checked.then(|| validated(&interface, service.clone(), &mut schemas)) {
                    Some(Ok(validated)) if self.validation == Validation::Server => validated,
                    Some(Err(error)) => {
                        tracing::error!("{error}; its calls fail, and other services are served");
                        Arc::new(UncheckedService(error.to_string()))
                    }
                    Some(Ok(_)) | None => service,
                };
            let service = stack(&self.layers, service);
            for method in interface.methods() {
                let entry = Entry { method: method.clone(), service: Arc::clone(&service) };
                edition.methods.insert(method.path.to_string(), Arc::new(entry));
            }
            edition.services.push((interface, service));
        }
        edition
    }
}

/// A service whose requests cannot be checked, and why.
struct UncheckedService(String);

impl Service for UncheckedService {
    fn call(&self, _: Call) -> Answer {
        Answer::ready(Err(Error::internal(self.0.clone())))
    }
}

/// Rules of requests that do not compile.
#[derive(Debug)]
pub(crate) struct RulesError {
    /// The service that they are of.
    pub(crate) service: String,
    /// The rules, with file, line and column.
    pub(crate) cause: SchemaError,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be served: {}", self.service, self.cause)
    }
}

/// Services within layers, and behind the rules of their requests.
pub(crate) fn layered(
    mut services: ServedMethods,
    layers: &[Arc<dyn Layer>],
    validates: bool,
) -> Result<ServedMethods, RulesError> {
    let mut schemas = Schemas::default();
    for (interface, service) in &mut services {
        if validates {
            *service = validated(interface, Arc::clone(service), &mut schemas)?;
        }
        *service = stack(layers, Arc::clone(service));
    }
    Ok(services)
}

/// The service behind the rules of its requests, where it has any.
fn validated(
    interface: &Interface,
    service: Arc<dyn Service>,
    schemas: &mut Schemas,
) -> Result<Arc<dyn Service>, RulesError> {
    let rules = schemas
        .of(interface)
        .and_then(|schema| Validate::of(interface, &schema))
        .map_err(|cause| RulesError { service: interface.name().to_owned(), cause })?;
    Ok(match rules {
        Some(rules) => rules.layer(service),
        None => service,
    })
}
