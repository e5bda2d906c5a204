//! What looks at a graph from above: for operators, the console and tests.
//!
//! The core imports nothing of this; `cargo xtask tidy` checks it.

pub(crate) mod inspect;
pub(crate) mod recording;
pub(crate) mod source_key;
pub(crate) mod steer;
pub(crate) mod stuck;
