//! When memory that a lock-free reader may still see can be freed.
//!
//! Readers pin: two plain stores to a line of their own thread (see [`crate::memory::line`]), no fence.
//! The collector pays instead: it raises the epoch, runs `membarrier(2)` (a full barrier on every thread
//! of the process) and then reads the lines. An item is freed when every pinned thread pinned at least
//! two epochs after the item was retired, and no hazard slot (see [`crate::memory::hazard`]) names it.
//! Under shuttle nothing is freed at all: the models are about the graph, not about memory.
//!
//! Nothing here runs a destructor under a lock, and a destructor that panics is counted and swallowed:
//! it would otherwise hit whichever caller happened to collect.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;

use crate::memory::wake::quietly;
use crate::memory::{barrier, hazard, line};

/// Queues `address` to be released by `release` when no reader can see it any more.
///
/// Never runs a destructor here: callers hold locks.
///
/// # Safety
/// `address` must be unreachable for readers that pin from now on, `release(address)` must be sound
/// once, on any thread, and must not be called by anyone else.
pub(crate) unsafe fn retire(address: *mut (), release: unsafe fn(*mut ())) {
    if cfg!(shuttle) {
        return;
    }
    GARBAGE.lock().push(Garbage { epoch: line::epoch(), address, release });
    WAITING.fetch_add(1, Relaxed);
}

/// Says that what is retired is this large: large things are collected sooner.
#[inline]
pub(crate) fn note_bytes(bytes: usize) {
    if bytes >= BYTES_PER_ITEM {
        WAITING.fetch_add(bytes / BYTES_PER_ITEM, Relaxed);
    }
}

/// Collects when enough garbage waits. Call it with no lock held.
#[inline]
pub(crate) fn collect_if_due() {
    if WAITING.load(Relaxed) >= COLLECT_EVERY {
        collect();
    }
}

/// Frees everything that no reader can see any more. Call it with no lock held.
pub(crate) fn collect() {
    if cfg!(shuttle) {
        return;
    }
    let free = {
        let Some(_only_one) = COLLECTOR.try_lock() else { return };
        let garbage = std::mem::take(&mut *GARBAGE.lock());
        WAITING.store(0, Relaxed);
        line::next_epoch();
        barrier::everywhere();
        let oldest = line::oldest_pinned();
        let named = hazard::named();
        let (free, keep): (Vec<_>, Vec<_>) = garbage.into_iter().partition(|item| {
            item.epoch + 1 < oldest && named.binary_search(&item.address.addr()).is_err()
        });
        if !keep.is_empty() {
            // What is kept counts half, so that a long pin does not make every publish collect.
            WAITING.fetch_add(keep.len() / 2, Relaxed);
            GARBAGE.lock().extend(keep);
        }
        free
    };
    for item in free {
        // SAFETY: `retire` demands that `release` is sound once nobody can see the address; that is
        // what the epochs and hazards above established, and the item left the queue for good.
        quietly(|| unsafe { (item.release)(item.address) });
    }
}

struct Garbage {
    epoch: u64,
    address: *mut (),
    release: unsafe fn(*mut ()),
}

// SAFETY: `retire` demands that `release` may run on any thread; the address is only handed to it.
unsafe impl Send for Garbage {}

const COLLECT_EVERY: usize = 1024;
/// This much garbage counts like an item: a MiB of it is collected at once, and freed two collections later.
const BYTES_PER_ITEM: usize = 1024;

static GARBAGE: Mutex<Vec<Garbage>> = Mutex::new(Vec::new());
static WAITING: AtomicUsize = AtomicUsize::new(0);
static COLLECTOR: Mutex<()> = Mutex::new(());

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::ptr;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;
    use crate::memory::line::pin;

    static FREED: AtomicUsize = AtomicUsize::new(0);

    unsafe fn count(_: *mut ()) {
        FREED.fetch_add(1, SeqCst);
    }

    unsafe fn panics(_: *mut ()) {
        panic!("injected");
    }

    #[test]
    fn garbage_waits_for_the_reader_that_was_pinned_first() {
        let pinned = pin();
        let address = ptr::without_provenance_mut(0x10);
        // SAFETY: the address is never dereferenced.
        unsafe { retire(address, count) };
        collect();
        collect();
        collect();
        assert_eq!(FREED.load(SeqCst), 0);
        drop(pinned);
        while FREED.load(SeqCst) == 0 {
            collect();
        }
        assert_eq!(FREED.load(SeqCst), 1);
    }

    #[test]
    fn a_destructor_that_panics_is_counted_and_not_passed_on() {
        let before = crate::memory::wake::swallowed_panics();
        // SAFETY: the address is never dereferenced.
        unsafe { retire(ptr::without_provenance_mut(0x20), panics) };
        while crate::memory::wake::swallowed_panics() == before {
            collect();
        }
    }
}
