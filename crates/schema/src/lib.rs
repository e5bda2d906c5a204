//! Schemas and messages known only at run time.
//!
//! A [`Schema`] comes from `.proto` sources or from descriptors. A [`Message`] is a value of any of
//! its types: its fields are read, set and compared by path, and it converts between protobuf and
//! JSON as generated code does. [`Schema::serve`] gives a backend the interface of a service, and
//! [`Schema::implement`] makes a service of functions from messages to messages, so that a server
//! offers it over every protocol although no code was generated.
//!
//! | question | file |
//! |---|---|
//! | what is at a path | `path.rs`, `message.rs` |
//! | what a field takes | `write.rs` |
//! | what JSON says | `json.rs`, `json/`; printing is the crate `json` |
//! | when two values are equal | `compare.rs` |
//! | schemas as people read them | `describe.rs`, `describe/` |

#![doc = include_str!("../README.md")]

mod comment;
mod compare;
pub mod describe;
mod dispatch;
mod error;
mod index;
mod interface;
mod json;
mod map_key;
mod message;
mod path;
mod schema;
mod schema_service;
mod transcode;
mod types;
mod value;
mod write;

pub use dispatch::{Dispatch, Implementation};
pub use error::{FieldError, SchemaError};
pub use index::FileIndex;
pub use json::UnknownMembers;
pub use message::{Message, MessageRef};
pub use path::{AsPath, Path};
pub use schema::Schema;
pub use schema_service::SchemaService;
pub use tidewire_json::JsonStyle;
pub use tidewire_proto::{Diagnostic, Diagnostics, Sources, builtin_files};
pub use transcode::Back;
pub use types::{EnumType, Field, Kind, MessageType, Oneof, Scalar, Single};
pub use value::{EnumValue, List, Map, Value};
