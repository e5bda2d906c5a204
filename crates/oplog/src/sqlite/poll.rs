//! A poll of the log of a SQLite file, on a connection that never writes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};

use super::intent::LifeSigns;
use super::schema::{BUSY_TIMEOUT, install, missing};
use crate::capture::Capture;
use crate::change::{Change, ChangeSet};
use crate::core::Core;
use crate::cursor::{ResetReason, Step};
use crate::error::{Error, ErrorKind};

/// Follows the log of one file.
pub(super) struct Follower {
    path: PathBuf,
    captures: Vec<Capture>,
    open: Open,
    signs: Arc<LifeSigns>,
}

/// The file that is open.
struct Open {
    database: Connection,
    /// Device and number of the file.
    identity: Option<FileId>,
    /// `data_version` at the last poll.
    version: Option<i64>,
    /// `schema_version` at the last poll.
    schema: Option<i64>,
    /// Number and nonce of the last row that was read; none of an empty log.
    last: Option<(i64, Vec<u8>)>,
    is_first: bool,
    /// Another file was here before, and nobody has been told.
    is_replaced: bool,
}

/// The number of the log's last row. In a transaction that may write, asked at its begin and at its
/// end, it tells the rows that the transaction added; see
/// [`OplogHandle::committed_rows`](crate::OplogHandle::committed_rows).
///
/// # Errors
/// A file without a log.
pub fn last_row(database: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce(max(seq), 0) FROM tidewire_log";
    database.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

/// Opens a file to read it.
pub(super) fn open(path: &Path) -> Result<Connection, Error> {
    let failed = |error: rusqlite::Error| {
        Error::new(ErrorKind::Unreachable, format!("cannot open {}", path.display())).because(error)
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags).map_err(failed)?;
    database.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    Ok(database)
}

/// Opens a file to write it, each time anew, so that a file that was swapped is the one written.
pub(super) fn open_to_write(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(BUSY_TIMEOUT)?;
    Ok(database)
}

impl Open {
    fn new(path: &Path) -> Result<Self, Error> {
        // Before it is opened: what is put in its place meanwhile is another.
        let identity = identity(path);
        let database = open(path)?;
        Ok(Self {
            database,
            identity,
            version: None,
            schema: None,
            last: None,
            is_first: true,
            is_replaced: false,
        })
    }
}

impl Follower {
    pub(super) fn open(path: PathBuf, captures: Vec<Capture>) -> Result<Self, Error> {
        let open = Open::new(&path)?;
        Ok(Self { path, captures, open, signs: Arc::default() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What each poll sees of other processes.
    pub(super) fn signs(&self) -> &Arc<LifeSigns> {
        &self.signs
    }

    /// Polls once, and applies what there is.
    pub(super) fn poll(&mut self, core: &Core) -> Result<(), Error> {
        let begun = core.begin();
        if self.open.identity.is_none() || identity(&self.path) != self.open.identity {
            // Others have put another file there. What was read of the last one says nothing about
            // it.
            install(&self.path, &core.settings, &self.captures)?;
            self.open = Open { is_replaced: true, ..Open::new(&self.path)? };
        }
        let step = self.read(core).map_err(|error| {
            Error::new(ErrorKind::Database, format!("cannot read {}", self.path.display()))
                .because(error)
        })?;
        let step = match std::mem::take(&mut self.open.is_replaced) {
            true => Step::Reset(ResetReason::LogReplaced),
            false => step,
        };
        core.end_step(&begun, step);
        Ok(())
    }

    fn read(&mut self, core: &Core) -> Result<Step, Error> {
        let failed = |error: rusqlite::Error| {
            Error::new(ErrorKind::Database, "the change log cannot be read").because(error)
        };
        // Asked first: what is committed from here on makes it another once more.
        let version = pragma(&self.open.database, "data_version").map_err(failed)?;
        if self.open.version == Some(version) {
            return Ok(Step::Apply(ChangeSet::default()));
        }
        let schema = pragma(&self.open.database, "schema_version").map_err(failed)?;
        let mut is_other_log = false;
        if self.open.schema != Some(schema) {
            let missing = missing(&self.open.database, &core.settings, &self.captures);
            is_other_log = matches!(&missing, Ok(Some(missing)) if missing.is_log);
            self.check(core, missing)?;
        }
        let step = if is_other_log {
            // The new one is empty.
            self.open.last = None;
            Step::Reset(ResetReason::LogReplaced)
        } else {
            self.open.rows(core).map_err(failed)?
        };
        self.signs.read(&self.open.database).map_err(failed)?;
        (self.open.version, self.open.schema) = (Some(version), Some(schema));
        Ok(step)
    }

    /// Puts back what is missing, and says which sources are not captured.
    fn check(
        &mut self,
        core: &Core,
        found: Result<Option<super::schema::MissingPart>, Error>,
    ) -> Result<(), Error> {
        let mut broken = BTreeMap::new();
        let fault = match found {
            Ok(None) => None,
            Ok(Some(missing)) if core.settings.install => {
                // The tables may have been there before the triggers were.
                self.suspend(&missing.what, &mut broken);
                core.set_broken(&broken);
                broken.clear();
                install(&self.path, &core.settings, &self.captures)
                    .err()
                    .map(|error| error.to_string())
            }
            Ok(Some(missing)) => Some(format!("{} is missing", missing.what)),
            Err(error) => Some(error.to_string()),
        };
        if let Some(fault) = fault {
            self.suspend(&fault, &mut broken);
        }
        core.set_broken(&broken);
        Ok(())
    }

    /// One missing trigger may hide more, so every source is concerned.
    fn suspend(&self, fault: &str, broken: &mut BTreeMap<String, String>) {
        for capture in &self.captures {
            broken.insert(capture.source.clone(), fault.to_owned());
        }
    }
}

impl Open {
    /// The rows after the last one.
    fn rows(&mut self, core: &Core) -> rusqlite::Result<Step> {
        if self.is_first {
            let sql = "SELECT seq, nonce FROM tidewire_log ORDER BY seq DESC LIMIT 1";
            let mut select = self.database.prepare_cached(sql)?;
            let mut rows = select.query([])?;
            self.last = match rows.next()? {
                Some(row) => Some((row.get(0)?, row.get(1)?)),
                None => None,
            };
            self.is_first = false;
            return Ok(Step::Apply(ChangeSet::default()));
        }
        let sql = "SELECT seq, nonce, source, key FROM tidewire_log WHERE seq >= ?1 ORDER BY seq";
        let mut select = self.database.prepare_cached(sql)?;
        let from = self.last.as_ref().map_or(0, |(seq, _)| *seq);
        let mut rows = select.query([from])?;
        let mut changes = ChangeSet::default();
        let mut last = None;
        let mut is_continued = self.last.is_none();
        while let Some(row) = rows.next()? {
            let here: (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            if last.is_none() {
                is_continued |= Some(&here) == self.last.as_ref();
                // An empty log goes on with its first row.
                is_continued &= self.last.is_some() || here.0 == 1;
            }
            if Some(&here) != self.last.as_ref() {
                let key: Option<String> = row.get(3)?;
                let mut change = Change { source: row.get(2)?, keys: key.map(|key| vec![key]) };
                let own = core.own.lock();
                if !own.is_published_row(here.0) {
                    own.strip_row(&core.registry, &mut change, here.0);
                    changes.add(change);
                }
            }
            last = Some(here);
        }
        if let Some((last, _)) = &last {
            core.own.lock().forget_rows(*last);
        }
        let was_empty = self.last.is_none() && last.is_none();
        self.last = last;
        Ok(match is_continued || was_empty {
            true => Step::Apply(changes),
            false => Step::Reset(ResetReason::LogReplaced),
        })
    }
}

fn pragma(database: &Connection, name: &str) -> rusqlite::Result<i64> {
    let mut select = database.prepare_cached(&format!("PRAGMA {name}"))?;
    select.query_row([], |row| row.get(0))
}

/// Which file it is, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

fn identity(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|file| FileId { device: file.dev(), inode: file.ino() })
}
