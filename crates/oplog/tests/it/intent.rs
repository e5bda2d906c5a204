//! Hosts that are gone before they have said what commands changed.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_postgres::Client;

use crate::cluster;
use crate::support::{Heard, Host, database};

async fn numbers(client: &Client) -> Vec<i32> {
    let rows = client.query("SELECT id FROM tidewire.intent ORDER BY id", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn pause() {
    // tidy: allow-sleep a database tells nobody which sessions are gone; this asks again
    tokio::time::sleep(Duration::from_millis(5)).await;
}

#[tokio::test]
async fn of_a_host_that_is_gone_in_a_command_every_other_host_hears() {
    let (config, client) = database().await;
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    let heard = Heard::by(&b.oplog);
    b.world.warm().await;
    let intent = a.oplog.intend().await;
    assert_eq!(numbers(&client).await.len(), 1);
    // Looks when it starts: the other lives.
    let c = Host::start(&config).await;
    b.poll().await;
    assert_eq!(heard.all(), [""; 0]);
    assert_eq!(numbers(&client).await.len(), 1);
    // As one that is killed: nothing is written any more.
    drop(a.oplog);
    while heard.all().is_empty() {
        pause().await;
    }
    assert_eq!(heard.all(), ["everything"]);
    assert_eq!(b.world.fresh(), [0, 1, 2, 3], "triggers tell of captured tables");
    assert_eq!(numbers(&client).await, [0; 0]);
    drop((intent, c));
}

#[tokio::test]
async fn a_host_that_stops_after_its_commands_leaves_nothing_to_say() {
    let (config, client) = database().await;
    let a = Host::start(&config).await;
    drop(a.oplog.intend().await);
    assert_eq!(numbers(&client).await.len(), 1, "it stands for a while");
    a.oplog.stop().await;
    assert_eq!(numbers(&client).await, [0; 0]);
}

#[tokio::test]
async fn a_host_that_loses_its_connection_in_a_command_says_again_that_it_runs() {
    let (config, client) = database().await;
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    let heard = Heard::by(&b.oplog);
    let intent = a.oplog.intend().await;
    let before = numbers(&client).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_locks \
               JOIN pg_database d ON d.oid = database AND d.datname = current_database() \
               WHERE locktype = 'advisory' AND objid = $1::int8::oid";
    client.query(end, &[&i64::from(before[0])]).await.unwrap();
    // Somebody took it for gone, and it stands there anew.
    while heard.all().is_empty() || numbers(&client).await.len() != 1 {
        pause().await;
    }
    assert_ne!(numbers(&client).await, before);
    drop(intent);
    a.oplog.stop().await;
    assert_eq!(numbers(&client).await, [0; 0]);
}

#[tokio::test]
async fn commands_run_while_the_database_cannot_be_told() {
    let (config, client) = database().await;
    let a = Host::start(&config).await;
    client.batch_execute("ALTER TABLE tidewire.intent RENAME TO gone").await.unwrap();
    let intent = a.oplog.intend().await;
    client.batch_execute("ALTER TABLE tidewire.gone RENAME TO intent").await.unwrap();
    while numbers(&client).await.is_empty() {
        pause().await;
    }
    drop(intent);
    let other = cluster::open(&config).await;
    a.oplog.stop().await;
    assert_eq!(numbers(&other).await, [0; 0]);
}

#[tokio::test]
async fn a_lock_on_the_table_holds_up_neither_commands_nor_polls() {
    let (config, client) = database().await;
    let a = Host::start(&config).await;
    let mut operator = cluster::open(&config).await;
    let lock = operator.transaction().await.unwrap();
    lock.batch_execute("LOCK TABLE tidewire.intent").await.unwrap();
    let intent = a.oplog.intend().await;
    assert!(a.oplog.intend().now_or_never().is_some(), "only the first waits for it");
    let before = a.oplog.status().counts.polls;
    // Long enough to look for dead hosts, which is done every second.
    a.until(|status| status.counts.polls > before + 60 || status.counts.failures > 0).await;
    assert_eq!(a.oplog.status().counts.failures, 0);
    lock.rollback().await.unwrap();
    while numbers(&client).await.is_empty() {
        pause().await;
    }
    drop(intent);
}

#[tokio::test]
async fn a_lock_on_the_table_when_commands_are_over_makes_nobody_dead() {
    let (config, client) = database().await;
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    let heard = Heard::by(&b.oplog);
    drop(a.oplog.intend().await);
    let mut operator = cluster::open(&config).await;
    let lock = operator.transaction().await.unwrap();
    lock.batch_execute("LOCK TABLE tidewire.intent").await.unwrap();
    let before = b.oplog.status().counts.polls;
    // Until it would have been removed, and missed.
    b.until(|status| status.counts.polls > before + 100 || status.counts.failures > 0).await;
    lock.rollback().await.unwrap();
    while !numbers(&client).await.is_empty() {
        pause().await;
    }
    b.poll().await;
    assert_eq!(heard.all(), [""; 0]);
}
