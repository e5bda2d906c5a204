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
//! Whoever holds an answer keeps a [`WatchGuard`](crate::WatchGuard); when it is dropped the peer
//! is asked to tell no more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use tidewire_live_proto::CallId;

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

/// Holds that were dropped, wherever that was: perhaps under the lock of the link.
#[derive(Default)]
pub(crate) struct DroppedGuards {
    any: AtomicBool,
    holds: Mutex<(Vec<CallId>, Option<Waker>)>,
}

impl DroppedGuards {
    /// One more was: it wakes who looks at them.
    pub(crate) fn add(&self, call: CallId) {
        let waker = {
            let mut dropped = self.lock();
            dropped.0.push(call);
            self.any.store(true, Ordering::Release);
            dropped.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

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
