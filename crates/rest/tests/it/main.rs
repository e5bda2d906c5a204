//! REST as bytes: heads and bodies to messages, messages to bodies.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod api;
mod attack;
mod fuzz;
mod large;
mod random;
mod split;
