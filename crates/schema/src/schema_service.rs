//! A backend that speaks bytes, with the interface of a service of a schema.

use tidewire_service::{Answer, Call, Interface, RpcService, Service};

use crate::{Schema, SchemaError};

impl Schema {
    /// Gives `backend` the interface of a service; it is called with raw bytes.
    ///
    /// # Errors
    /// When the schema has no such service, or an option of a method makes no sense.
    pub fn serve<S: Service>(
        &self,
        service: &str,
        backend: S,
    ) -> Result<SchemaService<S>, SchemaError> {
        let interface = self.interface(service)?;
        let interface = interface.ok_or_else(|| SchemaError::NoService(service.to_owned()))?;
        Ok(SchemaService { interface, backend })
    }
}

/// A backend with the interface of a service of a schema; see [`Schema::serve`].
#[derive(Debug)]
pub struct SchemaService<S> {
    interface: Interface,
    backend: S,
}

impl<S: Service> Service for SchemaService<S> {
    fn call(&self, call: Call) -> Answer {
        self.backend.call(call)
    }
}

impl<S: Service> RpcService for SchemaService<S> {
    fn interface(&self) -> Interface {
        self.interface.clone()
    }
}
