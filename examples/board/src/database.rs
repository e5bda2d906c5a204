//! The tasks in SQLite, and word of what changes them: this program, or another.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension as _};
use tidewire::CommandKey;
use tidewire::memo::Source;
use tokio::task::JoinHandle;

use crate::proto::board::v1::{Column, Task};

/// How often it is looked whether another program has written.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The database of the board.
pub(crate) struct Database {
    connection: Mutex<Connection>,
    tasks: Source<()>,
}

impl Database {
    /// Opens the file, which is made when it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection: Mutex::new(connection), tasks: Source::new("tasks") })
    }

    /// All tasks; whoever reads them is told when they change.
    pub(crate) fn list(&self) -> rusqlite::Result<Vec<Task>> {
        self.tasks.read(&());
        let connection = self.lock();
        let mut select =
            connection.prepare_cached("SELECT id, title, list FROM task ORDER BY id")?;
        let rows = select.query_map([], |row| task(row))?;
        rows.collect()
    }

    /// Adds a task; under a key that is known, gives the one that was added then.
    pub(crate) fn add(&self, title: &str, key: Option<&CommandKey>) -> rusqlite::Result<Task> {
        self.write(|connection| {
            let transaction = connection.transaction()?;
            let known = key.map(|key| added_under(&transaction, key)).transpose()?.flatten();
            if let Some(task) = known {
                return Ok(task);
            }
            transaction.execute("INSERT INTO task (title, list) VALUES (?1, 1)", [title])?;
            let id = transaction.last_insert_rowid();
            if let Some(key) = key {
                let words = (key.as_str(), id, title);
                transaction
                    .execute("INSERT INTO command (key, id, title) VALUES (?1, ?2, ?3)", words)?;
            }
            transaction.commit()?;
            Ok(Task {
                id,
                title: title.to_owned(),
                column: Column::TODO.into(),
                ..Default::default()
            })
        })
    }

    /// Changes a task; whether it is there.
    pub(crate) fn change(&self, task: &Task) -> rusqlite::Result<bool> {
        let list = task.column.to_i32();
        self.write(|connection| {
            let words = (task.id, &task.title, list);
            let rows =
                connection.execute("UPDATE task SET title = ?2, list = ?3 WHERE id = ?1", words)?;
            Ok(rows > 0)
        })
    }

    /// Removes a task.
    pub(crate) fn remove(&self, id: i64) -> rusqlite::Result<()> {
        self.write(|connection| {
            connection.execute("DELETE FROM task WHERE id = ?1", [id]).map(|_| ())
        })
    }

    /// Looks, for as long as the program runs, whether another one has written to the file:
    /// `PRAGMA data_version` is another number then.
    pub(crate) fn look_at_others(self: &Arc<Self>) -> JoinHandle<()> {
        let database = Arc::clone(self);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(LOOK_EVERY);
            let mut seen = None;
            loop {
                ticks.tick().await;
                let now = database
                    .lock()
                    .query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0))
                    .ok();
                if seen.is_some() && now != seen {
                    database.tasks.changed_all();
                }
                seen = now;
            }
        })
    }

    fn write<T>(
        &self,
        act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let write = self.tasks.write(&());
        let done = act(&mut self.lock());
        write.finish();
        done
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().expect("nobody panics with the connection")
    }
}

/// Changes the file as another program would: it is run by one.
pub(crate) fn meddle(path: &Path) -> Result<()> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute("UPDATE task SET title = title || '!', list = list % 3 + 1", [])?;
    Ok(())
}

fn task(row: &rusqlite::Row<'_>) -> rusqlite::Result<Task> {
    let column = Column::from_i32(row.get(2)?).unwrap_or_default();
    Ok(Task { id: row.get(0)?, title: row.get(1)?, column: column.into(), ..Default::default() })
}

fn added_under(connection: &Connection, key: &CommandKey) -> rusqlite::Result<Option<Task>> {
    let mut select =
        connection.prepare_cached("SELECT id, title, 1 FROM command WHERE key = ?1")?;
    select.query_row([key.as_str()], task).optional()
}

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS task (
        id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, list INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS command (
        key TEXT PRIMARY KEY, id INTEGER NOT NULL, title TEXT NOT NULL
    );
";
