//! What a user of the crate can rely on, part by part. Events say what was recomputed.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used)]

mod announcing;
mod bounded_reads;
mod bounds;
mod compute;
mod contention;
mod cycles;
mod exactness;
mod freshness;
mod giving_up;
mod graphs;
mod growth;
mod handles;
mod hostile;
mod interface;
mod notify_sets;
mod notifying;
mod order;
mod panics;
mod programs;
mod property;
mod scopes;
mod searching;
mod steering;
mod strict;
mod support;
mod suspects;
mod threads;
mod time;
mod trouble;
mod verifying;
mod wakers;
mod watching;
mod weak_memory;
mod writes;
