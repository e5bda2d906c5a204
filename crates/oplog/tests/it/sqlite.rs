//! A SQLite file: the shell, a second process, `REPLACE`, and a file that is another one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;
use tidewire_memo::{Graph, Memo, Source};
use tidewire_oplog::{Oplog, ResetReason, Settings, last_row};

use crate::support::{Heard, refusal, settings};

pub(crate) struct Host {
    pub(crate) oplog: Oplog,
    pub(crate) world: World,
}

pub(crate) struct World {
    _graph: Arc<Graph>,
    contacts: Source<i64>,
    emails: Source<String>,
    count: Source<()>,
    surname: Memo<i64, Option<String>>,
    by_email: Memo<String, Option<i64>>,
    rows: Memo<(), i64>,
}

impl World {
    fn new(path: &Path) -> Self {
        let graph = Arc::new(Graph::new());
        let contacts = Source::new_in(&graph, "contacts");
        let emails = Source::new_in(&graph, "emails");
        let count = Source::new_in(&graph, "count");
        let (of_name, of_email, of_count) = (path.to_owned(), path.to_owned(), path.to_owned());
        let surname = Memo::infallible_in(&graph, "surname", move |id: i64| {
            let path = of_name.clone();
            async move {
                contacts.read(&id);
                one(&path, "SELECT surname FROM contact WHERE id = ?1", [id])
            }
        });
        let by_email = Memo::infallible_in(&graph, "by email", move |email: String| {
            let path = of_email.clone();
            async move {
                emails.read(&email);
                one(&path, "SELECT id FROM contact WHERE email = ?1", [email])
            }
        });
        let rows = Memo::infallible_in(&graph, "rows", move |(): ()| {
            let path = of_count.clone();
            async move {
                count.read(&());
                one(&path, "SELECT count(*) FROM contact", []).unwrap()
            }
        });
        Self { _graph: graph, contacts, emails, count, surname, by_email, rows }
    }

    pub(crate) async fn warm(&self) {
        for id in 1..=3 {
            self.surname.get(id).await.unwrap();
            self.by_email.get(format!("{id}@x")).await.unwrap();
        }
        self.rows.get(()).await.unwrap();
    }

    /// Contacts by id, emails as 11 to 13, 0 for the count.
    pub(crate) fn fresh(&self) -> Vec<i64> {
        let contacts = (1..=3).filter(|id| self.surname.cached(id).is_some());
        let emails = (1..=3).filter(|id| self.by_email.cached(&format!("{id}@x")).is_some());
        let count = self.rows.cached(&()).map(|_| 0);
        count.into_iter().chain(contacts).chain(emails.map(|id| id + 10)).collect()
    }
}

impl Host {
    pub(crate) async fn start(path: &Path) -> Self {
        Self::start_with(path, settings()).await
    }

    async fn start_with(path: &Path, settings: Settings) -> Self {
        let world = World::new(path);
        let oplog = Oplog::sqlite(path)
            .settings(settings)
            .capture("contact", &world.contacts, ["id"])
            .capture("contact", &world.emails, ["email"])
            .capture_rows("contact", &world.count)
            .start()
            .await
            .unwrap();
        Self { oplog, world }
    }

    /// Warms, changes, polls: what is in memory still.
    pub(crate) async fn after(&self, change: impl FnOnce()) -> Vec<i64> {
        self.world.warm().await;
        assert_eq!(self.world.fresh(), [0, 1, 2, 3, 11, 12, 13]);
        change();
        self.oplog.barrier().await.unwrap();
        self.world.fresh()
    }

    fn resets(&self, reason: ResetReason) -> u64 {
        self.oplog.status().counts.resets.get(&reason).copied().unwrap_or(0)
    }
}

pub(crate) fn one<T: rusqlite::types::FromSql>(
    path: &Path,
    sql: &str,
    params: impl rusqlite::Params,
) -> Option<T> {
    let database = Connection::open(path).unwrap();
    match database.query_row(sql, params, |row| row.get(0)) {
        Ok(value) => Some(value),
        Err(rusqlite::Error::QueryReturnedNoRows) => None,
        Err(error) => panic!("{error}"),
    }
}

/// What a person does in another terminal.
pub(crate) fn shell(path: &Path, sql: &str) {
    let output = Command::new("sqlite3")
        .args(["-bail", "-cmd", ".timeout 60000"])
        .arg(path)
        .arg(sql)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{sql}: {errors}");
}

pub(crate) fn file(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("a.sqlite");
    let database = Connection::open(&path).unwrap();
    database.execute_batch(CONTACTS).unwrap();
    path
}

