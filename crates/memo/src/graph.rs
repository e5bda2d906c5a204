//! A graph: everything that can depend on each other, with one budget and one notion of time.
//!
//! On this floor, what is current is decided: changes and their walks, verification, eviction, expiry,
//! the end. Everything is erased; what runs functions is the floor above.

pub(crate) mod ambient;
pub(crate) mod audits;
pub(crate) mod budget;
pub(crate) mod cascade;
pub(crate) mod close;
pub(crate) mod core;
pub(crate) mod cycle;
pub(crate) mod deferred;
pub(crate) mod dependants;
pub(crate) mod event;
pub(crate) mod expiry;
pub(crate) mod flight;
pub(crate) mod late;
pub(crate) mod ledger;
pub(crate) mod order;
pub(crate) mod owner;
pub(crate) mod relief;
pub(crate) mod stats;
pub(crate) mod subscriptions;
pub(crate) mod unkept;
pub(crate) mod validate;
pub(crate) mod verify;

#[cfg(feature = "driver")]
use std::any::Any;
use std::fmt;
#[cfg(feature = "driver")]
use std::sync::Weak;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use crate::graph::audits::Audits;
use crate::graph::cascade::Walk;
use crate::graph::core::Core;
use crate::graph::event::{EventKind, OnMismatch};
use crate::graph::owner::{Owner, PROBE_COUNT, PROBE_LOG};
use crate::graph::stats::Stats;
use crate::memory::sync::{HotMutex, Mutex};
use crate::memory::{line, sync, wake};

/// Memos and sources that may depend on each other.
///
/// Most programs use [`Graph::global`] without naming it. A graph of its own has its own budget, and
/// is closed when its last `Graph` is dropped: its values and functions are freed, running
/// computations and every later `get` answer with an error of kind
/// [`Closed`](crate::ErrorKind::Closed), and watches end. Handles (`Memo`, `Source`) are `Copy` and may
/// outlive it, which is why some 10 KiB of a closed graph with one memo and one source, and 4 KiB for each
/// further one, are never freed: make a graph for what lives as long as the program, not for a request.
/// The places of its nodes and values serve those of other graphs; the process does not get smaller.
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use tidewire::memo::{Graph, Memo};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let double = Memo::infallible_in(&graph, "double", async |n: u32| 2 * n);
/// assert_eq!(*double.get(21).await?, 42);
/// assert_eq!(graph.stats().started, 1);
/// assert_eq!(*double.get(21).await?, 42);
/// assert_eq!(graph.stats().started, 1, "the second one came from memory");
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Graph {
    pub(crate) shared: &'static Shared,
    /// Closes the graph with the last clone; `None` for the global graph.
    _closer: Option<Arc<Closer>>,
}

