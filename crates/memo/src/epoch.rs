//! When memory that a lock-free reader may still see can be freed.
//!
//! Readers pin: two plain stores to a record of their own thread, no fence. The collector pays
//! instead: it raises the epoch, runs `membarrier(2)` (a full barrier on every thread of the
//! process) and then reads the records. An item is freed when every pinned thread pinned at least
//! two epochs after the item was retired, and no hazard slot (see [`crate::hazard`]) names it.
//!
//! Where `membarrier` does not exist (off Linux, an old kernel, a seccomp filter) and under Miri,
//! pinning ends with a sequentially consistent fence and the collector needs no barrier. Under
//! shuttle nothing is freed at all: the models are about the graph, not about memory.
//!
//! Nothing here runs a destructor under a lock, and a destructor that panics is counted and swallowed:
//! it would otherwise hit whichever caller happened to collect.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize, compiler_fence};

use parking_lot::Mutex;

use crate::hazard;
use crate::wake::quietly;

/// Proof that this thread is pinned: pointers loaded while it lives stay valid while it lives.
///
/// Pins of one thread end in the reverse order of their beginning: the outermost one unpins.
pub(crate) struct Pin {
    /// Null for an inner pin.
    record: *const Record,
}

/// Pins the thread; nests.
#[inline(always)]
pub(crate) fn pin() -> Pin {
    if cfg!(shuttle) {
        return Pin { record: ptr::null() };
    }
    THREAD.with(|thread| {
        let record = thread.record.get();
        if record.is_null() {
            return pin_slow(thread);
        }
        // SAFETY: records are leaked, so a non-null pointer to one is always valid.
        let epoch = unsafe { &(*record).epoch };
        if epoch.load(Relaxed) != 0 {
            return Pin { record: ptr::null() };
        }
        epoch.store(EPOCH.load(Acquire), Relaxed);
        compiler_fence(SeqCst);
        Pin { record }
    })
}

impl Drop for Pin {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.record.is_null() {
            // SAFETY: records are leaked.
            unsafe { &*self.record }.epoch.store(0, Release);
        }
    }
}

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
    GARBAGE.lock().push(Garbage { epoch: EPOCH.load(SeqCst), address, release });
    WAITING.fetch_add(1, Relaxed);
}

/// Says that what was just retired is this large: large things are collected sooner.
pub(crate) fn note_bytes(bytes: usize) {
    WAITING.fetch_add(bytes / BYTES_PER_ITEM, Relaxed);
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
        EPOCH.fetch_add(1, SeqCst);
        barrier::everywhere();
        let oldest = oldest_pinned();
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

fn oldest_pinned() -> u64 {
    let records = RECORDS.lock();
    let pinned = records.all.iter().map(|record| record.epoch.load(SeqCst));
    pinned.filter(|&epoch| epoch != 0).min().unwrap_or(u64::MAX)
}

/// The first pin of a thread, and every pin where pinning needs a fence.
#[cold]
#[inline(never)]
fn pin_slow(thread: &Thread) -> Pin {
    if thread.fenced.get().is_null() {
        let asymmetric = barrier::available();
        let record = Record::claim();
        if asymmetric {
            thread.record.set(record);
        }
        thread.fenced.set(record);
        // When the thread is already ending the record is simply never reused.
        let _ = AT_EXIT.try_with(|exit| exit.record.set(record));
    }
    let record = thread.fenced.get();
    // SAFETY: set just above or earlier; records are leaked.
    let epoch = unsafe { &(*record).epoch };
    if epoch.load(Relaxed) != 0 {
        return Pin { record: ptr::null() };
    }
    epoch.store(EPOCH.load(SeqCst), SeqCst);
    std::sync::atomic::fence(SeqCst);
    Pin { record }
}

#[repr(align(128))]
struct Record {
    epoch: AtomicU64,
}

impl Record {
    fn claim() -> *const Self {
        let mut records = RECORDS.lock();
        if let Some(record) = records.free.pop() {
            return record;
        }
        let record: &'static Self = Box::leak(Box::new(Self { epoch: AtomicU64::new(0) }));
        records.all.push(record);
        record
    }
}

struct Records {
    all: Vec<&'static Record>,
    free: Vec<&'static Record>,
}

struct Thread {
    /// Set only where pinning needs no fence.
    record: Cell<*const Record>,
    fenced: Cell<*const Record>,
}

struct AtExit {
    record: Cell<*const Record>,
}

impl Drop for AtExit {
    fn drop(&mut self) {
        let record = self.record.get();
        if record.is_null() {
            return;
        }
        let _ = THREAD.try_with(|thread| {
            // SAFETY: records are leaked.
            let record = unsafe { &*record };
            // A destructor that runs after this one and pins claims a record of its own.
            if record.epoch.load(Relaxed) == 0 {
                thread.record.set(ptr::null());
                thread.fenced.set(ptr::null());
                RECORDS.lock().free.push(record);
            }
        });
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
/// This much garbage counts like an item: at most 1 MiB waits.
const BYTES_PER_ITEM: usize = 1024;

thread_local! {
    static THREAD: Thread = const {
        Thread { record: Cell::new(ptr::null()), fenced: Cell::new(ptr::null()) }
    };
    static AT_EXIT: AtExit = const { AtExit { record: Cell::new(ptr::null()) } };
}

static EPOCH: AtomicU64 = AtomicU64::new(4);
static RECORDS: Mutex<Records> = Mutex::new(Records { all: Vec::new(), free: Vec::new() });
static GARBAGE: Mutex<Vec<Garbage>> = Mutex::new(Vec::new());
static WAITING: AtomicUsize = AtomicUsize::new(0);
static COLLECTOR: Mutex<()> = Mutex::new(());

#[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
mod barrier {
    use std::sync::OnceLock;
    use std::sync::atomic::{Ordering::SeqCst, fence};

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    /// Whether the kernel took the registration; decided once for the process.
    pub(super) fn available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        *AVAILABLE.get_or_init(|| membarrier(REGISTER_PRIVATE_EXPEDITED))
    }

    /// Makes every thread of the process pass a full barrier before this returns.
    pub(super) fn everywhere() {
        fence(SeqCst);
        if available() {
            let passed = membarrier(PRIVATE_EXPEDITED);
            assert!(passed, "membarrier worked when the first thread pinned and fails now");
        }
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the system call takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}

#[cfg(not(all(target_os = "linux", not(miri), not(shuttle))))]
mod barrier {
    use std::sync::atomic::{Ordering::SeqCst, fence};

    /// Pinning fences instead.
    pub(super) fn available() -> bool {
        false
    }

    pub(super) fn everywhere() {
        fence(SeqCst);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

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
        let before = crate::wake::swallowed_panics();
        // SAFETY: the address is never dereferenced.
        unsafe { retire(ptr::without_provenance_mut(0x20), panics) };
        while crate::wake::swallowed_panics() == before {
            collect();
        }
    }
}
