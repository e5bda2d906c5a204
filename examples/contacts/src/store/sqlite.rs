//! Contacts and users in an embedded SQLite database.
//!
//! ```text
//! find, page, list ──────▶ queue ─▶ reader threads, a read-only connection each
//! create, update, delete ▶ queue ─▶ writer thread: what waits is one transaction, synced once
//! ```
//!
//! SQLite blocks, so it runs on its own threads and not on those of the async runtime. Both queues
//! are bounded: a call that finds one full fails at once. The journal is a write-ahead log (readers
//! never wait for the writer) with `synchronous = FULL`: a write is on the disk before it is
//! acknowledged. `NORMAL` would lose the latest writes with the power. What a sync costs is shared
//! by all writes that wait. What another program writes to the file is heard of by its change log
//! ([`Options::log`]).
//!
//! A list is read page by page, so that a client that takes hours to read it holds neither a thread
//! nor a snapshot, which would keep the log from being written back.

mod fault;
pub mod fill;
mod list;
mod once;
mod reader;
mod schema;
mod users;
mod writer;

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rusqlite::OptionalExtension as _;
use tidewire::Stream;
use tidewire::oplog::{OplogHandle, Settings};
use tidewire::service::CommandKey;

use self::reader::Reads;
use self::writer::Writes;
use crate::proto::contacts::v1::{Contact, CreateRequest, UpdateRequest};
use crate::proto::users::v1::{UpdateRequest as UserChange, User};
use crate::store::Store;

/// A store in a SQLite database file.
///
/// Dropping it waits until all that was accepted is done, and closes the database.
#[derive(Debug)]
pub struct Sqlite {
    reads: Reads,
    writes: Writes,
    // After the queues: a thread ends once its queue is gone.
    _threads: Threads,
}

/// The bounds of a [`Sqlite`].
#[derive(Debug, Clone)]
pub struct Options {
    /// How many calls may wait for the readers, and as many for the writer.
    pub queue_max: usize,
    /// How many writes are one transaction at most.
    pub batch_max: usize,
    /// How many reads are done at once.
    pub readers: usize,
    /// How long a write waits for another program that writes to the same file.
    pub busy_timeout: Duration,
    /// How the change log of the file is followed; without it what others write is not heard of.
    pub log: Option<Settings>,
}

impl Default for Options {
    fn default() -> Self {
        let readers = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4));
        Self {
            queue_max: 1024,
            batch_max: 256,
            readers,
            busy_timeout: Duration::from_secs(5),
            log: Some(Settings::default()),
        }
    }
}

impl Sqlite {
    /// Makes the file and its tables where they are not there.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn prepare(path: &Path, options: &Options) -> Result<()> {
        schema::open(path, options.busy_timeout).map(drop)
    }

    /// Opens a database file, which is made when it is not there.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a database of this application.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        Self::open_logged(path, options, None)
    }

    /// As [`open`](Self::open). The log is told which of its rows are written here.
    pub(super) fn open_logged(
        path: &Path,
        options: &Options,
        log: Option<OplogHandle>,
    ) -> Result<Self> {
        let writer = schema::open(path, options.busy_timeout)?;
        let mut threads = Threads(Vec::new());
        let (writes, writer) = writer::start(writer, options, log)?;
        threads.0.push(writer);
        let reads = Reads::start(options, || schema::open_to_read(path), &mut threads.0)
            .with_context(|| format!("database {}", path.display()))?;
        Ok(Self { reads, writes, _threads: threads })
    }
}

impl Store for Sqlite {
    async fn create(&self, names: CreateRequest) -> tidewire::Result<Contact> {
        self.writes.run(move |database| insert(database, names)).await
    }

    async fn create_once(
        &self,
        names: CreateRequest,
        key: CommandKey,
    ) -> tidewire::Result<Contact> {
        let asked = names.clone();
        match self.writes.run(move |database| once::create(database, names, &key)).await? {
            once::Created::Now(contact) => Ok(contact),
            once::Created::Before(contact) => super::repeated(&asked, contact),
        }
    }

    async fn find(&self, id: i32) -> tidewire::Result<Option<Contact>> {
        let select = move |database: &rusqlite::Connection| {
            let mut select =
                database.prepare_cached("SELECT firstname, surname FROM contact WHERE id = ?1")?;
            let found = select.query_row([id], |row| {
                Ok(Contact {
                    id,
                    first_name: row.get(0)?,
                    surname: row.get(1)?,
                    ..Default::default()
                })
            });
            found.optional()
        };
        self.reads.run(select).await
    }

    async fn find_many(&self, ids: Vec<i32>) -> tidewire::Result<Vec<Contact>> {
        self.reads.run(move |database| list::with_ids(database, &ids)).await
    }

    async fn page(&self, after: i32, rows: u32) -> tidewire::Result<Vec<Contact>> {
        self.reads.run(move |database| list::rows(database, after, i32::MAX, rows)).await
    }

    async fn list(&self) -> tidewire::Result<Stream<Contact>> {
        list::all(self.reads.weak()).await
    }

    async fn count(&self) -> tidewire::Result<i64> {
        let count = |database: &rusqlite::Connection| {
            database.prepare_cached("SELECT count(*) FROM contact")?.query_row([], |row| row.get(0))
        };
        self.reads.run(count).await
    }

    async fn update(&self, change: UpdateRequest) -> tidewire::Result<Option<Contact>> {
        let UpdateRequest { id, first_name, surname, .. } = change;
        let update = move |database: &rusqlite::Connection| {
            let mut update = database.prepare_cached(
                "UPDATE contact SET firstname = coalesce(?2, firstname), \
                 surname = coalesce(?3, surname) WHERE id = ?1 RETURNING firstname, surname",
            )?;
            let updated = update.query_row((id, first_name, surname), |row| {
                Ok(Contact {
                    id,
                    first_name: row.get(0)?,
                    surname: row.get(1)?,
                    ..Default::default()
                })
            });
            updated.optional()
        };
        self.writes.run(update).await
    }

    async fn delete(&self, id: i32) -> tidewire::Result<()> {
        let delete = move |database: &rusqlite::Connection| {
            database.prepare_cached("DELETE FROM contact WHERE id = ?1")?.execute([id])?;
            Ok(())
        };
        self.writes.run(delete).await
    }

    async fn find_user(&self, id: i64) -> tidewire::Result<Option<User>> {
        self.reads.run(move |database| users::find(database, id)).await
    }

    async fn find_users(&self, ids: Vec<i64>) -> tidewire::Result<Vec<User>> {
        self.reads.run(move |database| users::find_many(database, &ids)).await
    }

    async fn update_user(&self, change: UserChange) -> tidewire::Result<Option<User>> {
        self.writes.run(move |database| users::update(database, &change)).await
    }
}

fn insert(database: &rusqlite::Connection, names: CreateRequest) -> rusqlite::Result<Contact> {
    let CreateRequest { first_name, surname, .. } = names;
    let id = database
        .prepare_cached("INSERT INTO contact (firstname, surname) VALUES (?1, ?2) RETURNING id")?
        .query_row((&first_name, &surname), |row| row.get(0))?;
    Ok(Contact { id, first_name, surname, ..Default::default() })
}

/// Threads that are waited for when this is dropped.
#[derive(Debug)]
struct Threads(Vec<JoinHandle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a database thread panicked");
            }
        }
    }
}
