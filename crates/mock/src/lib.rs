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
//! | which response answers | `select.rs`, `condition/index.rs` |
//! | when a condition holds | `condition.rs`, `value/view.rs`, `value/path.rs` |
//! | what `{{ }}` gives | `template.rs`, `template/formula.rs` |
//! | how a body becomes a message | `body.rs` |
//! | what an answer without a rule is | `generate.rs` |
//! | what is found in rule files | `rules.rs`, `compile.rs`, `compile/unreachable.rs` |
//! | what a reload keeps | `mock/reload.rs` |
//! | what is sent when | `select/plan.rs`, `select/play.rs` |
//! | what calls leave behind | `state/sessions.rs`, `state/log.rs` |
//! | how a call ended | `mock/running.rs` |
//!
//! This crate opens no socket, reads no clock and no environment: time comes in by a
//! [`Clock`](tidewire_service::Clock), files as text.

#![doc = include_str!("../README.md")]

mod body;
mod compile;
mod condition;
mod generate;
mod mock;
mod random;
mod rule;
mod rules;
mod select;
mod state;
mod template;
mod value;

/// Rule files, and files like them, as trees in which each value knows its place.
pub mod document {
    pub use crate::rules::yaml::{Fault, parse, parse_json};
    pub use crate::value::node::{Node, Number, ObjectMember, Position, Tree};
    pub use crate::value::view::plain_json;
}

pub use compile::details::error_details;
pub use compile::finding::Finding;
pub use mock::explain::{Explanation, NearMiss, Preview};
pub use mock::verify::{Times, VerifyError};
pub use mock::{
    DefaultReply, MethodRules, Mock, MockBuilder, MockedService, RealService, ReloadReport,
    Respond, ResponseBuilder, SessionInfo,
};
pub use rules::{RULE_FILE_BYTES_MAX, RULE_SCHEMA, RecordedCall, RuleFiles, etag};
pub use select::plan::{Decision, Frames, Outcome, Plan};
pub use state::log::{Calls, LoggedCall};
pub use value::eval_context::SESSION_HEADER;
