//! Two sides of a link in one process, over streams that tests can cut, on a clock that they move.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod beside;
mod calls;
mod cuts;
mod ends;
mod herd;
mod holding;
mod made_of;
mod pair;
mod pouring;
mod streaming;
mod takeover;
mod watching;
