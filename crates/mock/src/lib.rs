//! Services of `.proto` files and rules, before they exist.
//!
//! A [`Mock`] answers every method of every service of a schema: by rules where there are some, and
//! otherwise with a plausible message made from the schema. It is a set of services like any other:
//! a server serves them over every protocol, a generated client speaks to them in-process.
//!
//! ```text
//! rule files ─▶ yaml ─▶ compile ─▶ MethodRule ┐
//!                                  call ──────┴▶ select ─▶ Plan ─▶ play ─▶ Reply
//! ```
//!
//! | question | file |
//! |---|---|
//! | which response answers | `select.rs`, `index.rs` |
//! | when a condition holds | `condition.rs`, `view.rs`, `path.rs` |
//! | what `{{ }}` gives | `template.rs` |
//! | how a body becomes a message | `body.rs` |
//! | what an answer without a rule is | `generate.rs` |
//! | what is found in rule files | `compile.rs`, `unreachable.rs` |
//! | what a reload keeps | `mock/reload.rs` |
//!
//! This crate opens no socket, reads no clock and no environment: time comes in by a
//! [`Clock`](tidewire_service::Clock), files as text.

#![doc = include_str!("../README.md")]

mod body;
mod compile;
mod condition;
mod details;
mod duration;
mod eval_context;
mod explain;
mod finding;
mod formula;
mod generate;
mod index;
mod javascript;
mod log;
mod mock;
mod node;
mod path;
mod pattern;
mod plan;
mod play;
mod random;
mod rule;
mod rules;
mod seconds;
mod select;
mod sessions;
mod template;
mod unreachable;
mod value_template;
mod verify;
mod view;
mod yaml;

/// Rule files, and files like them, as trees in which each value knows its place.
pub mod document {
    pub use crate::node::{Node, Number, ObjectMember, Position, Tree};
    pub use crate::view::plain_json;
    pub use crate::yaml::{Fault, parse, parse_json};
}

pub use details::error_details;
pub use explain::{Explanation, NearMiss, Preview};
pub use finding::Finding;
pub use log::{Calls, LoggedCall};
pub use mock::{
    DefaultReply, MethodRules, Mock, MockBuilder, MockedService, RealService, ReloadReport,
    Respond, ResponseBuilder, SessionInfo,
};
pub use plan::{Decision, Frames, Outcome, Plan};
pub use rules::{RULE_FILE_BYTES_MAX, RULE_SCHEMA, RecordedCall, RuleFiles, etag};
pub use sessions::SESSION_HEADER;
pub use verify::{Times, VerifyError};
