//! The part of a node that is the same for every key and value type.
//!
//! A node is a stable identity: it stays while its value is computed anew, evicted or marked.
//!
//! ```text
//!            publish                 a dependency may have changed
//!   EMPTY ───────────▶ FRESH ─────────────────────────────────────▶ SUSPECT
//!                      │  ▲ ◀───────── verified, or cut off ────────   │
//!               evict  │  │ compute                                    │ invalidate
//!                      ▼  │                                            ▼
//!                      GHOST ── mark ──▶ FADED ── invalidate ───────▶ DIRTY
//! ```
//! Computing is not a state: a running computation hangs off `work` and may be detached at any time.
//! Everything but `state`, `visited` and `version` is read and written under the graph lock only.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::AtomicU8 as PlainAtomicU8;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::core::Core;
use crate::edges::Edges;
use crate::slots::Id;
use crate::sync::{AtomicU8, AtomicU64};
use crate::work::WorkHead;

/// Computed never, or computed and cancelled.
pub(crate) const EMPTY: u8 = 0;
/// The value is there and current; lock-free readers serve it.
pub(crate) const FRESH: u8 = 1;
/// Marked: something below changed. Value, version and dependencies are kept for verification.
pub(crate) const SUSPECT: u8 = 2;
/// Current, but the value was evicted; invalidations still travel through it.
pub(crate) const GHOST: u8 = 3;
/// A marked ghost.
pub(crate) const FADED: u8 = 4;
/// Explicitly invalidated or expired: its function must run.
pub(crate) const DIRTY: u8 = 5;
/// Unlinked; only lock-free readers that came earlier still see it.
pub(crate) const GONE: u8 = 6;

/// The first field of every node type, so that a pointer to a node is a pointer to its header.
#[repr(C)]
pub(crate) struct Header {
    /// The hash of the key, kept so that tables are rebuilt without running user code.
    pub(crate) hash: u64,
    /// The tick up to which every dependency was known not to have changed.
    pub(crate) verified: Cell<u64>,
    /// The tick at which a walk last took dependants from the list.
    pub(crate) taken: Cell<u64>,
    dependencies: UnsafeCell<Edges>,
    version: AtomicU64,
    /// Neighbours in the eviction queue: towards the newest and towards the oldest.
    pub(crate) newer: Cell<u32>,
    pub(crate) older: Cell<u32>,
    /// Bytes this node counts for.
    pub(crate) weight: Cell<u32>,
    /// The running computation, a number in [`Core::works`]; [`NO_WORK`] for none.
    work: Cell<u32>,
    // What a walk touches and what a hit reads come last, beside the value pointer and the key that
    // follow the header.
    dependants: UnsafeCell<Edges>,
    flags: Cell<u8>,
    /// The one thing a hit writes: asked for since the eviction hand passed.
    visited: PlainAtomicU8,
    state: AtomicU8,
    /// Which memo or source of the graph this belongs to.
    pub(crate) owner: u16,
    pub(crate) id: Id,
}

