//! Hammers a graph from four threads and checks guarantee 1 with an oracle.
//!
//! `cargo run --release -p tidewire-memo --example stress -- --seconds 60 --seed 7`
//!
//! Sources hold counters. Writers raise a counter, announce the change, and then raise the counter's
//! *floor*. A reader notes all floors, asks a memo, and every counter in the answer must be at least
//! its floor. Three layers of memos (with early cutoff, late declarations, ranges, scoped tasks,
//! `join!`), dropped futures, panics, evictions, forced ghosts, byte budgets, expiry, explicit
//! invalidations and self-changing computations happen all at once; the walk chunk is varied from 1 with
//! yields between chunks. At the end everything is compared for equality, and every watch must have
//! delivered the final value. The last line is `violations N`; the exit code is 1 unless N is 0.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used)]

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::Poll;
use std::time::{Duration, Instant};

use tidewire_memo::{Error, Graph, Memo, Source, batch, scope};
use tokio::sync::Mutex;
use tokio::task::yield_now;

const SOURCES: usize = 64;
const THREADS: usize = 4;
const READERS: u64 = 24;
const WRITERS: u64 = 3;

/// What a memo answers: (source, its counter, bits that early cutoff dropped).
type Seen = Arc<Vec<(usize, u64, u64)>>;

struct World {
    graph: Graph,
    rows: Source<u64>,
    values: [AtomicU64; SOURCES],
    floors: [AtomicU64; SOURCES],
    locks: [Mutex<()>; SOURCES],
    stop: AtomicBool,
    count: Counts,
}

#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    computes: AtomicU64,
    dropped: AtomicU64,
    panics: AtomicU64,
    evictions: AtomicU64,
    writes: AtomicU64,
    early: AtomicU64,
    watched: AtomicU64,
    violations: AtomicU64,
}

#[derive(Clone, Copy)]
struct Memos {
    leaf: Memo<u64, Seen>,
    late: Memo<u64, Seen>,
    cut: Memo<u64, Seen>,
    page: Memo<u64, Seen>,
    mid: Memo<u64, Seen>,
    pair: Memo<u64, Seen>,
    top: Memo<u64, Seen>,
}

fn main() {
    let seconds = argument("--seconds", 10);
    let seed = argument("--seed", 1);
    SEED.store(seed, Relaxed);
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        if !text.contains("injected") {
            eprintln!("{text}");
            std::process::abort();
        }
    }));
    println!("seed {seed}, {seconds} s, {THREADS} threads");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .unwrap();
    let violations = runtime.block_on(run(Duration::from_secs(seconds)));
    println!("violations {violations}");
    std::process::exit(i32::from(violations > 0));
}

async fn run(length: Duration) -> u64 {
    let graph = Graph::new();
    let world: &'static World = Box::leak(Box::new(World {
        rows: Source::new_in(&graph, "rows"),
        graph,
        values: [const { AtomicU64::new(0) }; SOURCES],
        floors: [const { AtomicU64::new(0) }; SOURCES],
        locks: [const { Mutex::const_new(()) }; SOURCES],
        stop: AtomicBool::new(false),
        count: Counts::default(),
    }));
    let memos = memos(world);
    let mut tasks = Vec::new();
    tasks.extend((0..WRITERS).map(|_| tokio::spawn(write(world, memos))));
    tasks.extend((0..READERS).map(|_| tokio::spawn(read(world, memos))));
    tasks.push(tokio::spawn(disturb(world, memos)));
    tasks.push(tokio::spawn(tighten(world)));
    let latest: Vec<_> = (0..8).map(|_| Arc::new(std::sync::Mutex::new(None))).collect();
    let watchers: Vec<_> = (0..8)
        .map(|key| tokio::spawn(watch(world, memos.top, key, latest[key as usize].clone())))
        .collect();
    tokio::time::sleep(length).await;
    world.stop.store(true, SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    world.graph.set_budget(256 << 20);
    let stale = settle(world, memos).await + unseen(world, &latest).await;
    watchers.iter().for_each(tokio::task::JoinHandle::abort);
    report(world, stale);
    world.count.violations.load(SeqCst) + stale
}

