//! Node identities: an index and a generation, checked under the graph lock.
//!
//! A slot is reused with the next generation, so an id that outlived its node finds nothing. A slot
//! whose generation would wrap is retired for good.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};
use std::ptr;

use crate::store::node::Header;

/// The identity of a node, also after the node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Id(u64);

impl Id {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn new(slot: u32, generation: u32) -> Self {
        Self(u64::from(slot) | u64::from(generation) << 32)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn slot(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The hash function of tables by id. Ids are dense and nobody outside picks them, so a product will do.
#[derive(Clone, Copy, Default)]
pub(crate) struct IdHasher(u64);

impl BuildHasher for IdHasher {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // A table looks at the highest bits and at the lowest; those are good, these are not.
        let product = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// All slots of a graph.
pub(crate) struct Slots {
    /// In chunks, so that growing moves nothing and is soon done.
    entries: Vec<Box<Chunk>>,
    /// Slots that ever held a node.
    made: u32,
    free: Vec<u32>,
    /// The number of the count of distinct ids that goes on.
    count: Cell<u32>,
}

struct Entry {
    node: *const Header,
    generation: u32,
    /// The last count of distinct ids that met this slot; see [`Slots::first_in`].
    met: Cell<u32>,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), made: 0, free: Vec::new(), count: Cell::new(0) }
    }

    /// Begins to tell ids apart that are met for the first time; ends what was begun before.
    pub(crate) fn begin_count(&self) {
        self.count.set(self.count.get().wrapping_add(1));
        if self.count.get() == 0 {
            // Once in 2^32 times the marks of long ago could be taken for new ones.
            self.entries.iter().flat_map(|chunk| chunk.iter()).for_each(|entry| entry.met.set(0));
            self.count.set(1);
        }
    }

    /// Whether `id` has a node and was not met since [`Slots::begin_count`].
    pub(crate) fn first_in(&self, id: Id) -> bool {
        let Some(entry) = self.entry(id.slot()) else { return false };
        let alive = entry.generation == id.generation() && !entry.node.is_null();
        alive && entry.met.replace(self.count.get()) != self.count.get()
    }

    /// Slots that ever held a node.
    pub(crate) fn len(&self) -> usize {
        self.made as usize
    }

    /// Slots that hold a node.
    pub(crate) fn in_use(&self) -> usize {
        self.len() - self.free.len()
    }

    #[inline]
    fn entry(&self, slot: u32) -> Option<&Entry> {
        let chunk = self.entries.get(slot as usize / CHUNK)?;
        Some(&chunk[slot as usize % CHUNK])
    }

    fn entry_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.entries[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    /// The node of `id`, unless it is gone. The pointer is valid while the graph lock is held.
    #[inline]
    pub(crate) fn node(&self, id: Id) -> Option<*const Header> {
        let entry = self.entry(id.slot())?;
        (entry.generation == id.generation() && !entry.node.is_null()).then_some(entry.node)
    }

    /// The node in a slot, whatever its generation; `None` for a number beyond the slots.
    pub(crate) fn at(&self, slot: u32) -> Option<*const Header> {
        let entry = self.entry(slot)?;
        (!entry.node.is_null()).then_some(entry.node)
    }

    /// Starts loading the node of `id` into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, id: Id) {
        if let Some(entry) = self.entry(id.slot()) {
            Header::prefetch(entry.node);
        }
    }

    /// Gives a node its identity.
    #[inline(always)]
    pub(crate) fn add(&mut self, node: *const Header) -> Id {
        let slot = self.free.pop().unwrap_or_else(|| {
            if self.made as usize == self.entries.len() * CHUNK {
                self.grow();
            }
            self.made += 1;
            self.made - 1
        });
        let entry = self.entry_mut(slot);
        entry.node = node;
        Id::new(slot, entry.generation)
    }

    #[cold]
    fn grow(&mut self) {
        assert!(self.made <= u32::MAX - CHUNK as u32, "fewer than 2^32 nodes in a graph");
        let entry = |_| Entry { node: ptr::null(), generation: 1, met: Cell::new(0) };
        let chunk: Box<[Entry]> = (0..CHUNK).map(entry).collect();
        self.entries.push(chunk.try_into().unwrap_or_else(|_| unreachable!("as long as a chunk")));
    }

    /// Ends the identity: `id` finds nothing from now on.
    pub(crate) fn release(&mut self, id: Id) {
        let entry = self.entry_mut(id.slot());
        entry.node = ptr::null();
        entry.generation += 1;
        if entry.generation != u32::MAX {
            self.free.push(id.slot());
        }
    }
}

type Chunk = [Entry; CHUNK];

const CHUNK: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_finds_nothing_after_its_slot_was_released_and_reused() {
        let mut slots = Slots::new();
        let node = ptr::without_provenance(64);
        let first = slots.add(node);
        assert_eq!(slots.node(first), Some(node));
        slots.release(first);
        let second = slots.add(node);
        assert_eq!(second.slot(), first.slot());
        assert_eq!(slots.node(first), None);
        assert_eq!(slots.in_use(), 1);
    }
}
