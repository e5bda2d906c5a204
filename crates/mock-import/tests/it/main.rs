//! Stubs of other programs, imported and then called: what fits, and what must not.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod fauxrpc;
mod gripmock;
mod harness;
mod trouble;
mod wiremock;
