//! A value that another takes the place of now and then, while whoever uses it goes on with the one
//! that it has.
//!
//! Whoever keeps one sees by one number that there is another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{RwLock, RwLockUpgradableReadGuard};

/// The latest edition of a value.
pub(crate) struct Latest<T> {
    edition: AtomicU64,
    value: RwLock<Arc<T>>,
}

impl<T> Latest<T> {
    /// Begins with this one, of that number.
    pub(crate) fn new(edition: u64, value: T) -> Self {
        Self { edition: AtomicU64::new(edition), value: RwLock::new(Arc::new(value)) }
    }

    /// The value as it is now.
    pub(crate) fn now(&self) -> Arc<T> {
        Arc::clone(&self.value.read())
    }

    /// The number of the latest edition.
    #[inline]
    pub(crate) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Puts what `make` makes of the latest one in its place: one at a time, while others go on by
    /// what there is. `make` is told the number of the new edition.
    ///
    /// # Errors
    /// Those of `make`. Nothing changes then.
    pub(crate) fn replace<E>(
        &self,
        make: impl FnOnce(&Arc<T>, u64) -> Result<T, E>,
    ) -> Result<(), E> {
        let value = self.value.upgradable_read();
        let edition = self.edition.load(Ordering::Relaxed) + 1;
        let next = make(&value, edition)?;
        let mut value = RwLockUpgradableReadGuard::upgrade(value);
        let before = std::mem::replace(&mut *value, Arc::new(next));
        self.edition.store(edition, Ordering::Release);
        drop(value);
        drop(before);
        Ok(())
    }
}

/// Leads to the latest edition of a value that may not be there yet, or not any more: it does not
/// keep it alive. Clones lead to the same one.
pub(crate) struct LatestHandle<T>(Arc<OnceLock<Weak<Latest<T>>>>);

impl<T> LatestHandle<T> {
    /// Leads to this one from now on.
    pub(crate) fn set(&self, latest: &Arc<Latest<T>>) {
        let _ = self.0.set(Arc::downgrade(latest));
    }

    /// The value as it is now, while there is one.
    pub(crate) fn now(&self) -> Option<Arc<T>> {
        Some(self.0.get()?.upgrade()?.now())
    }
}

impl<T> Default for LatestHandle<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for LatestHandle<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