fn memos(world: &'static World) -> Memos {
    let (graph, rows) = (&world.graph, world.rows);
    let leaf = Memo::infallible_in(graph, "leaf", move |key: u64| async move {
        world.count.computes.fetch_add(1, Relaxed);
        rows.read(&key);
        pause(3).await;
        let value = world.values[key as usize].load(SeqCst);
        pause(3).await;
        if one_in(997) {
            world.count.panics.fetch_add(1, Relaxed);
            panic!("injected");
        }
        if one_in(5003) {
            rows.changed(&key);
        }
        Arc::new(vec![(key as usize, value, 0)])
    })
    .ttl(Duration::from_millis(3));
    // Loads first and declares afterwards: publish must compare with the start of the attempt.
    let late = Memo::infallible_in(graph, "late", move |key: u64| async move {
        let value = world.values[key as usize].load(SeqCst);
        pause(3).await;
        rows.read(&key);
        Arc::new(vec![(key as usize, value, 0)])
    });
    // Drops four bits, so that most changes end here.
    let cut = Memo::new_in(graph, "cut", move |key: u64| async move {
        let seen = leaf.get(key).await?;
        Ok::<_, Error>(Arc::new(seen.iter().map(|s| (s.0, s.1 & !15, 15)).collect::<Vec<_>>()))
    })
    .fingerprint(|seen: &Seen| {
        seen.iter().fold(7, |hash, s| (hash ^ s.1).wrapping_mul(0x100_0193))
    });
    let page = page_memo(world);
    let mid = Memo::new_in(graph, "mid", move |key: u64| async move {
        let mut seen = Vec::new();
        for i in 0..8 {
            let source = (key * 8 + i) % SOURCES as u64;
            let part = match i % 4 {
                0 => late.get(source).await,
                1 => cut.get(source).await,
                2 => page.get(source / 8).await,
                _ => leaf.get(source).await,
            };
            seen.extend(part?.iter().copied());
            pause(9).await;
        }
        Ok::<_, Error>(Arc::new(seen))
    })
    .error_ttl(Duration::from_millis(1));
    let pair = Memo::new_in(graph, "pair", move |key: u64| async move {
        let (a, b) = tokio::join!(mid.get(key % 8), mid.get((key + 3) % 8));
        let mut seen = (**a?).clone();
        seen.extend(b?.iter().copied());
        Ok::<_, Error>(Arc::new(seen))
    });
    let top = Memo::new_in(graph, "top", move |key: u64| async move {
        let mut seen = (**pair.get(key % 8).await?).clone();
        seen.extend(mid.get((key + 1) % 8).await?.iter().copied());
        seen.extend(cut.get(key).await?.iter().copied());
        Ok::<_, Error>(Arc::new(seen))
    });
    Memos { leaf, late, cut, page, mid, pair, top }
}

/// Reads an interval and no single key; in a scoped task now and then.
fn page_memo(world: &'static World) -> Memo<u64, Seen> {
    let rows = world.rows;
    Memo::infallible_in(&world.graph, "page", move |page: u64| async move {
        let keys = page * 8..page * 8 + 8;
        let load = move |key: u64| (key as usize, world.values[key as usize].load(SeqCst), 0);
        if one_in(4) {
            let task = tokio::spawn(scope(async move {
                rows.range(keys.clone());
                pause(3).await;
                keys.map(load).collect::<Vec<_>>()
            }));
            return Arc::new(task.await.expect("nothing panics in there"));
        }
        let early = one_in(2);
        if early {
            rows.range(keys.clone());
        }
        let seen = keys.clone().map(load).collect::<Vec<_>>();
        pause(3).await;
        if !early {
            rows.range(keys);
        }
        Arc::new(seen)
    })
}

