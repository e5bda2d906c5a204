//! A boxed future in a place of the pool.
//!
//! It is polled where it was put, and mostly once: a general allocator would cost more than that. Its table
//! of functions is its own, so that the place is freed by code that knows how large it is.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, ready};

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
    /// Moves a future to its place. What comes out is converted.
    #[inline]
    pub(crate) fn new<F, C>(future: F, convert: C) -> Self
    where
        F: Future + Send + 'static,
        C: Fn(F::Output) -> T + Send + 'static,
    {
        let place = pool::put(Conversion { future: Some(future), convert });
        Self { place: place.cast(), functions: &FunctionsOf::<F, C, T>::TABLE }
    }

    /// Polls it where it is.
    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the table of the future that was put there, which nobody else has.
        unsafe { (self.functions.poll)(self.place, context) }
    }
}

/// What is in a place.
struct Conversion<F, C> {
    /// `None` when it has ended, from when on it holds nothing.
    future: Option<F>,
    convert: C,
}

/// The functions of futures of these types.
struct FunctionsOf<F, C, T>(PhantomData<(F, C, T)>);

impl<F: Future, C: Fn(F::Output) -> T, T> FunctionsOf<F, C, T> {
    const TABLE: Functions<T> = Functions { poll: Self::poll, destroy: Self::destroy };

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn poll(place: NonNull<()>, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: made of these types, and nobody else has it.
        let conversion = unsafe { place.cast::<Conversion<F, C>>().as_mut() };
        // SAFETY: the future stays in its place until it is dropped there.
        let mut future = unsafe { Pin::new_unchecked(&mut conversion.future) };
        let running = future.as_mut().as_pin_mut().expect("it has not ended");
        let output = ready!(running.poll(context));
        future.set(None);
        Poll::Ready((conversion.convert)(output))
    }

    /// # Safety
    /// As [`Functions`] says.
    unsafe fn destroy(place: NonNull<()>) {
        // SAFETY: made of these types, and put there by `new`.
        unsafe { pool::destroy(place.cast::<Conversion<F, C>>()) };
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
