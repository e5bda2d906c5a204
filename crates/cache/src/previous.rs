//! What was kept before, so that a service that names its own content need not send it again.
//!
//! An upstream that gave an answer with a validator is asked by it when the answer is in doubt.
//! When it says *unchanged*, the answer is the one that was kept. Only such answers are noted, and
//! each until the graph lets go of it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Weak;

use crate::cached_reply::{CachedReply, Entry};
use crate::key::Key;

/// Answers of one method that came with a validator of the service's own.
#[derive(Default)]
pub(crate) struct Previous(Mutex<HashMap<Key, Weak<Entry>>>);

impl Previous {
    /// Notes an answer, if the service named its content.
    pub(crate) fn note(&self, kept: &CachedReply) {
        if kept.own().validator().is_some() {
            self.lock().insert(kept.key().clone(), kept.downgrade());
        }
    }

    /// What was kept under a key, if it is there still.
    pub(crate) fn of(&self, key: &Key) -> Option<CachedReply> {
        let known = self.lock().get(key)?.upgrade();
        known.map(CachedReply::from)
    }

    /// Forgets what is under a key, now that it is gone.
    pub(crate) fn forget(&self, key: &Key) {
        let mut known = self.lock();
        if known.get(key).is_some_and(|entry| entry.strong_count() == 0) {
            known.remove(key);
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<Key, Weak<Entry>>> {
        self.0.lock()
    }
}
