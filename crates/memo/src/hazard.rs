//! Owned handles without a reference count: a slot that names the value in use.
//!
//! An owned handle must be `Send` and `'static`, so it cannot live on a pin. It takes a slot of the
//! thread that makes it and writes the address there; the collector frees no address that a slot
//! names. Two slots are probed; when both are taken the handle counts references instead, which
//! costs two locked instructions but never fails.
//!
//! A slot may be cleared by another thread (the handle travels), which is why blocks of slots are
//! leaked and reused by later threads, occupied slots included.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use parking_lot::Mutex;

/// Where one handle says which address it uses; null when free.
pub(crate) type Slot = AtomicPtr<()>;

/// Names `address` in a slot of this thread. Call it pinned, with an address read while pinned.
#[inline(always)]
pub(crate) fn name(address: *mut ()) -> Option<&'static Slot> {
    if cfg!(shuttle) {
        return None;
    }
    MINE.with(|mine| {
        let mut block = mine.block.get();
        if block.is_null() {
            block = claim(mine);
        }
        // SAFETY: blocks are leaked, so a non-null pointer to one is always valid.
        let block: &'static Block = unsafe { &*block };
        let at = mine.next.get();
        let slot = &block.slots[at % SLOTS];
        if slot.load(Relaxed).is_null() {
            slot.store(address, Release);
            return Some(slot);
        }
        mine.next.set(at.wrapping_add(1));
        let slot = &block.slots[at.wrapping_add(1) % SLOTS];
        if slot.load(Relaxed).is_null() {
            slot.store(address, Release);
            return Some(slot);
        }
        None
    })
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

#[cold]
#[inline(never)]
fn claim(mine: &Mine) -> *const Block {
    let mut blocks = BLOCKS.lock();
    let block = blocks.free.pop().unwrap_or_else(|| {
        let slots = [const { Slot::new(ptr::null_mut()) }; SLOTS];
        let block: &'static Block = Box::leak(Box::new(Block { slots }));
        blocks.all.push(block);
        block
    });
    mine.block.set(block);
    let _ = AT_EXIT.try_with(|exit| exit.block.set(block));
    block
}

#[repr(align(128))]
struct Block {
    slots: [Slot; SLOTS],
}

struct Blocks {
    all: Vec<&'static Block>,
    free: Vec<&'static Block>,
}

struct Mine {
    block: Cell<*const Block>,
    next: Cell<usize>,
}

struct AtExit {
    block: Cell<*const Block>,
}

impl Drop for AtExit {
    fn drop(&mut self) {
        let block = self.block.get();
        if block.is_null() {
            return;
        }
        let _ = MINE.try_with(|mine| mine.block.set(ptr::null()));
        // SAFETY: blocks are leaked.
        BLOCKS.lock().free.push(unsafe { &*block });
    }
}

/// Handles a thread can hold at once before the next ones count references.
const SLOTS: usize = 32;

thread_local! {
    static MINE: Mine = const { Mine { block: Cell::new(ptr::null()), next: Cell::new(0) } };
    static AT_EXIT: AtExit = const { AtExit { block: Cell::new(ptr::null()) } };
}

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { all: Vec::new(), free: Vec::new() });

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_named_address_is_seen_until_it_is_cleared() {
        let address = ptr::without_provenance_mut(0x40);
        let slot = name(address).expect("a fresh thread has free slots");
        assert!(named().contains(&0x40));
        clear(slot);
        assert!(!named().contains(&0x40));
    }

    #[test]
    fn a_full_block_refuses_instead_of_overwriting() {
        let slots: Vec<_> =
            (1..=SLOTS + 4).filter_map(|i| name(ptr::without_provenance_mut(i * 0x1000))).collect();
        assert!(slots.len() <= SLOTS);
        assert!(name(ptr::without_provenance_mut(0x50)).is_none());
        slots.into_iter().for_each(clear);
    }
}
