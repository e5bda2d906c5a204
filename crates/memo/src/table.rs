//! The table of a memo: read without a lock, written under the graph lock.
//!
//! ```text
//! bucket, one cache line:  │ tags: 7 bytes of hash, 1 spill byte │ node │ node │ … 7 nodes │
//! ```
//! A search loads the tags of one bucket and compares all of them at once, so that a hit touches one
//! line of the table and has no branch to guess. A node that finds its bucket full goes to the next
//! one and leaves the spill byte of every bucket it passed, which is what a search goes on by. 64
//! shards keep a rebuild short.
//!
//! Keys are compared only by readers, which hold no lock: to insert, a caller looks first without the
//! lock, remembers how many inserts the shard had seen, and under the lock only checks that count. So
//! no user code (`Eq`) runs under the graph lock.
//!
//! What a reader may see while a writer is in the same bucket: a place is filled before its tag is
//! set and emptied after its tag is cleared, so tags may name an empty place (skipped) or one that
//! has another node by now (whose key is compared like any). A node that was inserted before the
//! search began and stays is always seen: its tag and its place were both written before.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::core::Core;
use crate::epoch;
use crate::node::Header;
use crate::sync::{AtomicPtr, AtomicU64};

/// See the module documentation.
///
/// Every node type `N` starts with its [`Header`].
pub(crate) struct Table<N> {
    shards: [Shard; SHARDS],
    owns: PhantomData<N>,
}

struct Shard {
    /// The buckets, with the binary logarithm of their number in the low bits of the address; null
    /// before the first insert.
    buckets: AtomicPtr<Bucket>,
    /// Raised by every insert; see the module documentation.
    inserts: AtomicU64,
    live: Cell<usize>,
    /// Buckets with a spill byte, and how many may have one before they are all made anew.
    spilled: Cell<usize>,
    spilled_max: Cell<usize>,
}

/// See the module documentation.
#[repr(C, align(64))]
struct Bucket {
    tags: AtomicU64,
    nodes: [AtomicPtr<()>; PLACES],
}

/// The buckets of a shard, unpacked.
#[derive(Clone, Copy)]
struct Buckets {
    first: *mut Bucket,
    mask: usize,
}

/// What a caller saw when it looked without the lock: the number of inserts before the search.
#[derive(Clone, Copy)]
pub(crate) struct Seen(u64);

// SAFETY: lock-free readers only load; the cells are touched under the graph lock.
unsafe impl<N: Send + Sync> Sync for Table<N> {}
// SAFETY: as above.
unsafe impl<N: Send + Sync> Send for Table<N> {}

impl<N> Table<N> {
    pub(crate) fn new() -> Self {
        let shard = |_| Shard {
            buckets: AtomicPtr::new(ptr::null_mut()),
            inserts: AtomicU64::new(0),
            live: Cell::new(0),
            spilled: Cell::new(0),
            spilled_max: Cell::new(0),
        };
        Self { shards: std::array::from_fn(shard), owns: PhantomData }
    }

    /// Finds a node. Call it pinned; the reference is good as long as the pin.
    #[inline(always)]
    pub(crate) fn find<'p>(&self, hash: u64, is_it: impl Fn(&N) -> bool) -> Option<&'p N> {
        let buckets = Buckets::unpack(self.shard(hash).buckets.load(Acquire))?;
        // SAFETY: replaced buckets are retired, and the caller is pinned.
        let (found, spilled) = unsafe { buckets.at(hash as usize).find(tag_of(hash), &is_it) };
        if found.is_some() || !spilled {
            return found;
        }
        // SAFETY: as above.
        unsafe { buckets.find_further(hash, is_it) }
    }

    /// To be taken before a search whose result is confirmed by [`Table::unchanged`].
    pub(crate) fn seen(&self, hash: u64) -> Seen {
        Seen(self.shard(hash).inserts.load(Acquire))
    }

    /// Whether nothing was inserted near `hash` since, so that a search that found nothing still holds.
    pub(crate) fn unchanged(&self, _: &Core, hash: u64, seen: Seen) -> bool {
        self.shard(hash).inserts.load(Relaxed) == seen.0
    }

