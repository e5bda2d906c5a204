//! Opening the database file: settings of a connection, the table, and whose file it is.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rusqlite::{Connection, OpenFlags};

use crate::store::USERS;

/// Opens a database to read and write, and makes file and table when they are not there.
pub(super) fn open(path: &Path, busy_timeout: Duration) -> Result<Connection> {
    let what = || format!("database {}", path.display());
    let database = Connection::open(path).with_context(what)?;
    database.busy_timeout(busy_timeout).with_context(what)?;
    prepare(&database).with_context(what)?;
    Ok(database)
}

/// Opens a database that is there to read only.
pub(super) fn open_to_read(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(path, flags)?)
}

fn prepare(database: &Connection) -> Result<()> {
    let found: i32 = database.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 =
        database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match (found, version, tables) {
        (APPLICATION_ID, VERSION, _) => {}
        (APPLICATION_ID, version, _) => bail!(
            "its tables are of version {version}, this program knows {VERSION}; remove the file or \
             set CONTACTS_DB to another"
        ),
        (_, _, 0) => create(database)?,
        _ => bail!(
            "it is the database of another program; set CONTACTS_DB to a file that does not exist yet"
        ),
    }
    database.pragma_update(None, "synchronous", "FULL")?;
    Ok(())
}

/// The check of `contact.id` is what keeps ids within `int32` of the `.proto`; `AUTOINCREMENT` is
/// what keeps an id from being used again after its contact was deleted. `command` has the creates
/// that came with a key, and what they gave. Users are made here, and nobody adds any.
fn create(database: &Connection) -> Result<()> {
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE contact (
             id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id <= 2147483647),
             firstname TEXT NOT NULL,
             surname TEXT NOT NULL
         ) STRICT;
         CREATE TABLE command (
             key TEXT PRIMARY KEY,
             made_at INTEGER NOT NULL DEFAULT (unixepoch()),
             contact_id INTEGER NOT NULL,
             firstname TEXT NOT NULL,
             surname TEXT NOT NULL
         ) STRICT, WITHOUT ROWID;
         CREATE INDEX command_made_at ON command (made_at);
         CREATE TABLE user (
             id INTEGER PRIMARY KEY,
             name TEXT NOT NULL,
             email TEXT NOT NULL
         ) STRICT;
         WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < {USERS})
             INSERT INTO user SELECT id, 'User_' || id, 'user_' || id || '@example.com' FROM ids;
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {VERSION};
         COMMIT;"
    ))?;
    Ok(())
}

/// "TWct" in ASCII.
const APPLICATION_ID: i32 = 0x5457_6374;
const VERSION: i64 = 3;
