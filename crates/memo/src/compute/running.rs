//! The future of a memoized function, in a place of the pool.
//!
//! It is polled where it was put, and mostly once: a general allocator would cost more than that.
#![allow(unsafe_code)]

use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use crate::store::error::Error;
use tidewire_memo_memory::pool;

/// A running computation.
pub(crate) struct Running<V>(NonNull<dyn Future<Output = Result<V, Error>> + Send>);

// SAFETY: owns a future that is `Send`.
unsafe impl<V> Send for Running<V> {}

impl<V> Running<V> {
    #[inline]
    pub(crate) fn new(future: impl Future<Output = Result<V, Error>> + Send + 'static) -> Self {
        Self(pool::put(future))
    }

    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<V, Error>> {
        // SAFETY: nobody else has the future, and it stays in its place until it is dropped there.
        unsafe { Pin::new_unchecked(self.0.as_mut()) }.poll(context)
    }
}

impl<V> Drop for Running<V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: put there by `new`, and this is the end of it.
        unsafe { pool::destroy(self.0) };
    }
}
