//! Where nodes and results are allocated.
#![allow(unsafe_code)]

use std::ptr::NonNull;

/// Moves `value` to the heap.
pub(crate) fn put<T>(value: T) -> NonNull<T> {
    NonNull::from(Box::leak(Box::new(value)))
}

/// Moves a value back from the heap and frees its place.
///
/// # Safety
/// `place` came from [`put`] of the same `T`, is not used again and nobody else can reach it.
pub(crate) unsafe fn take<T>(place: NonNull<T>) -> T {
    // SAFETY: the caller says so.
    *unsafe { Box::from_raw(place.as_ptr()) }
}
