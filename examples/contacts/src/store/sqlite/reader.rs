//! Threads that read: one read-only connection each, one bounded queue for all of them.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{Options, fault};

/// Sends reads to the threads.
#[derive(Debug)]
pub(super) struct Reads {
    queue: Arc<Sender<Read>>,
    queue_max: usize,
}

/// Sends reads to the threads for as long as the store is there, and does not keep it there.
#[derive(Debug, Clone)]
pub(super) struct WeakReads {
    queue: Weak<Sender<Read>>,
    queue_max: usize,
}

type Read = Box<dyn FnOnce(&Connection) + Send>;

impl Reads {
    /// Starts the threads and adds them to `threads`.
    pub(super) fn start(
        options: &Options,
        open: impl Fn() -> Result<Connection>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<Self> {
        let (queue, waiting) = crossbeam_channel::bounded(options.queue_max);
        for _ in 0..options.readers.max(1) {
            let database = open()?;
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new().name("sqlite-read".to_owned());
            let thread = thread.spawn(move || read(&database, &waiting));
            threads.push(thread.context("cannot start a thread")?);
        }
        Ok(Self { queue: Arc::new(queue), queue_max: options.queue_max })
    }

    /// Runs a read on one of the threads.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when the queue is full; what `work` fails with, explained.
    ///
    /// # Cancel safety
    /// A read whose caller went away before it began is left out.
    pub(super) async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> tidewire::Result<R> {
        send(&self.queue, self.queue_max, work)?.await.map_err(|_| fault::ended())?
    }

    /// For what may outlive the store.
    pub(super) fn weak(&self) -> WeakReads {
        WeakReads { queue: Arc::downgrade(&self.queue), queue_max: self.queue_max }
    }
}

impl WeakReads {
    /// [`Reads::run`].
    ///
    /// # Errors
    /// As there, and `UNAVAILABLE` when the store is gone.
    pub(super) async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> tidewire::Result<R> {
        let queue = self.queue.upgrade().ok_or_else(fault::ended)?;
        let outcome = send(&queue, self.queue_max, work)?;
        drop(queue);
        outcome.await.map_err(|_| fault::ended())?
    }
}

fn send<R: Send + 'static>(
    queue: &Sender<Read>,
    queue_max: usize,
    work: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
) -> tidewire::Result<oneshot::Receiver<tidewire::Result<R>>> {
    let (reply, outcome) = oneshot::channel();
    let read = move |database: &Connection| {
        if !reply.is_closed() {
            // The caller may have gone in the meantime, which is fine.
            let _ = reply.send(work(database).map_err(fault::explain));
        }
    };
    queue.try_send(Box::new(read)).map_err(|refused| match refused {
        TrySendError::Full(_) => fault::queue_full("reads", queue_max),
        TrySendError::Disconnected(_) => fault::ended(),
    })?;
    Ok(outcome)
}

fn read(database: &Connection, waiting: &Receiver<Read>) {
    for read in waiting {
        read(database);
    }
}
