//! Two hosts, each a process of its own, on one PostgreSQL: the other writes, and this one reads
//! what it keeps.
//!
//! ```text
//! this process: readers ── look-up ──▶ what is kept ── when there is nothing ──▶ PostgreSQL
//!                  ▲ is it as new as it has to be?                                  ▲
//!               board: version and time of each acknowledged write ◀── writers ─────┘ other process
//! ```
//!
//! Every read is compared with what had been acknowledged before it began, whichever process it was
//! acknowledged to; what fails, and what is not a name that was written, is no answer. Readers keep
//! half of the cores busy and leave the rest to the other host and to PostgreSQL.

mod board;
mod database;
mod reading;
mod writer;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use contacts::store::{Store, postgres};
use tidewire::memo::Graph;

use crate::cases::{Way, cpu_seconds, rss_bytes};
use crate::ways::{Aside, Moka, Straight, TwoHosts};
use board::{Board, clock};
use database::{SharedDatabase, connect, listen};
use reading::{Phase, Readers};
pub(crate) use writer::write;

/// The way of a host that forgets what `NOTIFY` names.
const BY_NOTIFY: &str = "moka-notify";
/// The way of a host that goes by the change log.
const BY_LOG: &str = "two-hosts";
const TTL: Duration = Duration::from_secs(1);
/// Reading and writing before anything is counted: what expires is then spread over time.
const WARM: Duration = Duration::from_secs(1);
/// Reading after the last write: what was stale then is seen to its end.
const SETTLE: Duration = Duration::from_millis(1_500);

/// The writes a second of a case for two hosts: `hosts-100`.
pub(crate) fn rate(case: &str) -> Option<u32> {
    case.strip_prefix("hosts-")?.parse().ok().filter(|rate| *rate > 0)
}

/// Half of the cores, and at least one.
pub(crate) fn reading_threads() -> usize {
    (std::thread::available_parallelism().map_or(1, Into::into) / 2).max(1)
}

/// What is measured.
struct Plan<'a> {
    way: &'a str,
    rate: u32,
    length: Duration,
    database: &'a SharedDatabase,
}

/// Measures a way in a database that is there for that alone.
pub(crate) async fn run(way: &str, rate: u32, length: Duration) -> Result<serde_json::Value> {
    let database = SharedDatabase::make().await?;
    let counted = reads(Plan { way, rate, length, database: &database }).await?;
    // What was counted until PostgreSQL went away is told all the same.
    if let Err(error) = database.remove().await {
        eprintln!("the database stays: {error:#}");
    }
    Ok(counted)
}

async fn reads(plan: Plan<'_>) -> Result<serde_json::Value> {
    let config = &plan.database.config;
    if plan.way == BY_LOG {
        let graph = Graph::new();
        let store = Arc::new(connect(&graph, config, true).await?);
        let log = store.log().context("the change log is off")?;
        let way = TwoHosts::new(Arc::clone(&store), store, &graph, log, false);
        return measure(plan, way).await;
    }
    let store = Arc::new(connect(&Graph::new(), config, false).await?);
    match plan.way {
        "straight" => measure(plan, Straight(store)).await,
        "moka-ttl" => measure(plan, Aside::new(store, Moka::with_ttl(TTL))).await,
        BY_NOTIFY => {
            let cache = Moka::new();
            let _listening = listen(config, cache.clone()).await?;
            measure(plan, Aside::new(store, cache)).await
        }
        other => bail!("no way {other:?} for two hosts"),
    }
}

async fn measure(plan: Plan<'_>, way: impl Way) -> Result<serde_json::Value> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("board");
    let all = WARM + plan.length + SETTLE;
    let board = Board::make(&path, f64::from(plan.rate) * all.as_secs_f64())?;
    plan.database.number_all().await?;
    let mut other = OtherHost::start(&plan, &path)?;
    let readers = Readers::start(way, board).await?;
    other.go()?;
    tokio::time::sleep(WARM).await;
    readers.enter(Phase::Counted);
    let (cpu, begun) = (cpu_seconds()?, clock());
    tokio::time::sleep(plan.length).await;
    let (cpu, ended) = (cpu_seconds()? - cpu, clock());
    let rss_bytes = rss_bytes()?;
    readers.enter(Phase::Settling);
    let failed_writes = tokio::task::spawn_blocking(move || other.end()).await??;
    tokio::time::sleep(SETTLE).await;
    let counts = readers.end(begun..ended).await?;
    let seconds = (ended - begun) as f64 / 1e9;
    if counts.writes == 0 {
        bail!("the other host wrote nothing ({failed_writes} writes failed)");
    }
    Ok(serde_json::json!({
        "calls": counts.reads.answered, "seconds": seconds, "cpu_seconds": cpu,
        "writes_per_second": counts.writes as f64 / seconds,
        "stale": counts.reads.stale, "stale_late": counts.reads.late,
        "stale_for": { "p50": counts.stale_p50, "p99": counts.stale_p99 },
        "wrong": counts.reads.wrong, "failed": counts.reads.failed + failed_writes,
        "rss_bytes": rss_bytes,
    }))
}

/// The process that writes; it ends when this one does.
struct OtherHost {
    process: Child,
    said: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl OtherHost {
    /// Starts it and waits until it could write. Blocks.
    fn start(plan: &Plan<'_>, board: &Path) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([plan.way, writer::WORD, &plan.rate.to_string()])
            .arg(board)
            .arg(&plan.database.name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the other host did not start")?;
        let out = process.stdout.take().context("the other host has no output")?;
        let said = std::io::BufRead::lines(std::io::BufReader::new(out));
        let mut host = Self { process, said };
        match host.line()?.as_str() {
            writer::READY => Ok(host),
            other => bail!("the other host said {other:?}"),
        }
    }

    fn line(&mut self) -> Result<String> {
        self.said.next().context("the other host ended")?.context("the other host is not heard")
    }

    fn go(&mut self) -> Result<()> {
        use std::io::Write as _;
        let word = self.process.stdin.as_mut().context("the other host has no input")?;
        word.write_all(b"\n").context("the other host takes no word")
    }

    /// Lets it finish; how many of its writes failed. Blocks.
    fn end(mut self) -> Result<u64> {
        drop(self.process.stdin.take());
        let failed = self.line()?.parse().context("the other host did not count")?;
        let status = self.process.wait()?;
        if !status.success() {
            bail!("the other host ended with {status}");
        }
        Ok(failed)
    }
}

impl Drop for OtherHost {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Renames a user of a store.
async fn rename(store: &impl Store, id: i64, name: String) -> Result<()> {
    let change =
        contacts::proto::users::v1::UpdateRequest { id, name: Some(name), ..Default::default() };
    store.update_user(change).await?.context("a user is missing")?;
    Ok(())
}

/// Bounds of the store of a host: as everybody has them, with the change log or without.
fn options(has_log: bool) -> postgres::Options {
    let mut options = postgres::Options::default();
    options.log = options.log.filter(|_| has_log);
    options
}
