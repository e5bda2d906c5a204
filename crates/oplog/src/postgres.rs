//! The log in PostgreSQL: a table that triggers fill, and that every host reads by difference of
//! snapshots.

mod look;
mod schema;
mod session;
mod tables;
mod transaction;
mod triggers;
mod trim;

use std::sync::Arc;

use tidewire_memo::{Source, SourceKey, Suspension};
use tokio::task::JoinSet;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Socket};

pub use self::transaction::{Changes, WriteError};

use self::session::{Connector, Following, connector};
use crate::capture::Capture;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::oplog::Oplog;
use crate::registry::Registry;
use crate::settings::Settings;

/// What a log in PostgreSQL has to know before it starts; see [`Oplog::postgres`].
#[must_use = "nothing is followed until `start`"]
pub struct PostgresLog {
    config: Config,
    connector: Connector,
    settings: Settings,
    registry: Registry,
    captures: Vec<Capture>,
    suspended: Vec<Suspension>,
}

impl PostgresLog {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            connector: connector(NoTls),
            settings: Settings::default(),
            registry: Registry::default(),
            captures: Vec::new(),
            suspended: Vec::new(),
        }
    }

    /// How the log is followed; the defaults are those of [`Settings`].
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Connects over TLS.
    pub fn tls<T>(mut self, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
    {
        self.connector = connector(tls);
        self
    }

    /// Makes changes of a table, by whoever writes it, changes of a source: `columns` are the parts
    /// of its key, in order. The source is suspended until the log has started.
    ///
    /// Several tables may feed one source, and one table several sources.
    pub fn capture<K: SourceKey>(
        self,
        table: &str,
        source: &Source<K>,
        columns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        self.add(source, Some((table, columns, false)))
    }

    /// As [`capture`](Self::capture), for a source that changes when rows are added or removed and
    /// not when a row changes: what a count depends on.
    pub fn capture_rows(self, table: &str, source: &Source<()>) -> Self {
        self.add(source, Some((table, Vec::new(), true)))
    }

    /// Carries changes of a source that no table is captured for:
    /// [`OplogHandle::transaction`](crate::OplogHandle::transaction) writes them.
    pub fn source<K: SourceKey>(self, source: &Source<K>) -> Self {
        self.add(source, None)
    }

    fn add<K: SourceKey>(
        mut self,
        source: &Source<K>,
        capture: Option<(&str, Vec<String>, bool)>,
    ) -> Self {
        if self.registry.find(source.name()).is_none() {
            self.suspended.push(source.suspend());
        }
        self.registry.add(source, capture.as_ref().map(|(table, ..)| *table));
        if let Some((table, columns, is_of_rows)) = capture {
            let source = source.name().to_owned();
            self.captures.push(Capture { table: table.to_owned(), source, columns, is_of_rows });
        }
        self
    }

    /// The statements that [`start`](Self::start) runs where something is missing, for whoever may
    /// run them. It connects, since they depend on types and partitions. `role` is given what
    /// following needs.
    ///
    /// # Errors
    /// When the database cannot be reached, or a table cannot be captured.
    pub async fn ddl(mut self, role: Option<&str>) -> Result<String, Error> {
        self.settings.install = false;
        let (settings, captures) = (self.settings.clone(), self.captures.clone());
        let following = self.following();
        let (client, _line, _) = following.connect().await?;
        let mut ddl = schema::tables(&settings.schema);
        ddl.push_str(
            role.map(|role| schema::grants(&settings.schema, role)).as_deref().unwrap_or(""),
        );
        for (_, triggers) in triggers::Triggers::find(&client, &settings, &captures).await {
            ddl.push_str(&triggers?.ddl());
        }
        Ok(ddl)
    }

    fn following(self) -> Following {
        let mut config = self.config;
        config.application_name(application_name(&self.settings));
        Following {
            core: Arc::new(Core::new(self.settings, self.registry, self.suspended)),
            config,
            connector: self.connector,
            captures: self.captures,
        }
    }

    /// Connects, sees to tables and triggers, takes the first position, and follows the log from
    /// then on.
    /// # Errors
    /// When the database cannot be reached, or a table cannot be captured: a program that starts
    /// with a wrong setting should end and say so. Once started, a database that goes away is
    /// waited for.
    pub async fn start(self) -> Result<Oplog, Error> {
        let following = self.following();
        let session = following.open().await?;
        let core = Arc::clone(&following.core);
        if let Some(source) =
            core.status().sources.into_iter().find(|source| source.problem.is_some())
        {
            let problem = source.problem.unwrap_or_default();
            let text = format!("source {} cannot be captured: {problem}", source.name);
            return Err(Error::new(ErrorKind::Capture, text));
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { following.run(Some(session)).await });
        let watched = Arc::clone(&core);
        tasks.spawn(async move { watched.watch_lease().await });
        Ok(Oplog::new(core, tasks))
    }
}

impl std::fmt::Debug for PostgresLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { captures, registry, settings, .. } = self;
        f.debug_struct("PostgresLog")
            .field("captures", captures)
            .field("sources", registry)
            .field("settings", settings)
            .finish_non_exhaustive()
    }
}

/// By which hosts that follow one log are counted.
fn application_name(settings: &Settings) -> String {
    format!("tidewire oplog {}", settings.schema)
}

/// Runs `work` in a transaction; see `OplogHandle::transaction`.
pub(crate) async fn transaction<T, E>(
    core: &Core,
    client: &mut Client,
    work: impl AsyncFnOnce(&tokio_postgres::Transaction<'_>, &mut Changes) -> Result<T, E>,
) -> Result<(T, crate::Token), WriteError<E>> {
    transaction::run(core, client, work).await
}
