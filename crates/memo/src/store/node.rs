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
//!
//! Lock-free readers look at one word, `hot`: the address of the result, with bits that send a hit the
//! long way. It is a hit when none is set.
//!
//! ```text
//!   hot │ address of the result │ FAILED │ UNVISITED │ STALE │
//! ```
//! Everything but `hot` and `version` is read and written under the graph lock only. `hot` is written
//! under it too, except that a reader clears UNVISITED.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::memory::sync::{AtomicPtr, AtomicU64};
use crate::store::edges::Edges;
use crate::store::slots::{Id, Slots};
use crate::store::value::Head;

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
    /// The hash of the key, with which the node is taken out of its table.
    pub(crate) hash: u64,
    /// The tick up to which every dependency was known not to have changed.
    pub(crate) verified: Cell<u64>,
    dependencies: UnsafeCell<Edges>,
    /// Neighbours in the eviction queue: towards the newest and towards the oldest.
    pub(crate) newer: Cell<u32>,
    pub(crate) older: Cell<u32>,
    /// Bytes this node counts for.
    pub(crate) weight: Cell<u32>,
    /// The number of the running computation; [`NO_WORK`] for none.
    work: Cell<u32>,
    // What publishing and walks touch, and what a hit reads, come last and beside the key that follows.
    version: AtomicU64,
    /// The tick at which a walk last took dependants from the list.
    pub(crate) taken: Cell<u64>,
    dependants: UnsafeCell<Edges>,
    state: Cell<u8>,
    flags: Cell<u8>,
    /// Which memo or source of the graph this belongs to.
    pub(crate) owner: u16,
    pub(crate) id: Id,
    hot: AtomicPtr<Head>,
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

fn without_bits(hot: *mut Head) -> *const Head {
    hot.map_addr(|address| address & !BITS).cast_const()
}

/// The value is not current, or there is none.
const STALE: usize = 1;
/// Not asked for since the eviction hand passed.
const UNVISITED: usize = 2;
/// The result is an error.
const FAILED: usize = 4;
const BITS: usize = STALE | UNVISITED | FAILED;
/// See [`Header::is_computing`].
const NO_WORK: u32 = u32::MAX;
const WATCHED: u8 = 1;
const SOURCE: u8 = 2;
/// Edges are being registered in several holds of the graph lock.
const PUBLISHING: u8 = 4;
/// A walk came by meanwhile.
const DISTURBED: u8 = 8;
/// Others may change what it stands for without saying so, or it was made of such.
const EXTERNAL: u8 = 16;
/// A task read late what cannot be tracked; see [`Header::take_unkept`].
const UNKEPT: u8 = 32;

