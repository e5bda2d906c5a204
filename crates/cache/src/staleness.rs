//! Tells when an answer from memory stops being true: when its key is marked in the graph.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::Stream;
use tidewire_memo::{Member, Memo, Notify, NotifySet};
use tidewire_service::{StaleNumbers, StaleSet, StaleSetEntry, Staleness, Wakers};

use crate::cached_reply::CachedReply;
use crate::key::Key;

/// Watches one version of one key.
pub(crate) struct VersionWatch {
    memo: Memo<Key, CachedReply>,
    key: Key,
    version: u64,
    /// What the answer said of itself.
    own: Option<Arc<dyn Staleness>>,
    is_stale: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Tells of the key, once somebody waits.
    notify: Option<Notify<Key, CachedReply>>,
    waits: Waiters,
}

/// Who waits.
#[derive(Default)]
enum Waiters {
    #[default]
    Nobody,
    One(Waker),
    /// One ring wakes all.
    Many(Arc<Waiter>),
}

#[derive(Default)]
struct Waiter(Mutex<Wakers>);

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *self.0.lock());
        waiting.wake();
    }
}

impl Waiter {
    fn add(&self, waker: &Waker) {
        self.0.lock().add(waker);
    }
}

impl Waiters {
    /// Another waits, or one that does already; whom the next ring is to wake.
    fn add(&mut self, waker: &Waker) -> Waker {
        match self {
            Self::Nobody => *self = Self::One(waker.clone()),
            Self::One(one) if one.will_wake(waker) => {}
            Self::One(one) => {
                let many = Arc::<Waiter>::default();
                many.add(one);
                many.add(waker);
                *self = Self::Many(many);
            }
            Self::Many(many) => many.add(waker),
        }
        match self {
            Self::Many(many) => Waker::from(Arc::clone(many)),
            _ => waker.clone(),
        }
    }
}

impl VersionWatch {
    pub(crate) fn new(
        memo: Memo<Key, CachedReply>,
        key: Key,
        version: u64,
        own: Option<Arc<dyn Staleness>>,
    ) -> Self {
        Self { memo, key, version, own, is_stale: AtomicBool::new(false), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn look(&self) -> bool {
        let is_valid = self.memo.validate(&self.key, self.version);
        let is_stale = !is_valid || self.own.as_ref().is_some_and(|own| own.is_stale());
        if is_stale {
            // Once stale it stays so, whatever is computed for the key later.
            self.is_stale.store(true, Ordering::Release);
        }
        is_stale
    }
}

impl Staleness for VersionWatch {
    fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Acquire) || self.look()
    }

    fn poll_stale(&self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(own) = &self.own
            && own.poll_stale(cx).is_ready()
        {
            self.is_stale.store(true, Ordering::Release);
        }
        let mut state = self.lock();
        let waker = state.waits.add(cx.waker());
        let mut everyone = Context::from_waker(&waker);
        let notify = state.notify.get_or_insert_with(|| self.memo.notify(self.key.clone()));
        // Hung up before the look, so that a mark after the look rings.
        while Pin::new(&mut *notify).poll_next(&mut everyone).is_ready() {
            if self.is_stale() {
                return Poll::Ready(());
            }
        }
        if self.is_stale() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn join(&self, set: &mut StaleSet, number: u32) -> Option<Box<dyn StaleSetEntry>> {
        if self.is_stale.load(Ordering::Acquire) {
            return Some(Box::new(AlreadyStale));
        }
        let marks = set.of::<KeyMarks>();
        let marked = Box::new(MarkedKey(marks.0.add(&self.memo, &self.key, self.version, number)));
        Some(match &self.own {
            None => marked,
            Some(own) => Box::new([marked as Box<dyn StaleSetEntry>, set.add(number, own)]),
        })
    }
}

/// The keys of an owner of many answers.
#[derive(Default)]
struct KeyMarks(NotifySet);

impl StaleNumbers for KeyMarks {
    fn wakes(&self, waker: &Waker) {
        self.0.wakes(waker);
    }

    fn take(&self, numbers: &mut Vec<u32>) {
        self.0.take(numbers);
    }
}

/// One of them. There may be a hundred thousand.
struct MarkedKey(Member);

impl StaleSetEntry for MarkedKey {
    fn is_stale(&self) -> bool {
        !self.0.is_current()
    }
}

/// An answer that was stale when it joined.
struct AlreadyStale;

impl StaleSetEntry for AlreadyStale {
    fn is_stale(&self) -> bool {
        true
    }
}

impl fmt::Debug for VersionWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracked").field("version", &self.version).finish_non_exhaustive()
    }
}
