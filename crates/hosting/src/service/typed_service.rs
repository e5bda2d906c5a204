//! A hosted process as a service of a schema: its methods are those of the `.proto`, over every
//! protocol.
//!
//! The process reads and writes one codec, whatever its callers speak. Messages in that codec pass
//! as they are; others are translated by the schema, which the process need not know.

use std::sync::Arc;

use tidewire_schema::{Schema, SchemaError, SchemaService};
use tidewire_service::{Answer, Call, Codec, Service};

use crate::call::hosted_call::HostedCall;
use crate::service::HostedService;

/// A hosted process whose messages are in one codec.
#[derive(Debug, Clone)]
pub struct TypedService {
    hosted: HostedService,
    schema: Schema,
    codec: Codec,
}

impl HostedService {
    /// The process as a service of `schema`: it speaks the live protocol
    /// ([`Listen::Native`](crate::Listen::Native)), and messages in `codec`.
    ///
    /// # Errors
    /// When the schema has no such service.
    pub fn typed(
        &self,
        schema: &Schema,
        service: &str,
        codec: Codec,
    ) -> Result<SchemaService<TypedService>, SchemaError> {
        let backend = TypedService { hosted: self.clone(), schema: schema.clone(), codec };
        schema.serve(service, backend)
    }
}

impl Service for TypedService {
    fn call(&self, mut call: Call) -> Answer {
        match self.schema.translate(self.codec, &mut call) {
            Ok(back) => {
                Answer::pending(HostedCall::new(Arc::clone(self.hosted.current()), call, back))
            }
            Err(error) => Answer::ready(Err(error)),
        }
    }
}