// SAFETY: what is not atomic is touched under the graph lock only, see above.
unsafe impl Sync for Header {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Header {}

#[inline]
fn prefetch(address: *const i8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address is allowed; it reads nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// See [`Header::is_computing`].
const NO_WORK: u32 = u32::MAX;
const WATCHED: u8 = 1;
const SOURCE: u8 = 2;
/// Edges are being registered in several holds of the graph lock.
const PUBLISHING: u8 = 4;
/// A walk came by meanwhile.
const DISTURBED: u8 = 8;

impl Header {
    pub(crate) fn new(owner: u16, hash: u64, source: bool) -> Self {
        Self {
            state: AtomicU8::new(if source { FRESH } else { EMPTY }),
            visited: PlainAtomicU8::new(0),
            owner,
            flags: Cell::new(if source { SOURCE } else { 0 }),
            id: Id::NONE,
            hash,
            version: AtomicU64::new(0),
            verified: Cell::new(0),
            taken: Cell::new(0),
            dependants: UnsafeCell::new(Edges::new()),
            dependencies: UnsafeCell::new(Edges::new()),
            work: Cell::new(NO_WORK),
            weight: Cell::new(0),
            newer: Cell::new(u32::MAX),
            older: Cell::new(u32::MAX),
        }
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> u8 {
        self.state.load(Acquire)
    }

    /// Call it under the graph lock.
    pub(crate) fn set_state(&self, state: u8) {
        self.state.store(state, Release);
    }

    /// Whether dependants may rely on the version.
    pub(crate) fn is_current(&self) -> bool {
        matches!(self.state.load(Relaxed), FRESH | GHOST)
    }

    #[inline(always)]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Call it under the graph lock.
    pub(crate) fn set_version(&self, version: u64) {
        self.version.store(version, Release);
    }

    /// Writes only when clear, so that hits of a popular key do not fight over the line.
    #[inline(always)]
    pub(crate) fn visit(&self) {
        if self.visited.load(Relaxed) == 0 {
            self.visited.store(1, Relaxed);
        }
    }

    /// Reads and clears the bit that [`Header::visit`] sets.
    pub(crate) fn take_visited(&self) -> bool {
        let visited = self.visited.load(Relaxed) != 0;
        if visited {
            self.visited.store(0, Relaxed);
        }
        visited
    }

    pub(crate) fn is_source(&self) -> bool {
        self.flags.get() & SOURCE != 0
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.flags.get() & WATCHED != 0
    }

    pub(crate) fn set_watched(&self, watched: bool) {
        self.set_flags(WATCHED, if watched { WATCHED } else { 0 });
    }

    fn set_flags(&self, clear: u8, set: u8) {
        self.flags.set(self.flags.get() & !clear | set);
    }

    /// From here on edges lead to the node although it has no value; see [`Header::disturb`].
    pub(crate) fn begin_publishing(&self) {
        self.set_flags(DISTURBED, PUBLISHING);
    }

    pub(crate) fn is_publishing(&self) -> bool {
        self.flags.get() & PUBLISHING != 0
    }

    /// A walk came to the node: a dependency that was found valid is so no longer.
    pub(crate) fn disturb(&self) {
        if self.is_publishing() {
            self.set_flags(0, DISTURBED);
        }
    }

    /// Whether no walk came by since the beginning.
    pub(crate) fn end_publishing(&self) -> bool {
        let undisturbed = self.flags.get() & DISTURBED == 0;
        self.set_flags(PUBLISHING | DISTURBED, 0);
        undisturbed
    }

    /// Who depends on this node. The core stands for the graph lock.
    pub(crate) fn dependants<'a>(&'a self, _: &'a Core) -> &'a Edges {
        // SAFETY: only code that holds the graph lock touches the list, and `&Core` proves the lock;
        // a mutable reference to the list needs `&mut Core`.
        unsafe { &*self.dependants.get() }
    }

    /// What this node depended on, in the order in which it was read.
    pub(crate) fn dependencies<'a>(&'a self, _: &'a Core) -> &'a Edges {
        // SAFETY: as above.
        unsafe { &*self.dependencies.get() }
    }

    /// Whether a computation hangs off the node.
    pub(crate) fn is_computing(&self) -> bool {
        self.work.get() != NO_WORK
    }

    /// The running computation; null when there is none. Alive while the graph lock is held.
    pub(crate) fn work(&self, core: &Core) -> *const WorkHead {
        if self.is_computing() { core.works.get(self.work.get()) } else { ptr::null() }
    }

    /// Hangs a computation off a node that has none.
    pub(crate) fn set_work(&self, core: &mut Core, work: *const WorkHead) {
        debug_assert!(!self.is_computing());
        self.work.set(core.works.add(work));
    }

    /// Takes the computation off the node.
    pub(crate) fn clear_work(&self, core: &mut Core) {
        if self.is_computing() {
            core.works.remove(self.work.replace(NO_WORK));
        }
    }

    /// Takes the list of dependants; whoever walks it marks each of them.
    ///
    /// An empty list is left alone, and when it was taken is not noted: nobody who was verified since it
    /// was last taken had an edge in it, so nobody has one to restore.
    pub(crate) fn take_dependants(&self, core: &mut Core) -> Edges {
        if self.dependants(core).len() == 0 {
            return Edges::new();
        }
        self.taken.set(core.tick);
        // SAFETY: `&mut Core` proves that this is the only access to any list of the graph.
        std::mem::replace(unsafe { &mut *self.dependants.get() }, Edges::new())
    }

    pub(crate) fn add_dependant(&self, core: &mut Core, id: Id) {
        // SAFETY: as above.
        unsafe { &mut *self.dependants.get() }.push(&core.slots, id);
    }

    /// Starts loading what a walk touches into the cache.
    #[inline]
    pub(crate) fn prefetch(node: *const Self) {
        let walked = node.cast::<i8>().wrapping_add(std::mem::offset_of!(Self, dependants));
        prefetch(walked);
        prefetch(walked.wrapping_add(size_of::<Edges>()));
    }

    /// Starts loading the hash into the cache.
    #[inline]
    pub(crate) fn prefetch_hash(node: *const Self) {
        prefetch(node.cast());
    }

    /// Gives the old list back, to be dropped outside the lock.
    pub(crate) fn set_dependencies(&self, _: &mut Core, edges: Edges) -> Edges {
        // SAFETY: as above.
        std::mem::replace(unsafe { &mut *self.dependencies.get() }, edges)
    }
}
