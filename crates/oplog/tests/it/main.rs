//! The change log against a real PostgreSQL and real SQLite files.
#![expect(clippy::unwrap_used, clippy::large_futures, reason = "tests fail by panicking")]

#[path = "../../../../examples/contacts/tests/it/cluster.rs"]
#[expect(dead_code, reason = "the reference application's tests use all of it")]
mod cluster;
mod support;

mod capture;
mod fresh;
mod sqlite;
