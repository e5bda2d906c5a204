//! The table of a memo: read without a lock, written under the graph lock.
//!
//! ```text
//! entry, one word:  │ 16 bits of hash │ 48 bits of the node's address │   or free, or removed
//! ```
//! Open addressing: a search begins where the first bits of the hash say and goes on to the first free
//! entry. Most keys sit where the search begins, so a hit loads one word of the table, compares it as a
//! whole and has no branch to guess. 64 shards keep a rebuild short; the entries' other hash bits lie in
//! an array of their own, so that a rebuild touches no node.
//!
//! Hits go through pointers of their own. While somebody wants to hear of hits, these lead to a table
//! without entries, so that listening costs nothing when nobody does.
//!
//! Keys are compared only by readers, which hold no lock: to insert, a caller looks first without the
//! lock, remembers how many inserts the shard had seen, and under the lock only checks that count. So
//! no user code (`Eq`) runs under the graph lock.
//!
//! An entry is written once as a whole. One that is removed stays taken by nothing, so that a search goes
//! on past it, and is used again. A node that was inserted before the search began and stays is always
//! seen.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::memory::epoch;
use crate::memory::sync::{AtomicPtr, AtomicU64};
use crate::store::slots::Slots;

/// See the module documentation.
pub(crate) struct Table<N> {
    /// What hits go through: the entries of each shard, or none while hits are probed.
    hits: [AtomicPtr<AtomicU64>; SHARDS],
    shards: [Shard; SHARDS],
    probed: Cell<bool>,
    owns: PhantomData<N>,
}

/// What writers and the long way use.
struct Shard {
    /// Packed; see [`Entries`].
    entries: AtomicPtr<AtomicU64>,
    /// Raised by every insert; see the module documentation.
    inserts: AtomicU64,
    live: Cell<usize>,
    /// Free entries that may be used before there must be more entries.
    room: Cell<usize>,
    /// The top 32 bits of the hash of each entry that is taken.
    hashes: UnsafeCell<Box<[MaybeUninit<u32>]>>,
}

/// Where a search ended that found nothing, for what is added.
#[derive(Clone, Copy)]
pub(crate) struct Place(usize);

/// The entries of a shard: their address, with what a hash is shifted by in the low bits.
#[derive(Clone, Copy)]
struct Entries {
    first: *mut AtomicU64,
    shift: u32,
}

/// What a caller saw when it looked without the lock: the number of inserts before the search.
#[derive(Clone, Copy)]
pub(crate) struct InsertCount(u64);

// SAFETY: lock-free readers only load; the cells are touched under the graph lock.
unsafe impl<N: Send + Sync> Sync for Table<N> {}
// SAFETY: as above.
unsafe impl<N: Send + Sync> Send for Table<N> {}

impl<N> Table<N> {
    pub(crate) fn new() -> Self {
        let shard = |_| Shard {
            entries: AtomicPtr::new(Entries::none().pack()),
            inserts: AtomicU64::new(0),
            live: Cell::new(0),
            room: Cell::new(0),
            hashes: UnsafeCell::default(),
        };
        Self {
            hits: std::array::from_fn(|_| AtomicPtr::new(Entries::none().pack())),
            shards: std::array::from_fn(shard),
            probed: Cell::new(false),
            owns: PhantomData,
        }
    }

    /// Looks at the first few entries from where the search for a hash begins; finds nearly all of what is
    /// there. Pinned; the reference is good as long as the pin.
    #[inline(always)]
    pub(crate) fn find_first<'p>(&self, hash: u64) -> Option<&'p N> {
        let entries = Entries::unpack(self.hits[shard_of(hash)].load(Acquire));
        let begin = entries.begin(hash);
        for further in 0..=PADDING {
            // SAFETY: replaced entries are retired, and the caller is pinned; the shift keeps the beginning
            // within, and that many free entries follow the last one.
            let entry = unsafe { &*entries.first.add(begin + further) }.load(Acquire);
            if let Some(node) = node_of(entry, hash) {
                // SAFETY: a node in an entry is retired after it left the table, and the caller is pinned.
                return Some(unsafe { node.as_ref() });
            }
            if entry == FREE {
                break;
            }
        }
        None
    }

    /// Finds a node. Call it pinned; the reference is good as long as the pin.
    pub(crate) fn find<'p>(&self, hash: u64, is_it: impl Fn(&N) -> bool) -> Option<&'p N> {
        self.find_or_place(hash, is_it).ok()
    }

