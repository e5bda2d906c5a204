//! The services of the admin listener, also for callers within this program: tools for assistants.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_server::Builder;
use tidewire_service::{Answer, Call, Error, RpcService, Service};

/// Services by their names, for calls that do not come over a socket.
#[derive(Clone, Default)]
pub(crate) struct ServiceTable(HashMap<String, Arc<dyn Service>>);

impl ServiceTable {
    /// Puts a service into the server, and takes note of it.
    pub(crate) fn add(
        &mut self,
        builder: Builder,
        service: impl RpcService + Clone + 'static,
    ) -> Builder {
        let name = service.interface().name().to_owned();
        self.0.insert(name, Arc::new(service.clone()));
        builder.service(service)
    }
}

impl Service for ServiceTable {
    fn call(&self, call: Call) -> Answer {
        let found = call.spec().and_then(|spec| self.0.get(&*spec.service));
        match found.cloned() {
            Some(service) => service.call(call),
            None => Answer::ready(Err(Error::unimplemented("this program does not do that"))),
        }
    }
}
