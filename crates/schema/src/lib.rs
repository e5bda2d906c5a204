//! Schemas and messages known only at run time.
//!
//! A [`Schema`] comes from `.proto` sources or from descriptors; a [`Message`] is a value of any of
//! its types; [`Schema::serve`] gives a backend the interface of one of its services, so that a
//! server offers it over every protocol although no code was generated.

mod json;
mod schema;
mod validate;

pub use schema::{Message, Schema, SchemaError, Served};
pub use tidewire_proto::{Diagnostic, Diagnostics, Sources};
pub use validate::{
    Rules, VIOLATIONS_MAX, Validate, Validator, Violation, Violations, required_without_presence,
};
