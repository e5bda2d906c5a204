//! Behaviour that users see, over every protocol, with real sockets and foreign clients.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod bad_input;
mod browser;
mod client;
mod commands;
mod foreign;
mod harness;
mod hostile;
mod http2_peer;
mod in_process;
mod plain;
mod refusals;
mod run_time_schema;
mod secure;
mod trouble;
mod upstream;
mod vocabulary;
mod way;
