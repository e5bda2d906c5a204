//! A boxed future in a place of the pool.
//!
//! It is polled where it was put, and mostly once: a general allocator would cost more than that. Its table
//! of functions is its own, so that the place is freed by code that knows how large it is.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use crate::memory::pool;

/// A running computation.
pub(crate) struct RunningFuture<T: 'static> {
    place: NonNull<()>,
    functions: &'static Functions<T>,
}

/// What can be done with a future of some type in its place.
struct Functions<T> {
    /// As [`Future::poll`]. The future stays in its place until it is destroyed, and nobody else has it.
    poll: unsafe fn(NonNull<()>, &mut Context<'_>) -> Poll<T>,
    /// As [`pool::destroy`].
    destroy: unsafe fn(NonNull<()>),
}

// SAFETY: owns a future that is `Send`.
unsafe impl<T> Send for RunningFuture<T> {}

impl<T> RunningFuture<T> {
    /// Moves a future to its place.
    #[inline]
    pub(crate) fn new<F: Future<Output = T> + Send + 'static>(future: F) -> Self {
        Self { place: pool::put(future).cast(), functions: &FunctionsOf::<F>::TABLE }
    }

    /// Polls it where it is.
    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the table of the future that was put there, which nobody else has.
        unsafe { (self.functions.poll)(self.place, context) }
    }
}

/// The functions of futures of this type.
struct FunctionsOf<F>(PhantomData<F>);

impl<F: Future> FunctionsOf<F> {
    const TABLE: Functions<F::Output> = Functions { poll: Self::poll, destroy: Self::destroy };

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn poll(place: NonNull<()>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: a future of this type, which stays in its place until it is dropped there.
        unsafe { Pin::new_unchecked(place.cast::<F>().as_mut()) }.poll(context)
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn destroy(place: NonNull<()>) {
        // SAFETY: a future of this type, put there by `new`.
        unsafe { pool::destroy(place.cast::<F>()) };
    }
}

impl<T> std::fmt::Debug for RunningFuture<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningFuture").finish_non_exhaustive()
    }
}

impl<T> Drop for RunningFuture<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the table of the future that was put there, and this is the end of it.
        unsafe { (self.functions.destroy)(self.place) };
    }
}
