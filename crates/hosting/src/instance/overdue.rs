//! Calls that a process of plain HTTP has, woken by the keeper of their service once they are
//! overdue: to begin and end a timer for each would cost more than this.

use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The calls of an instance that wait for their answer.
#[derive(Debug, Default)]
pub(crate) struct WaitingCalls(Mutex<CallTable>);

#[derive(Debug, Default)]
struct CallTable {
    /// By their place; empty ones are in `free`.
    calls: Vec<Option<WaitingCall>>,
    free: Vec<usize>,
    /// When those are looked for that are overdue.
    looks_at: Option<Instant>,
}

#[derive(Debug)]
struct WaitingCall {
    due: Instant,
    waker: Waker,
}

/// A call that waits, until it is dropped.
#[derive(Debug)]
pub(crate) struct DueCall {
    among: Arc<WaitingCalls>,
    place: usize,
    due: Instant,
    /// It is overdue before all that are looked for.
    pub(crate) is_first: bool,
}

impl WaitingCalls {
    /// Wakes those that are overdue; returns when to look again.
    pub(crate) fn wake_overdue(&self, now: Instant) -> Option<Instant> {
        let waiting = &mut *self.0.lock();
        let open = || waiting.calls.iter().flatten();
        open().filter(|call| call.due <= now).for_each(|call| call.waker.wake_by_ref());
        waiting.looks_at = open().map(|call| call.due).filter(|due| *due > now).min();
        waiting.looks_at
    }
}

impl DueCall {
    /// A call that `waker` waits for, until `due`.
    pub(crate) fn new(among: &Arc<WaitingCalls>, due: Instant, waker: &Waker) -> Self {
        let mut waiting = among.0.lock();
        let is_first = waiting.looks_at.is_none_or(|at| due < at);
        if is_first {
            waiting.looks_at = Some(due);
        }
        let call = WaitingCall { due, waker: waker.clone() };
        let place = match waiting.free.pop() {
            Some(place) => {
                waiting.calls[place] = Some(call);
                place
            }
            None => {
                waiting.calls.push(Some(call));
                waiting.calls.len() - 1
            }
        };
        drop(waiting);
        Self { among: Arc::clone(among), place, due, is_first }
    }

    /// Lets this one wait for it, or says that it is overdue.
    pub(crate) fn is_over(&self, waker: &Waker) -> bool {
        if self.due <= Instant::now() {
            return true;
        }
        let mut waiting = self.among.0.lock();
        if let Some(call) = &mut waiting.calls[self.place] {
            call.waker.clone_from(waker);
        }
        false
    }
}

impl Drop for DueCall {
    fn drop(&mut self) {
        let mut waiting = self.among.0.lock();
        waiting.calls[self.place] = None;
        waiting.free.push(self.place);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_are_woken_once_they_are_overdue_and_nobody_else_is() {
        let calls = Arc::new(WaitingCalls::default());
        let woken: [Arc<Woken>; 3] = Default::default();
        let [first, second, other] = woken.clone().map(Waker::from);
        let at = |seconds| Instant::now() + Duration::from_secs(seconds);
        let (soon, later) = (at(1), at(2));
        let one = DueCall::new(&calls, later, &first);
        let two = DueCall::new(&calls, soon, &second);
        let three = DueCall::new(&calls, later, &second);
        assert_eq!([one.is_first, two.is_first, three.is_first], [true, true, false]);
        let times = || woken.each_ref().map(|it| it.0.load(Ordering::Relaxed));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(calls.wake_overdue(soon), Some(later));
        assert_eq!(times(), [0, 1, 0]);
        assert!(two.is_over(&second) && !one.is_over(&other), "another waits for it now");
        drop((two, three));
        // In the place of one that is gone.
        let four = DueCall::new(&calls, later, &second);
        assert!(!four.is_first);
        assert_eq!(calls.wake_overdue(later), None);
        assert_eq!(times(), [0, 2, 1]);
        drop((one, four));
        assert_eq!(calls.wake_overdue(later), None);
        assert_eq!(times(), [0, 2, 1]);
    }
}
