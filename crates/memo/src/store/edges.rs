//! A list of node ids in 16 bytes, the first one inline.
//!
//! Both directions of the dependency graph are such lists. Ids of nodes that are gone, and ids that are
//! there twice (a node that reads now this and now that is added each time), stay in dependants lists
//! until the list would grow; then they are dropped. So a list is at most twice as long as the nodes that
//! are alive, and growth stays amortised.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr;

use crate::store::slots::{Id, Slots};

/// A compact vector of [`Id`]s. `capacity == 0` means that the only id, if any, sits in `data`.
pub(crate) struct Edges {
    data: *mut Id,
    len: u32,
    capacity: u32,
}

// SAFETY: owns its buffer like a `Vec<Id>`.
unsafe impl Send for Edges {}

impl Edges {
    pub(crate) const fn new() -> Self {
        Self { data: ptr::null_mut(), len: 0, capacity: 0 }
    }

    /// An exactly sized list.
    #[inline(always)]
    pub(crate) fn exact(ids: impl ExactSizeIterator<Item = Id>) -> Self {
        if ids.len() == 0 { Self::new() } else { Self::exact_some(ids) }
    }

    fn exact_some(ids: impl ExactSizeIterator<Item = Id>) -> Self {
        let mut edges = Self::new();
        if ids.len() > 1 {
            edges.reallocate(u32::try_from(ids.len()).expect("fewer than 2^32 dependencies"));
        }
        ids.for_each(|id| edges.push_unchecked(id));
        edges
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.capacity as usize * size_of::<Id>()
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<Id> {
        if at >= self.len() {
            return None;
        }
        if self.capacity == 0 {
            return Some(Id::from_bits(self.data.addr() as u64));
        }
        // SAFETY: `at < len <= capacity`, and the first `len` ids are initialized.
        Some(unsafe { *self.data.add(at) })
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Id> + '_ {
        (0..self.len()).map(|at| self.get(at).expect("within the length"))
    }

    /// Appends `id` unless it is the last one already; forgets ids of dead nodes when it must grow.
    #[inline]
    pub(crate) fn push(&mut self, slots: &Slots, id: Id) {
        if self.len > 0 && self.get(self.len() - 1) == Some(id) {
            return;
        }
        if self.capacity != 0 && self.len == self.capacity {
            self.compact(slots);
        }
        self.push_unchecked(id);
    }

    /// Appends `id` and keeps all that is there; a long list grows by a quarter, with which growth is amortised.
    pub(crate) fn add(&mut self, id: Id) {
        if self.len > 0 && self.len >= self.capacity {
            self.reallocate(self.len + 1 + if self.len < LONG { 0 } else { self.len / 4 });
        }
        self.push_unchecked(id);
    }

    fn push_unchecked(&mut self, id: Id) {
        if self.capacity == 0 && self.len == 0 {
            self.data = ptr::without_provenance_mut(id.bits() as usize);
            self.len = 1;
            return;
        }
        if self.len >= self.capacity {
            let wanted = if self.capacity == 0 { 2 } else { self.capacity.saturating_mul(2) };
            self.reallocate(wanted);
        }
        // SAFETY: `len < capacity` now.
        unsafe { self.data.add(self.len as usize).write(id) };
        self.len += 1;
    }

    #[cold]
    fn compact(&mut self, slots: &Slots) {
        if self.capacity < 8 {
            return;
        }
        let mut kept = 0;
        slots.begin_count();
        for at in 0..self.len as usize {
            // SAFETY: `kept <= at < len`, all initialized.
            unsafe {
                let id = *self.data.add(at);
                if slots.first_in(id) {
                    self.data.add(kept).write(id);
                    kept += 1;
                }
            }
        }
        // A list that is still more than half full grows, or it would be compacted at every push.
        self.len = kept as u32;
        if self.len > self.capacity / 2 {
            self.reallocate(self.capacity.saturating_mul(2));
        } else if self.len < self.capacity / 8 {
            self.reallocate((self.capacity / 4).max(8));
        }
    }

    fn reallocate(&mut self, capacity: u32) {
        let layout = Self::layout(capacity);
        let data = if self.capacity == 0 {
            // SAFETY: the layout is not empty: callers ask for at least two ids.
            let data = unsafe { alloc(layout) }.cast::<Id>();
            if self.len == 1 && !data.is_null() {
                // SAFETY: room for at least two.
                unsafe { data.write(Id::from_bits(self.data.addr() as u64)) };
            }
            data
        } else {
            // SAFETY: the buffer was allocated with this very layout.
            unsafe {
                realloc(self.data.cast(), Self::layout(self.capacity), layout.size()).cast::<Id>()
            }
        };
        if data.is_null() {
            handle_alloc_error(layout);
        }
        self.data = data;
        self.capacity = capacity;
    }

    fn layout(capacity: u32) -> Layout {
        Layout::array::<Id>(capacity as usize).expect("2^32 ids fit in memory")
    }
}

impl Drop for Edges {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.data.cast(), Self::layout(self.capacity)) };
        }
    }
}

/// From here on a list that is added to has spare room.
const LONG: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_edge_needs_no_allocation_and_many_keep_their_order() {
        let slots = Slots::new();
        let mut edges = Edges::new();
        for i in 0..5 {
            edges.push(&slots, Id::new(i, 1));
            assert_eq!(edges.len(), i as usize + 1);
            assert_eq!(edges.heap_bytes() == 0, i == 0);
        }
        let slots: Vec<u32> = edges.iter().map(Id::slot).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_ids_of_dead_nodes_go_when_the_list_would_grow() {
        let slots = Slots::new();
        let mut edges = Edges::new();
        for i in 0..1000 {
            edges.push(&slots, Id::new(i, 1));
        }
        assert!(edges.heap_bytes() <= 8 * 16, "nobody is alive, so nothing needs room");
    }

    #[test]
    fn an_exact_list_has_no_spare_room() {
        let edges = Edges::exact((0..3).map(|i| Id::new(i, 7)));
        assert_eq!((edges.len(), edges.heap_bytes()), (3, 24));
        assert_eq!(Edges::exact([Id::new(9, 9)].into_iter()).heap_bytes(), 0);
    }
}
