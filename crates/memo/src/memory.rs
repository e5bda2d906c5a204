//! The lowest floor: memory that lock-free readers may still see, and what threads keep for themselves.
//!
//! Nothing here knows of keys, values or graphs.

pub(crate) mod ambient;
pub(crate) mod barrier;
pub(crate) mod epoch;
pub(crate) mod fault;
pub(crate) mod hasher;
pub(crate) mod hazard;
pub(crate) mod line;
pub(crate) mod pool;
pub(crate) mod sync;
pub(crate) mod wake;