impl Header {
    #[inline(always)]
    pub(crate) fn new(owner: u16, hash: u64, source: bool) -> Self {
        Self {
            state: Cell::new(if source { FRESH } else { EMPTY }),
            hot: AtomicPtr::new(ptr::without_provenance_mut(STALE | UNVISITED)),
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

    /// Call it under the graph lock.
    pub(crate) fn state(&self) -> u8 {
        self.state.get()
    }

    /// Call it under the graph lock.
    pub(crate) fn set_state(&self, state: u8) {
        self.state.set(state);
        self.change_hot(STALE, if state == FRESH { 0 } else { STALE });
    }

    /// Whether dependants may rely on the version. Call it under the graph lock.
    pub(crate) fn is_current(&self) -> bool {
        matches!(self.state(), FRESH | GHOST)
    }

    /// The result that a lock-free hit serves; `None` sends it the long way. Pinned.
    #[inline(always)]
    pub(crate) fn hot(&self) -> Option<*const Head> {
        let hot = self.hot.load(Acquire);
        (hot.addr() & BITS == 0).then_some(hot.cast_const())
    }

    /// The same the long way: notes the visit. Pinned.
    pub(crate) fn visited_hot(&self) -> Option<*const Head> {
        let hot = self.hot.load(Acquire);
        if hot.addr() & (STALE | FAILED) != 0 {
            return None;
        }
        self.visit();
        Some(without_bits(hot))
    }

    /// The result, current or not; null when there is none. Under the graph lock, or pinned.
    pub(crate) fn value(&self) -> *const Head {
        without_bits(self.hot.load(Acquire))
    }

    /// Whether the result is an error, or was one before it was evicted.
    pub(crate) fn has_failed(&self) -> bool {
        self.hot.load(Acquire).addr() & FAILED != 0
    }

    /// Replaces the result. Call it under the graph lock.
    pub(crate) fn set_value(&self, value: *mut Head, failed: bool) {
        let bits = self.hot.load(Relaxed).addr() & BITS & !FAILED;
        let bits = bits | if failed { FAILED } else { 0 };
        self.hot.store(value.map_addr(|address| address | bits), Release);
    }

    /// A reader that clears UNVISITED meanwhile is overruled, which costs it a second chance.
    fn change_hot(&self, clear: usize, set: usize) {
        let hot = self.hot.load(Relaxed);
        let new = hot.map_addr(|address| address & !clear | set);
        if hot != new {
            self.hot.store(new, Release);
        }
    }

    #[inline(always)]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Call it under the graph lock.
    pub(crate) fn set_version(&self, version: u64) {
        self.version.store(version, Release);
    }

    /// Writes only when it was not visited, so that hits of a popular key do not fight over the line; and
    /// nothing else: whoever marks the node wins.
    pub(crate) fn visit(&self) {
        let hot = self.hot.load(Relaxed);
        if hot.addr() & UNVISITED != 0 {
            let visited = hot.map_addr(|address| address & !UNVISITED);
            let _ = self.hot.compare_exchange(hot, visited, Relaxed, Relaxed);
        }
    }

    /// Whether it was asked for since the last call. Call it under the graph lock.
    pub(crate) fn take_visited(&self) -> bool {
        let visited = self.hot.load(Relaxed).addr() & UNVISITED == 0;
        self.change_hot(0, UNVISITED);
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

    pub(crate) fn is_external(&self) -> bool {
        self.flags.get() & EXTERNAL != 0
    }

    pub(crate) fn set_external(&self, external: bool) {
        self.set_flags(EXTERNAL, if external { EXTERNAL } else { 0 });
    }

    /// The value was published and should not have been kept, as turned out too late.
    pub(crate) fn set_unkept(&self) {
        self.set_flags(0, UNKEPT);
    }

    /// Whether the next value will not be kept.
    pub(crate) fn is_unkept(&self) -> bool {
        self.flags.get() & UNKEPT != 0
    }

    /// Whether the next value will not be kept, asked once: the one after it is kept again.
    pub(crate) fn take_unkept(&self) -> bool {
        let unkept = self.is_unkept();
        self.set_flags(UNKEPT, 0);
        unkept
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

    /// Who depends on this node. The slots stand for the graph lock that guards them.
    #[inline]
    pub(crate) fn dependants<'a>(&'a self, _: &'a Slots) -> &'a Edges {
        // SAFETY: only code that holds the graph lock touches the list, and `&Slots` proves the lock;
        // a mutable reference to the list needs `&mut Slots`.
        unsafe { &*self.dependants.get() }
    }

    /// What this node depended on, in the order in which it was read.
    #[inline]
    pub(crate) fn dependencies<'a>(&'a self, _: &'a Slots) -> &'a Edges {
        // SAFETY: as above.
        unsafe { &*self.dependencies.get() }
    }

    /// Whether a computation hangs off the node.
    pub(crate) fn is_computing(&self) -> bool {
        self.work.get() != NO_WORK
    }

    /// The number of the running computation.
    pub(crate) fn work(&self) -> Option<u32> {
        self.is_computing().then(|| self.work.get())
    }

    pub(crate) fn set_work(&self, work: Option<u32>) {
        self.work.set(work.unwrap_or(NO_WORK));
    }

    /// Takes the list of dependants; whoever walks it marks each of them.
    ///
    /// An empty list is left alone, and when it was taken is not noted: nobody who was verified since it
    /// was last taken had an edge in it, so nobody has one to restore.
    pub(crate) fn take_dependants(&self, slots: &mut Slots, tick: u64) -> Edges {
        if self.dependants(slots).len() == 0 {
            return Edges::new();
        }
        self.taken.set(tick);
        // SAFETY: `&mut Slots` proves that this is the only access to any list of the graph.
        std::mem::replace(unsafe { &mut *self.dependants.get() }, Edges::new())
    }

    #[inline]
    pub(crate) fn add_dependant(&self, slots: &mut Slots, id: Id) {
        // SAFETY: as above.
        unsafe { &mut *self.dependants.get() }.push(slots, id);
    }

    /// Starts loading what a walk touches into the cache.
    #[inline]
    pub(crate) fn prefetch(node: *const Self) {
        let walked = node.cast::<i8>().wrapping_add(std::mem::offset_of!(Self, version));
        prefetch(walked);
        prefetch(
            walked
                .wrapping_add(std::mem::offset_of!(Self, id) - std::mem::offset_of!(Self, version)),
        );
    }

    /// Adds one; returns by how many bytes the list has grown on the heap.
    pub(crate) fn add_dependency(&self, _: &mut Slots, id: Id) -> usize {
        // SAFETY: as above.
        let dependencies = unsafe { &mut *self.dependencies.get() };
        let before = dependencies.heap_bytes();
        dependencies.add(id);
        dependencies.heap_bytes() - before
    }

    /// Gives the old list back, to be dropped outside the lock.
    pub(crate) fn set_dependencies(&self, _: &mut Slots, edges: Edges) -> Edges {
        // SAFETY: as above.
        let old = unsafe { &mut *self.dependencies.get() };
        if old.len() + edges.len() == 0 { edges } else { std::mem::replace(old, edges) }
    }
}
