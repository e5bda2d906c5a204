//! A store whose reads say what they depend on, and whose writes say what they change.
//!
//! A read declares its rows in the task that asks, where it is noticed; a write takes its guard
//! before the database is asked and lets go of it after the database has answered, or never will.
//! Guard and write are in one task, so that a caller who goes away takes neither along: a write
//! that is done after its guard is gone would be seen late.
//!
//! ```text
//! find(7)      contacts.read(7)  ─┬▶ one query of the store, for all that are found together
//! find(8)      contacts.read(8)  ─┘
//! update(7) ─▶ task: contacts.write(7) … the store … marked ─▶ the caller, if it is there still
//! ```
//!
//! A database that is cut off may do a write after nobody waits for its answer any more. As long as
//! it may, what reads the store is answered and not kept.
//!
//! Rows that several callers look up in one turn of the runtime are one query (after a start, when
//! clients come back and ask for what they had): a loader keeps nothing, so what is read of it is
//! no older than the look-up.
//!
//! A list is a stream, which nobody keeps: it declares nothing.

use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidewire::memo::{Graph, WriteGuard};
use tidewire::oplog::{Oplog, OplogHandle, collect, note};
use tidewire::service::CommandKey;
use tidewire::{Error, Loader, Outcome, Result, Stream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

#[cfg(feature = "postgres")]
use super::postgres::{self, Postgres};
use super::sqlite::{self, Sqlite};
use super::{Sources, Store};
use crate::proto::contacts::v1::{Contact, CreateRequest, UpdateRequest};
use crate::proto::users::v1::{UpdateRequest as UserChange, User};

/// A store with its sources.
#[derive(Debug)]
pub struct Tracked<S> {
    store: Arc<S>,
    contacts: Loader<i32, Contact, Error>,
    users: Loader<i64, User, Error>,
    sources: Sources,
    /// How long the database may go on with a write that it was cut off from.
    in_doubt: Duration,
    /// Hears of what others write, as long as it is there.
    log: Option<Oplog>,
    /// Writes that go on, whether or not their callers wait. Dropped, it ends them.
    writes: Mutex<JoinSet<()>>,
}

impl Tracked<Sqlite> {
    /// Opens a database file. What other programs write to it is heard of by its change log, unless
    /// [`log`](sqlite::Options::log) is off: then what depends on it does not live long
    /// ([`Source::external`](tidewire::memo::Source::external)).
    ///
    /// # Errors
    /// As [`Sqlite::open`]; a file that cannot hold the log.
    ///
    /// # Panics
    /// Outside of a runtime of tokio, where the log is on.
    pub fn open(graph: &Graph, path: &Path, options: &sqlite::Options) -> anyhow::Result<Self> {
        let Some(settings) = &options.log else {
            let store = Sqlite::open(path, options)?;
            return Ok(Self::new(store, Sources::external(graph), Duration::ZERO, None));
        };
        let sources = Sources::new(graph);
        Sqlite::prepare(path, options)?;
        let log = Oplog::sqlite(path)
            .settings(settings.clone())
            .capture("contact", &sources.contacts, ["id"])
            .capture_rows("contact", &sources.count)
            .capture("user", &sources.users, ["id"])
            .start_blocking()?;
        let store = Sqlite::open_logged(path, options, Some(log.handle()))?;
        Ok(Self::new(store, sources, Duration::ZERO, Some(log)))
    }
}

#[cfg(feature = "postgres")]
impl Tracked<Postgres> {
    /// Connects to a database. What others write to it, such as other hosts or a person with
    /// `psql`, is heard of by its change log, unless [`log`](postgres::Options::log) is off: then
    /// what depends on it does not live long
    /// ([`Source::external`](tidewire::memo::Source::external)).
    ///
    /// # Errors
    /// As [`Postgres::connect`]; a role that may not make the log.
    pub async fn connect(
        graph: &Graph,
        config: &postgres::Config,
        options: &postgres::Options,
    ) -> anyhow::Result<Self> {
        let in_doubt = options.statement_timeout;
        let Some(settings) = &options.log else {
            let store = Postgres::connect(config, options).await?;
            return Ok(Self::new(store, Sources::external(graph), in_doubt, None));
        };
        let sources = Sources::new(graph);
        let log = Postgres::prepare(config, options)
            .await?
            .settings(settings.clone())
            .capture("contact", &sources.contacts, ["id"])
            .capture_rows("contact", &sources.count)
            .capture("app_user", &sources.users, ["id"])
            .start()
            .await?;
        let store = Postgres::connect_logged(config, options, Some(log.handle())).await?;
        Ok(Self::new(store, sources, in_doubt, Some(log)))
    }
}

impl<S: Store> Tracked<S> {
    /// A store that nobody else writes to.
    pub fn over(graph: &Graph, store: S) -> Self {
        Self::new(store, Sources::new(graph), Duration::ZERO, None)
    }

    fn new(store: S, sources: Sources, in_doubt: Duration, log: Option<Oplog>) -> Self {
        let store = Arc::new(store);
        Self {
            contacts: contacts(Arc::clone(&store)),
            users: users(Arc::clone(&store)),
            store,
            sources,
            in_doubt,
            log,
            writes: Mutex::default(),
        }
    }

    /// The change log, for the server that goes by it.
    pub fn log(&self) -> Option<OplogHandle> {
        self.log.as_ref().map(|log| log.handle())
    }

    /// Runs a write to its end.
    async fn write<R, F>(&self, work: impl FnOnce(Arc<S>, Sources) -> F) -> Result<R>
    where
        R: Send + 'static,
        F: Future<Output = Result<R>> + Send + 'static,
    {
        let (reply, outcome) = oneshot::channel();
        let sources = self.sources;
        let in_doubt = self.in_doubt;
        let work = work(Arc::clone(&self.store), sources);
        let log = self.log();
        self.spawn(async move {
            // The store notes the token of its commit; the guard has marked when this returns.
            let (done, token) = collect(work).await;
            if let Some(log) = &log {
                log.announce(&token);
            }
            let is_in_doubt = done.as_ref().is_err_and(|error| error.outcome() == Outcome::Unknown);
            let suspended = is_in_doubt.then(|| sources.suspend());
            // The caller may have gone in the meantime, which is fine.
            let _ = reply.send((done, token));
            if suspended.is_some() {
                tokio::time::sleep(in_doubt).await;
            }
        });
        let outcome = outcome.await;
        let (done, token) =
            outcome.map_err(|_| Error::internal("the write failed; see the log"))?;
        note(&token);
        done
    }

    fn spawn(&self, write: impl Future<Output = ()> + Send + 'static) {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = writes.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(%error, "a write failed");
            }
        }
        writes.spawn(write);
    }
}

