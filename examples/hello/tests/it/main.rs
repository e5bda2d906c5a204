//! The program of the README, as its documents quote it and as it runs.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod documents;
mod program;