    /// The same; or where a node with this hash can be added.
    #[inline]
    pub(crate) fn find_or_place<'p>(
        &self,
        hash: u64,
        is_it: impl Fn(&N) -> bool,
    ) -> Result<&'p N, Place> {
        let entries = Entries::unpack(self.shard(hash).entries.load(Acquire));
        let begin = entries.begin(hash);
        let mut place = None;
        for at in begin.. {
            // SAFETY: as in `find_first`.
            let entry = unsafe { entries.at(at) }.load(Acquire);
            if entry < FIRST_NODE {
                place = place.or(Some(at));
                // There always are free ones.
                if entry == FREE {
                    break;
                }
            }
            // SAFETY: as in `find_first`.
            let node: Option<&N> = node_of(entry, hash).map(|node| unsafe { node.as_ref() });
            if let Some(node) = node.filter(|node| is_it(node)) {
                return Ok(node);
            }
        }
        Err(Place(place.unwrap_or(begin)))
    }

    /// To be taken before a search whose result is confirmed by [`Table::unchanged`].
    pub(crate) fn seen(&self, hash: u64) -> InsertCount {
        InsertCount(self.shard(hash).inserts.load(Acquire))
    }

    /// Whether nothing was inserted near `hash` since, so that a search that found nothing still holds.
    pub(crate) fn unchanged(&self, _: &Slots, hash: u64, seen: InsertCount) -> bool {
        self.shard(hash).inserts.load(Relaxed) == seen.0
    }

    /// Adds a node that is not there: [`Table::unchanged`] said so in the same lock hold of a search that
    /// named this place.
    ///
    /// # Safety
    /// `node` stays valid until [`Table::remove`] and the retirement that follows it.
    #[inline(always)]
    pub(crate) unsafe fn insert(
        &self,
        slots: &mut Slots,
        hash: u64,
        node: *const N,
        Place(place): Place,
    ) {
        let shard = self.shard(hash);
        let has_room = shard.room.get() > 0;
        let entries = self.with_room(slots, hash);
        let begin = entries.begin(hash);
        // What was removed since may be free now right before the place, where searches would then end.
        // SAFETY: the current entries, since nobody else writes under the graph lock.
        let is_behind = || unsafe { entries.at(place.wrapping_sub(1)) }.load(Relaxed) != FREE;
        let mut at = if has_room && (place == begin || is_behind()) { place } else { begin };
        let entry = loop {
            // SAFETY: the current entries, since nobody else writes under the graph lock.
            let entry = unsafe { entries.at(at) };
            if entry.load(Relaxed) < FIRST_NODE {
                break entry;
            }
            at = at.wrapping_add(1);
        };
        if entry.load(Relaxed) == FREE {
            shard.room.set(shard.room.get() - 1);
        }
        shard.live.set(shard.live.get() + 1);
        let node = node.expose_provenance() as u64;
        debug_assert_eq!(node >> 48, 0);
        // SAFETY: the graph lock is held, and nobody else has a reference to the hashes.
        unsafe { (*shard.hashes.get())[at & entries.mask()].write((hash >> 32) as u32) };
        entry.store(tag_of(hash) | node, Release);
        let inserts = shard.inserts.load(Relaxed);
        shard.inserts.store(inserts + 1, Release);
    }

    /// Takes a node out. Does nothing when it is not there.
    pub(crate) fn remove(&self, hash: u64, node: *const N) {
        let shard = self.shard(hash);
        let entries = Entries::unpack(shard.entries.load(Relaxed));
        let begin = entries.begin(hash);
        let wanted = tag_of(hash) | node.addr() as u64;
        for further in 0..entries.len() {
            let at = begin.wrapping_add(further);
            // SAFETY: only writers replace the entries, and the caller holds the graph lock.
            let entry = unsafe { entries.at(at) };
            match entry.load(Relaxed) {
                FREE => return,
                found if found == wanted => {
                    // SAFETY: as above.
                    let next = unsafe { entries.at(at.wrapping_add(1)) }.load(Relaxed);
                    // Nobody goes on past an entry that is followed by a free one.
                    let left = if next == FREE { FREE } else { REMOVED };
                    shard.room.set(shard.room.get() + usize::from(left == FREE));
                    shard.live.set(shard.live.get() - 1);
                    return entry.store(left, Release);
                }
                _ => {}
            }
        }
    }

    /// Sends hits the long way, or no longer.
    pub(crate) fn probe(&self, _: &mut Slots, on: bool) {
        self.probed.set(on);
        for (hit, shard) in self.hits.iter().zip(&self.shards) {
            let entries = if on { Entries::none().pack() } else { shard.entries.load(Relaxed) };
            hit.store(entries, Release);
        }
    }

    /// Gives everything back. No node is left, and none is added any more.
    pub(crate) fn close(&self, _: &mut Slots) {
        for (hit, shard) in self.hits.iter().zip(&self.shards) {
            let none = Entries::none();
            let packed = shard.entries.swap(none.pack(), Release);
            hit.store(none.pack(), Release);
            shard.room.set(0);
            // SAFETY: the graph lock is held, and nobody else has a reference to the hashes.
            unsafe { *shard.hashes.get() = Box::default() };
            if !Entries::unpack(packed).is_none() {
                // SAFETY: unreachable since the stores above; released once.
                unsafe { epoch::retire(packed.cast(), |packed| Entries::free(packed.cast())) };
            }
        }
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[shard_of(hash)]
    }

    /// The entries of a shard, with room for one more: made anew when they are too full.
    #[inline(always)]
    fn with_room(&self, _: &mut Slots, hash: u64) -> Entries {
        let shard = self.shard(hash);
        let packed = shard.entries.load(Relaxed);
        let old = Entries::unpack(packed);
        if shard.room.get() > 0 { old } else { self.grow(shard_of(hash), packed) }
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, number: usize, packed: *mut AtomicU64) -> Entries {
        let shard = &self.shards[number];
        let old = Entries::unpack(packed);
        // What was removed goes; the rest fills two thirds of the room, so that this is rare.
        let mut bits = LEAST_BITS;
        while Entries::room_of(1 << bits) * 2 <= shard.live.get() * 3 {
            bits += 1;
        }
        let new = Entries::new(bits);
        // SAFETY: the graph lock is held, and nobody else has a reference to the hashes.
        let hashes = unsafe { &mut *shard.hashes.get() };
        *hashes = old.copy_to(new, hashes);
        shard.room.set(Entries::room_of(new.len()) - shard.live.get());
        shard.entries.store(new.pack(), Release);
        if !self.probed.get() {
            self.hits[number].store(new.pack(), Release);
        }
        if !old.is_none() {
            // SAFETY: unreachable since the stores above; released once.
            unsafe { epoch::retire(packed.cast(), |packed| Entries::free(packed.cast())) };
            epoch::note_bytes(old.len() * size_of::<AtomicU64>());
        }
        new
    }
}

