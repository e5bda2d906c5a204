//! Commands run to completion.
//!
//! A call of a unary method that is not a query runs from the moment at which its message is
//! complete: until then its caller may take it back. It is polled in place, since most commands of a
//! fast service are done by then; if it has to wait it moves into a task of the server. From there on
//! a disconnect or a deadline ends the caller's waiting, not the work. A drain joins these tasks and
//! cuts off what is left when its time is over.
//!
//! | a command | counts in `limits.commands_max` | ends with its caller |
//! |---|---|---|
//! | whose message is on its way | no | yes |
//! | whose message is complete | yes; over it: `RESOURCE_EXHAUSTED`, and it does not run | no |

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use tidewire_service::{Error, Method, Outcome, Reply, Result, StreamKind};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::isolate::IsolatedPending;

/// Owns the tasks of running commands; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Commands {
    tasks: TaskTracker,
    cut_off: CancellationToken,
    running: Arc<AtomicUsize>,
    commands_max: usize,
}

/// One command; clones share whether it runs.
#[derive(Clone)]
pub(crate) struct Command {
    commands: Commands,
    place: Arc<OnceLock<Place>>,
}

/// One of `limits.commands_max`.
struct Place(Arc<AtomicUsize>);

impl Commands {
    /// At most so many commands at once.
    pub(crate) fn new(commands_max: usize) -> Self {
        Self {
            tasks: TaskTracker::new(),
            cut_off: CancellationToken::new(),
            running: Arc::default(),
            commands_max,
        }
    }

    /// A call of `method` as a command, if that is what it is.
    pub(crate) fn command(&self, method: &Method) -> Option<Command> {
        let is_command = method.kind == StreamKind::Unary && !method.is_query();
        is_command.then(|| Command { commands: self.clone(), place: Arc::default() })
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

    fn place(&self) -> Result<Place> {
        let place = Place(Arc::clone(&self.running));
        // The place is given back when it is dropped here.
        if self.running.fetch_add(1, Ordering::AcqRel) >= self.commands_max {
            let max = self.commands_max;
            return Err(Error::resource_exhausted(format!(
                "limits.commands_max = {max} commands are running; try again later"
            ))
            .with_outcome(Outcome::NotRun));
        }
        Ok(place)
    }
}

impl Command {
    /// Its message is complete: from here on it runs.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when too many commands run; this one does not.
    pub(crate) fn begin(&self) -> Result<()> {
        let place = self.commands.place()?;
        // The first place is kept; there is one message.
        let _ = self.place.set(place);
        Ok(())
    }

    /// Runs it to completion, from the moment at which it began.
    ///
    /// # Cancel safety
    /// Dropping the future after that leaves the command running.
    pub(crate) async fn run(self, mut answer: IsolatedPending) -> Result<Reply> {
        let place = Arc::clone(&self.place);
        let in_place = poll_fn(|cx| match Pin::new(&mut answer).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if place.get().is_some() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(outcome) = in_place.await {
            return outcome;
        }
        let cut_off = self.commands.cut_off.clone();
        let task = self.commands.tasks.spawn(async move {
            // Until the command is over.
            let _place = place;
            tokio::select! {
                outcome = answer => outcome,
                () = cut_off.cancelled() => Err(Error::unavailable("the server stopped")),
            }
        });
        drop(self);
        task.await.unwrap_or_else(|_| Err(Error::internal("the command's task ended early")))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
