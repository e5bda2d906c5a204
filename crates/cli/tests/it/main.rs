//! The `tidewire` program as its users meet it: arguments in, output and exit codes out.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod call;
mod check;
mod habits;
mod hosting;
mod init;
mod program;
mod schema;
mod server;
mod shells;
mod trouble;
mod version;
