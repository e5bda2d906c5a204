//! The keys of a source that are being written, for intervals that are read for the first time meanwhile.
//!
//! An interval that is there when a write begins is found by the write. One that comes later looks here
//! whether it contains a key, so that what reads it is held only then.

use std::sync::Arc;

use crate::memory::intervals::Interval;
use crate::memory::sync::Mutex;

/// See the module documentation.
pub(crate) struct OpenKeys<K>(Mutex<Vec<OpenKey<K>>>);

/// A key, and the number of the write.
struct OpenKey<K> {
    write: u64,
    /// Shared, as nothing of the user runs under the lock.
    key: Arc<K>,
}

/// Keys of one write, which end with this.
pub(crate) struct OpenKeyGuard<K: 'static> {
    keys: &'static OpenKeys<K>,
    write: u64,
}

impl<K> OpenKeys<K> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A write of this key begins.
    pub(crate) fn open(&'static self, write: u64, key: K) -> OpenKeyGuard<K> {
        let key = Arc::new(key);
        self.0.lock().push(OpenKey { write, key });
        OpenKeyGuard { keys: self, write }
    }

    /// The writes of keys in an interval. Comparing may panic.
    pub(crate) fn writes_in(&self, interval: &Interval<K>) -> Vec<u64>
    where
        K: Ord,
    {
        let open: Vec<_> = self.0.lock().iter().map(|it| (it.write, it.key.clone())).collect();
        let inside = open.iter().filter(|(_, key)| interval.contains(key));
        inside.map(|(write, _)| *write).collect()
    }
}

impl<K> Drop for OpenKeyGuard<K> {
    fn drop(&mut self) {
        let ended: Vec<_> = {
            let mut open = self.keys.0.lock();
            let ended = open.extract_if(.., |key| key.write == self.write).collect();
            if open.is_empty() {
                open.shrink_to(KEPT);
            }
            ended
        };
        drop(ended);
    }
}

/// Room that stays when nobody writes.
const KEPT: usize = 8;
