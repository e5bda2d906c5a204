//! Schemas known at run time, from outside.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod validate;