    /// Adds a node that is not there: [`Table::unchanged`] said so in the same lock hold.
    ///
    /// # Safety
    /// `node` stays valid until [`Table::remove`] and the retirement that follows it.
    pub(crate) unsafe fn insert(&self, _: &mut Core, hash: u64, node: *const N) {
        let shard = self.shard(hash);
        let buckets = shard.with_room();
        // SAFETY: nobody else writes under the graph lock, so these are the current buckets.
        let passed = unsafe { buckets.insert(hash, node.cast_mut().cast()) };
        shard.spilled.set(shard.spilled.get() + passed);
        shard.live.set(shard.live.get() + 1);
        let inserts = shard.inserts.load(Relaxed);
        shard.inserts.store(inserts + 1, Release);
    }

    /// Takes a node out. Does nothing when it is not there.
    pub(crate) fn remove(&self, hash: u64, node: *const N) {
        let shard = self.shard(hash);
        let Some(buckets) = Buckets::unpack(shard.buckets.load(Relaxed)) else { return };
        for at in 0..=buckets.mask {
            // SAFETY: only writers replace the buckets, and the caller holds the graph lock.
            let bucket = unsafe { buckets.at((hash as usize).wrapping_add(at)) };
            let mut nodes = bucket.nodes.iter();
            let found = nodes.position(|place| ptr::eq(place.load(Relaxed), node.cast()));
            let tags = bucket.tags.load(Relaxed);
            if let Some(place) = found {
                bucket.tags.store(tags & !(0xFF << (place * 8)), Release);
                bucket.nodes[place].store(ptr::null_mut(), Release);
                shard.live.set(shard.live.get() - 1);
                return;
            }
            if tags < SPILL {
                return;
            }
        }
    }

    #[inline(always)]
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> (64 - SHARD_BITS)) as usize & (SHARDS - 1)]
    }
}

impl Bucket {
    /// Looks at the places with this tag, and whether nodes may be in the next bucket.
    ///
    /// # Safety
    /// The places hold nodes of type `N`, and the caller has been pinned since before it found the
    /// bucket; `'p` ends with the pin.
    #[inline(always)]
    unsafe fn find<'p, N>(&self, tag: u64, is_it: impl Fn(&N) -> bool) -> (Option<&'p N>, bool) {
        let tags = self.tags.load(Acquire);
        let mut places = equal_bytes(tags, tag) & PLACE_BITS;
        while places != 0 {
            let node = self.nodes[places.trailing_zeros() as usize / 8].load(Acquire);
            if !node.is_null() {
                // SAFETY: a node in a place was live when loaded; it is retired only after it left
                // the table, and the caller is pinned.
                let node = unsafe { &*node.cast::<N>() };
                if is_it(node) {
                    return (Some(node), false);
                }
            }
            places &= places - 1;
        }
        (None, tags >= SPILL)
    }
}

impl Shard {
    /// The buckets, with room for one more: made anew, and twice as many if need be, when they are
    /// three quarters full or too many of them spilled.
    fn with_room(&self) -> Buckets {
        let old = self.buckets.load(Relaxed);
        let buckets = Buckets::unpack(old);
        let mut bits = 0;
        if let Some(buckets) = buckets {
            let full = (self.live.get() + 1) * 4 > buckets.len() * PLACES * 3;
            if !full && self.spilled.get() <= self.spilled_max.get() {
                return buckets;
            }
            bits = buckets.len().trailing_zeros() + u32::from(full);
        }
        let new = Buckets::new(bits);
        let spilled = buckets.map_or(0, |old| old.copy_to(new));
        self.spilled.set(spilled);
        // Keys that hash badly spill however often they are laid out; do not try at every insert.
        self.spilled_max.set(spilled * 2 + new.len() / 8 + 1);
        self.buckets.store(new.pack(), Release);
        if !old.is_null() {
            // SAFETY: unreachable since the store above; released once.
            unsafe { epoch::retire(old.cast(), |packed| Buckets::free(packed.cast())) };
            epoch::note_bytes(buckets.map_or(0, Buckets::len) * size_of::<Bucket>());
        }
        new
    }
}

