//! Calls whose answer is held: the peer tells when it is stale.

use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidewire_service::{Call, Reply, Result, Staleness, Wakers};

use crate::call::CallFuture;
use crate::call::watch_guard::WatchGuard;
use crate::link::Link;
use crate::link::watcher::{AnswerState, Watcher};

impl Link {
    /// [`call`](Self::call) of a query with one answer, and the peer tells `watcher` of it until
    /// the hold is dropped; none if the answer is not watched. The link does not keep the watcher.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    ///
    /// # Cancel safety
    /// As [`call`](Self::call).
    pub async fn call_held(
        &self,
        call: Call,
        watcher: Arc<dyn Watcher>,
    ) -> Result<(Reply, Option<WatchGuard>)> {
        let made = self.make(call, watcher).await?;
        Ok((made.reply, made.hold))
    }

    /// [`call`](Self::call), and the peer tells when the answer to a unary query is stale: the
    /// reply's freshness does, for as long as it is held. A connection that is lost makes it stale,
    /// since nobody would tell any more.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    ///
    /// # Cancel safety
    /// As [`call`](Self::call).
    pub fn call_fresh(&self, call: Call) -> CallFuture {
        let link = self.clone();
        CallFuture::later(async move {
            let told = Arc::new(OverSignal::default());
            let (reply, hold) = link.call_held(call, Arc::clone(&told) as _).await?;
            let Some(hold) = hold else { return Ok(reply) };
            told.lock().hold = Some(hold);
            let freshness = reply.freshness.clone().with_staleness(told);
            Ok(reply.with_freshness(freshness))
        })
    }
}

/// An answer that is over with the first word that is not good.
#[derive(Default)]
struct OverSignal(Mutex<HeldAnswer>);

#[derive(Default)]
struct HeldAnswer {
    is_stale: bool,
    hold: Option<WatchGuard>,
    waiting: Wakers,
}

impl OverSignal {
    fn lock(&self) -> parking_lot::MutexGuard<'_, HeldAnswer> {
        self.0.lock()
    }
}

impl Watcher for OverSignal {
    fn tell(&self, word: AnswerState) {
        if word == AnswerState::Confirmed {
            return;
        }
        let (hold, waiting) = {
            let mut held = self.lock();
            held.is_stale = true;
            (held.hold.take(), std::mem::take(&mut held.waiting))
        };
        drop(hold);
        waiting.wake();
    }
}

impl Staleness for OverSignal {
    fn is_stale(&self) -> bool {
        self.lock().is_stale
    }

    fn poll_stale(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut held = self.lock();
        if held.is_stale {
            return Poll::Ready(());
        }
        held.waiting.add(cx.waker());
        Poll::Pending
    }
}
