//! The log in a SQLite file: triggers in the file fill it, whichever program writes.
//!
//! There is one writer at a time, so the rows' numbers are the order of commits. A connection that
//! never writes asks for `data_version`, which changes when anybody has committed, this program
//! too. Each row has a random nonce: a file that is an older one again has another row, or none,
//! where this host stopped reading.

mod intent;
mod poll;
mod publish;
mod schema;
mod triggers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidewire_memo::{Source, SourceKey};
use tokio::task::{JoinSet, spawn_blocking};

use self::intent::follow_intents;
use self::poll::Follower;
pub use self::poll::last_row;
use crate::capture::{Capture, CaptureSet};
use crate::core::{Backoff, Core};
use crate::error::{Error, ErrorKind};
use crate::oplog::Oplog;
use crate::settings::Settings;

impl Oplog {
    /// A log in the SQLite file that the data is in.
    pub fn sqlite(path: impl AsRef<Path>) -> SqliteLog {
        SqliteLog::new(path.as_ref())
    }
}

/// What a log in a SQLite file has to know before it starts; see [`Oplog::sqlite`].
#[derive(Debug)]
#[must_use = "nothing is followed until `start`"]
pub struct SqliteLog {
    path: PathBuf,
    settings: Settings,
    sources: CaptureSet,
}

impl SqliteLog {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            settings: Settings::default(),
            sources: CaptureSet::default(),
        }
    }

    /// How the log is followed; the defaults are those of [`Settings`].
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Makes changes of a table, by whoever writes it, changes of a source: `columns` are the parts
    /// of its key, in order. The source is suspended until the log has started.
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

    /// The statements that [`start`](Self::start) runs where something is missing.
    ///
    /// # Errors
    /// When the file cannot be opened, or a table cannot be captured.
    pub fn ddl(&self) -> Result<String, Error> {
        let database = poll::open(&self.path)?;
        let mut ddl = schema::tables(self.settings.rows_max);
        for trigger in triggers::triggers(&database, &self.settings, &self.sources.captures)? {
            ddl.push_str(&trigger.sql);
            ddl.push_str(";\n");
        }
        Ok(ddl)
    }

    /// Whether [`start`](Self::start) can write the file, as it has to where
    /// [`install`](Settings::install) is on. Nothing is changed. While somebody else writes, it is
    /// taken to be so.
    ///
    /// # Errors
    /// When the file cannot be opened or written.
    pub fn check_writable(&self) -> Result<(), Error> {
        match self.settings.install {
            true => schema::open_writable(&self.path).map(|_| ()),
            false => Ok(()),
        }
    }

    /// Opens the file, sees to table and triggers, takes the first position, and follows the log
    /// from then on.
    ///
    /// # Errors
    /// When the file cannot be opened, or a table cannot be captured.
    pub async fn start(self) -> Result<Oplog, Error> {
        let opened = spawn_blocking(|| self.open()).await.map_err(|error| {
            Error::new(ErrorKind::Database, "opening the change log failed").because(error)
        })?;
        opened.map(OpenFile::follow)
    }

    /// As [`start`](Self::start), and blocks the thread meanwhile.
    ///
    /// # Errors
    /// As those of [`start`](Self::start).
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn start_blocking(self) -> Result<Oplog, Error> {
        self.open().map(OpenFile::follow)
    }

    fn open(self) -> Result<OpenFile, Error> {
        self.settings.check()?;
        let CaptureSet { registry, captures, suspended } = self.sources;
        let core = Arc::new(Core::new(self.settings, registry, suspended));
        schema::install(&self.path, &core.settings, &captures)?;
        let mut follower = Follower::open(self.path, captures)?;
        follower.poll(&core)?;
        Ok(OpenFile { core, follower })
    }
}

/// A file that was polled once.
struct OpenFile {
    core: Arc<Core>,
    follower: Follower,
}

impl OpenFile {
    fn follow(self) -> Oplog {
        let Self { core, follower } = self;
        let publisher = publish::publish(Arc::clone(&core), follower.path().to_owned());
        let signs = Arc::clone(follower.signs());
        let intents = follow_intents(Arc::clone(&core), follower.path().to_owned(), signs);
        let mut tasks = JoinSet::new();
        let of_task = Arc::clone(&core);
        let watched = Arc::clone(&core);
        tasks.spawn(async move { follow(of_task, follower).await });
        tasks.spawn(publisher);
        tasks.spawn(intents);
        tasks.spawn(async move { watched.watch_lease().await });
        Oplog::new(core, tasks)
    }
}

/// Polls for ever, on a thread for what blocks.
async fn follow(core: Arc<Core>, follower: Follower) {
    let mut follower = Some(follower);
    let mut backoff = Backoff::new();
    loop {
        tokio::select! {
            () = core.wanted.notified() => {}
            () = core.wake_others.notified() => {}
            () = tokio::time::sleep(core.settings.poll) => {}
        }
        let Some(mut taken) = follower.take() else { return };
        let of_poll = Arc::clone(&core);
        let polled = spawn_blocking(move || {
            let polled = taken.poll(&of_poll);
            (taken, polled)
        });
        // The runtime is shutting down, or a poll panicked: then the lease runs out.
        let Ok((given_back, polled)) = polled.await else { return };
        follower = Some(given_back);
        match polled {
            Ok(()) => backoff = Backoff::new(),
            Err(error) => {
                core.fail(error.to_string());
                backoff.wait().await;
            }
        }
    }
}
