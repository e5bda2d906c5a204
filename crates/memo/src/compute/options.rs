//! What can be set on a memo.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::memory::sync::Mutex;
use crate::memory::wake::quietly;

/// Options of a memo; written while it is set up, read by publishes.
pub(crate) struct Options<V> {
    pub(crate) ttl: Life,
    pub(crate) error_ttl: Life,
    pub(crate) weigh: Function<Weigh<V>>,
    pub(crate) fingerprint: Function<Fingerprint<V>>,
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
            weigh: Function::none(),
            fingerprint: Function::none(),
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

    #[inline(always)]
    pub(crate) fn heap_bytes(&self, value: &V) -> usize {
        if self.weigh.is_set() { self.weigh_by_function(value) } else { 0 }
    }

    #[inline(never)]
    fn weigh_by_function(&self, value: &V) -> usize {
        self.weigh.get().map_or(0, |weigh| weigh(value))
    }

    #[inline(always)]
    pub(crate) fn fingerprint(&self, value: &V) -> Option<u64> {
        if self.fingerprint.is_set() { self.fingerprint_by_function(value) } else { None }
    }

    #[inline(never)]
    fn fingerprint_by_function(&self, value: &V) -> Option<u64> {
        self.fingerprint.get().map(|fingerprint| fingerprint(value))
    }

    /// The memo is closed: drops the functions. Not under a lock.
    pub(crate) fn close(&self) {
        self.weigh.close();
        self.fingerprint.close();
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict.load(Relaxed)
    }

    pub(crate) fn audit_share(&self) -> u64 {
        self.audit_share.load(Relaxed)
    }
}

/// A function that a memo may be given, and keeps until it is closed.
pub(crate) struct Function<F: ?Sized> {
    /// Most have none, and to ask costs less than the lock.
    is_set: AtomicBool,
    function: Mutex<Option<Arc<F>>>,
}

impl<F: ?Sized> Function<F> {
    fn none() -> Self {
        Self { is_set: AtomicBool::new(false), function: Mutex::new(None) }
    }

    /// Sets it, if there is none.
    pub(crate) fn set(&self, function: Arc<F>) {
        let not_needed = {
            let mut place = self.function.lock();
            if place.is_none() { place.replace(function) } else { Some(function) }
        };
        self.is_set.store(true, Release);
        drop(not_needed);
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Acquire)
    }

    fn get(&self) -> Option<Arc<F>> {
        self.function.lock().clone()
    }

    fn close(&self) {
        let function = self.function.lock().take();
        quietly(|| drop(function));
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
