//! The shim through which the crate reaches locks, atomics and thread-locals.
//!
//! A normal build gets `parking_lot` and `std`. A build with `--cfg shuttle` gets shuttle's
//! versions, so that the models in `tests/model.rs` drive the very code that ships. Statistics
//! counters and reference counts use `std` atomics everywhere: they decide nothing about freshness,
//! and every further scheduling point makes a model explore less of what matters.

#[cfg(not(shuttle))]
mod real {
    pub use parking_lot::{Mutex, MutexGuard};
    pub use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64};
    pub use std::thread_local;

    /// Lets another thread run; a hook of the stress program.
    pub fn yield_thread() {
        std::thread::yield_now();
    }
}

#[cfg(shuttle)]
mod real {
    pub use shuttle::sync::MutexGuard;
    pub use shuttle::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64};
    pub use shuttle::thread_local;

    /// A shuttle mutex with the interface of `parking_lot`: no poisoning.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// Lets another modelled thread run.
    pub fn yield_thread() {
        shuttle::thread::yield_now();
    }
}

pub use real::*;
