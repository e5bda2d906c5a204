//! Encoded protobuf messages to proto JSON, by their descriptors: from bytes straight to text.
//!
//! A reply that goes out as JSON is nobody's message: it comes from a service in protobuf and
//! leaves printed. [`print()`] finds where its fields are (one pass a message) and prints them with
//! the text of generated code, without a message in between.
//!
//! | question | file |
//! |---|---|
//! | which bytes are a field's | `scan.rs`, `payload.rs`, `shape.rs` |
//! | which members there are, and their order | `print.rs` |
//! | how a value looks | `value.rs`, `list.rs`, `print_well_known.rs` |
//! | what is not printed, since a later value took its place | `replaced_value.rs` |
//! | whether JSON already is what would be printed | `canonical.rs` |

#![doc = include_str!("../README.md")]

mod canonical;
mod fault;
mod list;
mod payload;
mod print;
mod print_well_known;
mod replaced_value;
mod scan;
mod shape;
mod style;
mod value;
pub mod well_known;

pub use canonical::is_canonical;
pub use fault::Fault;
pub use print::{PrintScope, print};
pub use style::JsonStyle;
pub use well_known::WellKnown;

/// How deep messages nest in JSON: as deep as in protobuf, so that what is read can be sent on.
pub const DEPTH_MAX: u32 = buffa::RECURSION_LIMIT;

/// The enum whose only value is `null`.
pub const NULL_VALUE: &str = "google.protobuf.NullValue";