#[tokio::test]
async fn the_shell_is_seen_and_only_what_it_changes_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let host = Host::start(&path).await;
    for (sql, fresh) in [
        ("UPDATE contact SET surname = 'X' WHERE id = 1", &[0, 2, 3, 12, 13][..]),
        ("UPDATE contact SET surname = 'X' WHERE id = 99", &[0, 1, 2, 3, 11, 12, 13]),
        ("BEGIN; UPDATE contact SET surname = 'Y'; ROLLBACK", &[0, 1, 2, 3, 11, 12, 13]),
        ("CREATE TABLE other (a); INSERT INTO other VALUES (1)", &[0, 1, 2, 3, 11, 12, 13]),
        ("INSERT INTO contact VALUES (9, 'a', '9@x')", &[1, 2, 3, 11, 12, 13]),
        ("UPDATE contact SET email = '2@y' WHERE id = 2", &[0, 1, 3, 11, 13]),
        ("UPDATE contact SET email = '2@x' WHERE id = 2", &[0, 1, 3, 11, 13]),
        (
            "UPDATE contact SET id = 20 WHERE id = 2; UPDATE contact SET id = 2 WHERE id = 20",
            &[0, 1, 3, 11, 13],
        ),
        ("DELETE FROM contact WHERE id = 9", &[1, 2, 3, 11, 12, 13]),
        // The rows that a REPLACE would have removed are logged before it is known what happens.
        (
            "INSERT INTO contact VALUES (1, 'u', '1@x') ON CONFLICT DO UPDATE SET surname = 'u'",
            &[2, 3, 12, 13],
        ),
        ("INSERT OR IGNORE INTO contact VALUES (8, 'i', '1@x')", &[2, 3, 12, 13]),
        ("UPDATE contact SET surname = 'all'", &[0]),
        ("DELETE FROM contact", &[]),
    ] {
        assert_eq!(host.after(|| shell(&path, sql)).await, fresh, "{sql}");
    }
}

#[tokio::test]
async fn replace_marks_the_rows_that_it_removes() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let host = Host::start(&path).await;
    // Row 3 has the email of the new row 1; row 1 goes as well.
    let after = host.after(|| shell(&path, "REPLACE INTO contact VALUES (1, 'r', '3@x')")).await;
    assert_eq!(after, [2, 12]);
    assert_eq!(*host.world.surname.get(3).await.unwrap(), None);
    assert_eq!(*host.world.by_email.get("1@x".to_owned()).await.unwrap(), None);
    let sql = "INSERT INTO contact VALUES (3, 'c', '5@x'), (4, 'd', '1@x')";
    host.after(|| shell(&path, sql)).await;
    let after = host
        .after(|| shell(&path, "UPDATE OR REPLACE contact SET email = '2@x' WHERE id = 4"))
        .await;
    assert_eq!(after, [1, 3, 13]);
    assert_eq!(*host.world.surname.get(2).await.unwrap(), None);
}

#[tokio::test]
async fn two_processes_on_one_file_hear_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let (a, b) = (Host::start(&path).await, Host::start(&path).await);
    let database = Connection::open(&path).unwrap();
    for turn in 0..50 {
        b.world.warm().await;
        let guard = a.world.contacts.write(&1);
        let name = format!("X{turn}");
        database.execute("UPDATE contact SET surname = ?1 WHERE id = 1", [&name]).unwrap();
        let token = a.oplog.wrote_unmarked(guard);
        assert_eq!(a.world.surname.get(1).await.unwrap().as_ref(), Some(&name));
        b.oplog.caught_up(&token).await.unwrap();
        assert_eq!(b.world.surname.get(1).await.unwrap().as_ref(), Some(&name));
        assert_eq!(b.world.fresh(), [0, 1, 2, 3, 12, 13]);
    }
}

#[tokio::test]
async fn rows_of_this_process_are_marked_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let host = Host::start(&path).await;
    let database = Connection::open(&path).unwrap();
    for _ in 0..20 {
        host.world.warm().await;
        let guard = host.world.contacts.write(&1);
        database.execute_batch("BEGIN IMMEDIATE").unwrap();
        let before = last_row(&database).unwrap();
        database.execute("UPDATE contact SET surname = 'X' WHERE id <= 2", []).unwrap();
        let last = last_row(&database).unwrap();
        database.execute_batch("COMMIT").unwrap();
        host.oplog.committed_rows(before, last);
        guard.finish();
        host.world.surname.get(1).await.unwrap();
        host.oplog.barrier().await.unwrap();
        assert_eq!(host.world.fresh(), [0, 1, 3, 13]);
    }
}

