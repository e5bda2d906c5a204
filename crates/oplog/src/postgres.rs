//! The log in PostgreSQL: a table that triggers fill, and that every host reads by difference of
//! snapshots.

mod failure;
mod intent;
mod poll;
mod publish;
mod schema;
mod session;
mod tables;
mod transaction;
mod triggers;
mod trim;

use std::sync::Arc;

use tidewire_memo::{Source, SourceKey};
use tokio::task::JoinSet;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Config, NoTls, Socket};

pub use self::transaction::{Changes, WriteError};

use self::session::{Connector, SessionSettings, connector};
use crate::capture::{Capture, CaptureSet};
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::oplog::Oplog;
use crate::settings::Settings;

impl Oplog {
    /// A log in the PostgreSQL database that the data is in. Connect directly, not through a pooler
    /// that gives each transaction another connection.
    pub fn postgres(config: &Config) -> PostgresLog {
        PostgresLog::new(config)
    }

    /// As [`postgres`](Self::postgres), by a URL: `postgres://user@host/name`.
    ///
    /// # Errors
    /// Text that is not such a URL.
    pub fn postgres_url(url: &str) -> Result<PostgresLog, Error> {
        let parsed = url.parse().map_err(|error: tokio_postgres::Error| {
            let text = "not a URL of a PostgreSQL database; write postgres://user@host/name";
            Error::new(ErrorKind::Database, text).because(error)
        });
        Ok(Self::postgres(&parsed?))
    }
}

/// What a log in PostgreSQL has to know before it starts; see [`Oplog::postgres`].
#[must_use = "nothing is followed until `start`"]
pub struct PostgresLog {
    config: Config,
    connector: Connector,
    settings: Settings,
    sources: CaptureSet,
}

impl PostgresLog {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            connector: connector(NoTls),
            settings: Settings::default(),
            sources: CaptureSet::default(),
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
        mut self,
        table: &str,
        source: &Source<K>,
        columns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.sources.add(source, Some(Capture::keys(table, source, columns)));
        self
    }

    /// As [`capture`](Self::capture), for a source that changes when rows are added or removed and
    /// not when a row changes: what a count depends on.
    pub fn capture_rows(mut self, table: &str, source: &Source<()>) -> Self {
        self.sources.add(source, Some(Capture::rows(table, source)));
        self
    }

    /// Carries changes of a source that no table is captured for:
    /// [`OplogHandle::transaction`](crate::OplogHandle::transaction) writes them.
    pub fn source<K: SourceKey>(mut self, source: &Source<K>) -> Self {
        self.sources.add(source, None);
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
        let settings = self.settings.clone();
        let captures = self.sources.captures.clone();
        let of_session = self.session_settings();
        let (client, _line, _) = of_session.connect().await?;
        let mut ddl = schema::tables(&settings.schema);
        ddl.push_str(
            role.map(|role| schema::grants(&settings.schema, role)).as_deref().unwrap_or(""),
        );
        for (_, triggers) in triggers::Triggers::find(&client, &settings, &captures).await {
            ddl.push_str(&triggers?.ddl());
        }
        Ok(ddl)
    }

    fn session_settings(self) -> SessionSettings {
        let mut config = self.config;
        config.application_name(application_name(&self.settings));
        let CaptureSet { registry, captures, suspended } = self.sources;
        let core = Arc::new(Core::new(self.settings, registry, suspended));
        SessionSettings { core, config, connector: self.connector, captures }
    }

    /// Connects, sees to tables and triggers, takes the first position, and follows the log from
    /// then on.
    ///
    /// # Errors
    /// When the database cannot be reached, or a table cannot be captured: a program that starts
    /// with a wrong setting should end and say so. The sources are then as they were before. Once
    /// started, a database that goes away is waited for.
    pub async fn start(self) -> Result<Oplog, Error> {
        self.settings.check()?;
        let of_session = self.session_settings();
        let session = of_session.open().await?;
        let core = Arc::clone(&of_session.core);
        if let Some(source) =
            core.status().sources.into_iter().find(|source| source.problem.is_some())
        {
            let problem = source.problem.unwrap_or_default();
            let text = format!("source {} cannot be captured: {problem}", source.name);
            return Err(Error::new(ErrorKind::Capture, text));
        }
        let mut tasks = JoinSet::new();
        let of_session = Arc::new(of_session);
        let publisher = Arc::clone(&of_session);
        tasks.spawn(async move { of_session.run(Some(session)).await });
        tasks.spawn(async move { publisher.publish().await });
        let watched = Arc::clone(&core);
        tasks.spawn(async move { watched.watch_lease().await });
        Ok(Oplog::new(core, tasks))
    }
}

impl std::fmt::Debug for PostgresLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sources, settings, .. } = self;
        f.debug_struct("PostgresLog")
            .field("sources", sources)
            .field("settings", settings)
            .finish_non_exhaustive()
    }
}

/// By which hosts that follow one log are counted.
fn application_name(settings: &Settings) -> String {
    format!("tidewire oplog {}", settings.schema)
}
