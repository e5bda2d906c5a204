//! REST by `google.api.http`, as bytes: from the head and the body of an HTTP request to a method
//! and its message, and from a reply to the body of a response.
//!
//! ```text
//! verb, path ─▶ table ─▶ binding ─┐                                  ┌▶ reply, writer ─▶ body
//! path, query, body ──────────────┴▶ request ─▶ message ─▶ (service) ┘
//! ```
//!
//! Everything that follows from descriptors and options is worked out once, when a [`Rest`] is
//! made: faults of annotations and routes that exclude each other are reported then. Nothing here
//! opens a socket, reads a clock or starts a task; bytes may arrive in any pieces.
//!
//! | question | file |
//! |---|---|
//! | which route wins | `router.rs`, `template.rs` of `proto` |
//! | what an annotation says, and whether it fits its method | `annotation.rs`, `binding.rs`, `check.rs` |
//! | how path, query and body become a message | `request.rs`, `plan.rs`, `query.rs`, `value.rs` |
//! | how a reply is printed | `print.rs`, `reply.rs`, `writer.rs`, `events.rs` |
//! | what errors look like | `problem.rs` |
//! | what is told to others | `openapi.rs` |
//!
//! Rules: the comments of `google/api/http.proto`; JSON: the proto JSON mapping.

#![doc = include_str!("../README.md")]

mod annotation;
mod binding;
mod check;
mod content;
mod describe;
mod error;
mod events;
mod field;
mod http_body;
mod lines;
mod openapi;
mod options;
mod origin;
mod plan;
mod print;
mod problem;
mod query;
mod reply;
mod request;
mod router;
mod schemas;
mod table;
mod value;
mod writer;

pub use annotation::{Rule as RestRule, rest_rules};
pub use binding::Binding;
pub use check::{RestFinding, check_rest};
pub use describe::{Describe, FieldRules, SecurityScheme};
pub use error::RestError;
pub use events::{COMMENT, EVENTS, failed_event, retry_event};
pub use lines::Lines;
pub use options::{
    Defaults, ErrorFormat, FieldNames, Int64, JsonOptions, RestOptions, UnknownNames,
};
pub use problem::error_json;
pub use reply::PrintedReply;
pub use request::Request;
pub use schemas::Schemas;
pub use table::{Rest, RestMatch};
pub use writer::{Style, Writer};
