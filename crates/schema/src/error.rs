//! Why a schema cannot be used, and why a field cannot be read or written.

use std::fmt;

use tidewire_proto::Diagnostics;

/// Why a schema cannot be used.
///
/// ```
/// # mod tidewire {
/// #     pub mod schema { pub use tidewire_schema::*; }
/// #     pub use tidewire_schema::{Message, Schema};
/// #     pub use tidewire_service::*;
/// # }
/// # let folder = std::env::temp_dir().join("tidewire-schema-error-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Item { string name }"#)?;
/// use tidewire::Schema;
/// use tidewire::schema::SchemaError;
///
/// match Schema::from_folder(&folder) {
///     Err(SchemaError::Sources(found)) => {
///         let first = found.iter().next().expect("there is one at least");
///         assert_eq!(first.file.rsplit("/").next(), Some("shop.proto"));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SchemaError {
    /// `.proto` sources with faults.
    Sources(Diagnostics),
    /// Descriptors that do not decode or do not fit together.
    Descriptors(String),
    /// There is no service of this name.
    NoService(String),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sources(faults) => faults.fmt(f),
            Self::Descriptors(why) => write!(f, "descriptors cannot be used: {why}"),
            Self::NoService(name) => write!(f, "the schema has no service {name}"),
        }
    }
}

impl std::error::Error for SchemaError {}

/// Why a field cannot be read or written: its path, and what is wrong there.
///
/// ```
/// # mod tidewire { pub use tidewire_schema::{Message, Schema}; pub use tidewire_service::*; }
/// # let folder = std::env::temp_dir().join("tidewire-field-error-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Item { string name = 1; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::Schema;
///
/// let mut item = schema.message("Item")?;
/// let error = item.set("price", 4.2).unwrap_err();
/// assert_eq!(error.path(), "price");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    path: String,
    why: String,
}

impl FieldError {
    pub(crate) fn new(path: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self(Box::new(Inner { path: path.to_string(), why: why.to_string() }))
    }

    /// Where in the message, as far as it could be followed.
    pub fn path(&self) -> &str {
        &self.0.path
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field {}: {}", self.0.path, self.0.why)
    }
}

impl std::error::Error for FieldError {}

/// A path that does not fit is the fault of the program that spells it.
impl From<FieldError> for tidewire_service::Error {
    fn from(error: FieldError) -> Self {
        Self::internal(error.to_string())
    }
}
