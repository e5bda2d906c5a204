//! What lies below the memo graph: memory that lock-free readers may still see, a tree of intervals, a set of
//! numbers, and what threads keep for themselves.
//!
//! It is the lowest level of this crate: nothing here knows of keys, values or graphs.

pub(crate) mod barrier;
pub(crate) mod callers;
pub(crate) mod depth;
pub(crate) mod epoch;
pub(crate) mod fault;
pub(crate) mod hasher;
pub(crate) mod hazard;
pub(crate) mod intervals;
pub(crate) mod line;
pub(crate) mod numbers;
pub(crate) mod pool;
pub(crate) mod running;
pub(crate) mod sync;
pub(crate) mod wake;
