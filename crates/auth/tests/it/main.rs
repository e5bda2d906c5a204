//! Tokens good and bad, keys that rotate, and what is known of them afterwards.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod issuer;
mod log;
mod rotation;
mod tokens;
