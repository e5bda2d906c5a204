//! What can be set on a memo.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::graph::owner::PROBE_AUDIT;
use crate::graph::relief;
use crate::memo::Memo;
use crate::store::key::Key;

impl<K: Key, V: Send + Sync + 'static> Memo<K, V> {
    /// Lets values live at most this long. For functions that read something that no source covers.
    ///
    /// Time passes only when somebody says so: **without a driver ([`Graph::drive`](crate::Graph::drive)) or
    /// calls of [`Graph::advance`](crate::Graph::advance) nothing expires.** An expired value is recomputed
    /// when it is next asked for; if it comes out equal, its dependants stay valid.
    #[must_use]
    pub fn ttl(self, life: Duration) -> Self {
        self.inner.options.ttl.set(life);
        self
    }

    /// Memoizes errors too, for at most this long. Without it an error is not memoized.
    ///
    /// A computation that used an error that is not memoized is not memoized either.
    #[must_use]
    pub fn error_ttl(self, life: Duration) -> Self {
        self.inner.options.error_ttl.set(life);
        self
    }

    /// Says how many bytes a value holds beyond its own size, for the budget. Of several
    /// such functions of a memo the first counts.
    /// A value with its key and its edges counts for at most 4 GiB.
    #[must_use]
    pub fn weigh(self, bytes: impl Fn(&V) -> usize + Send + Sync + 'static) -> Self {
        self.inner.options.weigh.set(Arc::new(bytes));
        self
    }

    /// Gives evicted values a 64-bit hash to be remembered by, so that early cutoff survives eviction.
    /// Two different values with one hash would be taken for equal, so use a good one.
    #[must_use]
    pub fn fingerprint(self, hash: impl Fn(&V) -> u64 + Send + Sync + 'static) -> Self {
        self.inner.options.fingerprint.set(Arc::new(hash));
        self
    }

    /// Sets a byte budget for this memo beside that of the graph.
    #[must_use]
    pub fn budget(self, bytes: usize) -> Self {
        let shared = self.inner.shared();
        let core = shared.core.lock();
        self.inner.owner.queue.budget.set(bytes);
        core.check_budget(shared, Some(&self.inner.owner));
        drop(core);
        relief::relieve(shared);
        self
    }

    /// Makes callers that arrived before a change wait for a value that is valid after it, instead of
    /// being served the unpublished value of the attempt that the change outdated.
    ///
    /// Such an early value can mix the states before and after. After 16 rejected attempts in a row the
    /// early value of the next one is served nevertheless, and so is at once what strict memos make of
    /// it. A caller that holds a write guard is given what his own run makes, strict or not.
    #[must_use]
    pub fn strict(self) -> Self {
        self.inner.options.strict.store(true, Relaxed);
        self
    }

    /// Re-executes this share of the hits of [`Memo::get`] and reports when the result differs: then the
    /// function reads something that is no source. See [`Graph::on_mismatch`](crate::Graph::on_mismatch).
    ///
    /// Tests use 1.0; production something like 0.001.
    #[must_use]
    pub fn verify(self, share: f64) -> Self {
        let all = 4_294_967_296.0;
        let share = if share <= 0.0 { 0 } else { (share * all).clamp(1.0, all) as u64 };
        self.inner.options.audit_share.store(share, Relaxed);
        let mut core = self.inner.shared().core.lock();
        self.inner.set_probe(&mut core, PROBE_AUDIT, share != 0);
        self
    }
}
