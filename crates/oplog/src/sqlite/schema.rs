//! The log's tables in the file, and putting them and the triggers there.
//!
//! | table | holds |
//! |---|---|
//! | `tidewire_log` | a row for each change of a captured table's row: which source, which key |
//! | `tidewire_intent` | a row for each process that runs commands whose changes are still to be published |

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

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
    let refused = |error| refusal(path, error);
    let mut database = match settings.install {
        true => open_writable(path)?,
        false => open_to_write(path).map_err(refused)?,
    };
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

/// Opens the file and sees that it can be written: SQLite opens one that cannot, and says so at the
/// first write.
pub(super) fn open_writable(path: &Path) -> Result<Connection, Error> {
    let mut database = open_to_write(path).map_err(|error| refusal(path, error))?;
    match write_nothing(&mut database) {
        // Then others can write it.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
        Err(error) => return Err(refusal(path, error)),
        Ok(()) => {}
    }
    database.busy_timeout(BUSY_TIMEOUT).map_err(|error| refusal(path, error))?;
    Ok(database)
}

/// Writes what is there already, and undoes it: the journal is opened as for any change.
fn write_nothing(database: &mut Connection) -> rusqlite::Result<()> {
    database.busy_timeout(Duration::ZERO)?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version =
        transaction.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.rollback()
}

fn refusal(path: &Path, error: rusqlite::Error) -> Error {
    let is_there = path.exists();
    let path = path.display();
    let code = error.sqlite_error_code();
    let unwritable = [ErrorCode::ReadOnly, ErrorCode::CannotOpen, ErrorCode::PermissionDenied];
    if is_there && code.is_some_and(|code| unwritable.contains(&code)) {
        let text = format!(
            "{path} cannot be written, and the change log in it has to be ({error}); let the user that \
             runs this write to the file and its folder, or set oplog.install = false where nothing is \
             written"
        );
        return Error::new(ErrorKind::Database, text);
    }
    let next = if is_there { "" } else { ", which does not exist; make the database first" };
    let text = format!("cannot put the change log into {path}{next}");
    Error::new(ErrorKind::NotInstalled, text).because(error)
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
