//! What is done with a way of looking users up, and what is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use contacts::store::USERS;

use crate::random::Random;

/// Looks users up, and changes their names.
pub(crate) trait Way: Send + Sync + 'static {
    /// Calls `look` with the name of the user.
    fn get<R: Send>(
        &self,
        id: i64,
        look: impl FnOnce(&str) -> R + Send,
    ) -> impl Future<Output = Result<R>> + Send;

    fn rename(&self, id: i64, name: String) -> impl Future<Output = Result<()>> + Send;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// One reader, nothing changes.
    Alone,
    /// Twenty readers a core, and a user is renamed every 10 ms.
    Readers,
    /// The same with renames without a rest, and every read compared with what was acknowledged
    /// before.
    Checked,
}

impl Case {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "alone" => Some(Self::Alone),
            "readers" => Some(Self::Readers),
            "checked" => Some(Self::Checked),
            _ => None,
        }
    }
}

/// Reads between two looks at the time and at other tasks.
const BATCH: u64 = 64;
const READERS_A_CORE: usize = 20;
const REST: Duration = Duration::from_millis(10);

/// What readers and writer share.
struct Shared<W> {
    way: W,
    over: AtomicBool,
    /// By user, the number of the last rename that was acknowledged.
    acknowledged: Vec<AtomicU64>,
    stale: AtomicU64,
}

pub(crate) async fn measure(
    case: Case,
    length: Duration,
    way: impl Way,
) -> Result<serde_json::Value> {
    let shared = Arc::new(Shared {
        way,
        over: AtomicBool::new(false),
        acknowledged: (0..=USERS).map(|_| AtomicU64::new(0)).collect(),
        stale: AtomicU64::new(0),
    });
    for id in 1..=i64::from(USERS) {
        shared.way.rename(id, "0".to_owned()).await?;
        shared.way.get(id, |_| ()).await?;
    }
    let readers = match case {
        Case::Alone => 1,
        Case::Readers | Case::Checked => {
            READERS_A_CORE * std::thread::available_parallelism().map_or(1, Into::into)
        }
    };
    let (cpu, started) = (cpu_seconds()?, Instant::now());
    let reading: Vec<_> = (0..readers)
        .map(|seed| tokio::spawn(read(Arc::clone(&shared), seed as u64, case == Case::Checked)))
        .collect();
    let rest = match case {
        Case::Alone => None,
        Case::Readers => Some(REST),
        Case::Checked => Some(Duration::ZERO),
    };
    let writing = rest.map(|rest| tokio::spawn(write(Arc::clone(&shared), rest)));
    tokio::time::sleep(length).await;
    shared.over.store(true, Ordering::Relaxed);
    let mut reads = 0;
    for reader in reading {
        reads += reader.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let cpu = cpu_seconds()? - cpu;
    let writes = match writing {
        Some(writing) => Some(writing.await?? as f64 / seconds),
        None => None,
    };
    let stale = (case == Case::Checked).then(|| shared.stale.load(Ordering::Relaxed));
    Ok(serde_json::json!({
        "calls": reads, "seconds": seconds, "cpu_seconds": cpu, "writes_per_second": writes,
        "stale": stale, "rss_bytes": rss_bytes()?,
    }))
}

async fn read<W: Way>(shared: Arc<Shared<W>>, seed: u64, is_checked: bool) -> Result<u64> {
    let mut random = Random::of(seed);
    let mut reads = 0;
    while !shared.over.load(Ordering::Relaxed) {
        for _ in 0..BATCH {
            let id = random.below(USERS as usize) as i64 + 1;
            if is_checked {
                let least = shared.acknowledged[id as usize].load(Ordering::Acquire);
                let found = shared.way.get(id, |name| name.parse::<u64>()).await??;
                if found < least {
                    shared.stale.fetch_add(1, Ordering::Relaxed);
                }
            } else {
                let length = shared.way.get(id, str::len).await?;
                std::hint::black_box(length);
            }
        }
        reads += BATCH;
        tokio::task::yield_now().await;
    }
    Ok(reads)
}

async fn write<W: Way>(shared: Arc<Shared<W>>, rest: Duration) -> Result<u64> {
    let mut writes = 0;
    while !shared.over.load(Ordering::Relaxed) {
        writes += 1;
        let id = (writes * 7) % u64::from(USERS) + 1;
        shared.way.rename(id as i64, writes.to_string()).await?;
        shared.acknowledged[id as usize].store(writes, Ordering::Release);
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
        }
    }
    Ok(writes)
}

/// Of this process, user and system, in ticks of 10 ms.
pub(crate) fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        stat.rsplit(')').next().context("/proc/self/stat")?.split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

pub(crate) fn rss_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("VmRSS")?.parse::<u64>()? * 1024)
}
