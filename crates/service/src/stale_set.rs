//! Answers that are waited for together: what a connection keeps that has given a hundred thousand
//! of them.
//!
//! ```text
//!  a change ─▶ number of the answer ─▶ notices, one of each kind for all answers ─▶ one task, woken once
//! ```
//!
//! Each answer has a number, which its owner picks. Whoever knows when answers end brings its own
//! notices kind, which note the numbers of its answers ([`StaleSet::of`]); the others are told by a
//! waker each. What is told is a hint to look, and whoever looks asks the answer's
//! [`StaleSetEntry`].

use parking_lot::{Mutex, MutexGuard};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use crate::Staleness;

/// Answers by number; see [`Staleness::join`].
///
/// ```
/// # use std::sync::Arc;
/// # use tidewire_service::{Signal, StaleSet, Staleness};
/// let (mut set, end) = (StaleSet::default(), Signal::new());
/// let joined = set.add(7, &(Arc::new(end.clone()) as Arc<dyn Staleness>));
/// assert!(!joined.is_stale());
/// end.fire();
/// let mut rung = Vec::new();
/// set.take(&mut rung);
/// assert_eq!(rung, [7]);
/// assert!(joined.is_stale());
/// ```
#[derive(Default)]
pub struct StaleSet {
    kinds: Vec<Arc<dyn StaleNumbers>>,
}

/// Where those who know when answers end note the numbers of answers.
pub trait StaleNumbers: Any + Send + Sync {
    /// The next number that is noted wakes this task, and only it.
    fn wakes(&self, waker: &Waker);

    /// Takes the numbers that were noted. A number that is taken twice, or is not in the set any
    /// more, does no harm.
    fn take(&self, numbers: &mut Vec<u32>);
}

/// An answer in a [`StaleSet`]; dropping it takes it out.
pub trait StaleSetEntry: Send + Sync {
    /// Whether the answer is stale by now; if it is not, its number is noted when it becomes so.
    fn is_stale(&self) -> bool;
}

impl StaleSet {
    /// Adds an answer. Its number is that of one answer at a time, and small: a set may have a bit
    /// for each number up to the largest. Whether the answer is stale already is to be asked then.
    pub fn add(&mut self, number: u32, staleness: &Arc<dyn Staleness>) -> Box<dyn StaleSetEntry> {
        if let Some(joined) = staleness.join(self, number) {
            return joined;
        }
        let ring = Wakeup { number, has_rung: AtomicBool::new(true), rings: self.of::<Wakeups>() };
        Box::new(WakingEntry { staleness: Arc::clone(staleness), ring: Arc::new(ring) })
    }

    /// The notices of one kind.
    pub fn of<T: StaleNumbers + Default>(&mut self) -> Arc<T> {
        let is_it = |kind: &&Arc<dyn StaleNumbers>| (&***kind as &dyn Any).is::<T>();
        if let Some(known) = self.kinds.iter().find(is_it)
            && let Ok(known) = Arc::downcast(Arc::clone(known) as Arc<dyn Any + Send + Sync>)
        {
            return known;
        }
        let new = Arc::<T>::default();
        self.kinds.push(Arc::clone(&new) as _);
        new
    }

    /// The next answer that becomes stale wakes this task, and only it. To be called before
    /// [`take`](Self::take).
    pub fn wakes(&self, waker: &Waker) {
        self.kinds.iter().for_each(|kind| kind.wakes(waker));
    }

    /// Takes the numbers of answers that may have become stale since they were added or last taken.
    pub fn take(&self, numbers: &mut Vec<u32>) {
        self.kinds.iter().for_each(|kind| kind.take(numbers));
    }
}

/// The notices of what tells by a waker.
#[derive(Default)]
struct Wakeups(Mutex<StaleQueue>);

#[derive(Default)]
struct StaleQueue {
    numbers: Vec<u32>,
    waker: Option<Waker>,
}

/// An answer that tells by a waker.
struct WakingEntry {
    staleness: Arc<dyn Staleness>,
    ring: Arc<Wakeup>,
}

struct Wakeup {
    number: u32,
    /// Its number is noted, or of no interest.
    has_rung: AtomicBool,
    rings: Arc<Wakeups>,
}

impl Wakeups {
    fn lock(&self) -> MutexGuard<'_, StaleQueue> {
        self.0.lock()
    }
}

impl StaleNumbers for Wakeups {
    fn wakes(&self, waker: &Waker) {
        let mut noted = self.lock();
        if !noted.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            noted.waker = Some(waker.clone());
        }
    }

    fn take(&self, numbers: &mut Vec<u32>) {
        numbers.append(&mut self.lock().numbers);
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.has_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let waker = {
            let mut noted = self.rings.lock();
            noted.numbers.push(self.number);
            noted.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl StaleSetEntry for WakingEntry {
    fn is_stale(&self) -> bool {
        // Before the look: a ring that comes after it is noted.
        self.ring.has_rung.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(&self.ring));
        self.staleness.poll_stale(&mut Context::from_waker(&waker)).is_ready()
    }
}

impl Drop for WakingEntry {
    fn drop(&mut self) {
        // Its waker may be kept for as long as the answer is.
        self.ring.has_rung.store(true, Ordering::Release);
    }
}

impl fmt::Debug for StaleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaleSet").field("kinds", &self.kinds.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Signal;

    fn rung(set: &StaleSet) -> Vec<u32> {
        let mut rung = Vec::new();
        set.take(&mut rung);
        rung
    }

    #[derive(Default)]
    struct Woken(Mutex<usize>);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            *self.0.lock() += 1;
        }
    }

    #[test]
    fn all_that_end_are_told_once_and_wake_the_task_once() {
        let (mut set, ends) = (StaleSet::default(), [(); 5].map(|()| Signal::new()));
        let joined: Vec<_> = ends
            .iter()
            .zip(0..)
            .map(|(end, number)| set.add(number, &(Arc::new(end.clone()) as Arc<dyn Staleness>)))
            .collect();
        assert!(joined.iter().all(|joined| !joined.is_stale()));
        let woken = Arc::<Woken>::default();
        set.wakes(&Waker::from(Arc::clone(&woken)));
        ends[3].fire();
        ends[1].fire();
        assert_eq!(*woken.0.lock(), 1);
        assert_eq!(rung(&set), [3, 1]);
        assert!(rung(&set).is_empty());
        let stale: Vec<_> = joined.iter().map(|joined| joined.is_stale()).collect();
        assert_eq!(stale, [false, true, false, true, false]);
        assert_eq!(set.kinds.len(), 1);
    }

    #[test]
    fn what_is_dropped_is_not_told_and_what_ended_before_is_stale_at_once() {
        let (mut set, end) = (StaleSet::default(), Signal::new());
        let staleness: Arc<dyn Staleness> = Arc::new(end.clone());
        let joined = set.add(1, &staleness);
        assert!(!joined.is_stale());
        drop(joined);
        end.fire();
        assert!(rung(&set).is_empty());
        assert!(set.add(1, &staleness).is_stale());
        assert!(rung(&set).is_empty());
    }
}
