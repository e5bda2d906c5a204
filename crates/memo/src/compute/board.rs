//! Where the callers of one computation find out, and who of them polls.

use std::task::Waker;

use crate::graph::audits;
use crate::graph::unkept::Unkept;
use crate::memory::callers::ByCaller;
use crate::store::value::Outcome;

/// How many callers are told that somebody is to poll: with this many that are put away, neither polled
/// nor dropped, others may wait for one more wake.
const WOKEN_AT_ONCE: usize = 8;

/// Where callers find out.
pub(crate) struct Board<V> {
    pub(crate) done: Option<Done<V>>,
    pub(crate) early: Option<Early<V>>,
    /// Somebody polls right now.
    pub(crate) polling: bool,
    /// The inner future woke since the last poll began. Several of those who wait have been woken
    /// since, unless somebody polls.
    woken: bool,
    waiting: ByCaller<Waker>,
    /// How many of those who wait are runs of `verify`, at most: they poll when it suits, so that they
    /// are told beside the others.
    audits: u32,
}

/// How a computation ended.
pub(crate) struct Done<V> {
    pub(crate) outcome: Outcome<V>,
    /// Whether others may depend on it, or why not.
    pub(crate) standing: Result<(), Box<Unkept>>,
}

/// An unpublished answer for callers that joined before its attempt started, as far as changes go. Who comes when
/// it is there goes on with the computation, which nobody may do otherwise.
pub(crate) struct Early<V> {
    /// The start revision of the attempt.
    pub(crate) start: u64,
    /// The number of the first caller who has come since it is there.
    pub(crate) next_caller: u32,
    pub(crate) outcome: Outcome<V>,
    pub(crate) unkept: Box<Unkept>,
}

/// What a caller gets.
pub(crate) struct Answer<V> {
    pub(crate) outcome: Outcome<V>,
    /// As in [`Done`].
    pub(crate) standing: Result<(), Box<Unkept>>,
    /// The computation goes on without this caller.
    pub(crate) early: bool,
}

impl<V> Board<V> {
    /// Of a computation that whoever made it polls next.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            done: None,
            early: None,
            polling: true,
            woken: false,
            waiting: ByCaller::default(),
            audits: 0,
        }
    }

    /// Whether it has nothing that has a destructor.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.done.is_none() && self.early.is_none() && self.waiting.is_plain()
    }

    /// Whether whoever comes is to poll.
    pub(crate) fn is_due(&self) -> bool {
        self.woken && !self.polling && self.done.is_none()
    }

    /// The computation has ended, which it does once.
    #[inline]
    pub(crate) fn end(&mut self, done: Done<V>) {
        debug_assert!(self.done.is_none());
        // There is nothing to drop.
        std::mem::forget(self.done.replace(done));
    }

    /// Begins a poll. The caller holds the board.
    pub(crate) fn start_polling(&mut self) {
        (self.polling, self.woken) = (true, false);
    }

    /// Leaves a poll that has not begun to the others.
    pub(crate) fn leave_poll(&mut self) {
        (self.polling, self.woken) = (false, true);
    }

    /// Ends a poll; returns who is to be told of the outcome, or that the next one is due.
    pub(crate) fn stop_polling(&mut self) -> ByCaller<Waker> {
        self.polling = false;
        match (self.woken, &self.done) {
            (_, Some(_)) => self.stop_waiting(),
            (true, None) => self.stop_some(),
            (false, None) => ByCaller::default(),
        }
    }

    /// The inner future wants to be polled. Whether it did so before, and nobody has since.
    pub(crate) fn wake(&mut self) -> bool {
        std::mem::replace(&mut self.woken, true)
    }

    /// Everyone who waits.
    pub(crate) fn stop_waiting(&mut self) -> ByCaller<Waker> {
        self.audits = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Enough of those who wait that one of them will poll.
    pub(crate) fn stop_some(&mut self) -> ByCaller<Waker> {
        self.waiting.take_first(WOKEN_AT_ONCE + self.audits as usize)
    }

    /// A caller goes. Returns its own waker, and those of whoever is to poll in its place.
    pub(crate) fn leave(&mut self, caller: u32) -> (Option<Waker>, ByCaller<Waker>) {
        let own = self.waiting.remove(caller);
        (own, if self.is_due() { self.stop_waiting() } else { ByCaller::default() })
    }

    /// Waits for somebody else's poll. Returns the waker that this one replaces.
    pub(crate) fn wait(&mut self, caller: u32, waker: Waker) -> Option<Waker> {
        let before = self.waiting.insert(caller, waker);
        self.audits += u32::from(before.is_none() && audits::is_polled());
        before
    }
}