#[tokio::test]
async fn keys_that_have_no_text_of_their_own_make_the_source_stale() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE contact (id, surname, email); INSERT INTO contact VALUES (1, 'a', 'b')",
        )
        .unwrap();
    let host = Host::start(&path).await;
    let long = format!("INSERT INTO contact VALUES (7, 'a', '{}')", "x".repeat(1025));
    for (sql, fresh) in [
        ("INSERT INTO contact VALUES (1.5, 'a', 'b')", &[11, 12, 13][..]),
        ("INSERT INTO contact VALUES (NULL, 'a', 'b')", &[11, 12, 13]),
        ("INSERT INTO contact VALUES ('x/y', 'a', 'b')", &[11, 12, 13]),
        ("INSERT INTO contact VALUES (7, 'a', 1.5)", &[1, 2, 3]),
        (&long, &[1, 2, 3]),
        ("INSERT INTO contact VALUES (7, 'a', '%_/%25')", &[1, 2, 3, 11, 12, 13]),
        ("INSERT INTO contact VALUES (7, 'a', NULL)", &[1, 2, 3]),
    ] {
        assert_eq!(host.after(|| shell(&path, sql)).await, fresh, "{sql}");
    }
}

#[tokio::test]
async fn a_file_that_was_swapped_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let host = Host::start(&path).await;
    let other = folder.path().join("b.sqlite");
    let swap = || {
        std::fs::copy(&path, &other).unwrap();
        shell(&other, "UPDATE contact SET surname = 'swapped'; PRAGMA wal_checkpoint(TRUNCATE)");
        std::fs::rename(&other, &path).unwrap();
    };
    assert_eq!(host.after(swap).await, [0; 0]);
    assert_eq!(host.resets(ResetReason::LogReplaced), 1);
    assert_eq!(host.world.surname.get(1).await.unwrap().as_deref(), Some("swapped"));
    // The new file is followed.
    let sql = "UPDATE contact SET surname = 'X' WHERE id = 1";
    assert_eq!(host.after(|| shell(&path, sql)).await, [0, 2, 3, 12, 13]);
}

#[tokio::test]
async fn an_older_backup_in_place_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let host = Host::start(&path).await;
    shell(&path, "UPDATE contact SET surname = 'old'");
    let backup = folder.path().join("backup.sqlite");
    shell(&path, &format!(".backup {}", backup.display()));
    host.after(|| shell(&path, "UPDATE contact SET surname = 'new'")).await;
    let restore = || shell(&path, &format!(".restore {}", backup.display()));
    assert_eq!(host.after(restore).await, [0; 0]);
    assert_eq!(host.world.surname.get(1).await.unwrap().as_deref(), Some("old"));
    // The numbers come again with other nonces.
    host.after(|| shell(&path, "UPDATE contact SET surname = 'x' WHERE id = 1")).await;
    let sql =
        format!(".restore {}\nUPDATE contact SET surname = 'y' WHERE id <= 2", backup.display());
    let both = || {
        let (restore, update) = sql.split_once('\n').unwrap();
        shell(&path, restore);
        shell(&path, update);
    };
    assert_eq!(host.after(both).await, [0; 0]);
}

#[tokio::test]
async fn a_log_that_is_short_makes_who_is_late_start_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let mut settings = settings();
    settings.rows_max = 10;
    let host = Host::start_with(&path, settings).await;
    let sql = "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 200) \
               INSERT INTO contact SELECT i, 'n', i FROM n";
    assert_eq!(host.after(|| shell(&path, sql)).await, [0; 0]);
    assert_eq!(host.resets(ResetReason::LogReplaced), 1);
    assert_eq!(one::<i64>(&path, "SELECT count(*) FROM tidewire_log", []), Some(10));
    let sql = "UPDATE contact SET surname = 'X' WHERE id = 1";
    assert_eq!(host.after(|| shell(&path, sql)).await, [0, 2, 3, 12, 13]);
}

