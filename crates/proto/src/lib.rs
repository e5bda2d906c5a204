//! `.proto` sources to descriptor sets, without `protoc`.
//!
//! [`Sources`] names what to compile: files, folders, descriptor sets made elsewhere. Compiling
//! gives [`Descriptors`] (an encoded `FileDescriptorSet` and where each file came from) or
//! [`Diagnostics`], which point at file, line and column and say what to do next.
//!
//! Importable without being on disk: the well-known types, `google/api/annotations.proto`,
//! `http.proto`, `httpbody.proto`, `field_behavior.proto`, the rules of protovalidate
//! (`buf/validate/validate.proto`) and protoc-gen-validate (`validate/validate.proto`), and our own
//! `tidewire/v1/options.proto`, which [`MethodOptions`] reads back from a descriptor.
//!
//! proto2, proto3 and edition 2023 are read as text. Later editions enter as descriptor sets
//! ([`Sources::descriptor_set`]); a diagnostic says so where one is met as text.
//!
//! ```no_run
//! let descriptors = tidewire_proto::Sources::new().folder("protos").compile()?;
//! for file in descriptors.files() {
//!     println!("{}", file.name);
//! }
//! # Ok::<(), tidewire_proto::Diagnostics>(())
//! ```

#![doc = include_str!("../README.md")]

mod builtin;
mod compile;
mod descriptors;
mod diagnostics;
mod explain;
pub mod http;
mod link;
mod load;
mod options;
mod places;
mod rules;
mod sources;
mod suggest;
mod text;
mod unit;
mod wire_format;

pub use builtin::builtin_files;
pub use descriptors::{Descriptors, File};
pub use diagnostics::{Diagnostic, Diagnostics, Position};
pub use options::{Access, CacheScope, MethodOptions};
pub use sources::{
    DESCRIPTOR_SET_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, FOLDER_DEPTH_MAX, IMPORT_DEPTH_MAX,
    Sources,
};
