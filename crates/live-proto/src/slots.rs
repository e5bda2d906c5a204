//! The table of open calls: a stream number is an index into it.
//!
//! Pages of 64 slots are made on first use, so a peer that opens one call at a high number costs a
//! page, not the whole table. A generation tells a handle kept by the application from a later call
//! in the same slot.

use std::fmt;

/// A call of this session, as the application names it. Never reused within a session, unlike
/// stream numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    pub(crate) stream: u32,
    pub(crate) generation: u32,
}

impl CallId {
    /// No call: every operation on it does nothing.
    pub const NONE: Self = Self { stream: u32::MAX, generation: u32::MAX };

    /// The stream number on the wire.
    pub fn stream(self) -> u32 {
        self.stream
    }

    pub(crate) fn index(self) -> u32 {
        index(self.stream)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.stream, self.generation)
    }
}

/// The slot of a stream number; for the connection's number 0 one that there is not.
#[inline]
pub(crate) fn index(stream: u32) -> u32 {
    stream.wrapping_sub(1) >> 1
}

#[derive(Debug)]
pub(crate) struct Slots<T> {
    pages: Vec<Option<Box<[Slot<T>; PAGE as usize]>>>,
    open: u32,
}

#[derive(Debug)]
pub(crate) struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slot<T> {
    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// What is in the slot. To fill it, assign only after a look that it is `None`: then nothing is
    /// made elsewhere and moved here.
    #[inline(always)]
    pub(crate) fn value(&mut self) -> &mut Option<T> {
        &mut self.value
    }
}

const PAGE: u32 = 64;

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), open: 0 }
    }
}

impl<T> Slots<T> {
    /// The number of slots in use.
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let page = self.pages.get((index / PAGE) as usize)?.as_deref()?;
        Some(&page[(index % PAGE) as usize])
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot<T>> {
        let page = self.pages.get_mut((index / PAGE) as usize)?.as_deref_mut()?;
        Some(&mut page[(index % PAGE) as usize])
    }

    /// What is in a slot.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.slot(index)?.value.as_ref()
    }

    /// What is in a slot, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slot_mut(index)?.value.as_mut()
    }

    /// What is in a slot, to be changed, and the slot's generation.
    #[inline]
    pub(crate) fn at(&mut self, index: u32) -> Option<(u32, &mut T)> {
        let slot = self.slot_mut(index)?;
        Some((slot.generation, slot.value.as_mut()?))
    }

    /// The call that a handle means, unless it is over.
    #[inline]
    pub(crate) fn of(&mut self, call: CallId) -> Option<&mut T> {
        let slot = self.slot_mut(call.index())?;
        if slot.generation == call.generation { slot.value.as_mut() } else { None }
    }

    /// The generation of a slot.
    #[inline]
    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.slot(index).map_or(0, |slot| slot.generation)
    }

    /// The generation of a slot, if it is free.
    #[inline]
    pub(crate) fn vacant(&self, index: u32) -> Option<u32> {
        let Some(slot) = self.slot(index) else { return Some(0) };
        slot.value.is_none().then_some(slot.generation)
    }

    /// A free slot, counted as in use: the caller fills it.
    #[inline(always)]
    pub(crate) fn take(&mut self, index: u32) -> &mut Slot<T> {
        if self.slot(index).is_none() {
            self.make_page(index);
        }
        self.open += 1;
        self.slot_mut(index).expect("the page was just made")
    }

    #[cold]
    fn make_page(&mut self, index: u32) {
        let page = (index / PAGE) as usize;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let empty = |_| Slot { generation: 0, value: None };
        self.pages[page] = Some(Box::new(std::array::from_fn(empty)));
    }

    /// Empties a slot after a last look, dropping what is in it where it is.
    #[inline(always)]
    pub(crate) fn clear<R>(&mut self, index: u32, look: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.slot_mut(index)?;
        let seen = look(slot.value.as_ref()?);
        slot.value = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.open -= 1;
        Some(seen)
    }

    /// Empties a slot.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slot_mut(index)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.open -= 1;
        Some(value)
    }

    /// The slots in use, ascending.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter().map(|(index, _)| index)
    }

    /// The slots in use and what is in them, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> + '_ {
        self.pages.iter().enumerate().flat_map(|(number, page)| {
            let first = number as u32 * PAGE;
            page.iter().flat_map(move |slots| {
                (first..)
                    .zip(slots.iter())
                    .filter_map(|(index, slot)| Some((index, slot.value.as_ref()?)))
            })
        })
    }
}

/// The slots that a caller may take next: freed ones first, so that tables stay dense.
#[derive(Debug, Default)]
pub(crate) struct FreeSlots {
    freed: Vec<u32>,
    next: u32,
}

impl FreeSlots {
    pub(crate) fn take(&mut self) -> u32 {
        self.freed.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub(crate) fn give(&mut self, index: u32) {
        self.freed.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(slots: &mut Slots<&'static str>, index: u32, value: &'static str) -> u32 {
        let slot = slots.take(index);
        *slot.value() = Some(value);
        slot.generation()
    }

    #[test]
    fn a_handle_of_an_ended_call_does_not_reach_the_next_one() {
        let mut slots = Slots::default();
        let generation = fill(&mut slots, 70, "first");
        let first = CallId { stream: 141, generation };
        assert_eq!(slots.of(first).copied(), Some("first"));
        assert_eq!(slots.remove(70), Some("first"));
        fill(&mut slots, 70, "second");
        assert_eq!(slots.of(first), None);
        fill(&mut slots, 3, "third");
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(3, &"third"), (70, &"second")]);
        assert_eq!(slots.pages.iter().flatten().count(), 2);
    }

    #[test]
    fn freed_slots_are_taken_first() {
        let mut free = FreeSlots::default();
        assert_eq!([free.take(), free.take(), free.take()], [0, 1, 2]);
        free.give(1);
        assert_eq!([free.take(), free.take()], [1, 3]);
    }
}
