//! Filling the database at the first start.

use contacts::store::Store;
use contacts::store::sqlite::fill::fill;
use contacts::store::sqlite::{Options, Sqlite};
use rusqlite::Connection;

use crate::app::database_in;

#[tokio::test]
async fn a_fill_is_the_same_each_time_and_done_once() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut seen = Vec::new();
    for folder in [&one, &other] {
        let path = database_in(folder.path());
        assert_eq!(fill(&path, 1000, |_| {}).unwrap(), 1000);
        assert_eq!(fill(&path, 1000, |_| panic!("there is nothing to do")).unwrap(), 0);
        let store = Sqlite::open(&path, &Options::default()).unwrap();
        seen.push(store.find(1000).await.unwrap().unwrap());
        assert!(store.find(1001).await.unwrap().is_none());
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn a_larger_fill_adds_what_is_missing_and_leaves_deleted_contacts_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    fill(&path, 10, |_| {}).unwrap();
    let store = Sqlite::open(&path, &Options::default()).unwrap();
    store.delete(10).await.unwrap();
    let mine = store.create(Default::default()).await.unwrap();
    drop(store);
    assert_eq!(fill(&path, 20, |_| {}).unwrap(), 9);
    let store = Sqlite::open(&path, &Options::default()).unwrap();
    assert!(store.find(10).await.unwrap().is_none());
    assert_eq!(store.find(11).await.unwrap(), Some(mine));
    assert!(store.find(20).await.unwrap().is_some());
}

#[test]
fn an_interrupted_fill_leaves_nothing_and_is_done_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let interrupted = std::panic::catch_unwind(|| {
        fill(&path, 30_000, |progress| assert!(progress.done < 20_000, "the power goes"))
    });
    assert!(interrupted.is_err());
    let rows = || -> u32 {
        let count = "SELECT count(*) FROM contact";
        Connection::open(&path).unwrap().query_row(count, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(rows(), 0);
    assert_eq!(fill(&path, 30_000, |_| {}).unwrap(), 30_000);
    assert_eq!(rows(), 30_000);
}

#[test]
fn progress_counts_up_to_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    fill(&database_in(folder.path()), 25_000, |progress| {
        seen.push((progress.done, progress.percent()));
    })
    .unwrap();
    assert_eq!(seen, [(10_000, 40), (20_000, 80), (25_000, 100)]);
}
