//! What hosts cost and how fast they are back.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidewire_memo::{Graph, Memo, Source};
use tidewire_oplog::{Oplog, Settings};
use tokio_postgres::{Config, NoTls};

use crate::cluster::{self, Cluster};
use crate::processor::{self, Backends};
use crate::report::{Bar, Report, Section};
use crate::rounds::Length;
use crate::times::Spread;
use crate::ways::{ROWS, Way};

/// Keys of one batch; the table has more rows.
const KEYS: i64 = 50_000;
const KILLS: u32 = 20;

struct Host {
    _graph: Graph,
    memo: Memo<i64, ()>,
    log: Oplog,
}

impl Host {
    async fn start(config: &Config, settings: Settings) -> Self {
        let graph = Graph::new();
        let rows = Source::<i64>::new_in(&graph, "rows");
        let log = Oplog::postgres(config).settings(settings).capture("row", &rows, ["id"]);
        let memo = Memo::infallible_in(&graph, "row", move |id: i64| async move { rows.read(&id) });
        Self { memo, log: log.start().await.unwrap(), _graph: graph }
    }

    fn resets(&self) -> u64 {
        self.log.status().counts.resets.values().sum()
    }

    fn is_trusted(&self, polls: u64) -> bool {
        let status = self.log.status();
        !status.is_suspended && status.problem.is_none() && status.counts.polls > polls
    }
}

/// A large batch: from the request for a poll until every key is marked.
pub(crate) async fn apply(cluster: &Cluster, length: Length, report: &mut Report) {
    let config = Way::Uncaptured.database(cluster).await;
    let mut settings = Settings::default();
    let hour = Duration::from_hours(1);
    (settings.poll, settings.lease, settings.token_wait) = (hour, hour, hour);
    settings.wake = false;
    let host = Host::start(&config, settings).await;
    let client = cluster::open(&config).await;
    let single = format!(
        "DO $$ BEGIN FOR at IN 0..{} LOOP UPDATE row SET value = value + 1 WHERE id = at; END LOOP; END $$",
        KEYS - 1
    );
    let many = format!(
        "DO $$ BEGIN FOR at IN 0..{} LOOP \
         UPDATE row SET value = value + 1 WHERE id >= at * 1000 AND id < (at + 1) * 1000; END LOOP; END $$",
        KEYS / 1000 - 1
    );
    let mut rows = Vec::new();
    for (name, write) in [("a statement for each key", single), ("1,000 keys a statement", many)] {
        let mut rates = Vec::new();
        for _ in 0..length.rounds {
            for id in 0..KEYS {
                host.memo.get(id).await.unwrap();
            }
            let keys = host.log.status().counts.keys;
            client.batch_execute(&write).await.unwrap();
            let begun = Instant::now();
            host.log.barrier().await.unwrap();
            rates.push(KEYS as f64 / begun.elapsed().as_secs_f64());
            assert_eq!(host.log.status().counts.keys - keys, KEYS.unsigned_abs());
            assert!(host.memo.cached(&0).is_none() && host.memo.cached(&(KEYS - 1)).is_none());
        }
        let rate = Spread::of(rates);
        let what = format!("apply, {name}");
        report.bar(&what, Bar::AtLeast(50_000.0, "keys/s"), rate.median, &format!("{rate} keys/s"));
        rows.push(format!("{name} | {rate}"));
    }
    report.section(Section {
        title: "Applying a batch".to_owned(),
        text: format!("One transaction changes {KEYS} rows, each of which a memo of the host depends on. From the request for a poll until all are stale."),
        head: "transaction | keys/s",
        rows,
    });
    host.log.stop().await;
}

/// One host to which nothing happens.
pub(crate) async fn idle(cluster: &Cluster, length: Length, report: &mut Report) {
    let config = Way::Uncaptured.database(cluster).await;
    let mut own = Vec::new();
    let mut backend = Vec::new();
    let host = Host::start(&config, Settings::default()).await;
    let backends = Backends::named(&config, "tidewire oplog").await;
    for _ in 0..length.rounds {
        let begun = Instant::now();
        let here = processor::own();
        let there = backends.used();
        // Long enough for a check of the triggers.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let percent = |used: Duration| used.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
        own.push(percent(processor::own() - here));
        backend.push(percent(backends.used() - there));
    }
    host.log.stop().await;
    for (side, used) in [("host", own), ("PostgreSQL", backend)] {
        let used = Spread::of(used);
        let what = format!("idle, {side}");
        report.bar(&what, Bar::AtMost(2.0, "% of a core"), used.median, &format!("{used} %"));
    }
}

