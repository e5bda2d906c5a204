//! The live protocol, two sessions against each other: no sockets, no clock.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod bad_fields;
mod calls;
mod checks;
mod conversation;
mod conversations;
mod fixtures;
mod freshness;
mod fuzz;
mod handshakes;
mod heard;
mod hosted;
mod hostile;
mod link;
mod network;
mod pair;
mod resuming;
mod streams;
