//! The owned handle that a `get` answers with.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::memory::hazard::{self, Slot};
use crate::memory::line::Line;
use crate::store::value::{Head, Outcome, value_of};

/// An owned, immutable, memoized value: derefs to `V`, is `Send` and `'static`, and is made by a hit
/// without an allocation and without touching a shared counter.
///
/// It stays valid whatever happens to the memo; holding it keeps its memory alive beyond the budget.
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use tidewire::memo::{CachedValue, Graph, Memo};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let name = Memo::infallible_in(&graph, "name", async |id: u32| format!("contact {id}"));
/// let value: CachedValue<String> = name.get(7).await?;
/// drop(graph); // the memo is gone; what was given out stays
/// assert_eq!(value.len(), "contact 7".len());
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
pub struct CachedValue<V> {
    head: NonNull<Head>,
    /// `None`: the handle owns a count instead.
    slot: Option<&'static Slot>,
    owns: PhantomData<V>,
}

// SAFETY: a `CachedValue` gives shared access to a `V` and may be the one that drops it, like an `Arc`.
unsafe impl<V: Send + Sync> Send for CachedValue<V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync> Sync for CachedValue<V> {}

impl<V> CachedValue<V> {
    /// Makes a handle of a value that a lock-free reader found.
    ///
    /// # Safety
    /// `head` is a result of type `V`, not a failure, read under the pin that still holds.
    #[inline(always)]
    pub(crate) unsafe fn pinned(head: *const Head, line: &Line) -> Self {
        // SAFETY: a result has an address.
        let named = unsafe { NonNull::new_unchecked(head.cast_mut()) };
        match hazard::name(line, named.as_ptr().cast()) {
            Some(slot) => Self { head: named, slot: Some(slot), owns: PhantomData },
            // SAFETY: the pin keeps it alive during the call.
            None => Self::counted(unsafe { Outcome::from_shared(head) }),
        }
    }

    /// Makes a handle of a counted result, which must not be a failure.
    pub(crate) fn counted(outcome: Outcome<V>) -> Self {
        debug_assert!(!outcome.head().is_failure());
        Self { head: outcome.into_raw(), slot: None, owns: PhantomData }
    }

    /// When this value was published: versions order the values of one key within one boot.
    ///
    /// 0 for a value that was served early to a caller who arrived before the change that outdated
    /// it, and for one that is never kept (see the guarantees). Such a version validates nothing, and for the
    /// latter nothing says when it is over. If what was served early turns out to be current after all and is kept,
    /// the handle tells its version from then on.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.head().version()
    }

    /// The hash that [`Memo::fingerprint`](crate::Memo::fingerprint) gave this value; `None` without one.
    #[must_use]
    pub fn fingerprint(&self) -> Option<u64> {
        self.head().fingerprint()
    }

    fn head(&self) -> &Head {
        // SAFETY: the slot or the count keeps it alive.
        unsafe { self.head.as_ref() }
    }
}

impl<V> Deref for CachedValue<V> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        // SAFETY: kept alive by the slot or the count; constructors refuse failures.
        unsafe { value_of(self.head.as_ptr()) }
    }
}

impl<V> Clone for CachedValue<V> {
    fn clone(&self) -> Self {
        // SAFETY: this handle keeps it alive during the call.
        Self::counted(unsafe { Outcome::from_shared(self.head.as_ptr()) })
    }
}

impl<V> Drop for CachedValue<V> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.slot {
            Some(slot) => hazard::clear(slot),
            // SAFETY: a handle without a slot owns one count.
            None => give_back(unsafe { Outcome::<V>::from_raw(self.head) }),
        }
    }
}

#[inline(never)]
fn give_back<V>(outcome: Outcome<V>) {
    outcome.give_back();
}

impl<V: fmt::Debug> fmt::Debug for CachedValue<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<V: fmt::Display> fmt::Display for CachedValue<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<V: PartialEq> PartialEq<V> for CachedValue<V> {
    fn eq(&self, other: &V) -> bool {
        **self == *other
    }
}
