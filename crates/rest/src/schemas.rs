//! Schemas of services, each decoded once however many services share it.

use std::collections::HashMap;

use bytes::Bytes;
use tidewire_schema::{Schema, SchemaError};
use tidewire_service::Interface;

/// The schemas of interfaces that were asked for, to look further ones up in.
#[derive(Debug, Default)]
pub struct Schemas {
    /// By where descriptors are in memory, which a schema keeps: the services of one schema share
    /// them.
    places: HashMap<(*const u8, usize), Schema>,
    contents: HashMap<Bytes, Schema>,
}

impl Schemas {
    /// The schema of a service.
    ///
    /// # Errors
    /// When its descriptors do not decode.
    pub fn of(&mut self, interface: &Interface) -> Result<Schema, SchemaError> {
        let descriptors = interface.descriptors();
        let place = (descriptors.as_ptr(), descriptors.len());
        if let Some(schema) = self.places.get(&place).or_else(|| self.contents.get(descriptors)) {
            return Ok(schema.clone());
        }
        let schema = Schema::from_descriptors(descriptors.clone())?;
        self.contents.insert(descriptors.clone(), schema.clone());
        self.places.insert(place, schema.clone());
        Ok(schema)
    }
}
