//! How long after a commit is acknowledged its dependants are stale on another host, and what
//! capture costs a writer.
//!
//! ```text
//! cargo run --release -p tidewire-oplog --example latency -- 2000
//! ```
//!
//! Two hosts in one process, and a new PostgreSQL with `fsync = off`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

#[path = "../../../examples/contacts/tests/it/cluster.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod cluster;

use std::time::{Duration, Instant};

use tidewire_memo::{Graph, Memo, Source};
use tidewire_oplog::{Oplog, Settings};
use tokio_postgres::{Client, Config};

#[tokio::main]
async fn main() {
    let turns = std::env::args().nth(1).map_or(1000, |turns| turns.parse().unwrap());
    let config = cluster::database().await;
    let client = cluster::open(&config).await;
    let make = "CREATE TABLE row (id integer PRIMARY KEY, value integer NOT NULL); \
                INSERT INTO row SELECT id, 0 FROM generate_series(0, 999) AS id";
    client.batch_execute(make).await.unwrap();
    println!("writes a second, one writer, not captured: {:.0}", rate(&client, turns).await);
    let host = |graph: &Graph| {
        let rows = Source::<i32>::new_in(graph, "rows");
        (rows, Oplog::postgres(&config).capture("row", &rows, ["id"]))
    };
    let here = Graph::new();
    let there = Graph::new();
    let (written, a) = host(&here);
    let (rows, b) = host(&there);
    let a = a.start().await.unwrap();
    let _b = b.start().await.unwrap();
    let memo = Memo::infallible_in(&there, "row", move |id: i32| async move { rows.read(&id) });

    let mut woken = Vec::new();
    let mut past = Vec::new();
    for turn in 0..turns {
        memo.get(1).await.unwrap();
        let guard = written.write(&1);
        let sql = "UPDATE row SET value = value + 1 WHERE id = 1 RETURNING tidewire.mark()";
        let row = client.query_one(sql, &[]).await.unwrap();
        let acknowledged = Instant::now();
        a.wrote(guard, row.get(0));
        woken.push(until_stale(&memo, acknowledged).await);
        if turn % 4 == 0 {
            memo.get(1).await.unwrap();
            client.batch_execute("UPDATE row SET value = value + 1 WHERE id = 1").await.unwrap();
            past.push(until_stale(&memo, Instant::now()).await);
        }
    }
    println!("ack to stale elsewhere, woken: {}", percentiles(woken));
    println!("ack to stale elsewhere, as psql writes: {}", percentiles(past));
    println!("writes a second, one writer, captured: {:.0}", rate(&client, turns).await);
    idle(&config).await;
}

async fn rate(client: &Client, turns: u32) -> f64 {
    let update = client.prepare("UPDATE row SET value = value + 1 WHERE id = $1").await.unwrap();
    let begun = Instant::now();
    for turn in 0..turns {
        let id = i32::try_from(turn % 1000).unwrap();
        client.execute(&update, &[&id]).await.unwrap();
    }
    f64::from(turns) / begun.elapsed().as_secs_f64()
}

async fn until_stale(memo: &Memo<i32, ()>, since: Instant) -> Duration {
    while memo.cached(&1).is_some() {
        tokio::task::yield_now().await;
    }
    since.elapsed()
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    format!("p50 {:.2} ms, p99 {:.2} ms, of {}", at(50), at(99), times.len())
}

/// What a host costs that nothing happens to: its own processor time.
async fn idle(config: &Config) {
    let graph = Graph::new();
    let rows = Source::<i32>::new_in(&graph, "idle");
    let log = Oplog::postgres(config).settings(Settings::default()).capture("row", &rows, ["id"]);
    let log = log.start().await.unwrap();
    let processor = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let before = processor();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = processor();
    let nanoseconds =
        (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
    println!("three idle hosts: {:.2} % of a core", nanoseconds as f64 / 5e9 * 100.0);
    log.stop().await;
}
