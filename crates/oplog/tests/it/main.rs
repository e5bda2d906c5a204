//! The change log against a real PostgreSQL and real SQLite files.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

#[path = "../../../../examples/contacts/tests/it/cluster.rs"]
#[expect(dead_code, reason = "the reference application's tests use all of it")]
mod cluster;
mod support;

mod capture;
mod fresh;
mod intent;
mod keys;
mod reset;
mod simulation;
mod sqlite;
mod sqlite_intent;
mod trouble;
mod writing;