impl<S: Store> Store for Tracked<S> {
    async fn create(&self, names: CreateRequest) -> Result<Contact> {
        self.write(async move |store, sources| Creation::of(sources).is(store.create(names).await))
            .await
    }

    async fn create_once(&self, names: CreateRequest, key: CommandKey) -> Result<Contact> {
        self.write(async move |store, sources| {
            Creation::of(sources).is(store.create_once(names, key).await)
        })
        .await
    }

    async fn find(&self, id: i32) -> Result<Option<Contact>> {
        self.sources.contacts.read(&id);
        self.contacts.load(id).await
    }

    async fn find_many(&self, ids: Vec<i32>) -> Result<Vec<Contact>> {
        ids.iter().for_each(|id| self.sources.contacts.read(id));
        Ok(self.contacts.load_many(ids).await?.into_values().collect())
    }

    async fn page(&self, after: i32, rows: u32) -> Result<Vec<Contact>> {
        let page = self.store.page(after, rows).await?;
        // A page that is full says nothing of what comes after it.
        let end = match page.last() {
            Some(last) if page.len() == rows as usize => Bound::Included(last.id),
            _ => Bound::Unbounded,
        };
        self.sources.contacts.range((Bound::Excluded(after), end));
        Ok(page)
    }

    async fn list(&self) -> Result<Stream<Contact>> {
        self.store.list().await
    }

    async fn count(&self) -> Result<i64> {
        self.sources.count.read(&());
        self.store.count().await
    }

    async fn update(&self, change: UpdateRequest) -> Result<Option<Contact>> {
        self.write(async move |store, sources| {
            let write = sources.contacts.write(&change.id);
            let updated = store.update(change).await;
            write.finish();
            updated
        })
        .await
    }

    async fn delete(&self, id: i32) -> Result<()> {
        self.write(async move |store, sources| {
            let write = sources.contacts.write(&id).also(&sources.count, &());
            let deleted = store.delete(id).await;
            write.finish();
            deleted
        })
        .await
    }

    async fn find_user(&self, id: i64) -> Result<Option<User>> {
        self.sources.users.read(&id);
        self.users.load(id).await
    }

    async fn find_users(&self, ids: Vec<i64>) -> Result<Vec<User>> {
        ids.iter().for_each(|id| self.sources.users.read(id));
        Ok(self.users.load_many(ids).await?.into_values().collect())
    }

    async fn update_user(&self, change: UserChange) -> Result<Option<User>> {
        self.write(async move |store, sources| {
            let write = sources.users.write(&change.id);
            let updated = store.update_user(change).await;
            write.finish();
            updated
        })
        .await
    }
}

/// Contacts by id. One alone is looked up by its own statement, which costs less.
fn contacts<S: Store>(store: Arc<S>) -> Loader<i32, Contact, Error> {
    Loader::new(ROWS_MAX, move |ids: Vec<i32>| {
        let store = Arc::clone(&store);
        async move {
            let found = match *ids {
                [id] => store.find(id).await?.into_iter().collect(),
                _ => store.find_many(ids).await?,
            };
            Ok(found.into_iter().map(|contact| (contact.id, contact)))
        }
    })
}

/// Users by id, likewise.
fn users<S: Store>(store: Arc<S>) -> Loader<i64, User, Error> {
    Loader::new(ROWS_MAX, move |ids: Vec<i64>| {
        let store = Arc::clone(&store);
        async move {
            let found = match *ids {
                [id] => store.find_user(id).await?.into_iter().collect(),
                _ => store.find_users(ids).await?,
            };
            Ok(found.into_iter().map(|user| (user.id, user)))
        }
    })
}

/// How many rows are looked up by one query at most.
const ROWS_MAX: usize = 500;

/// Announces a contact whose id is known only once it is there; meanwhile the write may be of any.
struct Creation {
    sources: Sources,
    write: WriteGuard,
}

impl Creation {
    /// To be called before the insert: the database picks the number of the row.
    fn of(sources: Sources) -> Self {
        let write = sources.contacts.write_unknown().also(&sources.count, &());
        Self { sources, write }
    }

    fn is(self, created: Result<Contact>) -> Result<Contact> {
        match &created {
            Ok(contact) => self.write.also(&self.sources.contacts, &contact.id).finish(),
            Err(error) if error.outcome() == Outcome::NotRun => self.write.unchanged(),
            // Whether there is a contact, and which, is not known: so all may be another.
            Err(_) => self.write.finish(),
        }
        created
    }
}
