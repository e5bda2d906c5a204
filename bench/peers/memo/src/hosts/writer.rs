//! The host that writes, a process of its own: `memo WAY write RATE BOARD DATABASE`.
//!
//! It says when it is ready, writes from the first line of its input to the end of that, and says
//! how many writes failed.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use contacts::store::Tracked;
use contacts::store::postgres::Postgres;
use tidewire::memo::Graph;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::board::{Board, COUNT};
use super::database::{Notifying, connect, named};
use super::{BY_LOG, BY_NOTIFY, options, rename};
use crate::random::Random;

/// What stands for a case.
pub(crate) const WORD: &str = "write";
pub(super) const READY: &str = "ready";
/// Writes that may be under way at once.
const WRITERS: usize = 16;

/// How this host writes.
enum Host {
    /// Through the store, with the change log or without.
    Store(Tracked<Postgres>),
    /// By statements that notify, on as many connections as a store has.
    Notifying(Vec<Notifying>),
}

impl Host {
    async fn of(way: &str, database: &str) -> Result<Self> {
        let config = named(database)?;
        if way == BY_NOTIFY {
            let mut all = Vec::new();
            for _ in 0..options(false).connections {
                all.push(Notifying::open(&config).await?);
            }
            return Ok(Self::Notifying(all));
        }
        Ok(Self::Store(connect(&Graph::global(), &config, way == BY_LOG).await?))
    }

    async fn rename(&self, id: i64, name: String) -> Result<()> {
        match self {
            Self::Store(store) => rename(store, id, name).await,
            Self::Notifying(all) => all[id as usize % all.len()].rename(id, &name).await,
        }
    }
}

/// What the writers share.
struct Writers {
    host: Host,
    board: Board,
    is_over: AtomicBool,
    failed: AtomicU64,
    /// Between two writes of one writer.
    pause: Duration,
    begun: Instant,
}

pub(crate) async fn write(way: &str, rate: u32, board: &Path, database: &str) -> Result<()> {
    let board = Board::open(board)?;
    let host = Host::of(way, database).await?;
    println!("{READY}");
    if !word().await? {
        bail!("was ended before it wrote");
    }
    let writers = Arc::new(Writers {
        host,
        board,
        is_over: AtomicBool::new(false),
        failed: AtomicU64::new(0),
        pause: Duration::from_secs(1) * WRITERS as u32 / rate,
        begun: Instant::now(),
    });
    let mut tasks = JoinSet::new();
    for number in 0..WRITERS {
        tasks.spawn(one(Arc::clone(&writers), number));
    }
    while word().await? {}
    writers.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    println!("{}", writers.failed.load(Ordering::Relaxed));
    Ok(())
}

/// Whether there was a line of input, not its end.
async fn word() -> Result<bool> {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    Ok(read.await?.context("the word of the other host")? > 0)
}

/// One writer, which alone writes to its users; its writes are due one pause after the other,
/// whether or not the last one was quick.
async fn one(writers: Arc<Writers>, number: usize) {
    let mut random = Random::of(number as u64);
    let shift = writers.pause * number as u32 / WRITERS as u32;
    let mut due = tokio::time::interval_at(writers.begun + shift, writers.pause);
    let own = (COUNT - number).div_ceil(WRITERS);
    loop {
        due.tick().await;
        if writers.is_over.load(Ordering::Relaxed) {
            return;
        }
        let user = random.below(own) * WRITERS + number;
        let Some(version) = writers.board.ask(user) else { continue };
        let name = version * COUNT as u64 + user as u64;
        match writers.host.rename(user as i64 + 1, name.to_string()).await {
            Ok(()) => writers.board.acknowledge(user, version),
            Err(error) => {
                if writers.failed.fetch_add(1, Ordering::Relaxed) == 0 {
                    eprintln!("a write failed: {error:#}");
                }
            }
        }
    }
}
