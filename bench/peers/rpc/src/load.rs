//! The load: calls under way all the time, each answer looked at, what they took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::answers::{GREETED, USERS};
use crate::latency::Latencies;

/// A client of one way; clones share a connection.
pub trait Caller: Clone + Send + Sync + 'static {
    /// Its calls may be too short to be timed one by one.
    const IS_LOCAL: bool = false;

    /// Gives the sum.
    fn sum(&self, a: i32, b: i32) -> impl Future<Output = Result<i64>> + Send {
        let _ = (a, b);
        async { bail!("no Sum") }
    }

    /// Gives the id of the user that it was given.
    fn user(&self, id: i64) -> impl Future<Output = Result<i64>> + Send {
        let _ = id;
        async { bail!("no GetUser") }
    }

    /// Gives the number of the greeting that it was given.
    fn hello(&self) -> impl Future<Output = Result<i32>> + Send {
        async { bail!("no SayHello") }
    }

    /// Calls `each` with the bytes of each item until it has enough.
    fn items(
        &self,
        count: u32,
        bytes: u32,
        each: impl FnMut(usize) -> bool + Send,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (count, bytes, each);
        async { bail!("no Items") }
    }

    fn burn(&self, micros: u32) -> impl Future<Output = Result<()>> + Send {
        let _ = micros;
        async { bail!("no Burn") }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    Sum,
    User,
    Hello,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// So many calls under way.
    Calls(Unary, usize),
    /// Streams of items of so many bytes.
    Stream(u32),
    /// One SayHello after the other, while somebody keeps the server's core with one method after
    /// the other.
    Beside,
    /// From a change to the fresh value two hops away.
    Hops,
}

/// What is asked for.
pub struct Plan {
    pub case: Case,
    pub length: Duration,
    pub warm_up: Duration,
    connections: usize,
}

/// Streams under way in all.
const STREAMS: usize = 10;
/// Bytes of a stream before the next is asked for, or so.
const STREAM_BYTES: u32 = 10_000_000;
const STREAM_ITEMS: u32 = 100_000;
const BURNED_MICROS: u32 = 5000;
/// Calls between two looks at the time, where they are too short for one each; and at other tasks.
const BATCH: u64 = 64;

impl Plan {
    pub fn of(words: &[&str]) -> Result<Self> {
        let [case, length, warm_up, connections] = words else {
            bail!("CASE SECONDS WARM_UP CONNECTIONS is missing")
        };
        let case = match *case {
            "sum-1" => Case::Calls(Unary::Sum, 1),
            "sum-1000" => Case::Calls(Unary::Sum, 1000),
            "user-1" => Case::Calls(Unary::User, 1),
            "user-1000" => Case::Calls(Unary::User, 1000),
            "hello-1" => Case::Calls(Unary::Hello, 1),
            "hello-1000" => Case::Calls(Unary::Hello, 1000),
            "stream-1" => Case::Stream(1),
            "stream-100" => Case::Stream(100),
            "stream-10k" => Case::Stream(10_000),
            "beside" => Case::Beside,
            "hops" => Case::Hops,
            other => bail!("no case {other:?}"),
        };
        let seconds = |word: &str| anyhow::Ok(Duration::from_secs_f64(word.parse()?));
        let connections = connections.parse().context("CONNECTIONS")?;
        Ok(Self { case, length: seconds(length)?, warm_up: seconds(warm_up)?, connections })
    }

    /// Measures clients that `connect` makes, each of which has its own connection.
    pub async fn measure<C: Caller, F: Future<Output = Result<C>>>(
        &self,
        connect: impl Fn() -> F,
    ) -> Result<serde_json::Value> {
        let mut callers = Vec::new();
        for _ in 0..self.connections {
            callers.push(connect().await?);
        }
        let window = Window::after(self.warm_up, self.length);
        let mut tasks = Vec::new();
        let caller = |task: usize| callers[task % callers.len()].clone();
        match self.case {
            Case::Calls(unary, under_way) => tasks.extend((0..under_way).map(|task| {
                tokio::spawn(calls(caller(task), unary, task as u64, Arc::clone(&window)))
            })),
            Case::Stream(bytes) => tasks.extend(
                (0..STREAMS).map(|task| tokio::spawn(items(caller(task), bytes, window.clone()))),
            ),
            Case::Beside => {
                tasks.push(tokio::spawn(burns(caller(0), window.clone())));
                tasks.push(tokio::spawn(calls(caller(0), Unary::Hello, 0, window.clone())));
            }
            Case::Hops => bail!("hops are measured with replicas"),
        }
        for task in tasks {
            task.await??;
        }
        window.counted()
    }
}

