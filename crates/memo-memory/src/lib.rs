//! What lies below the memo graph: memory that lock-free readers may still see, a tree of intervals, a set of
//! numbers, and what threads keep for themselves.
//!
//! Nothing here knows of keys, values or graphs. It is a part of `tidewire-memo`, for which alone it is
//! made, and promises nothing to anyone else.

pub mod ambient;
pub mod barrier;
pub mod callers;
pub mod depth;
pub mod epoch;
pub mod fault;
pub mod hasher;
pub mod hazard;
pub mod intervals;
pub mod line;
pub mod numbers;
pub mod pool;
pub mod running;
pub mod sync;
pub mod wake;
