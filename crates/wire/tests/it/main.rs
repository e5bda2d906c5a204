//! The protocols as bytes, through the public interface: heads, requests, replies, and both sides
//! against each other at every split of the bytes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod both_sides;
mod fuzz;
mod harness;
mod negotiate;
mod replies;
mod requests;
mod written;