struct Closer(&'static Shared);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What handles point at.
pub(crate) struct Shared {
    pub(crate) core: HotMutex<Core>,
    /// Held for a whole walk; always taken before `core`. A walk that `changed_async` left between
    /// two chunks waits inside, and whoever takes the lock next finishes it first.
    pub(crate) cascade: Mutex<Option<Walk>>,
    /// Tasks that wait for the cascade lock.
    pub(crate) cascade_waiters: Mutex<Vec<Waker>>,
    /// Set under the graph lock when the budget is exceeded, cleared by whoever relieves it.
    pub(crate) over_budget: AtomicBool,
    /// Somebody is relieving it.
    pub(crate) relieving: AtomicBool,
    pub(crate) audits: Audits,
    /// How many writes are open; see [`crate::graph::order`].
    pub(crate) writes: AtomicUsize,
    pub(crate) on_mismatch: Mutex<Option<Arc<OnMismatch>>>,
    walk_chunk: AtomicUsize,
    walk_yields: AtomicBool,
    #[cfg(feature = "driver")]
    pub(crate) driver: Mutex<Weak<dyn Any + Send + Sync>>,
}

impl Graph {
    /// Makes a graph that is closed when its last clone is dropped.
    ///
    /// Versions start at 1; see [`Graph::starting_at`].
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self::starting_at(0)
    }

    /// Makes a graph whose versions are larger than `tick`.
    ///
    /// Pass the time of the boot in nanoseconds since 1970 and versions are never repeated by the
    /// next boot, as long as the clock does not go back (this crate reads no clock itself). A number above
    /// 2^63 counts as 2^63, so that versions never run out.
    #[must_use]
    pub fn starting_at(tick: u64) -> Self {
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(tick.min(1 << 63))));
        Self { shared, _closer: Some(Arc::new(Closer(shared))) }
    }

    /// The graph of [`Memo::new`](crate::Memo::new) and [`Source::new`](crate::Source::new), never
    /// closed.
    #[must_use]
    pub fn global() -> Self {
        static GLOBAL: OnceLock<&'static Shared> = OnceLock::new();
        let shared = GLOBAL.get_or_init(|| Box::leak(Box::new(Shared::new(0))));
        Self { shared, _closer: None }
    }

    /// Counters since the graph was made.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let core = self.shared.core.lock();
        let nodes = core.slots.in_use();
        let bytes = core.bytes();
        let panicked_drops = wake::swallowed_panics();
        let threads = line::threads();
        Stats { nodes, bytes, threads, panicked_drops, ..core.stats }
    }

    /// Sets how many steps a walk or a verification makes before it lets others in, and whether it
    /// yields the thread then. For stress programs; the default is 512 without a yield.
    #[doc(hidden)]
    pub fn set_walk_chunk(&self, steps: usize, yields: bool) {
        self.shared.walk_chunk.store(steps.max(1), Relaxed);
        self.shared.walk_yields.store(yields, Relaxed);
    }
}

impl Shared {
    fn new(tick: u64) -> Self {
        Self {
            core: HotMutex::new(Core::new(tick)),
            cascade: Mutex::new(None),
            cascade_waiters: Mutex::new(Vec::new()),
            over_budget: AtomicBool::new(false),
            relieving: AtomicBool::new(false),
            audits: Audits::default(),
            writes: AtomicUsize::new(0),
            on_mismatch: Mutex::new(None),
            walk_chunk: AtomicUsize::new(if cfg!(shuttle) { 1 } else { 512 }),
            walk_yields: AtomicBool::new(false),
            #[cfg(feature = "driver")]
            driver: Mutex::new(Weak::<()>::new()),
        }
    }

    /// Gives a new memo or source its number.
    pub(crate) fn register(&self, make: impl FnOnce(u16) -> &'static Owner) -> &'static Owner {
        let mut core = self.core.lock();
        let number = core.owners.iter().position(Option::is_none).unwrap_or(core.owners.len());
        let owner = make(u16::try_from(number).expect("fewer than 65,536 memos and sources"));
        let logged = core.log.as_ref().is_some_and(|log| log.recording.has(EventKind::Hit));
        owner.set_probe(&mut core, PROBE_LOG, logged);
        let counted = core.counts_hits;
        owner.set_probe(&mut core, PROBE_COUNT, counted);
        if number == core.owners.len() {
            core.owners.push(None);
        }
        core.owners[number] = Some(owner);
        owner
    }

    pub(crate) fn walk_chunk(&self) -> usize {
        self.walk_chunk.load(Relaxed)
    }

    /// Between two chunks, with no lock of the core held.
    pub(crate) fn between_chunks(&self) {
        if self.walk_yields.load(Relaxed) {
            sync::yield_thread();
        }
    }
}

/// Changes whose walk is complete; see [`crate::compute::publish`]. Of all graphs, since a computation may
/// read another graph: what it reads there is not tracked, but who asks after a change is not given a run
/// from before it. Read it under the graph lock.
pub(crate) fn revision() -> u64 {
    REVISION.load(SeqCst)
}

/// A change is complete: from now on, callers are later than it.
pub(crate) fn raise_revision() {
    REVISION.fetch_add(1, SeqCst);
}

static REVISION: AtomicU64 = AtomicU64::new(0);

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("stats", &self.stats()).finish()
    }
}
