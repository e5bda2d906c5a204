//! What can be set on a memo.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Options of a memo; written while it is set up, read by publishes.
pub(crate) struct Options<V> {
    pub(crate) ttl: Life,
    pub(crate) error_ttl: Life,
    pub(crate) weigh: OnceLock<Box<Weigh<V>>>,
    pub(crate) fingerprint: OnceLock<Box<Fingerprint<V>>>,
    pub(crate) strict: AtomicBool,
    /// The share of hits that is audited, of 2^32.
    pub(crate) audit_share: AtomicU64,
}

type Weigh<V> = dyn Fn(&V) -> usize + Send + Sync;
type Fingerprint<V> = dyn Fn(&V) -> u64 + Send + Sync;

impl<V> Options<V> {
    pub(crate) fn new() -> Self {
        Self {
            ttl: Life::none(),
            error_ttl: Life::none(),
            weigh: OnceLock::new(),
            fingerprint: OnceLock::new(),
            strict: AtomicBool::new(false),
            audit_share: AtomicU64::new(0),
        }
    }

    pub(crate) fn ttl(&self) -> Option<Duration> {
        self.ttl.get()
    }

    pub(crate) fn error_ttl(&self) -> Option<Duration> {
        self.error_ttl.get()
    }

    pub(crate) fn heap_bytes(&self, value: &V) -> usize {
        self.weigh.get().map_or(0, |weigh| weigh(value))
    }

    pub(crate) fn fingerprint(&self, value: &V) -> Option<u64> {
        self.fingerprint.get().map(|fingerprint| fingerprint(value))
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict.load(Relaxed)
    }

    pub(crate) fn audit_share(&self) -> u64 {
        self.audit_share.load(Relaxed)
    }
}

/// An optional duration in an atomic, in nanoseconds.
pub(crate) struct Life(AtomicU64);

impl Life {
    const NONE: u64 = u64::MAX;

    fn none() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }

    pub(crate) fn set(&self, life: Duration) {
        let nanos = u64::try_from(life.as_nanos()).unwrap_or(Self::NONE - 1);
        self.0.store(nanos.min(Self::NONE - 1), Relaxed);
    }

    fn get(&self) -> Option<Duration> {
        let nanos = self.0.load(Relaxed);
        (nanos != Self::NONE).then(|| Duration::from_nanos(nanos))
    }
}

impl<V> fmt::Debug for Options<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("ttl", &self.ttl()).finish_non_exhaustive()
    }
}
