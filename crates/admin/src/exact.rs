//! Requests in JSON name what there is: without a member that is misspelt more would be done than
//! was asked for. REST refuses it by its options, Connect here.

use std::sync::{Arc, OnceLock};

use tidewire_schema::Schema;
use tidewire_service::{Answer, Body, Call, Codec, Interface, Result, Service, Target};

/// A service whose requests in JSON have known members only.
struct Exact {
    inner: Arc<dyn Service>,
    known: Arc<RequestSchema>,
}

/// The schema of all requests, made for the first.
struct RequestSchema {
    interface: Interface,
    schema: OnceLock<Option<Schema>>,
}

/// Wraps services that have descriptors in common with `interface`.
pub(crate) fn layer(interface: Interface) -> impl Fn(Arc<dyn Service>) -> Arc<dyn Service> {
    let known = Arc::new(RequestSchema { interface, schema: OnceLock::new() });
    move |inner| Arc::new(Exact { inner, known: Arc::clone(&known) })
}

impl RequestSchema {
    fn check(&self, call: &Call) -> Result<()> {
        let (Target::Method(method), Codec::Json, Body::Full(text)) =
            (&call.target, call.codec, &call.body)
        else {
            return Ok(());
        };
        let made = || Schema::from_descriptors(self.interface.descriptors().clone()).ok();
        match self.schema.get_or_init(made) {
            Some(schema) if schema.message_type(&method.input).is_some() => {
                schema.decode_exactly(&method.input, text).map(drop)
            }
            _ => Ok(()),
        }
    }
}

impl Service for Exact {
    fn call(&self, call: Call) -> Answer {
        match self.known.check(&call) {
            Ok(()) => self.inner.call(call),
            Err(error) => Answer::ready(Err(error)),
        }
    }
}
