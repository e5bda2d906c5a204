//! Loads of single keys that come together become one load of them all.

#![doc = include_str!("../README.md")]

mod batch;
mod loader;

pub use loader::Loader;
