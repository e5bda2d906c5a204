//! Queues that are full, a database that is locked, and one that is not ours.

use std::pin::pin;
use std::time::Duration;

use contacts::proto::contacts::v1::CreateRequest;
use contacts::store::Store;
use contacts::store::sqlite::{Options, Sqlite};
use rusqlite::Connection;
use tidewire::Code;
use tokio::task::JoinSet;

use crate::app::{App, database_in};

#[tokio::test]
async fn a_write_over_the_bound_fails_at_once_and_those_within_it_are_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    // The writer holds at most one batch, the queue as many again.
    let options = Options { queue_max: 2, batch_max: 2, ..Options::default() };
    let store = std::sync::Arc::new(Sqlite::open(&path, &options).unwrap());
    let other_program = lock(&path);

    let mut writes = JoinSet::new();
    for _ in 0..5 {
        let store = std::sync::Arc::clone(&store);
        writes.spawn(async move { store.create(CreateRequest::default()).await });
    }
    let refused = writes.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "2 writes wait for the database already; try again later");

    other_program.execute_batch("COMMIT").unwrap();
    let mut created = Vec::new();
    while let Some(outcome) = writes.join_next().await {
        created.extend(outcome.unwrap().ok().map(|contact| contact.id));
    }
    created.sort_unstable();
    assert!(created.len() >= 2, "what was accepted is done: {created:?}");
    for id in created {
        assert!(store.find(id).await.unwrap().is_some(), "{id}");
    }
}

#[tokio::test]
async fn a_database_that_another_program_locks_is_unavailable_and_works_again_after() {
    let folder = tempfile::tempdir().unwrap();
    // The change log writes to the file too, and is not waited for in vain.
    let options = Options { busy_timeout: Duration::from_secs(2), ..Options::default() };
    let app = App::start_on(folder, options).await;
    let other_program = lock(&app.database());
    let path = "/contacts.v1.Contacts/Create";
    let refused = app.post(path, r#"{"firstName":"x"}"#).await;
    assert_eq!(refused.status, 503);
    assert_eq!(
        refused.text(),
        r#"{"code":"unavailable","message":"the database is locked by another program; nothing was changed, try again"}"#
    );
    let found = app.post("/contacts.v1.Contacts/Get", r#"{"id":1}"#).await;
    assert_eq!(found.status, 404, "readers do not wait for a writer");
    other_program.execute_batch("COMMIT").unwrap();
    assert_eq!(app.post(path, r#"{"firstName":"x"}"#).await.text(), r#"{"id":1,"firstName":"x"}"#);
    app.stop().await;
}

#[tokio::test]
async fn a_write_whose_caller_goes_away_is_done_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let store = Sqlite::open(&path, &Options::default()).unwrap();
    let other_program = lock(&path);
    {
        let mut write = pin!(store.create(CreateRequest::default()));
        let accepted = std::future::poll_fn(|cx| std::task::Poll::Ready(write.as_mut().poll(cx)));
        assert!(accepted.await.is_pending());
    }
    other_program.execute_batch("COMMIT").unwrap();
    let next = store.create(CreateRequest::default()).await.unwrap();
    assert_eq!(next.id, 2);
}

#[tokio::test]
async fn when_every_id_is_used_the_caller_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    drop(Sqlite::open(&path, &Options::default()).unwrap());
    let last = "INSERT INTO contact VALUES (2147483647, '', '')";
    Connection::open(&path).unwrap().execute_batch(last).unwrap();
    let store = Sqlite::open(&path, &Options::default()).unwrap();
    let error = store.create(CreateRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(store.find(i32::MAX).await.unwrap().is_some());
}

#[test]
fn a_file_that_is_not_ours_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let check = |needle: &str| {
        let error = Sqlite::open(&path, &Options::default()).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains(path.to_str().unwrap()) && text.contains(needle), "{text}");
    };
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE other (a)").unwrap();
    check(
        "it is the database of another program; set CONTACTS_DB to a file that does not exist yet",
    );
    std::fs::write(&path, "not a database at all, but long enough to be looked at as one").unwrap();
    check("not a database");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    check("unable to open");
}

/// Another program in the middle of a write.
fn lock(path: &std::path::Path) -> Connection {
    let other_program = Connection::open(path).unwrap();
    other_program.execute_batch("BEGIN IMMEDIATE").unwrap();
    other_program
}
