//! Contacts and users in a PostgreSQL database.
//!
//! ```text
//! find, find_many, page ──┐
//! create, update, delete ─┴▶ a few connections, each with many prepared statements on their way
//! list ────────────────────▶ a connection and its own cursor, 1,000 rows at a time
//! ```
//!
//! A statement is one message there and one back; a connection carries as many at once as there are
//! calls (pipelining), so that a few connections do the work that elsewhere takes hundreds, and
//! PostgreSQL keeps as few processes. What PostgreSQL said to have committed is what is
//! acknowledged.
//!
//! | what happens | what a call sees |
//! |---|---|
//! | no connection is up | `UNAVAILABLE` at once; connections come back by themselves, with backoff |
//! | a connection breaks with the call on it | `UNAVAILABLE`; for a write, that its outcome is not known; with a key, to send it again |
//! | a statement runs over [`Options::statement_timeout`] | `UNAVAILABLE`: PostgreSQL undid it |
//! | more calls on their way than [`Options::in_flight_max`] | `RESOURCE_EXHAUSTED` at once |

mod fault;
pub mod fill;
mod list;
mod once;
mod pool;
mod schema;
mod session;
#[cfg(feature = "tls")]
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tidewire::Stream;
use tidewire::oplog::{Oplog, OplogHandle, PostgresLog, Settings, note};
use tidewire::service::CommandKey;
pub use tokio_postgres::Config;

pub use self::session::place;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use self::pool::Pool;
use crate::proto::contacts::v1::{Contact, CreateRequest, UpdateRequest};
use crate::proto::users::v1::{UpdateRequest as UserChange, User};
use crate::store::Store;

/// A store in a PostgreSQL database.
///
/// Dropping it closes its connections at once; a server that uses it is drained before.
#[derive(Debug)]
pub struct Postgres {
    pool: Pool,
    lists: Arc<list::Lists>,
    /// Told of each commit.
    log: Option<OplogHandle>,
}

/// The bounds of a [`Postgres`].
#[derive(Debug, Clone)]
pub struct Options {
    /// How many connections are kept open for all but lists.
    pub connections: usize,
    /// How many statements are on their way at once, over all connections.
    pub in_flight_max: usize,
    /// How many lists are read at once, on a connection each.
    pub lists_max: usize,
    /// How long a connection may take to be opened.
    pub connect_timeout: Duration,
    /// How long PostgreSQL works on a statement before it gives up. An answer that takes twice as
    /// long to arrive ends the connection.
    pub statement_timeout: Duration,
    /// How long a list waits for its client to read on before PostgreSQL ends it, since it keeps a
    /// snapshot for it.
    pub list_idle_timeout: Duration,
    /// The pause between attempts to connect: it doubles each time.
    pub backoff: Backoff,
    /// How the change log of the database is followed; without it what others write is not heard
    /// of.
    pub log: Option<Settings>,
}

/// How long to wait between attempts.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// After the first.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 4,
            in_flight_max: 1024,
            lists_max: 8,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(5),
            list_idle_timeout: Duration::from_mins(5),
            backoff: Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(5) },
            log: Some(Settings::default()),
        }
    }
}

impl Postgres {
    /// Connects, and makes the table where there is none.
    ///
    /// # Errors
    /// When the database cannot be reached or refuses: an application that starts with a wrong
    /// address should end and say so. Once connected, a database that goes away is waited for.
    pub async fn connect(config: &Config, options: &Options) -> anyhow::Result<Self> {
        schema::prepare(&session::prepared(config, options)?).await?;
        Self::connect_logged(config, options, None).await
    }

    /// As [`connect`](Self::connect), to tables that are there. The log is told of each commit.
    pub(super) async fn connect_logged(
        config: &Config,
        options: &Options,
        log: Option<OplogHandle>,
    ) -> anyhow::Result<Self> {
        let config = session::prepared(config, options)?;
        let marks = log.as_ref().map(|_| options.log.clone().unwrap_or_default().schema);
        let pool = Pool::start(&config, options, marks).await?;
        Ok(Self { pool, lists: Arc::new(list::Lists::new(config, options)), log })
    }

    /// Makes the tables where there are none, and the change log of this database, not started yet.
    pub(super) async fn prepare(config: &Config, options: &Options) -> anyhow::Result<PostgresLog> {
        let config = session::prepared(config, options)?;
        schema::prepare(&config).await?;
        let log = Oplog::postgres(&config);
        #[cfg(feature = "tls")]
        if config.get_ssl_mode() == tokio_postgres::config::SslMode::Require {
            return Ok(log.tls(tls::connector()?));
        }
        Ok(log)
    }