impl Buckets {
    fn new(bits: u32) -> Self {
        let layout = Self::layout(1 << bits);
        // SAFETY: at least one bucket, so the layout is not empty.
        let first = unsafe { alloc_zeroed(layout) }.cast::<Bucket>();
        if first.is_null() {
            handle_alloc_error(layout);
        }
        if cfg!(shuttle) {
            for at in 0..1 << bits {
                let nodes = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];
                // SAFETY: just allocated, this long. (Shuttle's atomics are not all zeros.)
                unsafe { first.add(at).write(Bucket { tags: AtomicU64::new(0), nodes }) };
            }
        }
        Self { first, mask: (1 << bits) - 1 }
    }

    /// # Safety
    /// `packed` came from [`Buckets::pack`], nobody reads the buckets any more and this is done once.
    unsafe fn free(packed: *mut Bucket) {
        if let Some(buckets) = Self::unpack(packed) {
            // SAFETY: allocated with this layout by `new`; see above.
            unsafe { dealloc(buckets.first.cast(), Self::layout(buckets.len())) };
        }
    }

    fn layout(buckets: usize) -> Layout {
        Layout::array::<Bucket>(buckets).expect("fewer buckets than memory has bytes")
    }

    #[inline(always)]
    fn unpack(packed: *mut Bucket) -> Option<Self> {
        if packed.is_null() {
            return None;
        }
        let bits = packed.addr() & LOW_BITS;
        let first = packed.map_addr(|address| address & !LOW_BITS);
        Some(Self { first, mask: (1 << bits) - 1 })
    }

    fn pack(self) -> *mut Bucket {
        let bits = self.len().trailing_zeros() as usize;
        self.first.map_addr(|address| address | bits)
    }

    fn len(self) -> usize {
        self.mask + 1
    }

    /// # Safety
    /// The buckets are the current ones, or were when the caller's pin began; `'b` ends with that.
    #[inline(always)]
    unsafe fn at<'b>(self, at: usize) -> &'b Bucket {
        // SAFETY: masked, so within the allocation, whose buckets are all initialized.
        unsafe { &*self.first.add(at & self.mask) }
    }

    /// Goes on with a search from the bucket after the first.
    ///
    /// # Safety
    /// As [`Buckets::at`] and [`Bucket::find`].
    #[cold]
    unsafe fn find_further<'p, N>(self, hash: u64, is_it: impl Fn(&N) -> bool) -> Option<&'p N> {
        for further in 1..self.len() {
            // SAFETY: the caller says so.
            let (found, spilled) = unsafe {
                self.at((hash as usize).wrapping_add(further)).find(tag_of(hash), &is_it)
            };
            if found.is_some() || !spilled {
                return found;
            }
        }
        None
    }

    /// Puts a node into the first free place; there is one. Returns how many buckets are newly spilled.
    ///
    /// # Safety
    /// The caller is the only writer.
    unsafe fn insert(self, hash: u64, node: *mut ()) -> usize {
        let mut at = hash as usize;
        let mut passed = 0;
        loop {
            // SAFETY: current, since only writers replace buckets.
            let bucket = unsafe { self.at(at) };
            let tags = bucket.tags.load(Relaxed);
            // The lowest zero byte is found exactly; see `equal_bytes`.
            let free = equal_bytes(tags, 0) & PLACE_BITS;
            if free != 0 {
                let place = free.trailing_zeros() as usize / 8;
                bucket.nodes[place].store(node, Release);
                bucket.tags.store(tags | tag_of(hash) << (place * 8), Release);
                return passed;
            }
            if tags < SPILL {
                bucket.tags.store(tags | SPILL, Release);
                passed += 1;
            }
            at = at.wrapping_add(1);
        }
    }

    /// Returns how many buckets spilled.
    fn copy_to(self, new: Self) -> usize {
        let mut spilled = 0;
        for at in 0..self.len() {
            // SAFETY: only writers replace buckets, and the caller is one.
            for place in unsafe { &self.at(at + PREFETCH).nodes } {
                // The hash of a node is far away, and the caller holds the graph lock.
                Header::prefetch_hash(place.load(Relaxed).cast());
            }
            // SAFETY: as above.
            for place in unsafe { &self.at(at).nodes } {
                let node = place.load(Relaxed);
                if !node.is_null() {
                    // SAFETY: the places hold live nodes, which start with their header; the new
                    // buckets are not shared yet.
                    spilled += unsafe { new.insert((*node.cast::<Header>()).hash, node) };
                }
            }
        }
        spilled
    }
}

