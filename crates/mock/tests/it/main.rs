//! Mocks in-process, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod answers;
mod changes;
mod expressions;
mod faulty;
mod found;
mod from_schema;
mod harness;
mod memory;
mod outcomes;
mod people;
mod strangers;
mod streams;
mod well_known;
