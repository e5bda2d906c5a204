//! How keys are hashed: seeded per process and per table, so that nobody outside can pick keys that
//! collide. Under shuttle the seed is fixed, because a schedule must replay.

#[cfg(not(shuttle))]
pub use foldhash::fast::RandomState as BuildKeyHasher;

#[cfg(shuttle)]
pub use foldhash::fast::FixedState as BuildKeyHasher;
