//! Owned handles without a reference count: a slot that names the value in use.
//!
//! An owned handle must be `Send` and `'static`, so it cannot live on a pin. It takes a slot of the
//! thread that makes it and writes the address there; the collector frees no address that a slot
//! names. The first slot is tried, then two further ones in turn; when all are taken the handle counts
//! references instead, which costs two locked instructions but never fails.
//!
//! A slot may be cleared by another thread (the handle travels), which is why blocks of slots are
//! leaked and reused by later threads, occupied slots included.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use parking_lot::Mutex;

use crate::memory::line::Line;

/// Where one handle says which address it uses; null when free.
pub(crate) type Slot = AtomicPtr<()>;

/// The slots of one thread.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Block {
    slots: [Slot; SLOTS],
}

/// Names `address` in a slot of this thread. Call it pinned, with an address read while pinned.
#[inline(always)]
pub(crate) fn name(line: &Line, address: *mut ()) -> Option<&'static Slot> {
    let block = line.block.get();
    if cfg!(shuttle) || block.is_null() {
        return None;
    }
    // SAFETY: blocks are leaked, so a non-null pointer to one is always valid.
    let block: &'static Block = unsafe { &*block };
    let first = &block.slots[0];
    if first.load(Relaxed).is_null() {
        first.store(address, Release);
        return Some(first);
    }
    name_further(line, block, address)
}

#[cold]
#[inline(never)]
fn name_further(line: &Line, block: &'static Block, address: *mut ()) -> Option<&'static Slot> {
    for _ in 0..2 {
        let next = line.next.get() % (SLOTS - 1) + 1;
        let slot = &block.slots[next];
        if slot.load(Relaxed).is_null() {
            slot.store(address, Release);
            return Some(slot);
        }
        line.next.set(next);
    }
    None
}

/// Gives a slot back.
#[inline(always)]
pub(crate) fn clear(slot: &'static Slot) {
    slot.store(ptr::null_mut(), Release);
}

/// Every address that is in use, sorted. Only the collector asks, after its barrier.
pub(crate) fn named() -> Vec<usize> {
    let blocks = BLOCKS.lock();
    let slots = blocks.all.iter().flat_map(|block| &block.slots);
    let mut named: Vec<usize> = slots.map(|slot| slot.load(SeqCst).addr()).collect();
    named.retain(|&address| address != 0);
    named.sort_unstable();
    named
}

/// A block for a thread that begins.
pub(crate) fn claim() -> &'static Block {
    let mut blocks = BLOCKS.lock();
    blocks.free.pop().unwrap_or_else(|| {
        let slots = [const { Slot::new(ptr::null_mut()) }; SLOTS];
        let block: &'static Block = Box::leak(Box::new(Block { slots }));
        blocks.all.push(block);
        block
    })
}

/// The block of a thread that ends; handles that it made may still be named there.
pub(crate) fn give_back(block: &'static Block) {
    BLOCKS.lock().free.push(block);
}

struct Blocks {
    all: Vec<&'static Block>,
    free: Vec<&'static Block>,
}

/// Handles a thread can hold at once before the next ones count references.
const SLOTS: usize = 32;

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { all: Vec::new(), free: Vec::new() });

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::memory::line;

    #[test]
    fn a_named_address_is_seen_until_it_is_cleared() {
        let _pin = line::pin();
        // SAFETY: the line of this thread.
        let line = unsafe { &*line::mine() };
        let address = ptr::without_provenance_mut(0x40);
        let slot = name(line, address).expect("a fresh thread has free slots");
        assert!(named().contains(&0x40));
        clear(slot);
        assert!(!named().contains(&0x40));
    }

    #[test]
    fn a_full_block_refuses_instead_of_overwriting() {
        let _pin = line::pin();
        // SAFETY: the line of this thread.
        let line = unsafe { &*line::mine() };
        let slots: Vec<_> = (1..=SLOTS + 4)
            .filter_map(|i| name(line, ptr::without_provenance_mut(i * 0x1000)))
            .collect();
        assert!((SLOTS / 2..=SLOTS).contains(&slots.len()));
        assert!(name(line, ptr::without_provenance_mut(0x50)).is_none());
        slots.into_iter().for_each(clear);
    }
}
