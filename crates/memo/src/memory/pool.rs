//! Where nodes and results are allocated: places of one size, kept per thread.
//!
//! A general allocator spends a header and its rounding on each of millions of small things, and lets
//! two publishing threads contend. Here a thread takes places from a list of its own, gives back to
//! that list, and exchanges whole batches with the pool of the process. Places come from chunks that
//! grow to 2 MiB, for which the kernel is asked to use one large page. Chunks are never returned:
//! their places serve the next values of that size.
//!
//! What is larger than 1 KiB or aligned to more than 8 bytes, and everything under Miri and shuttle, goes to the
//! global allocator.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use parking_lot::Mutex;

/// Moves `value` to the heap.
#[inline]
pub(crate) fn put<T>(value: T) -> NonNull<T> {
    let place = place::<T>();
    // SAFETY: a new place.
    unsafe { place.write(value) };
    place
}

/// A place for a `T`, which is not there yet: for what is too large to be made elsewhere and moved.
#[inline(always)]
pub(crate) fn place<T>() -> NonNull<T> {
    let Some(class) = (const { class_of(Layout::new::<T>()) }) else {
        return NonNull::from(Box::leak(Box::<T>::new_uninit())).cast();
    };
    // SAFETY: a place of this class is as large as a `T`, aligned to 8 and nobody else's.
    unsafe { NonNull::new_unchecked(list(class).take(class).cast()) }
}

/// Drops a value where it is and frees its place, also when the destructor panics.
///
/// # Safety
/// `place` came from [`put`] or [`place`] of the same type, and there is a value; it is not used again and
/// nobody else can reach it.
#[inline(always)]
pub(crate) unsafe fn destroy<T>(place: NonNull<T>) {
    if !std::mem::needs_drop::<T>() {
        return free(place);
    }
    let _freed = PlaceGuard(place);
    // SAFETY: the caller says so.
    unsafe { place.drop_in_place() };
}

/// Frees a place whose value is dropped, or was about to be when its destructor panicked.
struct PlaceGuard<T>(NonNull<T>);

impl<T> Drop for PlaceGuard<T> {
    #[inline]
    fn drop(&mut self) {
        free(self.0);
    }
}

#[inline(always)]
fn free<T>(place: NonNull<T>) {
    let layout = Layout::new::<T>();
    if let Some(class) = const { class_of(Layout::new::<T>()) } {
        list(class).give(class, place.as_ptr().cast());
    } else if layout.size() != 0 {
        // SAFETY: `place` made it a `Box`, whose value has been dropped.
        unsafe { dealloc(place.as_ptr().cast(), layout) };
    }
}

/// The places of one class that this thread has, as long as it runs.
#[inline(always)]
fn list<'l>(class: usize) -> &'l List {
    let lists = MINE.with(ptr::from_ref);
    // SAFETY: of this thread, through the destructors of thread-locals; a `List` is not `Sync`.
    unsafe { &(*lists)[class] }
}

/// The class of what has this layout; `None` for the global allocator.
///
/// Sizes are rounded up to the next multiple of [`STEP`], large ones of [`LARGE_STEP`].
const fn class_of(layout: Layout) -> Option<usize> {
    let size = layout.size();
    if cfg!(any(miri, shuttle))
        || size == 0
        || layout.align() > STEP
        || size > size_of_class(CLASSES - 1)
    {
        None
    } else if size <= SMALL_CLASSES * STEP {
        Some((size - 1) / STEP)
    } else {
        Some(SMALL_CLASSES + (size - SMALL_CLASSES * STEP - 1) / LARGE_STEP)
    }
}

/// A place that nobody uses, in a list of such.
struct Free {
    next: *mut Self,
}

/// The places of one class that a thread has.
struct List {
    current: Cell<*mut Free>,
    /// Places in `current`. [`BATCH`] also before the first use, which therefore takes the slow path.
    length: Cell<usize>,
    /// A second list of exactly [`BATCH`] places, so that a thread that takes and gives in turn does
    /// not exchange with the pool each time.
    spare: Cell<*mut Free>,
    /// Places that were never used.
    fresh: Cell<*mut u8>,
    fresh_end: Cell<*mut u8>,
}

