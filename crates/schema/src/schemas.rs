//! Schemas of services, each decoded once however many services share it.

use std::collections::HashMap;

use bytes::Bytes;
use tidewire_service::Interface;

use crate::{Schema, SchemaError};

/// The schemas of interfaces that were asked for, to look further ones up in.
#[derive(Debug, Default)]
pub struct Schemas {
    /// By where descriptors are in memory, which a schema keeps: the services of one schema share them.
    places: HashMap<*const u8, Schema>,
    contents: HashMap<Bytes, Schema>,
}

impl Schemas {
    /// The schema of a service.
    ///
    /// # Errors
    /// When its descriptors do not decode.
    pub fn of(&mut self, interface: &Interface) -> Result<Schema, SchemaError> {
        let descriptors = interface.descriptors();
        if let Some(schema) = self.places.get(&descriptors.as_ptr())
            && schema.descriptors().len() == descriptors.len()
        {
            return Ok(schema.clone());
        }
        if let Some(schema) = self.contents.get(descriptors) {
            return Ok(schema.clone());
        }
        let schema = Schema::from_descriptors(descriptors.clone())?;
        self.contents.insert(descriptors.clone(), schema.clone());
        self.places.insert(descriptors.as_ptr(), schema.clone());
        Ok(schema)
    }
}