    /// A row of a write came back, so it is committed; its last column is the transaction's mark.
    fn committed(&self, row: &Row) {
        let mark: Option<&str> = row.get(row.len() - 1);
        if let Some((log, mark)) = self.log.as_ref().zip(mark) {
            note(&log.committed(mark));
        }
    }
}

impl Store for Postgres {
    async fn create(&self, names: CreateRequest) -> tidewire::Result<Contact> {
        let CreateRequest { first_name, surname, .. } = names;
        let lease = self.pool.lease()?;
        let session = lease.session();
        let names: [&(dyn ToSql + Sync); 2] = [&first_name, &surname];
        let row = lease.write(session.client.query_one(&session.insert, &names)).await?;
        self.committed(&row);
        Ok(Contact { id: row.get(0), first_name, surname, ..Default::default() })
    }

    async fn create_once(
        &self,
        names: CreateRequest,
        key: CommandKey,
    ) -> tidewire::Result<Contact> {
        let lease = self.pool.lease()?;
        let session = lease.session();
        let first_name = &names.first_name;
        let surname = &names.surname;
        let key = key.as_str();
        let all: [&(dyn ToSql + Sync); 3] = [first_name, surname, &key];
        let first = lease.write_once(session.client.query_one(&session.insert_once, &all)).await?;
        self.committed(&first);
        super::repeated(&names, session::contact(&first))
    }

    async fn find(&self, id: i32) -> tidewire::Result<Option<Contact>> {
        let lease = self.pool.lease()?;
        let session = lease.session();
        let found = lease.read(session.client.query_opt(&session.find, &[&id])).await?;
        Ok(found.map(|row| Contact {
            id,
            first_name: row.get(0),
            surname: row.get(1),
            ..Default::default()
        }))
    }

    async fn find_many(&self, ids: Vec<i32>) -> tidewire::Result<Vec<Contact>> {
        let lease = self.pool.lease()?;
        let session = lease.session();
        let rows = lease.read(session.client.query(&session.find_many, &[&ids])).await?;
        Ok(rows.iter().map(session::contact).collect())
    }

    async fn page(&self, after: i32, rows: u32) -> tidewire::Result<Vec<Contact>> {
        let lease = self.pool.lease()?;
        let session = lease.session();
        let rows = i64::from(rows);
        let rows = lease.read(session.client.query(&session.page, &[&after, &rows])).await?;
        Ok(rows.iter().map(session::contact).collect())
    }

    async fn list(&self) -> tidewire::Result<Stream<Contact>> {
        self.lists.start().await
    }

    async fn count(&self) -> tidewire::Result<i64> {
        let lease = self.pool.lease()?;
        let session = lease.session();
        let row = lease.read(session.client.query_one(&session.count, &[])).await?;
        Ok(row.get(0))
    }

    async fn update(&self, change: UpdateRequest) -> tidewire::Result<Option<Contact>> {
        let UpdateRequest { id, first_name, surname, .. } = change;
        let lease = self.pool.lease()?;
        let session = lease.session();
        let params: [&(dyn ToSql + Sync); 3] = [&id, &first_name, &surname];
        let updated = lease.write(session.client.query_opt(&session.update, &params)).await?;
        updated.iter().for_each(|row| self.committed(row));
        Ok(updated.as_ref().map(session::contact))
    }

    async fn delete(&self, id: i32) -> tidewire::Result<()> {
        let lease = self.pool.lease()?;
        let session = lease.session();
        let deleted = lease.write(session.client.query_opt(&session.delete, &[&id])).await?;
        deleted.iter().for_each(|row| self.committed(row));
        Ok(())
    }

    async fn find_user(&self, id: i64) -> tidewire::Result<Option<User>> {
        let lease = self.pool.lease()?;
        let session = lease.session();
        let found = lease.read(session.client.query_opt(&session.find_user, &[&id])).await?;
        Ok(found.as_ref().map(session::user))
    }

    async fn find_users(&self, ids: Vec<i64>) -> tidewire::Result<Vec<User>> {
        let lease = self.pool.lease()?;
        let session = lease.session();
        let rows = lease.read(session.client.query(&session.find_users, &[&ids])).await?;
        Ok(rows.iter().map(session::user).collect())
    }

    async fn update_user(&self, change: UserChange) -> tidewire::Result<Option<User>> {
        let UserChange { id, name, email, .. } = change;
        let lease = self.pool.lease()?;
        let session = lease.session();
        let params: [&(dyn ToSql + Sync); 3] = [&id, &name, &email];
        let updated = lease.write(session.client.query_opt(&session.update_user, &params)).await?;
        updated.iter().for_each(|row| self.committed(row));
        Ok(updated.as_ref().map(session::user))
    }
}
