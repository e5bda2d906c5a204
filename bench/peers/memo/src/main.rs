//! Looks users up as a service does, through what keeps answers: `memo WAY CASE SECONDS`. Prints
//! one line of JSON with what it counted.
//!
//! Every way but the first two is used as its users use it: look in the cache, else ask the
//! database and keep the answer; after a write, remove what was kept. `DATABASE` is a PostgreSQL,
//! without which the database is SQLite in its own folder. Cases for two hosts, `hosts-RATE`, start
//! the host that writes as a process beside this one.

mod cases;
mod hosts;
mod random;
mod ways;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use contacts::Database;
use contacts::store::{Store, Tracked, postgres, sqlite};
use tidewire::memo::Graph;
use tokio::runtime::Runtime;

use cases::{Case, measure};
use ways::{Aside, Memoized, Moka, Papaya, QuickCache, Redis, RwLockMap, Straight, TwoHosts};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (way, case, seconds) = match words[..] {
        [way, "write", rate, board, database] => {
            let written = hosts::write(way, rate.parse()?, board.as_ref(), database);
            return threads(1)?.block_on(written);
        }
        [way, case, seconds] => (way, case, seconds),
        _ => bail!("usage: memo WAY CASE SECONDS"),
    };
    let length = Duration::from_secs_f64(seconds.parse()?);
    if let Some(rate) = hosts::rate(case) {
        let counted = threads(hosts::reading_threads())?.block_on(hosts::run(way, rate, length))?;
        println!("{counted}");
        return Ok(());
    }
    let case = Case::named(case).with_context(|| format!("no case {case:?}"))?;
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let folder = tempfile::tempdir()?;
        let graph = Graph::global();
        match std::env::var("DATABASE").ok().filter(|url| !url.is_empty()) {
            None => {
                let path = folder.path().join("users.sqlite");
                sqlite::fill::fill(&path, 0, |_| ())?;
                let store = Tracked::open(&graph, &path, &sqlite::Options::default())?;
                run(way, case, length, store).await
            }
            Some(url) => {
                let database = Database::chosen(Some(&url), |_| None, "unused".into())?;
                let Database::Postgres(config) = database else {
                    bail!("DATABASE is not PostgreSQL")
                };
                // Nobody advances the graph, so what is kept does not expire: as with
                // `memo.single_writer`.
                let store = postgres::Options::default();
                let writer = Tracked::connect(&graph, &config, &store).await?;
                let has_tokens = match way {
                    "two-hosts" => false,
                    "two-hosts-tokens" => true,
                    _ => return run(way, case, length, writer).await,
                };
                let there = Graph::new();
                let reader = Tracked::connect(&there, &config, &store).await?;
                let log = reader.log().context("the change log is off")?;
                let hosts =
                    TwoHosts::new(Arc::new(writer), Arc::new(reader), &there, log, has_tokens);
                println!("{}", measure(case, length, hosts).await?);
                Ok(())
            }
        }
    })
}

fn threads(count: usize) -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(count).enable_all().build()?)
}

async fn run(way: &str, case: Case, length: Duration, store: impl Store) -> Result<()> {
    let store = Arc::new(store);
    let counted = match way {
        "memoized" => measure(case, length, Memoized::new(store)).await?,
        "straight" => measure(case, length, Straight(store)).await?,
        "moka" => measure(case, length, Aside::new(store, Moka::new())).await?,
        "quick_cache" => measure(case, length, Aside::new(store, QuickCache::new())).await?,
        "papaya" => measure(case, length, Aside::new(store, Papaya::default())).await?,
        "rwlock" => measure(case, length, Aside::new(store, RwLockMap::default())).await?,
        "redis" => measure(case, length, Redis::connect(store).await?).await?,
        other => bail!("no way {other:?}"),
    };
    println!("{counted}");
    Ok(())
}