impl List {
    const fn new() -> Self {
        Self {
            current: Cell::new(ptr::null_mut()),
            length: Cell::new(BATCH),
            spare: Cell::new(ptr::null_mut()),
            fresh: Cell::new(ptr::null_mut()),
            fresh_end: Cell::new(ptr::null_mut()),
        }
    }

    #[inline]
    fn take(&self, class: usize) -> *mut u8 {
        let first = self.current.get();
        if !first.is_null() {
            // SAFETY: a place in the list is nobody else's and holds a `Free`.
            self.current.set(unsafe { (*first).next });
            self.length.set(self.length.get() - 1);
            return first.cast();
        }
        let fresh = self.fresh.get();
        if fresh != self.fresh_end.get() {
            self.fresh.set(fresh.wrapping_add(size_of_class(class)));
            return fresh;
        }
        Self::take_slow(class)
    }

    #[inline(always)]
    fn give(&self, class: usize, place: *mut Free) {
        if self.length.get() == BATCH { Self::give_slow(class, place) } else { self.keep(place) }
    }

    #[cold]
    #[inline(never)]
    fn give_slow(class: usize, place: *mut Free) {
        let mine = list(class);
        if mine.make_room(class) {
            return mine.keep(place);
        }
        // SAFETY: as in `keep`; a batch of one ends with a link to nothing.
        unsafe { place.write(Free { next: ptr::null_mut() }) };
        POOLS[class].lock().batches.push((place, 1));
    }

    #[inline(always)]
    fn keep(&self, place: *mut Free) {
        // SAFETY: the place was given up, so it is this list's now, and is large enough.
        unsafe { place.write(Free { next: self.current.get() }) };
        self.current.set(place);
        self.length.set(self.length.get() + 1);
    }

    #[cold]
    #[inline(never)]
    fn take_slow(class: usize) -> *mut u8 {
        let mine = list(class);
        let keeps = mine.make_room(class);
        let spare = mine.spare.replace(ptr::null_mut());
        let mut pool = POOLS[class].lock();
        let batch = if spare.is_null() { pool.batches.pop() } else { Some((spare, BATCH)) };
        if let Some((first, length)) = batch {
            // SAFETY: a place in a batch is nobody else's and holds a `Free`.
            let rest = unsafe { (*first).next };
            if keeps {
                mine.current.set(rest);
                mine.length.set(length - 1);
            } else if !rest.is_null() {
                pool.batches.push((rest, length - 1));
            }
            return first.cast();
        }
        let count = if keeps { BATCH } else { 1 };
        let (fresh, end) = pool.carve(class, count);
        mine.fresh.set(fresh.wrapping_add(size_of_class(class)));
        mine.fresh_end.set(end);
        fresh
    }

    /// Makes room in `current`; `false` when the thread is ending, so that nothing may be kept.
    #[cold]
    #[inline(never)]
    fn make_room(&self, class: usize) -> bool {
        let full = self.current.replace(ptr::null_mut());
        if full.is_null() {
            // The first use, the first one since the thread began to end, or `current` is used up.
            let keeps = AT_EXIT.try_with(|_| ()).is_ok();
            self.length.set(if keeps { 0 } else { BATCH });
            return keeps;
        }
        let spare = self.spare.replace(full);
        if !spare.is_null() {
            POOLS[class].lock().batches.push((spare, BATCH));
        }
        self.length.set(0);
        true
    }

    /// Gives everything to the pool.
    fn flush(&self, class: usize) {
        while self.fresh.get() != self.fresh_end.get() {
            let place = self.fresh.get();
            self.fresh.set(place.wrapping_add(size_of_class(class)));
            self.give(class, place.cast());
        }
        let mut pool = POOLS[class].lock();
        let current = self.current.replace(ptr::null_mut());
        let spare = self.spare.replace(ptr::null_mut());
        let lists = [(current, self.length.replace(BATCH)), (spare, BATCH)];
        pool.batches.extend(lists.into_iter().filter(|(first, _)| !first.is_null()));
    }
}