async fn write(world: &'static World, memos: Memos) {
    while !world.stop.load(Relaxed) {
        let i = random() as usize % SOURCES;
        if one_in(8) {
            let j = (i + 1 + random() as usize % (SOURCES - 1)) % SOURCES;
            let (a, b) = (i.min(j), i.max(j));
            let _first = world.locks[a].lock().await;
            let _second = world.locks[b].lock().await;
            let (va, vb) = (raise(world, a), raise(world, b));
            batch(|batch| {
                batch.changed(&world.rows, &(a as u64));
                batch.changed(&world.rows, &(b as u64));
            });
            world.floors[a].store(va, SeqCst);
            world.floors[b].store(vb, SeqCst);
        } else {
            let _lock = world.locks[i].lock().await;
            let key = i as u64;
            match random() % 8 {
                0 => {
                    // What bypasses the source must be invalidated wherever it is read.
                    let value = raise(world, i);
                    memos.leaf.invalidate(&key);
                    memos.late.invalidate(&key);
                    memos.page.invalidate(&(key / 8));
                    world.floors[i].store(value, SeqCst);
                }
                1 => {
                    let guard = world.rows.write(&key);
                    let value = raise(world, i);
                    pause(2).await;
                    guard.finish();
                    world.floors[i].store(value, SeqCst);
                }
                2 => {
                    let value = raise(world, i);
                    world.rows.changed_async(&key).await;
                    world.floors[i].store(value, SeqCst);
                }
                3 => {
                    // A change that is dropped half way is finished by the drop.
                    let value = raise(world, i);
                    poll_some(world.rows.changed_async(&key), 1 + random() % 3).await;
                    world.rows.changed(&key);
                    world.floors[i].store(value, SeqCst);
                }
                _ => {
                    let value = raise(world, i);
                    world.rows.changed(&key);
                    world.floors[i].store(value, SeqCst);
                }
            }
        }
        for _ in 0..random() % 6 {
            yield_now().await;
        }
    }
}

/// Ends the program when a call waits although a million others were begun since, or nothing happens at all.
/// How long that takes is the machine's business.
async fn unless_wedged<T>(world: &World, call: &str, answer: impl Future<Output = T>) -> T {
    let mut answer = std::pin::pin!(answer);
    let first = world.graph.stats().started;
    let mut last = None;
    loop {
        if let Ok(answer) = tokio::time::timeout(Duration::from_secs(60), &mut answer).await {
            return answer;
        }
        let started = world.graph.stats().started;
        if last == Some(started) || started > first + 1_000_000 {
            println!("wedged: {call} {:?}", world.graph.stats());
            std::process::exit(3);
        }
        last = Some(started);
    }
}

fn raise(world: &World, i: usize) -> u64 {
    world.count.writes.fetch_add(1, Relaxed);
    world.values[i].fetch_add(1, SeqCst) + 1
}

async fn read(world: &'static World, memos: Memos) {
    while !world.stop.load(Relaxed) {
        let floors: Vec<u64> = world.floors.iter().map(|floor| floor.load(SeqCst)).collect();
        let (kind, key) = (random() % 6, random() % 8);
        let answer = async {
            let seen = match kind {
                0 => memos.mid.get(key).await?,
                1 => memos.pair.get(key).await?,
                2 => memos.leaf.get(key * 7).await?,
                3 => memos.cut.get(key * 5).await?,
                4 => memos.page.get(key).await?,
                _ => memos.top.get(key).await?,
            };
            if one_in(50) {
                // Hold the handle while the value is replaced, evicted and collected.
                for _ in 0..random() % 30 {
                    yield_now().await;
                }
            }
            Ok::<_, Error>(seen)
        };
        let answer = if one_in(10) {
            poll_some(answer, random() % 3).await
        } else {
            Some(unless_wedged(world, &format!("kind {kind} key {key}"), answer).await)
        };
        match answer {
            None => _ = world.count.dropped.fetch_add(1, Relaxed),
            Some(Err(_)) => {}
            Some(Ok(seen)) => {
                world.count.calls.fetch_add(1, Relaxed);
                if seen.version() == 0 {
                    world.count.early.fetch_add(1, Relaxed);
                }
                judge(world, kind, &seen, &floors);
            }
        }
        if one_in(8) {
            yield_now().await;
        }
    }
}

fn judge(world: &World, kind: u64, seen: &Seen, floors: &[u64]) {
    for &(source, value, lost) in seen.iter() {
        let floor = floors[source] & !lost;
        if value < floor && world.count.violations.fetch_add(1, Relaxed) < 5 {
            println!(
                "violation: kind {kind} source {source} got {value}, floor {floor}, lost {lost}"
            );
        }
    }
}

