//! What a thread keeps for its hits, in one cache line.
//!
//! One word says whether the short way is open: it is `IDLE` only when the thread is known to the
//! collector, nothing is being computed on it, no pin is held and pinning needs no fence. Then a hit pins
//! with one store, and everything unusual is one failed comparison and somebody else's business.
//!
//! ```text
//!   word │ IDLE │ an epoch │ LATE   │ BUSY                              │ ENDED
//!        │ free │ pinned   │ pinned │ computing, unknown yet, or fences │ the thread is ending
//! ```
//! The line is registered with the collector at the first pin and taken out when the thread ends. A
//! destructor of a thread-local that runs after that may still pin: it stops collection altogether for
//! as long. Handles it makes count references.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize, compiler_fence, fence};

use parking_lot::Mutex;

use crate::memory::hazard::{self, Block};
use crate::memory::{barrier, sync};

/// See the module documentation.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Line {
    word: AtomicU64,
    /// What the word is while nothing is computed and no pin is held.
    idle: Cell<u64>,
    /// The frame of the computation that is being polled; null outside. See `capture`.
    frame: Cell<*const ()>,
    /// Where handles are named; null before the first pin and after the last.
    pub(crate) block: Cell<*const Block>,
    /// The slot that was tried last.
    pub(crate) next: Cell<usize>,
    /// Where it is among the lines of all threads; looked at under their lock.
    place: AtomicUsize,
}

/// Proof that this thread is pinned: pointers loaded while it lives stay valid while it lives.
///
/// Pins of one thread end in the reverse order of their beginning; a frame may come or go meanwhile.
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub(crate) struct Pin {
    line: *const Line,
    before: u64,
}

/// A pin of the short way, which ends while no frame is current, as it began.
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub(crate) struct ShortPin {
    line: *const Line,
}

/// The line of this thread. It lives as long as the thread, through the destructors of thread-locals.
#[inline(always)]
pub(crate) fn mine() -> *const Line {
    let line = LINE.with(ptr::from_ref);
    // Without this the address is worked out anew for each use: three instructions of a hit.
    #[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
    let line = {
        let mut line = line;
        // SAFETY: no instruction at all, and no memory is looked at; the address is merely taken for
        // unknown.
        #[allow(clippy::pointers_in_nomem_asm_block)]
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) line, options(pure, nomem, nostack, preserves_flags));
        }
        line
    };
    line
}

/// Pins the thread; nests.
#[inline(always)]
pub(crate) fn pin() -> Pin {
    if cfg!(shuttle) {
        return Pin { line: ptr::null(), before: IDLE };
    }
    // SAFETY: the line of this very thread, which is running.
    let line = unsafe { &*mine() };
    match line.word.load(Relaxed) {
        IDLE => {
            line.begin_idle();
            Pin { line, before: IDLE }
        }
        before => line.pin_slow(before),
    }
}

impl Line {
    /// Pins when the short way is open.
    #[inline(always)]
    pub(crate) fn try_pin(&self) -> Option<ShortPin> {
        if self.word.load(Relaxed) != IDLE {
            return None;
        }
        self.begin_idle();
        Some(ShortPin { line: self })
    }

    #[inline(always)]
    fn begin_idle(&self) {
        self.word.store(EPOCH.load(Acquire), Relaxed);
        // The collector's barrier makes the store visible to it before anything that follows.
        compiler_fence(SeqCst);
    }

    #[inline(never)]
    fn pin_slow(&self, before: u64) -> Pin {
        let mut before = before;
        if before <= LATE {
            // Pinned already: the pin puts back what is there.
            return Pin { line: self, before };
        }
        if before == BUSY && self.block.get().is_null() {
            self.register();
            before = self.word.load(Relaxed);
        }
        if before == ENDED {
            LATE_PINS.fetch_add(1, SeqCst);
            self.word.store(LATE, Relaxed);
            return Pin { line: self, before };
        }
        self.word.store(EPOCH.load(SeqCst), SeqCst);
        if barrier::is_asymmetric() {
            compiler_fence(SeqCst);
        } else {
            fence(SeqCst);
        }
        Pin { line: self, before }
    }

    /// Ends a pin that began in another state.
    #[inline(never)]
    fn unpin(&self, before: u64) {
        let word = match before {
            IDLE | BUSY => self.between_pins(),
            pinned if pinned <= LATE => pinned,
            ended => {
                LATE_PINS.fetch_sub(1, SeqCst);
                ended
            }
        };
        self.word.store(word, Release);
    }

    #[cold]
    fn register(&self) {
        if AT_EXIT.try_with(|_| ()).is_err() {
            return self.word.store(ENDED, Relaxed);
        }
        self.block.set(hazard::claim());
        let mut lines = LINES.lock();
        self.place.store(lines.len(), Relaxed);
        lines.push(KnownLine(self));
        drop(lines);
        self.idle.set(if barrier::is_asymmetric() { IDLE } else { BUSY });
        self.settle();
    }

    /// The thread ends: the last line takes its place, so that many threads that end at once do not
    /// look at each other.
    fn leave(&self) {
        let mut lines = LINES.lock();
        let place = self.place.load(Relaxed);
        lines.swap_remove(place);
        if let Some(moved) = lines.get(place) {
            // SAFETY: a line is taken out, under this lock, before its thread ends.
            unsafe { &*moved.0 }.place.store(place, Relaxed);
        }
    }

    /// Sets the word to what it is between pins.
    fn settle(&self) {
        if matches!(self.word.load(Relaxed), IDLE | BUSY) {
            self.word.store(self.between_pins(), Relaxed);
        }
    }