impl Entries {
    /// No entries: two that are always free, for every table.
    fn none() -> Self {
        Self { first: ptr::from_ref(&NONE.0).cast_mut().cast(), shift: 63 }
    }

    fn is_none(self) -> bool {
        ptr::eq(self.first, Self::none().first)
    }

    fn new(bits: u32) -> Self {
        let layout = Self::layout(1 << bits);
        // SAFETY: at least two entries, so the layout is not empty.
        let first = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
        if first.is_null() {
            handle_alloc_error(layout);
        }
        if cfg!(shuttle) {
            for at in 0..(1 << bits) + PADDING {
                // SAFETY: just allocated, this long. (Shuttle's atomics are not all zeros.)
                unsafe { first.add(at).write(AtomicU64::new(FREE)) };
            }
        }
        Self { first, shift: 64 - bits }
    }

    /// # Safety
    /// `packed` came from [`Entries::pack`], nobody reads the entries any more and this is done once.
    unsafe fn free(packed: *mut AtomicU64) {
        let entries = Self::unpack(packed);
        if !entries.is_none() {
            // SAFETY: allocated with this layout by `new`; see above.
            unsafe { dealloc(entries.first.cast(), Self::layout(entries.len())) };
        }
    }

    fn layout(entries: usize) -> Layout {
        let layout = Layout::array::<AtomicU64>(entries + PADDING);
        let layout = layout.and_then(|layout| layout.align_to(ALIGNMENT));
        layout.expect("fewer entries than memory has bytes")
    }

    #[inline(always)]
    fn unpack(packed: *mut AtomicU64) -> Self {
        let shift = (packed.addr() & LOW_BITS) as u32;
        Self { first: packed.map_addr(|address| address & !LOW_BITS), shift }
    }

    fn pack(self) -> *mut AtomicU64 {
        self.first.map_addr(|address| address | self.shift as usize)
    }