async fn disturb(world: &'static World, memos: Memos) {
    let start = Instant::now();
    while !world.stop.load(Relaxed) {
        let key = random() % SOURCES as u64;
        let evicted = match random() % 16 {
            0 | 1 => memos.leaf.evict(&key),
            2 => memos.mid.evict(&(key % 8)),
            3 => memos.pair.evict(&(key % 8)),
            4 => memos.top.evict(&(key % 8)),
            5 | 6 => memos.cut.evict(&key),
            7 => memos.late.evict(&key) || world.rows.evict(&key),
            8 => memos.page.evict(&(key % 8)),
            9 => memos.leaf.force_out(&key),
            10 => memos.mid.force_out(&(key % 8)),
            11 => memos.pair.force_out(&(key % 8)),
            12 => memos.cut.force_out(&key),
            13 => {
                world.graph.advance(start + start.elapsed());
                false
            }
            14 if one_in(20) => {
                let steps = [1, 1, 1, 2, 2, 3, 8, 512][random() as usize % 8];
                world.graph.set_walk_chunk(steps, one_in(2));
                false
            }
            _ => false,
        };
        if evicted {
            world.count.evictions.fetch_add(1, Relaxed);
        }
        yield_now().await;
    }
}

/// Now and then there is room for a few values only.
async fn tighten(world: &'static World) {
    while !world.stop.load(Relaxed) {
        let bytes = [256 << 20, 60_000, 30_000, 10_000][random() as usize % 4];
        world.graph.set_budget(bytes);
        for _ in 0..random() % 2000 {
            yield_now().await;
        }
    }
}

async fn watch(
    world: &'static World,
    memo: Memo<u64, Seen>,
    key: u64,
    latest: Arc<std::sync::Mutex<Option<Seen>>>,
) {
    let mut watch = memo.watch(key);
    let mut last = 0;
    while let Some(value) = watch.next().await {
        world.count.watched.fetch_add(1, Relaxed);
        if let Ok(value) = value {
            let version = value.version();
            if version != 0 && version < last && world.count.violations.fetch_add(1, Relaxed) < 5 {
                println!("violation: watch went back from version {last} to {version}");
            }
            last = last.max(version);
            *latest.lock().unwrap() = Some((*value).clone());
        }
        yield_now().await;
    }
}

/// When nobody writes any more, every answer is exact.
async fn settle(world: &'static World, memos: Memos) -> u64 {
    let mut stale = 0;
    for key in 0..8 {
        for memo in [memos.mid, memos.pair, memos.top, memos.page] {
            let seen = loop {
                world.graph.advance(Instant::now());
                if let Ok(seen) = memo.get(key).await {
                    break seen;
                }
            };
            stale += differences(world, &seen);
        }
    }
    stale
}

/// Every watch delivers the final state in the end.
async fn unseen(world: &'static World, latest: &[Arc<std::sync::Mutex<Option<Seen>>>]) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let missing = latest
            .iter()
            .map(|latest| {
                latest.lock().unwrap().as_ref().map_or(1, |seen| differences(world, seen))
            })
            .sum();
        if missing == 0 || Instant::now() > deadline {
            return missing;
        }
        world.graph.advance(Instant::now());
        yield_now().await;
    }
}

fn differences(world: &World, seen: &Seen) -> u64 {
    let differs = |&&(source, value, lost): &&(usize, u64, u64)| {
        value != world.values[source].load(SeqCst) & !lost
    };
    seen.iter().filter(differs).count() as u64
}

fn report(world: &World, stale: u64) {
    let count = &world.count;
    let get = |counter: &AtomicU64| counter.load(SeqCst);
    println!("calls {}", get(&count.calls));
    println!("computes {} (leaf)", get(&count.computes));
    println!("drops {}", get(&count.dropped));
    println!("panics {}", get(&count.panics));
    println!("evictions {}", get(&count.evictions));
    println!("writes {}", get(&count.writes));
    println!("early answers {}", get(&count.early));
    println!("watched values {}", get(&count.watched));
    println!("stale at the end {stale}");
    println!("{:?}", world.graph.stats());
}

/// Polls a few times and drops the future if it is not ready by then.
async fn poll_some<F: Future>(future: F, mut polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(move |context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if polls == 0 => Poll::Ready(None),
        Poll::Pending => {
            polls -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

async fn pause(one_in_n: u64) {
    if one_in(one_in_n) {
        yield_now().await;
    }
}

fn one_in(n: u64) -> bool {
    random().is_multiple_of(n)
}

fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new({
            let thread = THREAD.fetch_add(1, Relaxed) + 1;
            (SEED.load(Relaxed) ^ thread << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
        });
    }
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        state.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 20
    })
}

fn argument(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name);
    at.and_then(|at| arguments.get(at + 1)).and_then(|text| text.parse().ok()).unwrap_or(default)
}

static SEED: AtomicU64 = AtomicU64::new(1);
static THREAD: AtomicU64 = AtomicU64::new(0);