impl<N> Drop for Table<N> {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            // SAFETY: the table is being dropped, so nobody reads it.
            unsafe { Buckets::free(shard.buckets.load(Relaxed)) };
        }
    }
}

/// A byte of the hash that neither chooses the shard nor the bucket; 0 stands for an empty place.
#[inline(always)]
fn tag_of(hash: u64) -> u64 {
    ((hash >> TAG_SHIFT) & 0xFF).max(1)
}

/// The top bit of every byte of `word` that equals `byte`; bytes above such a one may be named wrongly.
#[inline(always)]
fn equal_bytes(word: u64, byte: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let difference = word ^ (byte * ONES);
    difference.wrapping_sub(ONES) & !difference & (ONES << 7)
}

const PLACES: usize = 7;
/// Buckets whose nodes are loaded into the cache ahead of a rebuild.
const PREFETCH: usize = 2;
/// The top bits of the bytes that belong to places.
const PLACE_BITS: u64 = 0x0080_8080_8080_8080;
/// Set in the tags of a bucket that was full when a node of it, or of one before, was inserted.
const SPILL: u64 = 1 << 56;
/// Below what buckets are aligned to.
const LOW_BITS: usize = align_of::<Bucket>() - 1;
const SHARD_BITS: u32 = if cfg!(shuttle) { 1 } else { 6 };
const SHARDS: usize = 1 << SHARD_BITS;
const TAG_SHIFT: u32 = 48;

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::epoch::pin;

    /// Lays out `hashes`, removes every third, and looks for all of them.
    fn check(hashes: &[u64]) {
        let nodes: Vec<Box<Header>> =
            hashes.iter().map(|&hash| Box::new(Header::new(0, hash, false))).collect();
        let mut core = Core::new(0);
        let table = Table::<Header>::new();
        let _pin = pin();
        let found = |node: &Header| table.find(node.hash, |other| ptr::eq(node, other)).is_some();
        for node in &nodes {
            assert!(!found(node));
            // SAFETY: the nodes outlive the table.
            unsafe { table.insert(&mut core, node.hash, &raw const **node) };
        }
        for (at, node) in nodes.iter().enumerate() {
            assert!(found(node), "node {at} of {}", nodes.len());
        }
        for node in nodes.iter().step_by(3) {
            table.remove(node.hash, &raw const **node);
            table.remove(node.hash, &raw const **node);
        }
        for (at, node) in nodes.iter().enumerate() {
            assert_eq!(found(node), at % 3 != 0, "node {at} of {}", nodes.len());
        }
        for node in nodes.iter().step_by(3) {
            // SAFETY: the nodes outlive the table.
            unsafe { table.insert(&mut core, node.hash, &raw const **node) };
        }
        assert!(nodes.iter().all(|node| found(node)));
    }

    #[test]
    fn every_node_is_found_until_it_is_removed_however_its_key_hashes() {
        let spread = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
        check(&(0..10_000).map(spread).collect::<Vec<_>>());
        check(&[7; 500]);
        check(&[u64::MAX; 500]);
        check(&(0..500).map(|i| i << 48).collect::<Vec<_>>());
        check(&(0..500).collect::<Vec<_>>());
    }

    #[test]
    fn equal_bytes_names_the_lowest_equal_byte_exactly() {
        for at in 0..7 {
            let word = 0xFF11_2233_4455_6677 & !(0xFF << (at * 8)) | 0x9A << (at * 8);
            assert_eq!(equal_bytes(word, 0x9A).trailing_zeros(), at * 8 + 7);
        }
        assert_eq!(equal_bytes(0xFF11_2233_4455_6677, 0x9A), 0);
    }
}