/// The time in which answers count, and what was counted.
pub struct Window {
    from: Instant,
    pub end: Instant,
    counted: AtomicU64,
    made: AtomicU64,
    latencies: Latencies,
}

impl Window {
    pub fn after(warm_up: Duration, length: Duration) -> Arc<Self> {
        let from = Instant::now() + warm_up;
        Arc::new(Self {
            from,
            end: from + length,
            counted: AtomicU64::new(0),
            made: AtomicU64::new(0),
            latencies: Latencies::new(),
        })
    }

    /// An answer came.
    pub fn answered(&self, began: Instant, now: Instant) {
        self.add(1, now);
        if self.has(now) {
            self.latencies.record(now - began);
        }
    }

    fn add(&self, count: u64, now: Instant) {
        self.made.fetch_add(count, Ordering::Relaxed);
        if self.has(now) {
            self.counted.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn has(&self, now: Instant) -> bool {
        (self.from..self.end).contains(&now)
    }

    pub fn counted(&self) -> Result<serde_json::Value> {
        Ok(serde_json::json!({
            "calls": self.counted.load(Ordering::Relaxed),
            "made": self.made.load(Ordering::Relaxed),
            "seconds": (self.end - self.from).as_secs_f64(),
            "cpu_seconds": cpu_seconds()?,
            "latency": self.latencies.summary(),
            "rss_bytes": resident_bytes()?,
        }))
    }
}

async fn calls<C: Caller>(caller: C, unary: Unary, first: u64, window: Arc<Window>) -> Result<()> {
    let (mut nth, mut began) = (first, Instant::now());
    while began < window.end {
        if C::IS_LOCAL {
            for _ in 0..BATCH {
                call(&caller, unary, nth).await?;
                nth += 1;
            }
            began = Instant::now();
            window.add(BATCH, began);
        } else {
            call(&caller, unary, nth).await?;
            nth += 1;
            let now = Instant::now();
            window.answered(began, now);
            began = now;
        }
        if nth % BATCH == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

async fn call(caller: &impl Caller, unary: Unary, nth: u64) -> Result<()> {
    let varied = (nth % USERS as u64) as i32;
    match unary {
        Unary::Sum => {
            let sum = caller.sum(varied, 7).await?;
            ensure!(sum == i64::from(varied) + 7, "{varied} + 7 is not {sum}");
        }
        Unary::User => {
            let id = caller.user(varied.into()).await?;
            ensure!(id == i64::from(varied), "asked for the user {varied}, given {id}");
        }
        Unary::Hello => {
            let greeted = caller.hello().await?;
            ensure!(greeted == GREETED, "greeted with {greeted}");
        }
    }
    Ok(())
}

async fn items(caller: impl Caller, bytes: u32, window: Arc<Window>) -> Result<()> {
    let count = (STREAM_BYTES / bytes).min(STREAM_ITEMS);
    while Instant::now() < window.end {
        let (mut seen, mut is_short, mut is_over) = (0_u64, false, false);
        let each = |length: usize| {
            is_short |= length != bytes as usize;
            seen += 1;
            if seen % BATCH == 0 {
                let now = Instant::now();
                window.add(BATCH, now);
                is_over = now >= window.end;
            }
            !is_over
        };
        caller.items(count, bytes, each).await?;
        ensure!(!is_short, "an item did not have {bytes} bytes");
        ensure!(is_over || seen == u64::from(count), "{seen} of {count} items came");
        window.add(seen % BATCH, Instant::now());
    }
    Ok(())
}

async fn burns(caller: impl Caller, window: Arc<Window>) -> Result<()> {
    while Instant::now() < window.end {
        caller.burn(BURNED_MICROS).await?;
    }
    Ok(())
}

/// Of this process since its start.
fn cpu_seconds() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        text.rsplit(')').next().context("/proc/self/stat")?.split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

pub fn resident_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    Ok(text.split(' ').nth(1).context("/proc/self/statm")?.parse::<u64>()? * 4096)
}
