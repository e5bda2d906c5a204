//! What a statement of the log costs the database, in processor time of its backend: the constants
//! of `simulation`.

use std::time::Duration;

use tidewire_memo::{Graph, Source};
use tidewire_oplog::{Oplog, Settings};
use tokio_postgres::{Client, Config};

use crate::cluster::{self, Cluster};
use crate::processor::Backends;
use crate::ways::Way;

const ROUNDS: usize = 3;
const LISTENERS: u32 = 40;
const LONG: Duration = Duration::from_hours(1);

/// Prints them, the median of three rounds each.
pub(crate) async fn print(cluster: &Cluster) {
    let config = Way::Uncaptured.database(cluster).await;
    let writer = cluster::open(&config).await;
    let uncaptured = median(async || writes(&writer).await).await;
    let poll = median(async || polls(&config, &Settings::default()).await).await;
    let mut quick = Settings::default();
    quick.poll = Duration::from_millis(1);
    let hurried = median(async || polls(&config, &quick).await).await;
    let mut checks = quick.clone();
    checks.check = Duration::ZERO;
    let check = median(async || polls(&config, &checks).await).await - hurried;
    let mut trims = quick.clone();
    trims.keep = Duration::from_millis(10);
    let trim = median(async || polls(&config, &trims).await).await - hurried;
    let row = median(async || rows(&config, poll).await).await;
    let write = median(async || writes(&writer).await).await;
    let notify = median(async || notifies(&config, 0).await.sender).await;
    let mut heard = Vec::new();
    for _ in 0..ROUNDS {
        heard.push(notifies(&config, LISTENERS).await);
    }
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let signal = middle(heard.iter().map(|round| round.sender).collect()) - notify;
    let hear = middle(heard.iter().map(|round| round.listener).collect());
    for (name, microseconds) in [
        ("poll", poll),
        ("row", row),
        ("notify", notify),
        ("signal", signal / f64::from(LISTENERS)),
        ("hear", hear),
        ("check", check),
        ("trim", trim),
        ("write", write),
        ("(poll, without pause)", hurried),
        ("(write, not captured)", uncaptured),
    ] {
        println!("{name}: {microseconds:.1} µs");
    }
}

async fn median(measure: impl AsyncFn() -> f64) -> f64 {
    let mut values = Vec::new();
    for _ in 0..ROUNDS {
        values.push(measure().await);
    }
    values.sort_by(f64::total_cmp);
    values[ROUNDS / 2]
}

async fn host(config: &Config, settings: Settings) -> (Graph, Oplog) {
    let graph = Graph::new();
    let source = Source::<i64>::new_in(&graph, "rows");
    let log = Oplog::postgres(config).settings(settings).capture("row", &source, ["id"]);
    (graph, log.start().await.unwrap())
}

/// For each poll of a host that follows the settings.
async fn polls(config: &Config, settings: &Settings) -> f64 {
    let mut settings = settings.clone();
    settings.wake = false;
    let (_graph, log) = host(config, settings).await;
    let backends = Backends::named(config, "tidewire oplog").await;
    let before = backends.used();
    let polls = log.status().counts.polls;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let used = backends.used() - before;
    let polls = log.status().counts.polls - polls;
    log.stop().await;
    used.as_secs_f64() * 1e6 / polls as f64
}

/// For each row that a poll finds.
async fn rows(config: &Config, poll: f64) -> f64 {
    const ROWS: u32 = 10_000;
    let mut settings = Settings::default();
    settings.poll = LONG;
    settings.lease = LONG;
    settings.token_wait = LONG;
    settings.wake = false;
    let (_graph, log) = host(config, settings).await;
    let backends = Backends::named(config, "tidewire oplog").await;
    let insert = format!(
        "INSERT INTO tidewire.log (source, keys) \
         SELECT 'rows', ARRAY[id::text] FROM generate_series(1, {ROWS}) AS id"
    );
    let mut used = Duration::ZERO;
    for _ in 0..5 {
        cluster::execute(config, &insert).await;
        let before = backends.used();
        log.barrier().await.unwrap();
        used += backends.used() - before;
    }
    log.stop().await;
    (used.as_secs_f64() * 1e6 / 5.0 - poll) / f64::from(ROWS)
}

/// For each write of one row.
async fn writes(client: &Client) -> f64 {
    let update = "UPDATE row SET value = value + 1 WHERE id = $1";
    let update = client.prepare(update).await.unwrap();
    let backend = Backends::of(client).await;
    let before = backend.used();
    for id in 0..4000_i64 {
        client.execute(&update, &[&id]).await.unwrap();
    }
    (backend.used() - before).as_secs_f64() * 1e6 / 4000.0
}

/// Microseconds for each notification.
struct Notified {
    sender: f64,
    listener: f64,
}

/// A `NOTIFY` every 5 ms, so that none is coalesced.
async fn notifies(config: &Config, listeners: u32) -> Notified {
    const TIMES: u32 = 300;
    let mut listening = Vec::new();
    let mut named = config.clone();
    named.application_name("listener");
    for _ in 0..listeners {
        let client = cluster::open(&named).await;
        client.batch_execute("LISTEN measured").await.unwrap();
        listening.push(client);
    }
    let client = cluster::open(config).await;
    client.batch_execute("SET synchronous_commit = off").await.unwrap();
    let sender = Backends::of(&client).await;
    let hearing = Backends::named(config, "listener").await;
    let sent = sender.used();
    let heard = hearing.used();
    for _ in 0..TIMES {
        client.batch_execute("NOTIFY measured").await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let each = |used: Duration, of: u32| used.as_secs_f64() * 1e6 / f64::from(TIMES * of.max(1));
    Notified {
        sender: each(sender.used() - sent, 1),
        listener: each(hearing.used() - heard, listeners),
    }
}
