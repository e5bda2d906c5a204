//! Checking messages against the rules that their schema has for them.
//!
//! | rules | option |
//! |---|---|
//! | protovalidate | `(buf.validate.field)`, `(buf.validate.message)`, `(buf.validate.oneof)` |
//! | protoc-gen-validate | `(validate.rules)`, `(validate.required)`, `(validate.disabled)` |
//! | AIP-203 | `(google.api.field_behavior) = REQUIRED` |
//!
//! Rules are compiled when the schema is loaded, and one that does not compile is an error then. A
//! message is checked as it is encoded, without decoding it: typed and dynamic messages alike, and
//! messages without rules at no cost. Rules in CEL look at the message decoded.
//!
//! ```
//! use tidewire_schema::Schema;
//! use tidewire_validate::RuleSet;
//! # let folder = std::env::temp_dir().join("tidewire-validate-doctest");
//! # std::fs::create_dir_all(&folder)?;
//! # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3"; import "buf/validate/validate.proto";
//! # message Item { string name = 1 [(buf.validate.field).string.min_len = 2]; }"#)?;
//! let schema = Schema::from_folder(&folder)?;
//! let validator = RuleSet::new(&schema)?;
//! let error = validator.check("Item", b"\x0a\x01x").unwrap_err();
//! assert_eq!(error.message(), "name: must be at least 2 characters");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![doc = include_str!("../README.md")]

mod cel;
mod check;
mod compile;
mod describe;
mod expression;
mod fault;
mod formats;
mod kind;
mod layer;
mod options;
mod pattern;
mod pgv;
mod plan;
mod run;
mod standard;
mod violation;
mod wire_format;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use buffa_descriptor::reflect::DynamicMessage;
use buffa_descriptor::{DescriptorPool, MessageIndex};
use tidewire_schema::{Diagnostic, Diagnostics, Schema, SchemaError};
use tidewire_service::{Codec, Error, Result};

use compile::CompiledPlans;
use plan::MessagePlan;
use run::{Run, Stop};

pub use cel::{parse_timestamp, print_timestamp};
pub use describe::FieldDescription;
pub use expression::{Expression, NameType, NameValue};
pub use layer::Validate;
pub use violation::{Violation, Violations};

/// The most violations that are collected of one message.
pub const VIOLATIONS_MAX: usize = 100;

/// The compiled rules of a schema.
///
/// ```
/// # mod tidewire {
/// #     pub mod validate { pub use tidewire_validate::*; }
/// #     pub use tidewire_schema::Schema; pub use tidewire_service::*;
/// # }
/// # let folder = std::env::temp_dir().join("tidewire-rule-set-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3"; package shop.v1;
/// # import "buf/validate/validate.proto";
/// # message Item { string name = 1 [(buf.validate.field).string.min_len = 1]; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::validate::RuleSet;
/// use tidewire::{Code, Schema};
///
/// // string name = 1 [(buf.validate.field).string.min_len = 1];
/// let rules = RuleSet::new(&schema)?;
/// let error = rules.check("shop.v1.Item", b"").unwrap_err();
/// assert_eq!(error.code(), Code::InvalidArgument);
/// assert!(error.message().contains("name"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RuleSet {
    pool: Arc<DescriptorPool>,
    plans: Vec<MessagePlan>,
    roots: HashMap<MessageIndex, Option<u32>>,
    clock: fn() -> i128,
}

impl RuleSet {
    /// Compiles the rules of all messages of a schema.
    ///
    /// # Errors
    /// [`SchemaError::Sources`] with every rule that does not compile, with file, line and column
    /// where the descriptors have places.
    pub fn new(schema: &Schema) -> Result<Self, SchemaError> {
        let names = schema.pool().messages().iter().map(|message| message.full_name().to_owned());
        let names: Vec<_> = names.filter(|name| !name.starts_with("google.protobuf.")).collect();
        Self::of(schema, names.iter().map(String::as_str))
    }

    /// Compiles the rules of the named messages and of those within them; a name that the schema
    /// does not have is left out.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of<'a>(
        schema: &Schema,
        type_names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, SchemaError> {
        let pool = schema.pool();
        let wanted = type_names.into_iter().filter_map(|name| pool.message_index(name));
        let CompiledPlans { plans, roots, faults } = compile::compile(pool, wanted);
        let faults = faults.iter().map(|fault| fault.diagnostic(pool)).collect();
        match Diagnostics::from_list(faults) {
            Some(faults) => Err(SchemaError::Sources(faults)),
            None => Ok(Self { pool: Arc::clone(pool), plans, roots, clock: system_time }),
        }
    }

