//! Commands run to completion.
//!
//! A call of a method that is not a query is polled once in place, since most commands of a fast
//! service are done by then; if it has to wait it moves into a task of the server. From there on a
//! disconnect or a deadline ends the caller's waiting, not the work. A drain joins these tasks and
//! cuts off what is left when its time is over.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tidewire_service::{Error, Reply, Result};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::isolate::Isolated;

/// Owns the tasks of running commands; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Commands {
    tasks: TaskTracker,
    cut_off: CancellationToken,
}

impl Commands {
    /// Runs a command to completion.
    ///
    /// # Cancel safety
    /// Dropping the future after its first poll leaves the command running.
    pub(crate) async fn run(&self, mut answer: Isolated) -> Result<Reply> {
        let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut answer).poll(cx))).await;
        if let Poll::Ready(outcome) = first {
            return outcome;
        }
        let cut_off = self.cut_off.clone();
        let task = self.tasks.spawn(async move {
            tokio::select! {
                outcome = answer => outcome,
                () = cut_off.cancelled() => Err(Error::unavailable("the server stopped")),
            }
        });
        task.await.unwrap_or_else(|_| Err(Error::internal("the command's task ended early")))
    }

    /// How many commands are running in tasks.
    pub(crate) fn running(&self) -> usize {
        self.tasks.len()
    }

    /// Waits until no command runs.
    pub(crate) async fn join(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends what still runs.
    pub(crate) fn cut_off(&self) {
        self.cut_off.cancel();
    }
}
