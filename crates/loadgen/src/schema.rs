//! Bodies written as JSON and sent as protobuf, by the schema of the target's service.
//!
//! The method is the one that the request's path names, `/package.Service/Method`. A body without
//! templates is encoded once; one with templates is filled first and encoded for every request, so
//! a row of a feeder that does not fit the schema is found when it is used, and ends the run.

use std::path::Path;

use tidewire_schema::Schema;
use tidewire_service::Codec;

use crate::error::Error;

/// The services that a folder, a file or the target itself describes.
#[derive(Debug)]
pub struct Services {
    origin: String,
    schema: Schema,
}

/// The request messages of one method.
#[derive(Debug, Clone)]
pub struct Messages {
    schema: Schema,
    input: String,
}

impl Services {
    /// The services of a schema; errors name its origin.
    #[must_use]
    pub fn new(schema: Schema, origin: impl Into<String>) -> Self {
        Self { origin: origin.into(), schema }
    }

    /// `source` is a folder of `.proto` files, the root of their imports, or an encoded
    /// descriptor set.
    pub fn open(source: &Path) -> Result<Self, Error> {
        let origin = format!("--proto {}", source.display());
        let fault = |what: String| fault(&origin, &what);
        let schema = if source.is_dir() {
            Schema::from_folder(source).map_err(|error| fault(error.to_string()))?
        } else if source.extension().is_some_and(|ending| ending == "proto") {
            return Err(fault("give the folder that its imports are relative to".to_owned()));
        } else {
            let bytes = std::fs::read(source).map_err(|error| fault(error.to_string()))?;
            Schema::from_descriptors(bytes).map_err(|error| fault(error.to_string()))?
        };
        Ok(Self { origin, schema })
    }

    /// The messages of the method that the path of a request names.
    pub fn messages(&self, path: &str) -> Result<Messages, Error> {
        let fault = |what: String| fault(&self.origin, &what);
        let schema = &self.schema;
        let name = path.split('?').next().unwrap_or_default();
        let (service, method) = name
            .trim_start_matches('/')
            .rsplit_once('/')
            .ok_or_else(|| fault(format!("the path {name:?} is not /package.Service/Method")))?;
        let interface = schema.interface(service).map_err(|error| fault(error.to_string()))?;
        let interface = interface.ok_or_else(|| {
            let known: Vec<&str> = schema.services().collect();
            fault(format!("it has no service {service:?}; there are: {}", known.join(", ")))
        })?;
        let found = interface.methods().iter().find(|one| one.method == method);
        let input = match found {
            Some(method) => method.input.to_string(),
            None => return Err(fault(format!("{service} has no method {method:?}"))),
        };
        Ok(Messages { schema: schema.clone(), input })
    }
}

fn fault(origin: &str, what: &str) -> Error {
    Error::usage(format!("{origin}: {what}"))
}

impl Messages {
    /// One message as protobuf; the error is for a person.
    pub fn encode(&self, json: &[u8]) -> Result<Vec<u8>, String> {
        let json: &[u8] = if json.is_empty() { b"{}" } else { json };
        let encoded = self
            .schema
            .decode_exactly(&self.input, json)
            .and_then(|message| message.encode(Codec::Proto));
        match encoded {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(format!("not a valid {}: {}", self.input, error.message())),
        }
    }
}