    /// What the word is while no pin is held: with a frame the short way is closed.
    #[inline(always)]
    fn between_pins(&self) -> u64 {
        if self.frame.get().is_null() { self.idle.get() } else { BUSY }
    }

    /// The frame that is current; null outside of computations.
    #[inline(always)]
    pub(crate) fn frame(&self) -> *const () {
        self.frame.get()
    }

    /// Makes a frame current, or none, and returns the one that was.
    #[inline]
    pub(crate) fn replace_frame(&self, frame: *const ()) -> *const () {
        let before = self.frame.replace(frame);
        if !ptr::eq(before, frame) {
            self.settle();
        }
        before
    }
}

impl Drop for Pin {
    #[inline(always)]
    fn drop(&mut self) {
        if cfg!(shuttle) {
            return;
        }
        // SAFETY: the line of this very thread; a pin is not `Send`.
        let line = unsafe { &*self.line };
        match self.before {
            IDLE if line.frame.get().is_null() => line.word.store(IDLE, Release),
            BUSY if !line.frame.get().is_null() => line.word.store(BUSY, Release),
            before => line.unpin(before),
        }
    }
}

impl Drop for ShortPin {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the line of this very thread; a pin is not `Send`.
        let line = unsafe { &*self.line };
        debug_assert!(line.frame.get().is_null(), "a frame that began under the pin has ended");
        line.word.store(IDLE, Release);
    }
}

/// The epoch at which things are retired now.
pub(crate) fn epoch() -> u64 {
    EPOCH.load(SeqCst)
}

/// Begins the next epoch. Only the collector does.
pub(crate) fn next_epoch() {
    EPOCH.fetch_add(1, SeqCst);
}

/// The epoch of the reader that was pinned first; 0 while nothing can be told.
pub(crate) fn oldest_pinned() -> u64 {
    let lines = LINES.lock();
    if LATE_PINS.load(SeqCst) > 0 {
        return 0;
    }
    // SAFETY: a line is taken out, under this lock, before its thread ends.
    let words = lines.iter().map(|line| unsafe { &*line.0 }.word.load(SeqCst));
    words.filter(|&word| word != IDLE && word < LATE).min().unwrap_or(u64::MAX)
}

/// Threads that are known to the collector.
pub(crate) fn threads() -> usize {
    LINES.lock().len()
}

struct KnownLine(*const Line);

// SAFETY: only the word is read by other threads, and it is atomic.
unsafe impl Send for KnownLine {}

struct AtExit;

impl Drop for AtExit {
    fn drop(&mut self) {
        // SAFETY: the line of this very thread; it has no destructor, so it is there still.
        let line = unsafe { &*mine() };
        let block = line.block.replace(ptr::null());
        if block.is_null() {
            return;
        }
        line.leave();
        // SAFETY: blocks are leaked.
        hazard::give_back(unsafe { &*block });
        line.idle.set(ENDED);
        line.word.store(ENDED, Relaxed);
    }
}

const IDLE: u64 = 0;
const LATE: u64 = u64::MAX - 2;
const BUSY: u64 = u64::MAX - 1;
const ENDED: u64 = u64::MAX;

sync::thread_local! {
    static LINE: Line = const {
        Line {
            word: AtomicU64::new(BUSY),
            idle: Cell::new(BUSY),
            frame: Cell::new(ptr::null()),
            block: Cell::new(ptr::null()),
            next: Cell::new(0),
            place: AtomicUsize::new(0),
        }
    };
}

thread_local! {
    static AT_EXIT: AtExit = const { AtExit };
}

/// On a line of its own: every hit loads it.
#[repr(align(128))]
struct PaddedCounter(AtomicU64);

impl std::ops::Deref for PaddedCounter {
    type Target = AtomicU64;

    #[inline(always)]
    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

static EPOCH: PaddedCounter = PaddedCounter(AtomicU64::new(4));
static LINES: Mutex<Vec<KnownLine>> = Mutex::new(Vec::new());
static LATE_PINS: AtomicUsize = AtomicUsize::new(0);

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn pins_nest_and_a_frame_closes_the_short_way() {
        // SAFETY: the line of this thread.
        let line = unsafe { &*mine() };
        drop(pin());
        let idle = line.word.load(Relaxed);
        assert_eq!(line.try_pin().is_some(), barrier::is_asymmetric());
        let outer = pin();
        assert!(line.try_pin().is_none(), "pinned already");
        let pinned = line.word.load(Relaxed);
        drop(pin());
        assert_eq!(line.word.load(Relaxed), pinned);
        drop(outer);
        let frame = ptr::without_provenance(8);
        assert!(line.replace_frame(frame).is_null());
        assert!(line.try_pin().is_none(), "reads must be noted");
        drop(pin());
        assert_eq!(line.replace_frame(ptr::null()), frame);
        assert_eq!(line.word.load(Relaxed), idle);
    }

    #[test]
    fn a_pin_that_ends_while_another_frame_is_current_leaves_the_way_as_that_frame_has_it() {
        // SAFETY: the line of this thread.
        let line = unsafe { &*mine() };
        let (outside, frame) = (pin(), ptr::without_provenance(8));
        line.replace_frame(frame);
        drop(outside);
        assert!(line.try_pin().is_none(), "reads must be noted");
        let inside = pin();
        line.replace_frame(ptr::null());
        drop(inside);
        assert_eq!(line.try_pin().is_some(), barrier::is_asymmetric());
    }
}
