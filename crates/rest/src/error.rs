//! Why REST routes cannot be served.

use std::fmt;

use tidewire_schema::SchemaError;

/// REST routes that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestError(pub(crate) String);

impl RestError {
    pub(crate) fn of_schema(error: SchemaError) -> Self {
        Self(format!("the services' descriptors do not fit: {error}"))
    }
}

impl fmt::Display for RestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RestError {}
