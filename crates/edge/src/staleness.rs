//! Tells when an answer from memory stops being true: when its key is marked in the graph.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::Stream;
use tidewire_memo::{Memo, Notify};
use tidewire_service::{Staleness, Wakers};

use crate::kept::Kept;
use crate::key::Key;

/// Watches one version of one key. There may be a hundred thousand: what few have is apart.
pub(crate) struct Tracked {
    version: u64,
    /// What the answer said of itself.
    own: Option<Arc<dyn Staleness>>,
    is_stale: AtomicBool,
    state: Mutex<State>,
}

struct State {
    told: Told,
    waits: Waits,
}

/// Who tells of the key.
enum Told {
    /// Nobody yet, since nobody waits.
    Not(Memo<Key, Kept>, Key),
    By(Notify<Key, Kept>),
}

/// Who waits.
enum Waits {
    Nobody,
    One(Waker),
    /// One ring wakes all.
    Many(Arc<Waiting>),
}

#[derive(Default)]
struct Waiting(Mutex<Wakers>);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.wake();
    }
}

impl Waiting {
    fn add(&self, waker: &Waker) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(waker);
    }
}

impl Waits {
    /// Another waits, or one that does already; whom the next ring is to wake.
    fn add(&mut self, waker: &Waker) -> Waker {
        match self {
            Self::Nobody => *self = Self::One(waker.clone()),
            Self::One(one) if one.will_wake(waker) => {}
            Self::One(one) => {
                let many = Arc::<Waiting>::default();
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

impl State {
    /// The key is watched from now on.
    fn notify(&mut self) -> &mut Notify<Key, Kept> {
        if let Told::Not(memo, key) = &self.told {
            self.told = Told::By(memo.notify(key.clone()));
        }
        match &mut self.told {
            Told::By(notify) => notify,
            Told::Not(..) => unreachable!("it was just hung up"),
        }
    }
}

impl Tracked {
    pub(crate) fn new(
        memo: Memo<Key, Kept>,
        key: Key,
        version: u64,
        own: Option<Arc<dyn Staleness>>,
    ) -> Self {
        let state = Mutex::new(State { told: Told::Not(memo, key), waits: Waits::Nobody });
        Self { version, own, is_stale: AtomicBool::new(false), state }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, state: &State) -> bool {
        if self.is_stale.load(Ordering::Acquire) {
            return true;
        }
        let is_valid = match &state.told {
            Told::Not(memo, key) => memo.validate(key, self.version),
            Told::By(notify) => notify.validate(self.version),
        };
        let is_stale = !is_valid || self.own.as_ref().is_some_and(|own| own.is_stale());
        if is_stale {
            // Once stale it stays so, whatever is computed for the key later.
            self.is_stale.store(true, Ordering::Release);
        }
        is_stale
    }
}

impl Staleness for Tracked {
    fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Acquire) || self.look(&self.lock())
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
        // Hung up before the look, so that a mark after the look rings.
        while Pin::new(state.notify()).poll_next(&mut everyone).is_ready() {
            if self.look(&state) {
                return Poll::Ready(());
            }
        }
        if self.look(&state) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl fmt::Debug for Tracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracked").field("version", &self.version).finish_non_exhaustive()
    }
}
