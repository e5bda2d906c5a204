//! What an OpenAPI document says beside what descriptors do: who may call, and what requests have
//! to be. Whoever serves the bindings knows.

use serde_json::{Map, Value, json};
use tidewire_schema::Schema;
use tidewire_service::{Access, Spec};

/// Tells what an OpenAPI document says beside what descriptors do; `()` tells nothing.
pub trait Describe {
    /// Who may call a method.
    fn access(&self, _: &Spec) -> Access {
        Access::Anonymous
    }

    /// What is asked of the fields of a message in a request.
    fn rules(&self, _: &Schema, _message: &str) -> Vec<FieldRules> {
        Vec::new()
    }
}

impl Describe for () {}

/// What is asked of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldRules {
    /// The field's number.
    pub number: u32,
    /// Whether it has to be there.
    pub is_required: bool,
    /// Keywords of JSON Schema for its value.
    pub keywords: Map<String, Value>,
    /// Keywords for each item of a list.
    pub items: Map<String, Value>,
}

/// How callers say who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecurityScheme {
    /// A key in this header.
    ApiKey(String),
    /// A bearer token, a JWT.
    Bearer,
    /// A client certificate.
    Certificate,
}

impl SecurityScheme {
    /// Its name in the document.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::ApiKey(_) => "apiKey",
            Self::Bearer => "bearer",
            Self::Certificate => "certificate",
        }
    }

    pub(crate) fn described(&self) -> Value {
        match self {
            Self::ApiKey(header) => json!({ "type": "apiKey", "in": "header", "name": header }),
            Self::Bearer => json!({ "type": "http", "scheme": "bearer", "bearerFormat": "JWT" }),
            Self::Certificate => json!({ "type": "mutualTLS" }),
        }
    }
}
