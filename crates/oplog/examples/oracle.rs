//! Tries to read an old value, for as long as it is told to: several host processes on one
//! PostgreSQL, writers on each of them and past all of them, and faults.
//!
//! ```text
//! cargo run -p tidewire-oplog --example oracle -- --seconds 600 --hosts 3 --seed 1
//! ```
//!
//! Each cell of the table holds a number that writes increase by one, so that any two values of a
//! cell say which is older. What is checked of each read:
//!
//! | promise | a value is never below |
//! |---|---|
//! | 2 | that of the write whose token came along |
//! | 4 | what the same host gave before, to a request that had ended |
//! | 5 | what had been acknowledged a lease before the request began |
//! | at rest | what the table has, on each host, after a barrier |
//!
//! Faults: a host is killed or stopped for longer than its lease; a backend is ended; PostgreSQL
//! crashes; a transaction stays open. It prints one line a second and ends with 1 if anything was
//! violated.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program")]

#[path = "oracle/faults.rs"]
mod faults;
#[path = "oracle/history.rs"]
mod history;
#[path = "oracle/host.rs"]
mod host;
#[path = "oracle/process.rs"]
mod process;

#[path = "../../../examples/contacts/tests/it/cluster.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod cluster;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::Config;

use self::cluster::Cluster;
use self::history::{History, Random};
use self::process::{HostProcess, Reply};

const CELLS: u64 = 20;
const WORKERS: u64 = 12;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "host") {
        host::run(&arguments[1]).await;
        return ExitCode::SUCCESS;
    }
    let option = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(default, |at| arguments[at + 1].parse().unwrap())
    };
    let seconds = option("--seconds", 10);
    let hosts = option("--hosts", 3);
    let seed = option("--seed", u64::from(std::process::id()));
    println!("seed {seed}");
    run(Duration::from_secs(seconds), hosts, seed).await
}

async fn run(length: Duration, hosts: u64, seed: u64) -> ExitCode {
    let cluster = Arc::new(Cluster::start());
    let config = cluster.database().await;
    cluster::execute(
        &config,
        &format!(
            "CREATE TABLE cell (id bigint PRIMARY KEY, value bigint NOT NULL); \
             INSERT INTO cell SELECT id, 0 FROM generate_series(0, {}) AS id",
            CELLS - 1
        ),
    )
    .await;
    let hosts: Arc<[HostProcess]> =
        (0..hosts).map(|_| HostProcess::new(cluster::url(&config))).collect();
    for host in &*hosts {
        host.start().await;
    }
    let history = Arc::new(History::new(CELLS, hosts.len(), host::LEASE));
    let end = Instant::now() + length;
    let mut tasks = JoinSet::new();
    for worker in 0..WORKERS {
        let hosts = Arc::clone(&hosts);
        let history = Arc::clone(&history);
        tasks.spawn(work(Random(seed * 1000 + worker + 1), hosts, history, end));
    }
    tasks.spawn(write_past(Random(seed * 1000 + 500), config.clone(), Arc::clone(&history), end));
    let faults = faults::run(
        Random(seed * 1000 + 900),
        Arc::clone(&cluster),
        config.clone(),
        Arc::clone(&hosts),
        end,
    );
    tasks.spawn(faults);
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_secs(1)).await;
        println!("{history}");
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    at_rest(&config, &hosts, &history).await;
    println!("{history}");
    let violations = history.violations.load(SeqCst);
    if violations > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// One user: writes here, reads there, with the token or without.
async fn work(mut random: Random, hosts: Arc<[HostProcess]>, history: Arc<History>, end: Instant) {
    let mut last = None::<(u64, u64, String)>;
    while Instant::now() < end {
        let at = random.below(hosts.len() as u64) as usize;
        let cell = random.below(CELLS);
        if random.below(5) == 0 {
            if let Some(Reply { value, token }) = hosts[at].ask(&format!("write {cell}")).await {
                history.acknowledged(cell, value);
                last = Some((cell, value, token));
            }
            continue;
        }
        let with_token = last.take().filter(|_| random.below(2) == 0);
        let (cell, least, token) = with_token.unwrap_or((cell, 0, String::new()));
        let begun = history.begin(at, cell, least);
        let generation = hosts[at].generation();
        if let Some(reply) = hosts[at].ask(&format!("read {cell} {token}")).await {
            let same = generation == hosts[at].generation();
            history.check(&begun, reply.value, same);
        }
    }
}

/// Somebody with `psql`.
async fn write_past(mut random: Random, config: Config, history: Arc<History>, end: Instant) {
    let mut client = None;
    while Instant::now() < end {
        let Some(open) = &client else {
            client = connect(&config).await;
            continue;
        };
        let cell = i64::try_from(random.below(CELLS)).unwrap();
        let sql = "UPDATE cell SET value = value + 1 WHERE id = $1 RETURNING value";
        match open.query_one(sql, &[&cell]).await {
            Ok(row) => {
                history.acknowledged(cell.unsigned_abs(), row.get::<_, i64>(0).unsigned_abs())
            }
            Err(_) => client = None,
        }
        tokio::time::sleep(Duration::from_millis(random.below(20))).await;
    }
}

async fn connect(config: &Config) -> Option<tokio_postgres::Client> {
    match config.connect(tokio_postgres::NoTls).await {
        Ok((client, connection)) => {
            tokio::spawn(connection);
            Some(client)
        }
        Err(_) => {
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

/// Nobody writes any more: every host has what the table has.
async fn at_rest(config: &Config, hosts: &[HostProcess], history: &History) {
    let client = cluster::open(config).await;
    for cell in 0..CELLS {
        let id = i64::try_from(cell).unwrap();
        let row = client.query_one("SELECT value FROM cell WHERE id = $1", &[&id]).await.unwrap();
        let truth = row.get::<_, i64>(0).unsigned_abs();
        for host in hosts {
            // Garbage asks for a poll that begins now.
            let reply = loop {
                if let Some(reply) = host.ask(&format!("read {cell} ?")).await {
                    break reply;
                }
            };
            if reply.value != truth {
                history.violated(&format!(
                    "at rest: cell {cell} is {truth}, a host says {}",
                    reply.value
                ));
            }
        }
    }
}
