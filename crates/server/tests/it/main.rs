//! Servers as their clients see them, over sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod caches;
mod callers;
mod cors;
mod docs;
mod host;
mod http;
mod http1;
mod prepared;
mod prepared_watched;
mod refused;
mod reload;
mod rest;
mod start;
mod tunnels;