    /// Where a search begins.
    #[inline(always)]
    fn begin(self, hash: u64) -> usize {
        hash.wrapping_shr(self.shift) as usize
    }

    fn len(self) -> usize {
        1 << (64 - self.shift)
    }

    fn mask(self) -> usize {
        self.len() - 1
    }

    /// How many entries may be used before there are more: a quarter while that is little memory, so that nearly every search ends where it begins.
    fn room_of(entries: usize) -> usize {
        if entries <= SPARSE { entries / 4 } else { entries / 2 }
    }

    /// # Safety
    /// The entries are the current ones, or were when the caller's pin began; `'e` ends with that.
    #[inline(always)]
    unsafe fn at<'e>(self, at: usize) -> &'e AtomicU64 {
        // SAFETY: masked, so within the allocation.
        unsafe { &*self.first.add(at & self.mask()) }
    }

    /// Copies what is live, and returns the hashes of the copies.
    fn copy_to(self, new: Self, hashes: &[MaybeUninit<u32>]) -> Box<[MaybeUninit<u32>]> {
        let mut copied = Box::new_uninit_slice(new.len());
        let live = if self.is_none() { 0 } else { self.len() };
        // SAFETY: that many there are; only writers replace them, and the caller is one.
        let entries = unsafe { std::slice::from_raw_parts(self.first, live) };
        for (entry, &top) in entries.iter().zip(hashes) {
            let entry = entry.load(Relaxed);
            if entry < FIRST_NODE {
                continue;
            }
            // SAFETY: the hash of an entry that is taken.
            let top = unsafe { top.assume_init() };
            let mut at = new.begin(u64::from(top) << 32);
            // SAFETY: the new entries are not shared yet.
            while unsafe { new.at(at) }.load(Relaxed) != FREE {
                at = at.wrapping_add(1);
            }
            // SAFETY: as above.
            unsafe { new.at(at) }.store(entry, Relaxed);
            copied[at & new.mask()].write(top);
        }
        copied
    }
}

impl<N> Drop for Table<N> {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            // SAFETY: the table is being dropped, so nobody reads it.
            unsafe { Entries::free(shard.entries.load(Relaxed)) };
        }
    }
}

/// The low bits of a hash; the top ones say where in the shard.
#[inline(always)]
fn shard_of(hash: u64) -> usize {
    hash as usize % SHARDS
}

#[inline(always)]
fn tag_of(hash: u64) -> u64 {
    hash << 48
}

/// The node of an entry, if its hash may be this one.
#[inline(always)]
fn node_of<N>(entry: u64, hash: u64) -> Option<NonNull<N>> {
    let node = entry ^ tag_of(hash);
    // One comparison for an entry of another hash, and one without a node.
    if node.wrapping_sub(FIRST_NODE) >= (1 << 48) - FIRST_NODE {
        return None;
    }
    let node = ptr::with_exposed_provenance_mut(node as usize);
    // SAFETY: an entry that is taken holds the address of a node.
    Some(unsafe { NonNull::new_unchecked(node) })
}

/// What a node costs beside itself: its slot and its share of the table.
pub(crate) const TABLE_BYTES: usize = 16 + 32;
/// An entry that never had a node since the entries were made.
const FREE: u64 = 0;
/// An entry whose node was removed.
const REMOVED: u64 = 1;
/// No node lies below, and no entry that is free or removed above, whatever the hash.
const FIRST_NODE: u64 = 2;
/// Entries behind the last one that are always free, so that a hit may look ahead without a thought.
const PADDING: usize = 3;
const ALIGNMENT: usize = 64;
/// Below what entries are aligned to.
const LOW_BITS: usize = ALIGNMENT - 1;
const SHARD_BITS: u32 = if cfg!(shuttle) { 1 } else { 6 };
const SHARDS: usize = 1 << SHARD_BITS;
const LEAST_BITS: u32 = 4;
/// Shards of up to this many entries are filled to a quarter only.
const SPARSE: usize = 256;

#[repr(align(64))]
struct NoEntries([AtomicU64; 2 + PADDING]);

