//! What other programs write to the file is noticed, soon and all at once.
//!
//! `PRAGMA data_version` is another number on a connection once any other connection has committed;
//! what the connection itself commits leaves it. All writes of this program go through one
//! connection, so the number that the writer sees tells of other programs only. Which rows they
//! wrote it does not tell.

use rusqlite::Connection;

use crate::store::Sources;

/// Notices the commits of others.
#[derive(Debug)]
pub(super) struct Others {
    sources: Sources,
    /// None where the number could not be read: then anything may have happened.
    seen: Option<i64>,
}

impl Others {
    /// Begins to look; what is committed from here on is noticed.
    pub(super) fn new(database: &Connection, sources: Sources) -> Self {
        Self { sources, seen: version(database) }
    }

    /// Says that all has changed, if another program has written since the last look.
    pub(super) fn look(&mut self, database: &Connection) {
        let now = version(database);
        if now.is_none() || now != self.seen {
            self.sources.changed_all();
        }
        self.seen = now;
    }
}

fn version(database: &Connection) -> Option<i64> {
    let mut pragma = database.prepare_cached("PRAGMA data_version").ok()?;
    pragma.query_row([], |row| row.get(0)).ok()
}

#[cfg(test)]
mod tests {
    use tidewire::memo::{Graph, Memo};

    use super::*;

    #[tokio::test]
    async fn only_the_commits_of_others_change_anything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sqlite");
        let own = Connection::open(&path).unwrap();
        own.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a)").unwrap();
        let graph = Graph::new();
        let sources = Sources::new(&graph);
        let memo = Memo::infallible_in(&graph, "row", move |id: i32| async move {
            sources.contacts.read(&id);
        });
        let mut others = Others::new(&own, sources);
        let other = Connection::open(&path).unwrap();
        for (by, is_kept) in [(&own, true), (&other, false), (&own, true), (&other, false)] {
            memo.get(1).await.unwrap();
            by.execute_batch("INSERT INTO t VALUES (1)").unwrap();
            others.look(&own);
            assert_eq!(memo.cached(&1).is_some(), is_kept);
        }
        memo.get(1).await.unwrap();
        other.execute_batch("BEGIN; INSERT INTO t VALUES (1); ROLLBACK").unwrap();
        others.look(&own);
        assert!(memo.cached(&1).is_some());
    }
}
