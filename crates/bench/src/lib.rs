//! Honest measurement of servers.
//!
//! [`command`] is `tidewire bench` as a library: the crate `cli` parses [`command::BenchArgs`] and
//! calls [`command::run`]. Below it, from the outside in:
//!
//! - `measure` turns a plan into a [`result::RunResult`]; `summary`, `markdown` and `html` show it,
//!   `compare` sets two of them side by side.
//! - `server` starts and watches the server under test; the requests are the crate `loadgen`'s.
//! - `suite` measures named sets of cases with peers in the same run.
//! - `knee` searches for the highest rate that keeps an objective, a `threshold` or several.

#![doc = include_str!("../README.md")]

pub mod command;
pub mod result;

mod case;
mod cold_start;
mod compare;
mod console;
mod events;
mod html;
mod knee;
mod machine;
mod markdown;
mod measure;
mod proc;
mod quantity;
mod server;
mod suite;
mod summary;
mod threshold;

pub use console::{Console, View};
