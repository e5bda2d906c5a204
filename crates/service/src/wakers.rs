//! Tasks that wait for the same thing, however many there are and however often each of them asks.

use std::task::Waker;

/// The wakers of whoever waits. One that is added again and again is kept a few times at most.
///
/// Adding costs the same whether one task waits or a hundred thousand do: the newest are looked at,
/// and all of them only when they have doubled.
///
/// ```
/// # use std::task::Waker;
/// # use tidewire_service::Wakers;
/// let mut waiting = Wakers::default();
/// for _ in 0..1000 {
///     waiting.add(Waker::noop());
/// }
/// assert_eq!(waiting.len(), 1);
/// ```
#[derive(Debug, Default)]
pub struct Wakers {
    wakers: Vec<Waker>,
    /// How many there may be before all are looked at.
    looked_at: usize,
}

impl Wakers {
    /// Adds who waits.
    pub fn add(&mut self, waker: &Waker) {
        if self.wakers.iter().rev().take(NEWEST).any(|known| known.will_wake(waker)) {
            return;
        }
        if self.wakers.len() >= self.looked_at.max(2 * NEWEST) {
            self.wakers.sort_unstable_by_key(|known| known.data().addr());
            self.wakers.dedup_by(|one, other| one.will_wake(other));
            self.looked_at = 2 * self.wakers.len();
        }
        if self.wakers.capacity() == 0 {
            self.wakers.reserve_exact(1);
        }
        self.wakers.push(waker.clone());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.wakers.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    /// Wakes all of them. Not to be called under a lock that they might take: take them out first.
    pub fn wake(self) {
        self.wakers.into_iter().for_each(Waker::wake);
    }
}

/// How many of the newest are looked at each time.
const NEWEST: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn everybody_is_woken_and_nobody_is_kept_more_than_a_few_times() {
        let woken: Vec<_> = (0..1000).map(|_| Arc::<Woken>::default()).collect();
        let wakers: Vec<_> = woken.iter().map(|woken| Waker::from(Arc::clone(woken))).collect();
        let mut waiting = Wakers::default();
        for _ in 0..100 {
            wakers.iter().for_each(|waker| waiting.add(waker));
            assert!(waiting.len() <= 2 * wakers.len() + NEWEST, "{}", waiting.len());
        }
        waiting.wake();
        for woken in woken {
            assert!((1..=3).contains(&woken.0.load(Ordering::Relaxed)));
        }
    }

    #[test]
    fn a_hundred_thousand_are_added_without_a_look_at_each_other() {
        let mut waiting = Wakers::default();
        let woken: Vec<_> = (0..100_000).map(|_| Arc::<Woken>::default()).collect();
        // Each looking at all before it would be five thousand million looks: minutes.
        woken.iter().for_each(|woken| waiting.add(&Waker::from(Arc::clone(woken))));
        assert_eq!(waiting.len(), 100_000);
    }
}
