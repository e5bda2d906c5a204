//! The reference application over the wire: a real socket on a free port, a temporary database.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod app;
mod bad_input;
mod bounds;
mod chromium;
mod cluster;
mod contract;
mod durability;
mod exactly_once;
mod filling;
mod hosts;
mod live;
mod memoized;
mod once;
mod outage;
mod plain;
mod plan;
mod relay;
mod rpc;
mod secure;
mod three_hosts;
mod together;
mod tour;
