//! The log of a running host.

use std::sync::atomic::Ordering::Relaxed;

use tidewire_memo::WriteGuard;
use tokio::task::JoinSet;

use crate::change::HeardChange;
use crate::core::SharedCore;
use crate::cursor::Position;
use crate::error::CatchUpError;
use crate::intent::Intent;
use crate::lease::Lease;
use crate::status::Status;
use crate::token::Token;

/// Follows the log of a database, so that what anybody writes makes its dependants stale here.
///
/// Dropping it ends that: from then on what depends on its sources is answered and not kept.
///
/// ```no_run
/// # async fn example(config: tokio_postgres::Config) -> Result<(), tidewire_oplog::Error> {
/// use tidewire_memo::Source;
/// use tidewire_oplog::Oplog;
///
/// let contacts = Source::<i32>::new("contacts");
/// let oplog = Oplog::postgres(&config)
///     .capture("public.contact", &contacts, ["id"])
///     .start()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Oplog {
    handle: OplogHandle,
    tasks: JoinSet<()>,
}

/// Asks and tells a running [`Oplog`]; cheap to clone.
#[derive(Debug, Clone)]
pub struct OplogHandle {
    pub(crate) core: SharedCore,
}

impl Oplog {
    pub(crate) fn new(core: SharedCore, tasks: JoinSet<()>) -> Self {
        Self { handle: OplogHandle { core }, tasks }
    }

    /// What may be given to whoever asks and tells.
    #[must_use]
    pub fn handle(&self) -> OplogHandle {
        self.handle.clone()
    }

    /// Ends following, once what was published is written, for which it waits for
    /// `oplog.token_wait` at most. What waits for a poll is given [`CatchUpError::Stopped`];
    /// nothing is kept any more.
    pub async fn stop(mut self) {
        if self.handle.published().await.is_err() {
            tracing::warn!("changes that programs named were not written into the change log");
        }
        let core = &self.handle.core;
        core.intents.close(core.settings.token_wait).await;
        self.handle.core.close();
        self.tasks.shutdown().await;
    }
}

impl Drop for Oplog {
    fn drop(&mut self) {
        self.handle.core.close();
    }
}

impl std::ops::Deref for Oplog {
    type Target = OplogHandle;

    fn deref(&self) -> &OplogHandle {
        &self.handle
    }
}

impl OplogHandle {
    /// Says who hears of each change that is read from the log, after the memo graph has. Changes
    /// of sources that this program does not have are among them, those that it published itself
    /// are not. The first listener is the one.
    pub fn on_change(&self, listener: impl Fn(HeardChange<'_>) + Send + Sync + 'static) {
        self.core.registry.on_change(Box::new(listener));
    }

    /// After an acknowledged commit: marks what the guard covers, wakes the other hosts, and
    /// returns the token of the transaction. `mark` is what `tidewire.mark()` returned in it, as in
    /// `UPDATE … RETURNING …, tidewire.mark()`.
    pub fn wrote(&self, guard: WriteGuard, mark: &str) -> Token {
        let token = self.core.committed(mark);
        guard.finish();
        self.core.wrote(&token);
        token
    }

    /// The first half of [`wrote`](Self::wrote), for where the guard is elsewhere: to be called
    /// when the commit is acknowledged. [`announce`](Self::announce) its token when the guard is
    /// finished.
    pub fn committed(&self, mark: &str) -> Token {
        self.core.committed(mark)
    }

    /// The same in a SQLite file: the rows of the log that the transaction added, by
    /// [`last_row`](crate::last_row) at its begin and at its end.
    #[cfg(feature = "sqlite")]
    pub fn committed_rows(&self, after: i64, last: i64) {
        if last > after {
            self.core.committed_rows(after + 1..=last);
        }
    }

    /// As [`wrote`](Self::wrote), where no mark was asked for: another host that is shown the token
    /// polls the log once more.
    pub fn wrote_unmarked(&self, guard: WriteGuard) -> Token {
        guard.finish();
        let token = Token::unclear();
        self.core.wrote(&token);
        token
    }

    /// Whether this host's memory includes what the token names, without waiting.
    #[must_use]
    pub fn includes(&self, token: &Token) -> bool {
        self.core.includes(token)
    }

    /// Wakes the other hosts after a commit whose keys were marked here, and notes its token for
    /// the reply of the running call.
    pub fn announce(&self, token: &Token) {
        self.core.wrote(token);
    }

    /// Writes a change that no trigger sees into the log, so that every other host hears of it; no
    /// key is all of them. It is to be marked here before.
    ///
    /// It returns at once. A process that is killed before the change is written, usually a
    /// millisecond later, loses it: what a table shows is captured, not published.
    pub fn publish(&self, source: &str, key: Option<&str>) {
        self.core.outbox.add(&self.core.settings, source, key);
    }

    /// How many changes were given to [`publish`](Self::publish) so far.
    #[must_use]
    pub fn publish_count(&self) -> u64 {
        self.core.outbox.count()
    }

    /// Waits until all that was given to [`publish`](Self::publish) before this call is in the log,
    /// and returns a token that includes it.
    ///
    /// # Errors
    /// When it could not be written within `oplog.token_wait`; it is tried on.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn published(&self) -> Result<Token, CatchUpError> {
        self.core.until_published().await
    }

    /// Has each command of servers with this log be an [intent](Self::intend): what they call, such
    /// as hosted programs, may publish changes.
    pub fn intend_commands(&self) {
        self.core.intents.cover_commands.store(true, Relaxed);
    }

    /// The intent of a command, where [they are to be](Self::intend_commands) ones.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn intend_command(&self) -> Option<Intent> {
        match self.core.intents.cover_commands.load(Relaxed) {
            true => Some(self.intend().await),
            false => None,
        }
    }

    /// Says in the log that what runs until the returned [`Intent`] is dropped may change what is
    /// still to be [published](Self::publish), and waits until the log knows. Should this host be
    /// gone before, every host hears of it within about 2 seconds: sources that no table is
    /// captured for are marked as a whole, and listeners are told
    /// [`HeardChange::Everything`](crate::HeardChange::Everything).
    ///
    /// Only the first in a second waits, for one statement. Where the database does not answer
    /// within `oplog.token_wait` it is an intent that nobody hears of.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn intend(&self) -> Intent {
        self.core.intents.begin(self.core.settings.token_wait).await
    }

    /// An intent that begins without a wait: for what goes on after its caller is gone, or late, of
    /// a command that has [waited](Self::intend).
    pub fn hold_intent(&self) -> Intent {
        self.core.intents.hold()
    }

    /// Waits until this host's memory includes what the token names: at once where its position
    /// does, else for a poll that begins after this call.
    ///
    /// # Errors
    /// When the log could not be read within `oplog.token_wait`.
    pub async fn caught_up(&self, token: &Token) -> Result<(), CatchUpError> {
        self.core.caught_up(token).await
    }

    /// Waits until every change that was acknowledged before this call has been applied.
    ///
    /// # Errors
    /// As [`caught_up`](Self::caught_up).
    pub async fn barrier(&self) -> Result<(), CatchUpError> {
        self.core.barrier().await
    }

    /// To be called for each request before memory is asked: if the lease has ended, everything is
    /// suspended. Returns whether memory is trusted. Reads one clock.
    pub fn check_lease(&self) -> bool {
        self.core.check_lease()
    }

    /// For how long memory is trusted.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.core.lease
    }

    /// How far this host has applied the log; `None` in a SQLite file, and before the first poll.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.core.position()
    }

    /// How this host stands to the log.
    #[must_use]
    pub fn status(&self) -> Status {
        self.core.status()
    }
}
