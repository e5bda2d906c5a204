//! One binary for all tests of this crate's public face.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod errors;
mod generated;
