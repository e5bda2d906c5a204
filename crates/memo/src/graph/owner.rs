//! What a memo and a source have in common for the erased graph: a name, a queue, a function table.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};

use crate::graph::Shared;
use crate::graph::cascade::Mark;
use crate::graph::core::Core;
use crate::graph::deferred::DeferredDrops;
use crate::graph::flight::WorkHead;
use crate::store::node::Header;
use crate::store::slots::Id;

/// A memo or a source, erased.
pub(crate) struct Owner {
    pub(crate) graph: &'static Shared,
    pub(crate) name: Arc<str>,
    pub(crate) number: u16,
    pub(crate) is_source: bool,
    /// The whole typed memo or source; set when it is registered.
    pub(crate) typed: Cell<*const ()>,
    pub(crate) functions: &'static Functions,
    /// Bytes of a node of this owner beyond value and edges.
    pub(crate) node_bytes: usize,
    /// Eviction queue and accounts; touched under the graph lock only.
    pub(crate) queue: Queue,
    /// Nothing of it is answered any more.
    is_closed: AtomicBool,
    /// Non-zero sends hits through the slow path: the event log is on, or hits are audited.
    probe: AtomicU32,
}

/// What the erased graph asks of the typed part; all but `refresh`, `change` and `close` run under the graph lock.
///
/// Each takes a pointer to a node of this owner as the slots hold it: good for the whole node.
pub(crate) struct Functions {
    /// A future that brings the node up to date on behalf of `parent`. Pinned.
    pub(crate) refresh: unsafe fn(&'static Owner, *const Header, parent: Id) -> Refresh,
    /// Takes the node out of its table, drops its value and retires it. The identity ended before.
    pub(crate) unlink: unsafe fn(&'static Owner, *const Header),
    /// Drops the value of the node; `false` when there is none.
    pub(crate) drop_value: unsafe fn(*const Header) -> bool,
    /// The key, rendered.
    pub(crate) label: unsafe fn(*const Header) -> String,
    /// A change of the key of a source that the node stands for; `None` for an interval or a value. Pinned, and
    /// not under the lock: it clones the key.
    pub(crate) change: unsafe fn(&'static Owner, *const Header) -> Option<Box<dyn Mark>>,
    /// Drops the function, so that nothing starts any more. Not under the lock.
    pub(crate) close: unsafe fn(&'static Owner),
    /// Gives back what the owner keeps by key, when no node of it is left.
    pub(crate) free: unsafe fn(&'static Owner, &mut Core),
    /// Sends hits of the owner the long way, or no longer.
    pub(crate) probe: unsafe fn(&'static Owner, &mut Core, bool),
    /// Has the attempt of a running computation begin anew, and says whom to wake for that.
    pub(crate) begin_anew: unsafe fn(*const WorkHead, &mut DeferredDrops),
    /// Ends a running computation with an error of kind *closed*.
    pub(crate) abort: unsafe fn(&mut Core, &'static Owner, *const WorkHead, &mut DeferredDrops),
}

/// A future that brings a node up to date and forgets how that went.
pub(crate) type Refresh = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The eviction queue of one owner: see [`crate::graph::budget`].
pub(crate) struct Queue {
    pub(crate) newest: Cell<u32>,
    pub(crate) oldest: Cell<u32>,
    pub(crate) hand: Cell<u32>,
    pub(crate) length: Cell<u32>,
    pub(crate) bytes: Cell<usize>,
    pub(crate) budget: Cell<usize>,
    /// Values that were served since hits are counted.
    pub(crate) hits: Cell<u64>,
}

// SAFETY: the cells of `queue` are touched under the graph lock only.
unsafe impl Sync for Owner {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Owner {}

impl Owner {
    pub(crate) fn new(
        graph: &'static Shared,
        name: Arc<str>,
        number: u16,
        is_source: bool,
        functions: &'static Functions,
        node_bytes: usize,
    ) -> Self {
        let end = || Cell::new(u32::MAX);
        let queue = Queue {
            newest: end(),
            oldest: end(),
            hand: end(),
            length: Cell::new(0),
            bytes: Cell::new(0),
            budget: Cell::new(usize::MAX),
            hits: Cell::new(0),
        };
        let probe = AtomicU32::new(0);
        let typed = Cell::new(std::ptr::null());
        let is_closed = AtomicBool::new(false);
        Self {
            graph,
            name,
            number,
            is_source,
            typed,
            functions,
            node_bytes,
            queue,
            is_closed,
            probe,
        }
    }

    /// Whether nothing of it is answered any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(SeqCst)
    }

    /// See [`is_closed`](Self::is_closed).
    pub(crate) fn closes(&self) {
        self.is_closed.store(true, SeqCst);
    }

    /// Whether hits must take the slow path.
    pub(crate) fn is_probed(&self) -> bool {
        self.probe.load(Relaxed) != 0
    }

    /// Sends hits the long way while any bit is set.
    pub(crate) fn set_probe(&'static self, core: &mut Core, bit: u32, on: bool) {
        let bits = self.probe.load(Relaxed);
        let bits = if on { bits | bit } else { bits & !bit };
        self.probe.store(bits, Relaxed);
        // SAFETY: this owner's own function table.
        unsafe { (self.functions.probe)(self, core, bits != 0) };
    }
}

/// Bit of [`Owner::set_probe`]: the event log is on.
pub(crate) const PROBE_LOG: u32 = 1;
/// Bit of [`Owner::set_probe`]: hits are audited.
pub(crate) const PROBE_AUDIT: u32 = 2;
/// Bit of [`Owner::set_probe`]: hits are counted.
pub(crate) const PROBE_COUNT: u32 = 4;

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&self.name).finish()
    }
}
