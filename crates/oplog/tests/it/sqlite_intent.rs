//! Processes that are gone before they have said what commands changed in their file.

use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt as _;
use rusqlite::{Connection, TransactionBehavior};

use crate::sqlite::{Host, file, one, shell};
use crate::support::Heard;

fn count(path: &Path) -> i64 {
    one(path, "SELECT count(*) FROM tidewire_intent", []).unwrap()
}

fn numbers(path: &Path) -> Option<String> {
    one(path, "SELECT group_concat(id) FROM tidewire_intent", []).unwrap()
}

async fn pause() {
    // tidy: allow-sleep a file tells nobody which processes are gone; this asks again
    tokio::time::sleep(Duration::from_millis(5)).await;
}

#[tokio::test]
async fn of_a_process_that_is_gone_in_a_command_every_other_hears() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let (a, b) = (Host::start(&path).await, Host::start(&path).await);
    let heard = Heard::by(&b.oplog);
    b.world.warm().await;
    let intent = a.oplog.intend().await;
    assert_eq!(count(&path), 1);
    let c = Host::start(&path).await;
    let before = b.oplog.status().counts.polls;
    // Longer than a process that says nothing is taken to live.
    while b.oplog.status().counts.polls < before + 120 {
        pause().await;
    }
    assert_eq!(heard.all(), [""; 0], "it lives");
    assert_eq!(count(&path), 1);
    // As one that is killed: nothing is written any more.
    drop(a.oplog);
    while heard.all().is_empty() {
        pause().await;
    }
    assert_eq!(heard.all(), ["everything"]);
    assert_eq!(b.world.fresh(), [0, 1, 2, 3, 11, 12, 13], "triggers tell of captured tables");
    assert_eq!(count(&path), 0);
    drop((intent, c));
}

#[tokio::test]
async fn a_process_that_stops_after_its_commands_leaves_nothing_to_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let a = Host::start(&path).await;
    drop(a.oplog.intend().await);
    assert_eq!(count(&path), 1, "it stands for a while");
    a.oplog.stop().await;
    assert_eq!(count(&path), 0);
}

#[tokio::test]
async fn nothing_is_written_while_no_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let a = Host::start(&path).await;
    let intent = a.oplog.intend().await;
    assert!(a.oplog.intend().now_or_never().is_some(), "the next does not wait");
    drop(intent);
    while count(&path) != 0 {
        pause().await;
    }
    let reader = Connection::open(&path).unwrap();
    let version = || reader.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0));
    let (then, polls) = (version().unwrap(), a.oplog.status().counts.polls);
    while a.oplog.status().counts.polls < polls + 60 {
        pause().await;
    }
    assert_eq!(version().unwrap(), then);
}

#[tokio::test]
async fn a_process_that_was_taken_for_gone_says_again_that_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let a = Host::start(&path).await;
    let intent = a.oplog.intend().await;
    let before = numbers(&path);
    shell(&path, "DELETE FROM tidewire_intent");
    while count(&path) == 0 {
        pause().await;
    }
    assert_ne!(numbers(&path), before);
    drop(intent);
    a.oplog.stop().await;
    assert_eq!(count(&path), 0);
}

#[tokio::test]
async fn a_long_transaction_makes_nobody_dead() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let (a, b) = (Host::start(&path).await, Host::start(&path).await);
    let heard = Heard::by(&b.oplog);
    let intent = a.oplog.intend().await;
    let mut writer = Connection::open(&path).unwrap();
    let writing = writer.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let before = b.oplog.status().counts.polls;
    while b.oplog.status().counts.polls < before + 100 {
        pause().await;
    }
    writing.rollback().unwrap();
    let beat = || one::<i64>(&path, "SELECT beat FROM tidewire_intent", []);
    let last = beat();
    while beat() == last {
        pause().await;
    }
    b.oplog.barrier().await.unwrap();
    assert_eq!(heard.all(), [""; 0]);
    assert_eq!(count(&path), 1);
    drop(intent);
}

#[tokio::test]
async fn a_file_of_an_older_version_is_given_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    drop(Host::start(&path).await);
    shell(&path, "DROP TABLE tidewire_intent");
    let host = Host::start(&path).await;
    assert_eq!(count(&path), 0);
    assert_eq!(host.after(|| shell(&path, "DROP TABLE tidewire_intent")).await, [0; 0]);
    assert_eq!(count(&path), 0, "it is put back");
    assert_eq!(host.after(|| ()).await, [0, 1, 2, 3, 11, 12, 13]);
}
