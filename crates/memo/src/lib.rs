//! Memoized async functions that know exactly when they are stale.
