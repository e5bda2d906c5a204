//! Answers of the peer that this side holds: what is told of each, for as long as it is held.
//!
//! ```text
//!            ┌── Unconfirmed (the connection is lost) ──┐
//!            │                                          ▼
//!  answered ─┤                       Confirmed ◀── resumed: all that still are what they were, at once
//!            │                                          │ the others
//!            └── Stale ◀─ another answer ◀── Suspect ◀──┘ asked for again, spread in time
//! ```
//!
//! Whoever holds an answer keeps a [`WatchGuard`]; when it is dropped the peer is asked to tell no
//! more.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tidewire_live_proto::CallId;
use tidewire_service::{Call, Reply, Result, Staleness, Wakers};

use crate::call::CallFuture;
use crate::link::Link;

/// What is known of an answer that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerState {
    /// It is not right any more. Nothing more is told.
    Stale,
    /// Nobody knows, since the connection is lost.
    Unconfirmed,
    /// Nobody knows, although there is a connection; the peer is asked, after a random time. Who
    /// needs the answer asks by itself. Also when the session is over: then nothing more is told.
    Suspect,
    /// It is right.
    Confirmed,
}

/// Is told of an answer that it holds.
pub trait Watcher: Send + Sync + 'static {
    /// This holds of the answer from now on. Must not wait, nor use the link, whose lock is held;
    /// but it may drop what it holds.
    fn tell(&self, word: AnswerState);
}

/// Keeps an answer watched: dropping it ends that.
#[must_use = "the peer tells of an answer for as long as its hold is kept"]
pub struct WatchGuard {
    link: Link,
    call: CallId,
}

/// Holds that were dropped, wherever that was: perhaps under the lock of the link.
#[derive(Default)]
pub(crate) struct DroppedGuards {
    any: AtomicBool,
    holds: Mutex<(Vec<CallId>, Option<Waker>)>,
}

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

    pub(crate) fn hold(&self, call: CallId) -> WatchGuard {
        WatchGuard { link: self.clone(), call }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let waker = {
            let mut dropped = self.link.0.dropped.lock();
            dropped.0.push(self.call);
            self.link.0.dropped.any.store(true, Ordering::Release);
            dropped.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl DroppedGuards {
    /// The holds that were dropped; the next wakes this task.
    pub(crate) fn take(&self, waker: Option<&Waker>) -> Vec<CallId> {
        if waker.is_none() && !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut dropped = self.lock();
        self.any.store(false, Ordering::Release);
        if let Some(waker) = waker {
            dropped.1 = Some(waker.clone());
        }
        std::mem::take(&mut dropped.0)
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, (Vec<CallId>, Option<Waker>)> {
        self.holds.lock()
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

impl fmt::Debug for WatchGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("call", &self.call).finish_non_exhaustive()
    }
}
