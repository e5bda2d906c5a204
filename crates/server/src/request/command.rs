//! Commands run to completion.
//!
//! A call of a unary method that is not a query runs from the moment at which its message is
//! complete: until then its caller may take it back. It is polled in place, since most commands of
//! a fast service are done by then; if it has to wait it moves into a task of the server. From
//! there on a disconnect or a deadline ends the caller's waiting, not the work. A drain joins these
//! tasks and cuts off what is left when its time is over.
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

use crate::request::catch_panic::IsolatedPending;

/// Owns the tasks of running commands; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Commands(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tasks: TaskTracker,
    cut_off: CancellationToken,
    running: AtomicUsize,
    commands_max: usize,
}

/// One command.
pub(crate) enum Command {
    /// Whose message is complete; it begins when it is run.
    Whole(Commands),
    /// Whose message is on its way; it begins with that, and clones share whether it did.
    Awaited(Commands, Arc<OnceLock<CommandPermit>>),
    /// Which has begun.
    Begun(CommandPermit),
}

/// One of `limits.commands_max`.
pub(crate) struct CommandPermit(Commands);

impl Commands {
    /// At most so many commands at once.
    pub(crate) fn new(commands_max: usize) -> Self {
        Self(Arc::new(Shared {
            tasks: TaskTracker::new(),
            cut_off: CancellationToken::new(),
            running: AtomicUsize::new(0),
            commands_max,
        }))
    }

    /// A call of `method` as a command, if that is what it is.
    pub(crate) fn command(&self, method: &Method) -> Option<Command> {
        let is_command = method.kind == StreamKind::Unary && !method.is_query();
        is_command.then(|| Command::Whole(self.clone()))
    }

    /// How many commands are running in tasks.
    pub(crate) fn running(&self) -> usize {
        self.0.tasks.len()
    }

    /// Waits until no command runs.
    pub(crate) async fn join(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Ends what still runs.
    pub(crate) fn cut_off(&self) {
        self.0.cut_off.cancel();
    }

    fn place(&self) -> Result<CommandPermit> {
        let place = CommandPermit(self.clone());
        // The place is given back when it is dropped here.
        if self.0.running.fetch_add(1, Ordering::AcqRel) >= self.0.commands_max {
            let max = self.0.commands_max;
            return Err(Error::resource_exhausted(format!(
                "limits.commands_max = {max} commands are running; try again later"
            ))
            .with_outcome(Outcome::NotRun));
        }
        Ok(place)
    }
}

impl Command {
    /// The same command, whose message is on its way: for whoever waits for that.
    pub(crate) fn awaited(&mut self) -> Self {
        if let Self::Whole(commands) = self {
            *self = Self::Awaited(commands.clone(), Arc::default());
        }
        let (commands, place) = match self {
            Self::Awaited(commands, place) => (commands.clone(), Arc::clone(place)),
            Self::Whole(commands) | Self::Begun(CommandPermit(commands)) => {
                (commands.clone(), Arc::default())
            }
        };
        Self::Awaited(commands, place)
    }

    /// Its message is complete: from here on it runs.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when too many commands run; this one does not.
    pub(crate) fn begin(&mut self) -> Result<()> {
        match self {
            Self::Whole(commands) => *self = Self::Begun(commands.place()?),
            Self::Awaited(commands, place) => {
                // The first place is kept; there is one message.
                let _ = place.set(commands.place()?);
            }
            Self::Begun(_) => {}
        }
        Ok(())
    }

    /// Runs it to completion, from the moment at which it began.
    ///
    /// # Cancel safety
    /// Dropping the future after that leaves the command running.
    pub(crate) async fn run(self, mut answer: IsolatedPending) -> Result<Reply> {
        let has_begun = || match &self {
            Self::Whole(_) => false,
            Self::Awaited(_, place) => place.get().is_some(),
            Self::Begun(_) => true,
        };
        let in_place = poll_fn(|cx| match Pin::new(&mut answer).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if has_begun() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(outcome) = in_place.await {
            return outcome;
        }
        let (Self::Whole(commands)
        | Self::Awaited(commands, _)
        | Self::Begun(CommandPermit(commands))) = &self;
        let Shared { tasks, cut_off, .. } = &*commands.0;
        let cut_off = cut_off.clone();
        let task = tasks.clone().spawn(async move {
            // Until the command is over.
            let _place = self;
            tokio::select! {
                outcome = answer => outcome,
                () = cut_off.cancelled() => Err(Error::unavailable("the server stopped")),
            }
        });
        task.await.unwrap_or_else(|_| Err(Error::internal("the command's task ended early")))
    }
}

impl Drop for CommandPermit {
    fn drop(&mut self) {
        self.0.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}
