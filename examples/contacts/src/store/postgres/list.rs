//! All contacts: a cursor on its own connection, read as fast as the client reads.
//!
//! A cursor is one snapshot: what is changed while a list is read is not on it. It holds
//! [`BATCH_ROWS`] rows in memory, here and in PostgreSQL. Connections that a list has come to the
//! end on are used again, up to [`IDLE_MAX`] of them; others are closed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream;
use tidewire::{Error, Result, Stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, Config, Statement};

use super::session::{Line, connect, contact};
use super::{Options, fault};
use crate::proto::contacts::v1::Contact;

/// Starts lists.
#[derive(Debug)]
pub(super) struct Lists {
    config: Config,
    permits: Arc<Semaphore>,
    lists_max: usize,
    idle: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    _line: Line,
}

/// A list that is being read.
struct Reading {
    lists: Arc<Lists>,
    connection: Connection,
    fetch: Statement,
    rows: VecDeque<Contact>,
    more: bool,
    _permit: OwnedSemaphorePermit,
}

impl Lists {
    pub(super) fn new(config: Config, options: &Options) -> Self {
        let lists_max = options.lists_max.max(1);
        let permits = Arc::new(Semaphore::new(lists_max));
        Self { config, permits, lists_max, idle: Mutex::default() }
    }

    /// Starts a list; its first rows are there when this returns.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when enough lists are being read, `UNAVAILABLE` when the database is
    /// not there.
    pub(super) async fn start(self: &Arc<Self>) -> Result<Stream<Contact>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            Error::resource_exhausted(format!(
                "{} lists are being read already; try again later, or ask for pages",
                self.lists_max
            ))
        })?;
        let connection = self.connection().await?;
        let begin = connection.client.batch_execute(BEGIN);
        // What cannot be wrong with the statement was wrong with an idle connection.
        begin.await.map_err(fault::explain_read)?;
        let fetch = connection.client.prepare(FETCH).await.map_err(fault::explain_read)?;
        let mut reading = Reading {
            lists: Arc::clone(self),
            connection,
            fetch,
            rows: VecDeque::new(),
            more: true,
            _permit: permit,
        };
        reading.fetch().await?;
        Ok(Stream::new(stream::try_unfold(reading, |mut reading| async move {
            if reading.rows.is_empty() && reading.more {
                reading.fetch().await?;
            }
            match reading.rows.pop_front() {
                Some(contact) => Ok(Some((contact, reading))),
                None => {
                    reading.end().await;
                    Ok(None)
                }
            }
        })))
    }

    async fn connection(&self) -> Result<Connection> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(idle) if idle.client.is_closed() => {}
                Some(idle) => return Ok(idle),
                None => break,
            }
        }
        let opened = connect(&self.config).await;
        let (client, line) = opened.map_err(|cause| {
            tracing::warn!(error = format!("{cause:#}"), "no connection for a list");
            fault::away()
        })?;
        Ok(Connection { client, _line: line })
    }
}

impl Reading {
    async fn fetch(&mut self) -> Result<()> {
        let rows = self.connection.client.query(&self.fetch, &[]).await;
        let rows = rows.map_err(fault::explain_read)?;
        self.more = rows.len() == BATCH_ROWS;
        self.rows.extend(rows.iter().map(contact));
        Ok(())
    }

    /// Ends the transaction, and keeps the connection if there is room.
    async fn end(self) {
        let Self { lists, connection, fetch, .. } = self;
        drop(fetch);
        if connection.client.batch_execute("COMMIT").await.is_ok() {
            let mut idle = lists.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(connection);
            }
        }
    }
}

const BEGIN: &str = "BEGIN READ ONLY; DECLARE contacts NO SCROLL CURSOR FOR \
    SELECT id, coalesce(firstname, ''), coalesce(surname, '') FROM contact ORDER BY id";
const FETCH: &str = "FETCH 1000 FROM contacts";
const BATCH_ROWS: usize = 1000;
const IDLE_MAX: usize = 2;
