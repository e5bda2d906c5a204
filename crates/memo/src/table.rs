//! The table of a memo: read without a lock, written under the graph lock.
//!
//! Open addressing over words of 16 tag bits and 48 pointer bits, 64 shards so that a rebuild is
//! short. Keys are compared only by readers, which hold no lock: to insert, a caller looks first
//! without the lock, remembers how many inserts the shard had seen, and under the lock only checks
//! that count. So no user code (`Eq`) runs under the graph lock.
#![allow(unsafe_code)]

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
    words: AtomicPtr<Words>,
    /// Raised by every insert; see the module documentation.
    inserts: AtomicU64,
    live: Cell<usize>,
    /// Live nodes and tombstones.
    filled: Cell<usize>,
}

struct Words {
    mask: usize,
    words: Box<[AtomicPtr<()>]>,
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
            words: AtomicPtr::new(ptr::null_mut()),
            inserts: AtomicU64::new(0),
            live: Cell::new(0),
            filled: Cell::new(0),
        };
        Self { shards: std::array::from_fn(shard), owns: PhantomData }
    }

    /// Finds a node. Call it pinned; the reference is good as long as the pin.
    #[inline(always)]
    pub(crate) fn find<'p>(&self, hash: u64, is_it: impl Fn(&N) -> bool) -> Option<&'p N> {
        let words = self.shard(hash).words.load(Acquire);
        if words.is_null() {
            return None;
        }
        // SAFETY: replaced words are retired, and the caller is pinned.
        let words = unsafe { &*words };
        let tag = tag_of(hash);
        let mut at = hash as usize & words.mask;
        loop {
            // SAFETY: `mask` is the length minus one, a power of two minus one.
            let word = unsafe { words.words.get_unchecked(at) }.load(Acquire);
            if word.is_null() {
                return None;
            }
            if word.addr() & TAG_MASK == tag && word.addr() & ADDRESS_MASK > TOMBSTONE {
                // SAFETY: a word above the tombstone is a node that was live when loaded; it is
                // retired only after it left the table, and the caller is pinned.
                let node = unsafe { &*untag(word).cast::<N>() };
                if is_it(node) {
                    return Some(node);
                }
            }
            at = (at + 1) & words.mask;
        }
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
        let words = shard.with_room();
        let word = tagged(node.cast_mut().cast(), tag_of(hash));
        let mut at = hash as usize & words.mask;
        while !words.words[at].load(Relaxed).is_null() {
            at = (at + 1) & words.mask;
        }
        words.words[at].store(word, Release);
        shard.live.set(shard.live.get() + 1);
        shard.filled.set(shard.filled.get() + 1);
        let inserts = shard.inserts.load(Relaxed);
        shard.inserts.store(inserts + 1, Release);
    }

    /// Takes a node out. Does nothing when it is not there.
    pub(crate) fn remove(&self, hash: u64, node: *const N) {
        let shard = self.shard(hash);
        let words = shard.words.load(Relaxed);
        if words.is_null() {
            return;
        }
        // SAFETY: only writers replace the words, and the caller holds the graph lock.
        let words = unsafe { &*words };
        let wanted = tagged(node.cast_mut().cast(), tag_of(hash));
        let mut at = hash as usize & words.mask;
        loop {
            let word = words.words[at].load(Relaxed);
            if word.is_null() {
                return;
            }
            if word == wanted {
                words.words[at].store(ptr::without_provenance_mut(TOMBSTONE), Release);
                shard.live.set(shard.live.get() - 1);
                return;
            }
            at = (at + 1) & words.mask;
        }
    }

    #[inline(always)]
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> (64 - SHARD_BITS)) as usize & (SHARDS - 1)]
    }
}

impl Shard {
    /// The words, with room for one more; rebuilt when more than half is filled.
    fn with_room(&self) -> &Words {
        let old = self.words.load(Relaxed);
        if !old.is_null() {
            // SAFETY: only writers replace the words, and the caller holds the graph lock.
            let words = unsafe { &*old };
            if (self.filled.get() + 1) * 2 <= words.mask + 1 {
                return words;
            }
        }
        let length = ((self.live.get() + 1) * 4).next_power_of_two().max(SMALLEST);
        let new = Box::leak(Box::new(Words::new(length)));
        if !old.is_null() {
            // SAFETY: as above.
            unsafe { &*old }.copy_to(new);
        }
        self.filled.set(self.live.get());
        self.words.store(new, Release);
        if !old.is_null() {
            // SAFETY: unreachable since the store above; released once.
            unsafe {
                epoch::retire(old.cast(), |words| drop(Box::from_raw(words.cast::<Words>())))
            };
        }
        new
    }
}

impl Words {
    fn new(length: usize) -> Self {
        let words = (0..length).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Self { mask: length - 1, words }
    }

    fn copy_to(&self, new: &Self) {
        for word in &self.words {
            let word = word.load(Relaxed);
            if word.addr() & ADDRESS_MASK <= TOMBSTONE {
                continue;
            }
            let mut at = hash_of(word) as usize & new.mask;
            while !new.words[at].load(Relaxed).is_null() {
                at = (at + 1) & new.mask;
            }
            new.words[at].store(word, Relaxed);
        }
    }
}

impl<N> Drop for Table<N> {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            let words = shard.words.load(Relaxed);
            if !words.is_null() {
                // SAFETY: the table is being dropped, so nobody reads it.
                drop(unsafe { Box::from_raw(words) });
            }
        }
    }
}

fn hash_of(word: *mut ()) -> u64 {
    // SAFETY: the words hold live nodes, and every node type starts with its header.
    unsafe { (*untag(word).cast::<Header>()).hash }
}

#[inline(always)]
fn tag_of(hash: u64) -> usize {
    (hash << 16) as usize & TAG_MASK
}

fn tagged(node: *mut (), tag: usize) -> *mut () {
    assert!(node.addr() & TAG_MASK == 0, "user-space addresses have 48 bits");
    node.map_addr(|address| address | tag)
}

#[inline(always)]
fn untag(word: *mut ()) -> *mut () {
    word.map_addr(|address| address & ADDRESS_MASK)
}

const SHARD_BITS: u32 = if cfg!(shuttle) { 1 } else { 6 };
const SHARDS: usize = 1 << SHARD_BITS;
const SMALLEST: usize = 8;
const TOMBSTONE: usize = 1;
const ADDRESS_MASK: usize = (1 << 48) - 1;
const TAG_MASK: usize = !ADDRESS_MASK;
