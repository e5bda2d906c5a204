//! The tasks in SQLite, and word of what changes them: this program, or another.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Result;
use rusqlite::Connection;
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
            connection.prepare_cached("SELECT id, title, list FROM task ORDER BY place")?;
        let rows = select.query_map([], task)?;
        rows.collect()
    }

    /// Adds a task, unless one has its id; the task of that id.
    pub(crate) fn add(&self, id: i64, title: &str) -> rusqlite::Result<Task> {
        self.write(|connection| {
            let insert = "INSERT OR IGNORE INTO task (id, title, list) VALUES (?1, ?2, 1)";
            connection.execute(insert, (id, title))?;
            connection.query_row("SELECT id, title, list FROM task WHERE id = ?1", [id], task)
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
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let write = self.tasks.write(&());
        let done = act(&self.lock());
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
    let column = match row.get(2)? {
        1 => Column::TODO,
        2 => Column::DOING,
        _ => Column::DONE,
    };
    Ok(Task { id: row.get(0)?, title: row.get(1)?, column: column.into(), ..Default::default() })
}

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS task (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        id INTEGER NOT NULL UNIQUE, title TEXT NOT NULL, list INTEGER NOT NULL
    );
";
