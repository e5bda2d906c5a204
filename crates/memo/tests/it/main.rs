//! What a user of the crate can rely on, part by part. Events say what was recomputed.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used)]

mod bounds;
mod compute;
mod exactness;
mod programs;
mod property;
mod support;
mod time;
mod trouble;
mod watching;
mod writes;