    /// The rules of a message type; `None` when nothing can be broken in it, or there is no such
    /// type.
    pub fn rules(&self, type_name: &str) -> Option<Rules<'_>> {
        self.place(type_name).and_then(|at| self.rules_at(at))
    }

    /// Checks an encoded message; one of an unknown type has no rules.
    ///
    /// # Errors
    /// As [`Rules::check`].
    pub fn check(&self, type_name: &str, message: &[u8]) -> Result<()> {
        self.rules(type_name).map_or(Ok(()), |rules| rules.check(message))
    }

    /// Where the plan of a message is.
    fn place(&self, type_name: &str) -> Option<u32> {
        let index = self.pool.message_index(type_name)?;
        *self.roots.get(&index)?
    }

    fn rules_at(&self, at: u32) -> Option<Rules<'_>> {
        Some(Rules { validator: self, plan: self.plans.get(at as usize)? })
    }
}

/// The rules of one message type.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    validator: &'a RuleSet,
    plan: &'a MessagePlan,
}

impl Rules<'_> {
    /// Checks an encoded message.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](tidewire_service::Code::InvalidArgument): for broken rules that of
    /// [`Violations::into_error`]; or the bytes are not a message, or a rule in CEL has no value
    /// for it, such as after a division by zero.
    #[inline]
    pub fn check(&self, message: &[u8]) -> Result<()> {
        match self.violations(message)? {
            None => Ok(()),
            Some(violations) => Err(violations.into_error(Codec::Proto)),
        }
    }

    /// The broken rules of an encoded message, at most [`VIOLATIONS_MAX`].
    ///
    /// # Errors
    /// When there is no telling: as [`check`](Self::check), broken rules apart.
    #[inline]
    pub fn violations(&self, message: &[u8]) -> Result<Option<Violations>> {
        match self.run(message) {
            Ok(found) => Ok((!found.is_empty()).then_some(Violations(found))),
            Err(stopped) => self.stopped(stopped, message),
        }
    }

    #[cold]
    fn stopped(&self, stopped: Stop, message: &[u8]) -> Result<Option<Violations>> {
        let pool = &self.validator.pool;
        let type_name = pool.message(self.plan.index).full_name();
        let malformed = || Error::invalid_argument(format!("not a valid {type_name}"));
        let stopped = match stopped {
            Stop::Unusual => {
                let decoded = DynamicMessage::decode(Arc::clone(pool), self.plan.index, message);
                let usual = decoded.map_err(|cause| malformed().with_cause(cause))?;
                match self.run(&usual.encode_to_vec()) {
                    Ok(found) => return Ok((!found.is_empty()).then_some(Violations(found))),
                    Err(stopped) => stopped,
                }
            }
            stopped => stopped,
        };
        Err(match stopped {
            Stop::Rule(why) => Error::invalid_argument(format!("{type_name}: {why}")),
            Stop::Malformed | Stop::Unusual | Stop::Enough => malformed(),
        })
    }

    #[inline]
    fn run(&self, message: &[u8]) -> Result<Vec<Violation>, Stop> {
        let mut run = Run {
            pool: &self.validator.pool,
            plans: &self.validator.plans,
            found: Vec::new(),
            violations_max: VIOLATIONS_MAX,
            clock: self.validator.clock,
            budget: None,
            path: Vec::new(),
        };
        match run.message(self.plan, message) {
            Ok(()) | Err(Stop::Enough) => Ok(run.found),
            Err(stopped) => Err(stopped),
        }
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleSet").field("plans", &self.plans.len()).finish_non_exhaustive()
    }
}

/// Fields with `(google.api.field_behavior) = REQUIRED` for which that says nothing: numbers,
/// booleans and enums that do not tell "not set" from zero.
pub fn required_without_presence(schema: &Schema) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for message in schema.pool().messages() {
        for field in message.fields() {
            let behavior = options::FieldRules::of(field).behavior_required;
            if behavior && !compile::is_missing_when_empty(field) {
                let fault = fault::Fault {
                    message: message.full_name().to_owned(),
                    owner: fault::Owner::Field(field.number()),
                    option: vec![options::BEHAVIOR.cast_signed()],
                    why: "REQUIRED says nothing here, since 0 cannot be told from not set"
                        .to_owned(),
                };
                let help = "write `optional` before the type of the field";
                found.push(fault.diagnostic(schema.pool()).help(help));
            }
        }
    }
    found
}

/// Nanoseconds since 1970.
fn system_time() -> i128 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos().cast_signed(),
        Err(before) => -before.duration().as_nanos().cast_signed(),
    }
}
