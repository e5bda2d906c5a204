//! Node identities: an index and a generation, checked under the graph lock.
//!
//! A slot is reused with the next generation, so an id that outlived its node finds nothing. A slot
//! whose generation would wrap is retired for good.

use std::cell::Cell;
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

/// All slots of a graph.
pub(crate) struct Slots {
    entries: Vec<Entry>,
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
        Self { entries: Vec::new(), free: Vec::new(), count: Cell::new(0) }
    }

    /// Begins to tell ids apart that are met for the first time; ends what was begun before.
    pub(crate) fn begin_count(&self) {
        self.count.set(self.count.get().wrapping_add(1));
        if self.count.get() == 0 {
            // Once in 2^32 times the marks of long ago could be taken for new ones.
            self.entries.iter().for_each(|entry| entry.met.set(0));
            self.count.set(1);
        }
    }

    /// Whether `id` has a node and was not met since [`Slots::begin_count`].
    pub(crate) fn first_in(&self, id: Id) -> bool {
        let Some(entry) = self.entries.get(id.slot() as usize) else { return false };
        let alive = entry.generation == id.generation() && !entry.node.is_null();
        alive && entry.met.replace(self.count.get()) != self.count.get()
    }

    /// Slots that ever held a node.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Slots that hold a node.
    pub(crate) fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The node of `id`, unless it is gone. The pointer is valid while the graph lock is held.
    #[inline]
    pub(crate) fn node(&self, id: Id) -> Option<*const Header> {
        let entry = self.entries.get(id.slot() as usize)?;
        (entry.generation == id.generation() && !entry.node.is_null()).then_some(entry.node)
    }

    /// The node in a slot, whatever its generation; `None` for a number beyond the slots.
    pub(crate) fn at(&self, slot: u32) -> Option<*const Header> {
        let entry = self.entries.get(slot as usize)?;
        (!entry.node.is_null()).then_some(entry.node)
    }

    /// Starts loading the node of `id` into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, id: Id) {
        if let Some(entry) = self.entries.get(id.slot() as usize) {
            Header::prefetch(entry.node);
        }
    }

    /// Reserves a slot; [`Slots::fill`] gives it its node.
    pub(crate) fn reserve(&mut self) -> Id {
        if let Some(slot) = self.free.pop() {
            return Id::new(slot, self.entries[slot as usize].generation);
        }
        let slot = u32::try_from(self.entries.len()).expect("fewer than 2^32 nodes in a graph");
        self.entries.push(Entry { node: ptr::null(), generation: 1, met: Cell::new(0) });
        Id::new(slot, 1)
    }

    pub(crate) fn fill(&mut self, id: Id, node: *const Header) {
        self.entries[id.slot() as usize].node = node;
    }

    /// Ends the identity: `id` finds nothing from now on.
    pub(crate) fn release(&mut self, id: Id) {
        let entry = &mut self.entries[id.slot() as usize];
        entry.node = ptr::null();
        entry.generation += 1;
        if entry.generation != u32::MAX {
            self.free.push(id.slot());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_finds_nothing_after_its_slot_was_released_and_reused() {
        let mut slots = Slots::new();
        let node = ptr::without_provenance(64);
        let first = slots.reserve();
        slots.fill(first, node);
        assert_eq!(slots.node(first), Some(node));
        slots.release(first);
        let second = slots.reserve();
        slots.fill(second, node);
        assert_eq!(second.slot(), first.slot());
        assert_eq!(slots.node(first), None);
        assert_eq!(slots.in_use(), 1);
    }
}