/// A host that says when its memory may be trusted, and waits to be killed.
pub(crate) async fn be_one(url: &str) {
    let config: Config = url.parse().unwrap();
    let begun = Instant::now();
    let (client, connection) = config.connect(NoTls).await.unwrap();
    let connected = begun.elapsed();
    drop((client, connection));
    let begun = Instant::now();
    let host = Host::start(&config, Settings::default()).await;
    assert!(host.log.check_lease());
    println!("{} {}", connected.as_micros(), begun.elapsed().as_micros());
    std::io::stdout().flush().unwrap();
    std::future::pending::<()>().await;
}

/// A host is killed, and started again beside another.
pub(crate) async fn killed(cluster: &Cluster, report: &mut Report) {
    let config = Way::Uncaptured.database(cluster).await;
    let other = Host::start(&config, Settings::default()).await;
    let mut from_start = Vec::new();
    let mut connecting = Vec::new();
    let mut from_process = Vec::new();
    for _ in 0..KILLS {
        let url = cluster::url(&config);
        let told = tokio::task::spawn_blocking(move || start_and_kill(&url)).await.unwrap();
        connecting.push(told[0]);
        from_start.push(told[1]);
        from_process.push(told[2]);
    }
    other.log.stop().await;
    let from_start = Spread::of(from_start);
    let connecting = Spread::of(connecting);
    report.bar(
        "host killed and started again → trusted, from before it connects",
        Bar::AtMost(200.0, "ms"),
        from_start.median,
        &format!("{from_start} ms"),
    );
    report.section(Section {
        title: "A host that was killed".to_owned(),
        text: format!("Killed with -9 and started again {KILLS} times, beside another host. A median, the least and the most, in ms."),
        head: "from | ms",
        rows: vec![
            format!("opening one connection, for comparison | {connecting}"),
            format!("before it connects, until trusted | {from_start}"),
            format!("start of the process, until trusted | {}", Spread::of(from_process)),
        ],
    });
}

/// Milliseconds: to connect, to be trusted, and from the start of the process.
fn start_and_kill(url: &str) -> Vec<f64> {
    let begun = Instant::now();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["host", url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    let process = begun.elapsed().as_secs_f64() * 1000.0;
    child.kill().unwrap();
    child.wait().unwrap();
    let told = line.split_whitespace().map(|word| word.parse::<f64>().unwrap() / 1000.0);
    told.chain([process]).collect()
}

/// PostgreSQL goes and comes back, twice in a round.
pub(crate) async fn restarts(cluster: &Cluster, length: Length, report: &mut Report) {
    let config = Way::Uncaptured.database(cluster).await;
    let hosts = [
        Host::start(&config, Settings::default()).await,
        Host::start(&config, Settings::default()).await,
    ];
    for (name, resets_wanted) in [("clean restart", 0.0), ("crash", 1.0)] {
        let mut times = Vec::new();
        let mut resets = Vec::new();
        for _ in 0..length.rounds {
            let before: Vec<u64> = hosts.iter().map(Host::resets).collect();
            match name {
                "crash" => cluster.crash(),
                _ => cluster.shut_down(),
            }
            let polls: Vec<u64> = hosts.iter().map(|host| host.log.status().counts.polls).collect();
            let of_probe = config.clone();
            let probe = tokio::spawn(async move {
                while of_probe.connect(NoTls).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Instant::now()
            });
            tokio::task::block_in_place(|| cluster.resume());
            let back = probe.await.unwrap();
            while !hosts.iter().zip(&polls).all(|(host, polls)| host.is_trusted(*polls)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            times.push(back.elapsed().as_secs_f64() * 1000.0);
            let counts = hosts.iter().zip(&before).map(|(host, before)| host.resets() - before);
            resets.extend(counts.map(|count| count as f64));
        }
        let times = Spread::of(times);
        let resets = Spread::of(resets);
        let what = format!("PostgreSQL, {name}: resets of a host");
        let is_as_wanted = resets.least == resets_wanted && resets.most == resets_wanted;
        let shown =
            format!("{} to {} of 2 hosts, {} times", resets.least, resets.most, length.rounds);
        report.bar_text(&what, &resets_wanted.to_string(), is_as_wanted, &shown);
        let what = format!("PostgreSQL, {name}: both hosts trusted after it answers again");
        report.bar(&what, Bar::AtMost(1000.0, "ms"), times.median, &format!("{times} ms"));
    }
    for host in hosts {
        host.log.stop().await;
    }
    assert!(usize::try_from(KEYS).unwrap() <= ROWS);
}
