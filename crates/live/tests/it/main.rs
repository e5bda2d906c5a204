//! Two sides of a link in one process, over streams that tests can cut, on a clock that they move.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod calls;
mod cuts;
mod dependencies;
mod ends;
mod expiry;
mod floods;
mod herd;
mod holding;
mod pair;
mod pouring;
mod shared_writer;
mod streaming;
mod takeover;
mod watching;
