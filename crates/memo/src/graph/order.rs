//! The order of reads while somebody writes.
//!
//! Between the commit of a transaction and the announcement of what it changed, a value that is computed
//! shows the state after it, and a value that is still in memory the state before. Whoever was given the
//! first must not be given the second afterwards. So a computed value is held, as long as the writes that
//! had begun when its load ended, of keys that it read, are not announced. Hits go on meanwhile.
//!
//! Costs one load of a shared word for a computation while nobody writes.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::expiry::Alarm;
use crate::graph::validate::Record;
use crate::graph::{Graph, Shared};
use crate::store::slots::Id;

/// The writes that have begun and are not announced yet.
pub(crate) struct Writes {
    open: Vec<Write>,
    next: u64,
    /// Computations that hold their values, and runs of those who write.
    waiting: HashMap<u64, Waker>,
    limit: Duration,
}

struct Write {
    number: u64,
    /// Who writes; see [`crate::compute::capture::asker`].
    holder: u64,
    keys: Vec<WrittenKey>,
    /// The intervals that contain one of its keys.
    intervals: Vec<Id>,
    /// When [`Graph::advance`] first saw it.
    seen: Option<Instant>,
}

/// What a write may change.
pub(crate) struct WrittenKey {
    pub(crate) owner: u16,
    /// `None` for every key of the source.
    pub(crate) hash: Option<u64>,
}

/// A write that has begun; it is over when this is dropped.
pub(crate) struct Ticket {
    shared: &'static Shared,
    number: u64,
}

impl Writes {
    pub(crate) fn new() -> Self {
        Self { open: Vec::new(), next: 0, waiting: HashMap::new(), limit: LIMIT }
    }

    /// Whether there is one.
    pub(crate) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Everybody who waits for a write, or writes and waits, looks again.
    pub(crate) fn stop_waiting(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }

    fn is_open(&self, number: u64) -> bool {
        self.open.iter().any(|write| write.number == number)
    }
}

impl WrittenKey {
    /// Whether this is a key that was read; intervals have no hash.
    fn concerns(&self, owner: u16, hash: u64) -> bool {
        self.owner == owner && self.hash.is_none_or(|own| own == hash)
    }
}

impl Graph {
    /// Sets for how long a [`WriteGuard`](crate::WriteGuard) that is neither finished nor dropped holds up
    /// values that are computed meanwhile; 30 seconds unless this is called. Like every life it needs
    /// somebody who tells the time.
    pub fn set_write_limit(&self, limit: Duration) {
        self.shared.core.lock().writes.limit = limit;
    }
}

impl Shared {
    /// Begins a write.
    pub(crate) fn begin_write(&'static self, holder: u64) -> Ticket {
        let mut core = self.core.lock();
        core.writes.next += 1;
        let number = core.writes.next;
        core.writes.open.push(Write {
            number,
            holder,
            keys: Vec::new(),
            intervals: Vec::new(),
            seen: None,
        });
        self.writes.fetch_add(1, SeqCst);
        Ticket { shared: self, number }
    }

    /// Whether anybody writes.
    #[inline]
    pub(crate) fn has_writes(&self) -> bool {
        self.writes.load(SeqCst) != 0
    }

    /// Whether this one does.
    pub(crate) fn is_writing(&self, asker: u64) -> bool {
        self.core.lock().writes.open.iter().any(|write| write.holder == asker)
    }

    fn end_writes(&self, is_over: impl Fn(&Write, Duration) -> bool) {
        let mut deferred = DeferredDrops::default();
        let mut core = self.core.lock();
        let (before, limit) = (core.writes.open.len(), core.writes.limit);
        core.writes.open.retain(|write| !is_over(write, limit));
        let ended = before - core.writes.open.len();
        if core.writes.open.is_empty() {
            core.writes.open.shrink_to(KEPT);
        }
        if ended > 0 {
            self.writes.fetch_sub(ended, SeqCst);
            deferred.wakers.extend(core.writes.stop_waiting());
        }
    }

    /// Ends what holds up others for too long. Returns when to look again.
    pub(crate) fn limit_writes(&self, now: Instant) -> Option<Instant> {
        if !self.has_writes() {
            return None;
        }
        self.end_writes(|write, limit| {
            write.seen.is_some_and(|seen| now.saturating_duration_since(seen) >= limit)
        });
        let mut core = self.core.lock();
        let limit = core.writes.limit;
        let ends = core.writes.open.iter_mut().map(|write| *write.seen.get_or_insert(now));
        ends.min().and_then(|first| first.checked_add(limit))
    }
}

impl Ticket {
    /// The write may change this key, too.
    pub(crate) fn add(&self, key: WrittenKey) {
        let mut core = self.shared.core.lock();
        let open = core.writes.open.iter_mut().find(|write| write.number == self.number);
        if let Some(write) = open {
            write.keys.push(key);
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.end_writes(|write, _| write.number == self.number);
    }
}

impl Core {
    /// The writes, others than its own, that may have changed what a computation read. What is not in memory
    /// any more may have been anything.
    pub(crate) fn writes_of(&self, records: &[Record], asker: u64) -> Vec<u64> {
        let concerns = |write: &&Write| {
            records.iter().any(|record| match self.node(record.id) {
                Some(node) if node.is_source() => {
                    write.intervals.contains(&node.id)
                        || write.keys.iter().any(|key| key.concerns(node.owner, node.hash))
                }
                Some(_) => false,
                None => true,
            })
        };
        let others = self.writes.open.iter().filter(|write| write.holder != asker);
        others.filter(concerns).map(|write| write.number).collect()
    }

    /// A write may change what is in these intervals, too.
    pub(crate) fn add_intervals(&mut self, number: u64, intervals: impl IntoIterator<Item = Id>) {
        let open = self.writes.open.iter_mut().find(|write| write.number == number);
        if let Some(write) = open {
            write.intervals.extend(intervals);
        }
    }

    /// Whether any of these writes goes on; then the task is woken when one ends. What is returned is
    /// dropped and called outside the lock.
    pub(crate) fn await_writes(
        &mut self,
        numbers: &[u64],
        asker: u64,
        waker: Waker,
    ) -> Option<(Option<Waker>, Option<Alarm>)> {
        let goes_on = !self.closed && numbers.iter().any(|&number| self.writes.is_open(number));
        goes_on.then(|| (self.writes.waiting.insert(asker, waker), self.expiry.alarm()))
    }
}

impl Shared {
    /// A run of one who writes waits for what it needs, and is told when the memo is closed. What is returned
    /// is dropped outside the lock.
    pub(crate) fn awaits(&self, run: u64, waker: Waker) -> Option<Waker> {
        self.core.lock().writes.waiting.insert(run, waker)
    }

    /// It waits no longer.
    pub(crate) fn awaits_no_more(&self, run: u64) -> Option<Waker> {
        self.core.lock().writes.waiting.remove(&run)
    }
}

/// A candidate's wait: the writes that it waits for.
pub(crate) struct Hold(pub(crate) Vec<u64>);

impl Hold {
    /// Whether the value must be held still.
    pub(crate) fn poll(&self, shared: &Shared, asker: u64, context: &Context<'_>) -> bool {
        let waker = context.waker().clone();
        let waits = shared.core.lock().await_writes(&self.0, asker, waker);
        if let Some((_, alarm)) = &waits {
            alarm.iter().for_each(|alarm| alarm());
        }
        waits.is_some()
    }
}

const LIMIT: Duration = Duration::from_secs(30);
/// Room for writes that stays when nobody writes.
const KEPT: usize = 8;