#[tokio::test]
async fn a_dropped_trigger_or_log_comes_back_and_nothing_is_trusted_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let host = Host::start(&path).await;
    let names = "SELECT group_concat('DROP TRIGGER ' || name, ';') FROM sqlite_schema WHERE type = 'trigger' \
                 AND tbl_name = 'contact'";
    let drop: String = one(&path, names, []).unwrap();
    let unseen = format!("{drop}; UPDATE contact SET surname = 'unseen'");
    assert_eq!(host.after(|| shell(&path, &unseen)).await, [0; 0]);
    assert_eq!(host.world.surname.get(1).await.unwrap().as_deref(), Some("unseen"));
    let sql = "UPDATE contact SET surname = 'X' WHERE id = 1";
    host.world.warm().await;
    host.oplog.barrier().await.unwrap();
    assert_eq!(host.after(|| shell(&path, sql)).await, [0, 2, 3, 12, 13]);
    shell(&path, "DROP TABLE tidewire_log");
    host.oplog.barrier().await.unwrap();
    assert_eq!(host.after(|| shell(&path, sql)).await, [0, 2, 3, 12, 13]);
}

#[tokio::test]
async fn what_cannot_be_captured_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let sql = "CREATE TABLE lax (name TEXT COLLATE NOCASE, tail TEXT COLLATE RTRIM, u TEXT);\
               CREATE TABLE expression (id INTEGER); CREATE UNIQUE INDEX e ON expression (abs(id))";
    shell(&path, sql);
    let source = Source::<String>::new("s");
    for (table, column, says) in [
        ("none", "id", "table none: it does not exist"),
        ("contact", "ident", "table contact: it has no column ident"),
        ("lax", "name", "calls unequal text equal"),
        ("lax", "tail", "calls unequal text equal"),
        ("expression", "id", "unique index over an expression"),
    ] {
        let started = Oplog::sqlite(&path).capture(table, &source, [column]).start().await;
        let text = refusal(started);
        assert!(text.contains(says), "{text}");
    }
    let absent = folder.path().join("absent.sqlite");
    let started = Oplog::sqlite(&absent).capture("contact", &source, ["id"]).start().await;
    let text = refusal(started);
    assert!(text.contains("absent.sqlite") && text.contains("make the database first"), "{text}");
    assert!(!absent.exists());
    let mut by_hand = settings();
    by_hand.install = false;
    let log =
        || Oplog::sqlite(&path).settings(by_hand.clone()).capture("contact", &source, ["email"]);
    assert!(refusal(log().start().await).contains("oplog.install is false"));
    let ddl = log().ddl().unwrap();
    shell(&path, &ddl);
    log().start().await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let source = Source::<String>::new("s");
    let mut by_hand = settings();
    by_hand.install = false;
    let log = |settings: &Settings| {
        Oplog::sqlite(&path)
            .settings(settings.clone())
            .capture("contact", &source, ["email"])
            .start()
    };
    log(&settings()).await.unwrap().stop().await;
    only_read(&path);
    let text = refusal(log(&settings()).await);
    let path = path.display();
    let said = format!("{path} cannot be written, and the change log in it has to be");
    assert!(text.starts_with(&said) && text.contains("write to the file and its folder"), "{text}");
    // Who keeps the log by hand may have hosts that only read.
    log(&by_hand).await.unwrap();
}

/// SQLite only reads a file of a format that is newer than it, whoever asks: root, too.
fn only_read(path: &Path) {
    shell(path, "PRAGMA journal_mode = DELETE");
    let mut bytes = std::fs::read(path).unwrap();
    bytes[18] = 3;
    std::fs::write(path, bytes).unwrap();
}

const CONTACTS: &str = "
PRAGMA journal_mode = WAL;
CREATE TABLE contact (id INTEGER PRIMARY KEY, surname TEXT NOT NULL, email TEXT UNIQUE) STRICT;
INSERT INTO contact VALUES (1, 'Last', '1@x'), (2, 'Last', '2@x'), (3, 'Last', '3@x')";

#[tokio::test]
async fn what_a_process_publishes_is_heard_by_the_others_alone() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder);
    let (a, b) = (Host::start(&path).await, Host::start(&path).await);
    let (of_a, of_b) = (Heard::by(&a.oplog), Heard::by(&b.oplog));
    a.world.warm().await;
    b.world.warm().await;
    a.oplog.publish("contacts", Some("2"));
    a.oplog.publish("pages", None);
    let token = a.oplog.published().await.unwrap();
    b.oplog.caught_up(&token).await.unwrap();
    assert_eq!(b.world.fresh(), [0, 1, 3, 11, 12, 13]);
    assert_eq!(of_b.all(), ["contacts/2", "pages"]);
    a.oplog.barrier().await.unwrap();
    assert_eq!(a.world.fresh(), [0, 1, 2, 3, 11, 12, 13]);
    assert_eq!(of_a.all(), [""; 0]);
}
