//! The shim through which the crate reaches locks, atomics and thread-locals.
//!
//! A normal build gets `parking_lot` and `std`. A build with `--cfg shuttle` gets shuttle's
//! versions, so that the models in `tests/model.rs` drive the very code that ships. Statistics
//! counters and reference counts use `std` atomics everywhere: they decide nothing about freshness,
//! and every further scheduling point makes a model explore less of what matters.

#[cfg(not(shuttle))]
mod real {
    pub(crate) use parking_lot::{Mutex, MutexGuard};
    use std::cell::Cell;
    use std::sync::atomic::Ordering;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64};
    pub(crate) use std::thread_local;

    /// A mutex that is held for some 50 ns at a time, and often.
    ///
    /// What a hold touches takes longer than that to come from one core to another. So a caller that finds it
    /// taken stays away for some microseconds, awake, in which whoever has it goes through many holds;
    /// only after several looks does it give its processor away.
    #[derive(Debug, Default)]
    pub(crate) struct HotMutex<T>(Mutex<T>);

    impl<T> HotMutex<T> {
        /// Makes one that nobody holds.
        pub(crate) const fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        /// Waits for the lock.
        #[inline(always)]
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.try_lock().unwrap_or_else(|| self.wait())
        }

        #[cold]
        #[inline(never)]
        fn wait(&self) -> MutexGuard<'_, T> {
            for _ in 0..LOOKS {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
                if let Some(guard) = self.0.try_lock() {
                    return guard;
                }
            }
            self.0.lock()
        }
    }

    /// Looks at a lock that is taken, before a caller sleeps. (For Miri every pause is a turn of others.)
    const LOOKS: u32 = if cfg!(miri) { 0 } else { 10 };
    /// Pauses before each of them: some 3 µs.
    const PAUSES: u32 = 256;

    /// A number that no other thread of this process has or had.
    pub(crate) fn thread_number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local!(static NUMBER: Cell<u64> = const { Cell::new(0) });
        NUMBER.with(|number| {
            if number.get() == 0 {
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
    }

    /// Lets another thread run; a hook of the stress program.
    pub(crate) fn yield_thread() {
        std::thread::yield_now();
    }
}

#[cfg(shuttle)]
mod real {
    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64};
    pub(crate) use shuttle::thread_local;

    /// A shuttle mutex with the interface of `parking_lot`: no poisoning.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// Waiting awake is nothing that a model knows.
    pub(crate) type HotMutex<T> = Mutex<T>;

    /// The number of the modelled thread.
    pub(crate) fn thread_number() -> u64 {
        let number: usize = shuttle::current::me().into();
        number as u64
    }

    /// Lets another modelled thread run.
    pub(crate) fn yield_thread() {
        shuttle::thread::yield_now();
    }
}

pub(crate) use real::*;

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::cell::Cell;
    use std::sync::Barrier;

    use super::HotMutex;

    #[test]
    fn a_hot_mutex_lets_one_in_at_a_time_also_who_has_slept() {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = if cfg!(miri) { 20 } else { 2000 };
        let (lock, slept) = (HotMutex::new(Cell::new(0u64)), Barrier::new(THREADS as usize));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (lock, slept) = (&lock, &slept);
                scope.spawn(move || {
                    slept.wait();
                    for round in 0..ROUNDS {
                        let count = lock.lock();
                        let before = count.get();
                        if round % 100 == thread {
                            // Longer than anybody waits awake.
                            (0..20).for_each(|_| std::thread::yield_now());
                        }
                        count.set(before + 1);
                    }
                });
            }
        });
        assert_eq!(lock.lock().get(), THREADS * ROUNDS);
    }
}
