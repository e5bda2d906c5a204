//! Calling a server: where it is, what it speaks, what it offers, and one call of it.
//!
//! ```text
//! target ─▶ detect: TLS? gRPC? ─▶ schema: files, or reflection ─▶ input: JSON to messages ─▶ rpc │ rest │ plain
//! ```
//!
//! Detection asks for the server's health, which changes nothing; the call itself is sent once.

pub(crate) mod detect;
pub(crate) mod input;
pub(crate) mod outcome;
pub(crate) mod output;
pub(crate) mod plain;
pub(crate) mod printable;
pub(crate) mod reach;
pub(crate) mod reflection;
pub(crate) mod rest;
pub(crate) mod rpc;
pub(crate) mod target;
pub(crate) mod watch;
