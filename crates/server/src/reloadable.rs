//! Services that are others from time to time ([`ServiceSource`]), as a server has them: within its
//! layers, by path.
//!
//! A look-up compares one number; where it is another, the caller who sees that first makes the
//! table anew, and others go on with the old one meanwhile. What has no offer pays one look at an
//! `Option`. REST bindings, `/openapi.json` and the rules of access are those of the start.

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidewire_rest::Schemas;
use tidewire_service::{Interface, Layer, Service, ServiceSource, stack};
use tidewire_validate::Validate;

use crate::rpc::Entry;
use crate::running::StartError;

type ServedMethods = Vec<(Interface, Arc<dyn Service>)>;

/// An offer, within the layers of a server.
pub(crate) struct ReloadableServices {
    offer: Arc<dyn ServiceSource>,
    layers: Vec<Arc<dyn Layer>>,
    validates: bool,
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
    ///
    /// # Errors
    /// Rules of validation that do not compile.
    pub(crate) fn new(
        offer: Arc<dyn ServiceSource>,
        layers: Vec<Arc<dyn Layer>>,
        validates: bool,
    ) -> Result<Self, StartError> {
        let (now, making) = (RwLock::default(), Mutex::default());
        let offered = Self { offer, layers, validates, now, making };
        let first = offered.edition(offered.offer.edition(), Err)?;
        *offered.now.write() = Arc::new(first);
        Ok(offered)
    }

    /// What is offered now.
    pub(crate) fn now(&self) -> Arc<Edition> {
        let number = self.offer.edition();
        let now = self.last();
        if now.number == number {
            return now;
        }
        let Some(_making) = self.making.try_lock() else { return now };
        let made = self.edition(number, |error| {
            tracing::error!(%error, "requests of a changed service are not checked against its rules");
            Ok::<_, StartError>(())
        });
        if let Ok(made) = made {
            *self.now.write() = Arc::new(made);
        }
        self.last()
    }

    fn last(&self) -> Arc<Edition> {
        Arc::clone(&self.now.read())
    }

    fn edition<E>(
        &self,
        number: u64,
        wrong: impl Fn(StartError) -> Result<(), E>,
    ) -> Result<Edition, E> {
        let mut edition = Edition { number, ..Edition::default() };
        let mut schemas = Schemas::default();
        for (interface, service) in self.offer.services() {
            let service = match self
                .validates
                .then(|| validated(&interface, service.clone(), &mut schemas))
            {
                Some(Ok(validated)) => validated,
                Some(Err(error)) => {
                    wrong(error)?;
                    service
                }
                None => service,
            };
            let service = stack(&self.layers, service);
            for method in interface.methods() {
                let entry = Entry { method: method.clone(), service: Arc::clone(&service) };
                edition.methods.insert(method.path.to_string(), Arc::new(entry));
            }
            edition.services.push((interface, service));
        }
        Ok(edition)
    }
}

/// Services within layers, and behind the rules of their requests.
pub(crate) fn layered(
    mut services: ServedMethods,
    layers: &[Arc<dyn Layer>],
    validates: bool,
) -> Result<ServedMethods, StartError> {
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
) -> Result<Arc<dyn Service>, StartError> {
    let rules = schemas
        .of(interface)
        .and_then(|schema| Validate::of(interface, &schema))
        .map_err(|cause| StartError::Rules { service: interface.name().to_owned(), cause })?;
    Ok(match rules {
        Some(rules) => rules.layer(service),
        None => service,
    })
}
