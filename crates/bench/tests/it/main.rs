//! The command end to end, against servers that live in these tests.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail like the test itself")]

mod bad_input;
mod foreign;
mod harness;
mod http;
mod newcomer;
mod process;
mod results;
mod schema;
mod suite;
mod tls;
mod trouble;
