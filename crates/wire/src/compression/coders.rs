//! A bounded number of things that are costly to make, for whoever needs one next.
//!
//! A thing is out of the pool while it is used, so that nobody waits for another. When all are out
//! a further one is made, and dropped again if the pool is full by then.

use parking_lot::Mutex;
use std::fmt;

/// Things that are used for a moment by many.
pub(super) struct Pool<T> {
    free: Mutex<Vec<T>>,
    kept_max: usize,
}

/// What a pool may keep.
pub(super) trait PoolItem: Default {
    /// Whether it is small enough to be kept.
    fn is_small(&self) -> bool;
}

impl<T: PoolItem> Pool<T> {
    pub(super) const fn new(kept_max: usize) -> Self {
        Self { free: Mutex::new(Vec::new()), kept_max }
    }

    /// Uses one.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let kept = self.free.lock().pop();
        let mut one = kept.unwrap_or_default();
        let result = work(&mut one);
        if one.is_small() {
            let mut free = self.free.lock();
            if free.len() < self.kept_max {
                free.push(one);
            }
        }
        result
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool(at most {})", self.kept_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counted(usize);

    impl PoolItem for Counted {
        fn is_small(&self) -> bool {
            self.0 < 3
        }
    }

    #[test]
    fn what_is_small_is_used_again_up_to_the_bound() {
        let pool: Pool<Counted> = Pool::new(1);
        for expected in [1, 2, 3, 1] {
            let count = pool.with(|one| {
                one.0 += 1;
                one.0
            });
            assert_eq!(count, expected, "one that has grown is dropped");
        }
        pool.with(|_| pool.with(|_| ()));
        assert_eq!(pool.free.lock().len(), 1, "of two that were out one is kept");
    }
}
