//! Rust messages, services and clients from `.proto` files, in `build.rs`, without `protoc`.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), tidewire_build::Error> {
//!     tidewire_build::compile("proto")
//! }
//! ```
//!
//! and in the crate `tidewire::include_protos!();`, or by hand
//!
//! ```ignore
//! pub mod proto {
//!     include!(concat!(env!("OUT_DIR"), "/tidewire.rs"));
//! }
//! ```
//!
//! gives one module a package (`shop.v1` is `proto::shop::v1`) with the messages, which `buffa`'s
//! generator makes, and for each service the trait to implement, one for implementations of some
//! methods only, a server over an implementation, a client over a channel, and a module of method
//! specs, which are ours and made here. Beside the packages are `DESCRIPTOR_SET`, the encoded
//! descriptors of all of it, imports included, and `register_types`, which tells a registry of the
//! messages that a `google.protobuf.Any` in JSON may hold.
//!
//! | for `service Greeter` | is |
//! |---|---|
//! | `Greeter` | the trait: `fn greet(&self, Context, GreetRequest) -> impl Future<Output = Result<Reply<GreetReply>>>` |
//! | `GreeterPartial` | to implement in place of `Greeter` where only some methods are served; the others answer `unimplemented` |
//! | `GreeterServer<T>` | the `Service` and `RpcService` that serves a `T: Greeter` |
//! | `GreeterClient` | calls over a `Channel`; implements `Greeter` too |
//! | `greeter::GREET`, `greeter::METHODS` | the `Spec` of each method |
//!
//! A name that the package has already gets a `_` at its end, as does a method whose name cannot
//! be used as it is (`rpc Self`, `rpc New` on the client). Keywords become raw: `rpc Type` is
//! `r#type`.
//!
//! # The runtime path
//!
//! The generated code names nothing but `core`, `std` and what is below one path, so that a user
//! needs one dependency. The path is `::tidewire::generated` unless [`Config::runtime_path`] says
//! otherwise, and has to hold:
//!
//! | name | is | needed |
//! |---|---|---|
//! | `buffa` | crate `buffa` 0.9.2 with feature `json` | always |
//! | `buffa_types` | crate `buffa-types` 0.9.2 with feature `json` | always |
//! | `buffa_descriptor` | crate `buffa-descriptor` 0.9.2 with feature `json` | with fields of types from `descriptor.proto` |
//! | `serde` | crate `serde` with feature `derive` | always |
//! | `service` | crate `tidewire-service` | with services |

#![doc = include_str!("../README.md")]

mod bindings;
mod comments;
mod config;
mod error;
mod messages;
mod modules;
mod names;
mod refuse;
mod runtime;
mod select;
mod service;

pub use config::Config;
pub use error::Error;

use std::path::PathBuf;

/// Compiles every `.proto` file below `folder`, which is their include root, into `OUT_DIR`.
///
/// # Errors
///
/// All that is wrong with the sources, with file, line and column; or why no code could be made or
/// written. Returned from `main` it is shown as it reads.
pub fn compile(folder: impl Into<PathBuf>) -> Result<(), Error> {
    Config::new().folder(folder).compile()
}
