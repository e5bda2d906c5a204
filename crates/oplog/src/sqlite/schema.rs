//! The log's tables in the file, and putting them and the triggers there.
//!
//! | table | holds |
//! |---|---|
//! | `tidewire_log` | a row for each change of a captured table's row: which source, which key |
//! | `tidewire_intent` | a row for each process that runs commands whose changes are still to be published |

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use super::poll::open_to_write;
use super::triggers::triggers;
use crate::capture::Capture;
use crate::error::{Error, ErrorKind};
use crate::settings::Settings;

/// The tables, and what keeps the log short: whoever adds a row removes the one that is too old.
pub(super) fn tables(rows_max: u32) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS tidewire_log (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL,
    key TEXT,
    nonce BLOB NOT NULL DEFAULT (randomblob(8))
);
CREATE TRIGGER IF NOT EXISTS tidewire_log_trim AFTER INSERT ON tidewire_log BEGIN
    DELETE FROM tidewire_log WHERE seq <= NEW.seq - {rows_max};
END;
CREATE TABLE IF NOT EXISTS tidewire_intent (
    id INTEGER PRIMARY KEY,
    beat INTEGER NOT NULL
);
"
    )
}

/// Puts what is missing into the file.
pub(super) fn install(path: &Path, settings: &Settings, captures: &[Capture]) -> Result<(), Error> {
    let refused = |error: rusqlite::Error| {
        let next =
            if path.exists() { "" } else { ", which does not exist; make the database first" };
        let text = format!("cannot put the change log into {}{next}", path.display());
        Error::new(ErrorKind::NotInstalled, text).because(error)
    };
    let mut database = open_to_write(path).map_err(refused)?;
    if missing(&database, settings, captures)?.is_none() {
        return Ok(());
    }
    if !settings.install {
        let text = format!(
            "{}: the change log is not in the file, and oplog.install is false; run what `tidewire oplog \
             sql` prints",
            path.display()
        );
        return Err(Error::new(ErrorKind::NotInstalled, text));
    }
    let transaction =
        database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(refused)?;
    transaction.execute_batch(&tables(settings.rows_max)).map_err(refused)?;
    for trigger in triggers(&transaction, settings, captures)? {
        transaction.execute_batch(&trigger.sql).map_err(refused)?;
    }
    transaction.commit().map_err(refused)
}

/// What is not there as it has to be: a table, or the trigger of a table.
pub(super) fn missing(
    database: &Connection,
    settings: &Settings,
    captures: &[Capture],
) -> Result<Option<MissingPart>, Error> {
    let definition = |name: &str| {
        let sql = "SELECT sql FROM sqlite_schema WHERE name = ?1";
        let found = database.query_row(sql, [name], |row| row.get::<_, String>(0));
        match found {
            Ok(sql) => Ok(Some(sql)),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            Err(error) => {
                Err(Error::new(ErrorKind::Database, "cannot read sqlite_schema").because(error))
            }
        }
    };
    if definition("tidewire_log")?.is_none() || definition("tidewire_log_trim")?.is_none() {
        return Ok(Some(MissingPart { what: "table tidewire_log".to_owned(), is_log: true }));
    }
    if definition("tidewire_intent")?.is_none() {
        return Ok(Some(MissingPart { what: "table tidewire_intent".to_owned(), is_log: false }));
    }
    for trigger in triggers(database, settings, captures)? {
        // SQLite keeps the text, without `IF NOT EXISTS`.
        let expected = trigger.sql.replacen("IF NOT EXISTS ", "", 1);
        if definition(&trigger.name)?.is_none_or(|sql| sql != expected) {
            let what = format!("trigger {} of table {}", trigger.name, trigger.table);
            return Ok(Some(MissingPart { what, is_log: false }));
        }
    }
    Ok(None)
}

/// See [`missing`].
#[derive(Debug)]
pub(super) struct MissingPart {
    pub(super) what: String,
    pub(super) is_log: bool,
}

/// For how long putting triggers in place, or a poll, waits for a writer.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
