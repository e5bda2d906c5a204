//! The thread that writes: all writes that wait are one transaction, acknowledged once it is on
//! disk.
//!
//! | what fails | who is told |
//! |---|---|
//! | one write | its caller; the others go on |
//! | begin or commit | every caller of the batch: nothing of it is kept |
//! | one write, and SQLite rolls all back (disk full, I/O error) | every caller of the batch |

use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use rusqlite::Connection;
use tidewire::Error;
use tidewire::oplog::{OplogHandle, last_row};
use tokio::sync::oneshot;

use super::{Options, fault};

/// Sends writes to the thread.
#[derive(Debug)]
pub(super) struct Writes {
    queue: Sender<Write>,
    queue_max: usize,
}

/// Does its work in a transaction, or learns that there is none; then waits for the commit.
type Write = Box<dyn FnOnce(Result<&Connection, Error>) -> Uncommitted + Send>;

/// A write that is done but not kept yet; told how the commit went, it answers its caller.
type Uncommitted = Box<dyn FnOnce(Result<(), Error>)>;

/// Starts the thread.
pub(super) fn start(
    database: Connection,
    options: &Options,
    log: Option<OplogHandle>,
) -> Result<(Writes, JoinHandle<()>)> {
    let (queue, waiting) = crossbeam_channel::bounded(options.queue_max);
    let batch_max = options.batch_max.max(1);
    let thread = std::thread::Builder::new()
        .name("sqlite-write".to_owned())
        .spawn(move || {
            for first in &waiting {
                commit_all(&database, first, &waiting, batch_max, log.as_ref());
            }
        })
        .context("cannot start a thread")?;
    Ok((Writes { queue, queue_max: options.queue_max }, thread))
}

impl Writes {
    /// Runs a write on the thread; what it changed is on disk when this returns.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when the queue is full; what `work` or the commit fails with,
    /// explained.
    ///
    /// # Cancel safety
    /// Once accepted a write is done, whether its caller waits or not.
    pub(super) async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> tidewire::Result<R> {
        let (reply, outcome) = oneshot::channel();
        let write = move |database: Result<&Connection, Error>| -> Uncommitted {
            let done = database.and_then(|database| work(database).map_err(fault::explain));
            Box::new(move |committed| {
                // The caller may have gone in the meantime, which is fine.
                let _ = reply.send(done.and_then(|done| committed.map(|()| done)));
            })
        };
        self.queue.try_send(Box::new(write)).map_err(|refused| match refused {
            TrySendError::Full(_) => fault::queue_full("writes", self.queue_max),
            TrySendError::Disconnected(_) => fault::ended(),
        })?;
        outcome.await.map_err(|_| fault::ended())?
    }
}

/// Commits a write with those that wait behind it.
fn commit_all(
    database: &Connection,
    first: Write,
    waiting: &Receiver<Write>,
    batch_max: usize,
    log: Option<&OplogHandle>,
) {
    let mut batch = Vec::with_capacity(1 + waiting.len().min(batch_max));
    batch.push(first);
    batch.extend(waiting.try_iter().take(batch_max - 1));
    commit(database, batch, log);
}

fn commit(database: &Connection, batch: Vec<Write>, log: Option<&OplogHandle>) {
    let mut failed = run(database, "BEGIN IMMEDIATE").err();
    // Nobody else writes between the two, so what is between them is of this transaction.
    let before = log.and_then(|_| last_row(database).ok());
    let mut uncommitted = Vec::with_capacity(batch.len());
    for write in batch {
        uncommitted.push(write(failed.clone().map_or(Ok(database), Err)));
        if failed.is_none() && database.is_autocommit() {
            failed = Some(Error::unavailable(
                "a write of the same transaction failed; nothing was changed, try again",
            ));
        }
    }
    let last = log.and_then(|_| last_row(database).ok());
    let committed = match failed {
        Some(error) => Err(error),
        None => run(database, "COMMIT").inspect_err(|_| roll_back(database)),
    };
    if let (Ok(()), Some(log), Some(before), Some(last)) = (&committed, log, before, last) {
        log.committed_rows(before, last);
    }
    for write in uncommitted {
        write(committed.clone());
    }
}

fn run(database: &Connection, sql: &str) -> Result<(), Error> {
    let ran = database.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    ran.map(|_| ()).map_err(fault::explain)
}

/// After a failed commit the transaction may be open still.
fn roll_back(database: &Connection) {
    if !database.is_autocommit()
        && let Err(error) = run(database, "ROLLBACK")
    {
        tracing::error!(%error, "a transaction cannot be rolled back");
    }
}
