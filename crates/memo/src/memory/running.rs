//! A boxed future in a place of the pool.
//!
//! It is polled where it was put, and mostly once: a general allocator would cost more than that.
#![allow(unsafe_code)]

use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use crate::memory::pool;

/// A running computation.
pub(crate) struct RunningFuture<T>(NonNull<dyn Future<Output = T> + Send>);

// SAFETY: owns a future that is `Send`.
unsafe impl<T> Send for RunningFuture<T> {}

impl<T> RunningFuture<T> {
    /// Moves a future to its place.
    #[inline]
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(pool::put(future))
    }

    /// Polls it where it is.
    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: nobody else has the future, and it stays in its place until it is dropped there.
        unsafe { Pin::new_unchecked(self.0.as_mut()) }.poll(context)
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
        // SAFETY: put there by `new`, and this is the end of it.
        unsafe { pool::destroy(self.0) };
    }
}
