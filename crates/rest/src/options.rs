//! How REST requests are read and replies are printed.

use std::collections::BTreeMap;

use buffa_descriptor::FieldDescriptor;
use tidewire_schema::JsonStyle;

use crate::describe::SecurityScheme;

/// How a server transcodes REST.
///
/// ```
/// use tidewire_rest::{Int64, JsonOptions, RestOptions};
/// let mut options = RestOptions::default();
/// options.json.int64 = Int64::Text;
/// let plain = JsonOptions { int64: Int64::Number, ..options.json };
/// options.services.insert("shop.v1.Contacts".to_owned(), plain);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestOptions {
    /// How replies are printed.
    pub json: JsonOptions,
    /// How replies of single services are printed, by full name.
    pub services: BTreeMap<String, JsonOptions>,
    /// What errors look like.
    pub errors: ErrorFormat,
    /// What happens with query parameters that name no field; refused unless set.
    pub unknown_parameters: UnknownNames,
    /// What happens with members of a JSON body that name no field; ignored unless set, as RPC
    /// protocols do.
    pub unknown_members: UnknownNames,
    /// How many parameters a query may have; 256 by default.
    pub query_parameters_max: usize,
    /// Whether replies of text or JSON over 1 KiB are compressed for clients that take gzip; they
    /// are unless set.
    pub compression: bool,
    /// Whether `/openapi.json` is served; where reflection is on unless set.
    pub openapi: Option<bool>,
    /// The title of that document; the names of the services unless set.
    pub title: Option<String>,
    /// How callers say who they are, as that document tells it.
    pub security: Vec<SecurityScheme>,
    /// The version of the interface that the document gives; `1` by default.
    pub version: String,
}

impl Default for RestOptions {
    fn default() -> Self {
        Self {
            json: JsonOptions::default(),
            services: BTreeMap::new(),
            errors: ErrorFormat::default(),
            unknown_parameters: UnknownNames::Refused,
            unknown_members: UnknownNames::Ignored,
            query_parameters_max: 256,
            compression: true,
            openapi: None,
            title: None,
            security: Vec::new(),
            version: "1".to_owned(),
        }
    }
}

/// How a reply message is printed. All forms are read alike.
///
/// ```
/// # mod tidewire { pub mod rest { pub use tidewire_rest::*; } }
/// use tidewire::rest::{Defaults, FieldNames, JsonOptions};
///
/// let as_in_the_proto = JsonOptions {
///     defaults: Defaults::Omitted,
///     names: FieldNames::Original,
///     ..JsonOptions::default()
/// };
/// assert_ne!(as_in_the_proto, JsonOptions::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JsonOptions {
    /// Whether fields with their default value are printed.
    pub defaults: Defaults,
    /// How 64-bit integers are printed.
    pub int64: Int64,
    /// How fields are named.
    pub names: FieldNames,
}

impl JsonOptions {
    /// The same as the crate `schema` knows it.
    pub(crate) fn style(self) -> JsonStyle {
        let mut style = JsonStyle::default();
        if self.defaults == Defaults::Printed {
            style = style.with_defaults();
        }
        if self.int64 == Int64::Number {
            style = style.with_int64_as_numbers();
        }
        if self.names == FieldNames::Original {
            style = style.with_proto_names();
        }
        style
    }
}

/// Whether fields with their default value are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Defaults {
    /// Scalars, lists and maps always; messages, `optional` and `oneof` fields where they are set.
    #[default]
    Printed,
    /// Only what is set to something else, as proto JSON does by itself.
    Omitted,
}

/// How 64-bit integers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Int64 {
    /// As a number, and as a string beyond ±(2⁵³ − 1), where a double would lose digits.
    #[default]
    Number,
    /// As a string, as proto JSON does by itself.
    Text,
}

/// How fields are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldNames {
    /// `firstName`, or the `json_name` of the `.proto`.
    #[default]
    Json,
    /// `first_name`, as in the `.proto`.
    Original,
}

/// What errors look like.
///
/// ```
/// # mod tidewire { pub mod rest { pub use tidewire_rest::*; } }
/// use tidewire::rest::{ErrorFormat, RestOptions, UnknownNames};
///
/// let mut options = RestOptions::default();
/// options.errors = ErrorFormat::Problem;
/// options.unknown_members = UnknownNames::Refused;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorFormat {
    /// `{"code":"not_found","message":"…"}`, as Connect has it.
    #[default]
    Connect,
    /// `application/problem+json` of RFC 9457.
    Problem,
}

/// What happens with a name that is not a field's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownNames {
    /// 400 that names it, and of parameters also what there is.
    Refused,
    /// Nothing.
    Ignored,
}

/// The name that a field is printed by.
pub(crate) fn printed_name(field: &FieldDescriptor, options: JsonOptions) -> &str {
    match options.names {
        FieldNames::Json => field.json_name(),
        FieldNames::Original => field.name(),
    }
}
