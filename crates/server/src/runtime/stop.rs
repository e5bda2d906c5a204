//! How a server ends: first it drains, then what is left is cut off.
//!
//! Every connection listens for that on every wake-up, so listening costs one atomic load: a
//! connection asks for its wake-up once and from then on only looks at the stage.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::watch;

/// How far a server's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It has not begun.
    Serving,
    /// Running calls may end; no new ones are taken.
    Draining,
    /// Whatever still runs ends now.
    CutOff,
}

/// Brings the end about, and tells of it; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stage: watch::Sender<Stage>,
    /// How many calls were cut off.
    cut_off: AtomicUsize,
}

impl Stop {
    /// A server that is serving.
    pub(crate) fn new() -> Self {
        let stage = watch::Sender::new(Stage::Serving);
        Self(Arc::new(Inner { stage, cut_off: AtomicUsize::new(0) }))
    }

    /// Goes on to a stage; a stage that was passed already stays passed.
    pub(crate) fn advance(&self, stage: Stage) {
        self.0.stage.send_if_modified(|current| {
            let later = stage > *current;
            *current = stage.max(*current);
            later
        });
    }

    /// Whether a stage is reached.
    pub(crate) fn has_reached(&self, stage: Stage) -> bool {
        *self.0.stage.borrow() >= stage
    }

    /// Waits until a stage is reached.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn reached(&self, stage: Stage) {
        // The sender lives as long as this borrow of it.
        let _ = self.0.stage.subscribe().wait_for(|current| *current >= stage).await;
    }

    /// Takes note of calls that were running when they were cut off.
    pub(crate) fn cut_off(&self, calls: usize) {
        self.0.cut_off.fetch_add(calls, Ordering::AcqRel);
    }

    /// How many calls were cut off.
    pub(crate) fn calls_cut_off(&self) -> usize {
        self.0.cut_off.load(Ordering::Acquire)
    }

    /// A listener for one task.
    pub(crate) fn listener(&self) -> Listener {
        let mut waiting = self.0.stage.subscribe();
        let mut seen = self.0.stage.subscribe();
        if self.has_reached(Stage::Draining) {
            // A connection that was accepted just before: nobody will tell it later.
            waiting.mark_changed();
            seen.mark_changed();
        }
        Listener {
            seen,
            wake_up: Box::pin(async move { drop(waiting.changed().await) }),
            asked: false,
        }
    }
}

/// Tells one task of the next stage. The task has to be a spawned one, whose waker stays the same.
pub(crate) struct Listener {
    seen: watch::Receiver<Stage>,
    wake_up: Pin<Box<dyn Future<Output = ()> + Send>>,
    asked: bool,
}

impl Listener {
    /// Whether a stage was reached, before this listener was made or since; otherwise the task is
    /// woken then.
    pub(crate) fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Stage> {
        if !self.asked {
            self.asked = true;
            let _ = self.wake_up.as_mut().poll(cx);
        }
        match self.seen.has_changed() {
            Ok(false) => Poll::Pending,
            Ok(true) | Err(_) => Poll::Ready(*self.seen.borrow()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_once_the_drain_began_is_told_at_once() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let stop = Stop::new();
        let mut before = stop.listener();
        assert_eq!(before.poll_stage(&mut cx), Poll::Pending);
        stop.advance(Stage::Draining);
        let mut after = stop.listener();
        for listener in [&mut before, &mut after] {
            assert_eq!(listener.poll_stage(&mut cx), Poll::Ready(Stage::Draining));
        }
    }
}
