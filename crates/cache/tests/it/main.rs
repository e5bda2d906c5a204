//! The layer before services in this process: what is kept, for whom, and when it ends.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;
mod keeping;
mod memory;
mod method_override;
mod sharing;
mod together;
mod uncached;
mod verifying;
mod watching;