static NONE: NoEntries = NoEntries([const { AtomicU64::new(FREE) }; 2 + PADDING]);

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::memory::line::pin;

    struct Node {
        hash: u64,
    }

    /// Where a node that is not in the table can be added.
    fn place(table: &Table<Node>, node: &Node) -> Place {
        let found = table.find_or_place(node.hash, |other| ptr::eq(node, other));
        found.err().expect("it is not there")
    }

    fn node(hash: u64) -> Box<Node> {
        Box::new(Node { hash })
    }

    /// Lays out `hashes`, removes every third, and looks for all of them.
    fn check(hashes: &[u64]) {
        let nodes: Vec<Box<Node>> = hashes.iter().map(|&hash| Box::new(Node { hash })).collect();
        let mut slots = Slots::new();
        let table = Table::<Node>::new();
        let _pin = pin();
        let found = |node: &Node| table.find(node.hash, |other| ptr::eq(node, other)).is_some();
        for node in &nodes {
            assert!(!found(node));
            // SAFETY: the nodes outlive the table.
            unsafe { table.insert(&mut slots, node.hash, &raw const **node, place(&table, node)) };
        }
        for (at, node) in nodes.iter().enumerate() {
            assert!(found(node), "node {at} of {}", nodes.len());
        }
        for round in 0..3 {
            for node in nodes.iter().step_by(3) {
                table.remove(node.hash, &raw const **node);
                table.remove(node.hash, &raw const **node);
            }
            for (at, node) in nodes.iter().enumerate() {
                assert_eq!(found(node), at % 3 != 0, "node {at} of {}, {round}", nodes.len());
            }
            for node in nodes.iter().step_by(3) {
                // SAFETY: the nodes outlive the table.
                unsafe {
                    table.insert(&mut slots, node.hash, &raw const **node, place(&table, node))
                };
            }
            assert!(nodes.iter().all(|node| found(node)));
        }
        let first = |node: &Node| table.find_first(node.hash).is_some();
        table.probe(&mut slots, true);
        assert!(!nodes.iter().any(|node| first(node)) && nodes.iter().all(|node| found(node)));
        table.probe(&mut slots, false);
        assert!(nodes.iter().any(|node| first(node)));
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
    fn a_node_is_found_although_what_lay_before_its_place_was_removed_meanwhile() {
        let (mut slots, table) = (Slots::new(), Table::<Node>::new());
        let _pin = pin();
        let nodes = [node(7), node(7), node(7), node(7)];
        // SAFETY: the nodes outlive the table.
        let mut insert = |node: &Node, place| unsafe {
            table.insert(&mut slots, node.hash, ptr::from_ref(node), place);
        };
        for node in &nodes[..3] {
            insert(node, place(&table, node));
        }
        let behind = place(&table, &nodes[3]);
        for node in nodes[..3].iter().rev() {
            table.remove(node.hash, &raw const **node);
        }
        insert(&nodes[3], behind);
        assert!(table.find(7, |other| ptr::eq(other, &raw const *nodes[3])).is_some());
    }

    #[test]
    fn keys_that_follow_each_other_are_found_where_the_search_begins_with_every_seed() {
        let _pin = pin();
        for (round, step) in (0..48).zip([1, 1 << 32, 64].into_iter().cycle()) {
            let hasher = crate::memory::hasher::KeyHasher::default();
            let (mut slots, table) = (Slots::new(), Table::<Node>::new());
            let nodes: Vec<_> = (0..20_000).map(|i: u64| node(hasher.hash(&(i * step)))).collect();
            for node in &nodes {
                // SAFETY: the nodes outlive the table.
                unsafe {
                    table.insert(&mut slots, node.hash, &raw const **node, place(&table, node))
                };
            }
            let short = nodes.iter().filter(|node| table.find_first(node.hash).is_some()).count();
            assert!(short > 19_000, "{short} of 20,000 in round {round}, steps of {step}");
        }
    }

    #[test]
    fn entries_of_removed_nodes_are_used_again() {
        let nodes: Vec<Box<Node>> = (0..64u64)
            .map(|i| Box::new(Node { hash: i.wrapping_mul(0x9E37_79B9_7F4A_7C15) << SHARD_BITS }))
            .collect();
        let mut slots = Slots::new();
        let table = Table::<Node>::new();
        for round in 0..10_000 {
            let node = &nodes[round % 64];
            if round >= 16 {
                let old = &nodes[(round - 16) % 64];
                table.remove(old.hash, &raw const **old);
            }
            // SAFETY: the nodes outlive the table.
            unsafe { table.insert(&mut slots, node.hash, &raw const **node, place(&table, node)) };
        }
        let entries = Entries::unpack(table.shards[0].entries.load(Relaxed));
        assert!(entries.len() <= 256, "{} entries for 16 nodes", entries.len());
    }
}