/// The places of one class that no thread has.
struct Pool {
    /// Lists and their lengths.
    batches: Vec<(*mut Free, usize)>,
    fresh: *mut u8,
    fresh_bytes: usize,
    next_chunk: usize,
}

// SAFETY: the places in a pool are nobody's.
unsafe impl Send for Pool {}

impl Pool {
    const fn new() -> Self {
        Self {
            batches: Vec::new(),
            fresh: ptr::null_mut(),
            fresh_bytes: 0,
            next_chunk: SMALLEST_CHUNK,
        }
    }

    /// Up to `count` places that were never used, at least one: their beginning and end.
    fn carve(&mut self, class: usize, count: usize) -> (*mut u8, *mut u8) {
        let size = size_of_class(class);
        if self.fresh_bytes < size {
            self.fresh = chunk(self.next_chunk);
            self.fresh_bytes = self.next_chunk;
            self.next_chunk = (self.next_chunk * 2).min(LARGEST_CHUNK);
        }
        let bytes = (self.fresh_bytes / size).min(count) * size;
        let first = self.fresh;
        self.fresh = first.wrapping_add(bytes);
        self.fresh_bytes -= bytes;
        (first, self.fresh)
    }
}

fn chunk(bytes: usize) -> *mut u8 {
    let layout = Layout::from_size_align(bytes, bytes).expect("a power of two up to 2 MiB");
    // SAFETY: not empty.
    let chunk = unsafe { alloc(layout) };
    if chunk.is_null() {
        handle_alloc_error(layout);
    }
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes == LARGEST_CHUNK {
        // A kernel that has no large pages, or none left, ignores the request.
        // SAFETY: advice about memory that was just allocated; it does not change its contents.
        unsafe { libc::madvise(chunk.cast(), bytes, libc::MADV_HUGEPAGE) };
    }
    chunk
}

const fn size_of_class(class: usize) -> usize {
    match class.checked_sub(SMALL_CLASSES) {
        None => (class + 1) * STEP,
        Some(large) => SMALL_CLASSES * STEP + (large + 1) * LARGE_STEP,
    }
}

struct AtExit;

impl Drop for AtExit {
    fn drop(&mut self) {
        let _ = MINE.try_with(|lists| {
            for (class, list) in lists.iter().enumerate() {
                list.flush(class);
            }
        });
    }
}

const STEP: usize = 8;
/// Places of up to 256 bytes: nodes and values.
const SMALL_CLASSES: usize = 32;
const LARGE_STEP: usize = 64;
/// Places of up to 1,024 bytes, for computations and their futures.
const CLASSES: usize = SMALL_CLASSES + 12;
const BATCH: usize = 64;
const SMALLEST_CHUNK: usize = 16 << 10;
const LARGEST_CHUNK: usize = 2 << 20;

thread_local! {
    static MINE: [List; CLASSES] = const { [const { List::new() }; CLASSES] };
    static AT_EXIT: AtExit = const { AtExit };
}

static POOLS: [Mutex<Pool>; CLASSES] = [const { Mutex::new(Pool::new()) }; CLASSES];

#[cfg(all(test, not(any(miri, shuttle))))]
mod tests {
    use super::*;

    type Place = [u64; 31];

    #[test]
    fn places_are_distinct_and_used_again_also_by_other_threads() {
        let round = || {
            let places: Vec<_> = (0..1000u64).map(|i| put::<Place>([i; 31])).collect();
            for (i, place) in (0..).zip(places) {
                // SAFETY: put above, destroyed once.
                unsafe {
                    assert_eq!(*place.as_ref(), [i; 31]);
                    destroy(place);
                }
            }
        };
        let free = || {
            let class = class_of(Layout::new::<Place>()).expect("pooled");
            let pool = POOLS[class].lock();
            let listed: usize = pool.batches.iter().map(|(_, length)| length).sum();
            listed + pool.fresh_bytes / size_of::<Place>()
        };
        std::thread::spawn(round).join().expect("it does not panic");
        let before = free();
        assert!(before >= 1000, "a thread gives everything back at its end");
        for _ in 0..20 {
            std::thread::spawn(round).join().expect("it does not panic");
        }
        assert_eq!(free(), before, "the same places serve every thread");
    }
}
