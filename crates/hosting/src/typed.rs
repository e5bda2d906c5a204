//! A hosted process as a service of a schema: its methods are those of the `.proto`, over every protocol.
//!
//! The process reads and writes one codec, whatever its callers speak. Messages in that codec pass as they
//! are; others are translated by the schema, which the process need not know.

use std::sync::Arc;

use tidewire_schema::{Schema, SchemaError, Served};
use tidewire_service::{Answer, Call, Codec, Service};

use crate::hosted::Hosted;
use crate::passing::Passing;

/// A hosted process whose messages are in one codec.
#[derive(Debug, Clone)]
pub struct Typed {
    hosted: Hosted,
    schema: Schema,
    codec: Codec,
}

impl Hosted {
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
    ) -> Result<Served<Typed>, SchemaError> {
        let backend = Typed { hosted: self.clone(), schema: schema.clone(), codec };
        schema.serve(service, backend)
    }
}

impl Service for Typed {
    fn call(&self, mut call: Call) -> Answer {
        match self.schema.translate(self.codec, &mut call) {
            Ok(back) => {
                Answer::pending(Passing::new(Arc::clone(self.hosted.current()), call, back))
            }
            Err(error) => Answer::ready(Err(error)),
        }
    }
}
