//! One immutable result of one run: a value or a failure, counted, with the version it got.
//!
//! The node owns one count; owned handles that found no hazard slot own one each. A failure has the
//! same head but is allocated without room for a value, so that values pay nothing for failures.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::memory::pool;
use crate::memory::wake::quietly;
use crate::store::error::Error;

/// What lock-free readers look at before they know which of the two it is.
#[repr(C)]
pub(crate) struct Head {
    counts: AtomicU32,
    failed: bool,
    has_fingerprint: AtomicBool,
    /// 0 until published.
    version: AtomicU64,
    fingerprint: AtomicU64,
}

#[repr(C)]
pub(crate) struct Good<V> {
    head: Head,
    value: V,
}

#[repr(C)]
struct ErrorValue {
    head: Head,
    error: Error,
}

impl Head {
    fn new(failed: bool) -> Self {
        Self {
            counts: AtomicU32::new(1),
            failed,
            has_fingerprint: AtomicBool::new(false),
            version: AtomicU64::new(0),
            fingerprint: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn is_failure(&self) -> bool {
        self.failed
    }

    /// The tick at which this result was published; 0 before.
    #[inline(always)]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    pub(crate) fn fingerprint(&self) -> Option<u64> {
        let has = self.has_fingerprint.load(Acquire);
        has.then(|| self.fingerprint.load(Relaxed))
    }

    /// Before the result is shared.
    pub(crate) fn set_fingerprint(&self, fingerprint: u64) {
        self.fingerprint.store(fingerprint, Relaxed);
        self.has_fingerprint.store(true, Release);
    }

    /// Callers may hold the result already (see "early" in [`crate::compute::publish`]), hence the atomic.
    pub(crate) fn set_version(&self, version: u64) {
        self.version.store(version, Relaxed);
    }
}

/// A counted reference to a result.
pub(crate) struct Outcome<V> {
    head: NonNull<Head>,
    owns: PhantomData<V>,
}

// SAFETY: an `Outcome` is an `Arc` of an immutable `Result<V, Error>`; same conditions as `Arc`.
unsafe impl<V: Send + Sync> Send for Outcome<V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync> Sync for Outcome<V> {}

impl<V> Outcome<V> {
    #[inline(always)]
    pub(crate) fn new(result: Result<V, Error>) -> Self {
        let head: NonNull<Head> = match result {
            Ok(value) => pool::put(Good { head: Head::new(false), value }).cast(),
            Err(error) => pool::put(ErrorValue { head: Head::new(true), error }).cast(),
        };
        Self { head, owns: PhantomData }
    }

    /// Adds a count to a result that is alive for another reason.
    ///
    /// # Safety
    /// `head` came from [`Outcome::into_raw`] of the same `V` and is kept alive during the call by
    /// the graph lock, a pin or a hazard slot.
    pub(crate) unsafe fn from_shared(head: *const Head) -> Self {
        // SAFETY: the caller keeps it alive.
        unsafe { &*head }.counts.fetch_add(1, Relaxed);
        // SAFETY: a reference was just made from it, so it is not null.
        Self { head: unsafe { NonNull::new_unchecked(head.cast_mut()) }, owns: PhantomData }
    }

    /// Gives the count away.
    pub(crate) fn into_raw(self) -> NonNull<Head> {
        let head = self.head;
        std::mem::forget(self);
        head
    }

    /// Takes back a count given away by [`Outcome::into_raw`].
    ///
    /// # Safety
    /// The count exists and is taken back once.
    pub(crate) unsafe fn from_raw(head: NonNull<Head>) -> Self {
        Self { head, owns: PhantomData }
    }

    /// What [`crate::memory::epoch::retire`] runs on the node's count.
    ///
    /// # Safety
    /// As [`Outcome::from_raw`].
    pub(crate) unsafe fn release(head: *mut ()) {
        // SAFETY: handed on; what is retired has an address.
        drop(unsafe { Self::from_raw(NonNull::new_unchecked(head.cast())) });
    }

    pub(crate) fn head(&self) -> &Head {
        // SAFETY: this count keeps it alive.
        unsafe { self.head.as_ref() }
    }

    pub(crate) fn result(&self) -> Result<&V, &Error> {
        if self.head().is_failure() {
            // SAFETY: the flag says which of the two layouts it is, and it never changes.
            Err(unsafe { &self.head.cast::<ErrorValue>().as_ref().error })
        } else {
            // SAFETY: as above.
            Ok(unsafe { value_of::<V>(self.head.as_ptr()) })
        }
    }
}

/// The value behind a head that is known not to be a failure.
///
/// # Safety
/// `head` is a result of type `V`, not a failure, and outlives `'a`.
#[inline(always)]
pub(crate) unsafe fn value_of<'a, V>(head: *const Head) -> &'a V {
    // SAFETY: the caller says so.
    unsafe { &(*head.cast::<Good<V>>()).value }
}

impl<V> Clone for Outcome<V> {
    fn clone(&self) -> Self {
        // SAFETY: this count keeps it alive during the call.
        unsafe { Self::from_shared(self.head.as_ptr()) }
    }
}

impl<V> Outcome<V> {
    /// Gives the count back. What the value's destructor does is the caller's business.
    pub(crate) fn give_back(self) {
        let head = self.head;
        std::mem::forget(self);
        // SAFETY: the count of `self`, which is gone.
        unsafe { Self::uncount(head, |destroy| destroy()) };
    }

    /// # Safety
    /// Takes over one count.
    unsafe fn uncount(head: NonNull<Head>, last: impl FnOnce(&mut dyn FnMut())) {
        // SAFETY: the count keeps it alive up to here.
        if unsafe { head.as_ref() }.counts.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        // SAFETY: the last count is gone, so nobody else can reach the allocation.
        last(&mut || unsafe {
            if head.as_ref().is_failure() {
                pool::destroy(head.cast::<ErrorValue>());
            } else {
                pool::destroy(head.cast::<Good<V>>());
            }
        });
    }
}

impl<V> Drop for Outcome<V> {
    /// Inside of the graph nobody can handle the panic of a destructor, so it is counted and swallowed.
    fn drop(&mut self) {
        // SAFETY: the count of `self`, which is not used again.
        unsafe { Self::uncount(self.head, |destroy| quietly(destroy)) };
    }
}
