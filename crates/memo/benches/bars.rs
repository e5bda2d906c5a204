//! Every bar of the room, with peers in the same run.
//!
//! `cargo bench -p tidewire-memo --bench bars -- hit peers reads compute miss publish cascade memory`
//!
//! `quick` among the arguments makes few and short runs, for a profiler that counts instructions.
//! `count KIND CALLS` does nothing but that many calls of one kind (`floor`, `owned`, `await`, `borrow`,
//! `copy`, `miss`, `miss and close`, `suspect`, `cut-off`), so that the difference of two runs under a profiler is what a call costs in instructions:
//! `scripts/memo-instructions.sh`.
//! Prints one table row per measurement: the median of the runs, their minimum and maximum. Loops over
//! keys include about one xorshift step per call ("floor"). Hits and publishes by two threads are timed in
//! slices that are shorter than a scheduler's, from when both begin to when both are done, so that the best
//! slice says what a quiet machine would; what one thread does alone is timed by its processor time. Pin it
//! to the cores you mean; `memory` reads `/proc/self/statm` and wants a process of its own.
#![cfg(not(shuttle))]
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::future::Future;
use std::hint::black_box;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};

use tidewire_memo::{Graph, Memo, Source};

const KEYS: u64 = 1000;
/// Calls of a slice.
const CALLS: u64 = 1 << 13;
const SLICES: usize = 400;
const QUICK_CALLS: u64 = 1 << 16;
const MILLION: u64 = 1_000_000;

#[derive(Clone, PartialEq)]
struct User {
    id: u64,
    name: String,
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if let [word, kind, calls] = chosen.as_slice()
        && word == "count"
    {
        return count(kind, calls.parse().unwrap());
    }
    let parts: &[(&str, fn())] = &[
        ("hit", hit),
        ("peers", peers),
        ("reads", reads),
        ("compute", compute),
        ("miss", miss),
        ("publish", publish),
        ("cascade", cascade),
        ("walk", during_a_walk),
        ("wide", during_a_wide_publish),
        ("join", join),
        ("memory", memory),
    ];
    println!("| what | median | min | max | unit |");
    println!("|---|---|---|---|---|");
    for (name, part) in parts {
        if chosen.iter().all(|c| c == "quick") || chosen.iter().any(|c| c == name) {
            part();
        }
    }
}

fn hit() {
    let graph = Graph::new();
    let users = users(&graph);
    let numbers = Memo::infallible_in(&graph, "number", |key: u64| async move { key });
    now(async {
        for key in 0..KEYS {
            users.get(key).await.unwrap();
            numbers.get(key).await.unwrap();
        }
    });
    let mut best = [[0.0; 4]; 2];
    for threads in [1, 2] {
        let owned = |random: &mut Random| ready(users.get(random.key())).unwrap().id;
        let borrow = |random: &mut Random| users.with(&random.key(), |user| user.id).unwrap();
        let copy = |random: &mut Random| numbers.copied(&random.key()).unwrap();
        best[threads - 1] = [
            calls("floor (random key only)", threads, |random| random.key()).best,
            calls("hit, owned handle", threads, owned).best,
            calls("hit, borrow", threads, borrow).best,
            calls("hit, copy", threads, copy).best,
        ];
    }
    for (at, name) in ["floor", "hit, owned handle", "hit, borrow", "hit, copy"].iter().enumerate()
    {
        single(
            &format!("{name}, two threads beside one, best"),
            2.0 * best[0][at] / best[1][at],
            "×",
        );
    }
}

/// Calls of one kind and nothing else, on a filled memo.
fn count(kind: &str, calls: u64) {
    let graph = Graph::new();
    graph.set_budget(usize::MAX);
    let users = users(&graph);
    let numbers = Memo::infallible_in(&graph, "number", |key: u64| async move { key });
    get_all(users, 0..KEYS);
    get_all(numbers, 0..KEYS);
    for key in 0..KEYS {
        // The first visit of a key takes the long way.
        users.with(&key, |user| user.id).unwrap();
        numbers.copied(&key).unwrap();
    }
    let mut random = Random(7);
    let sum = match kind {
        "floor" => sum_of(calls, || random.key()),
        "owned" => sum_of(calls, || ready(users.get(random.key())).unwrap().id),
        "borrow" => sum_of(calls, || users.with(&random.key(), |user| user.id).unwrap()),
        "copy" => sum_of(calls, || numbers.copied(&random.key()).unwrap()),
        "miss" | "miss and close" => {
            let mut key = KEYS;
            sum_of(calls, || {
                key += 1;
                *ready(numbers.get(key - 1)).unwrap()
            })
        }
        // What comes before a cut-off, and that with it.
        "suspect" | "cut-off" => suspects(&graph, calls, kind == "cut-off"),
        "await" => sum_of_awaited(users, calls, random),
        _ => panic!("{kind} is unknown"),
    };
    black_box(sum);
    if kind != "miss and close" {
        // What closing the graph costs a key is no part of a call.
        std::mem::forget(graph);
    }
}

/// Each kind in a function of its own, so that what is measured does not depend on what stands beside it.
#[inline(never)]
fn sum_of(calls: u64, mut call: impl FnMut() -> u64) -> u64 {
    (0..calls).fold(0, |sum, _| sum.wrapping_add(call()))
}

#[inline(never)]
fn sum_of_awaited(users: Memo<u64, User>, calls: u64, mut random: Random) -> u64 {
    now(async {
        let mut sum = 0u64;
        for _ in 0..calls {
            sum = sum.wrapping_add(users.get(random.key()).await.unwrap().id);
        }
        sum
    })
}

/// Values above one that was computed anew and is equal; asked for again, or not.
fn suspects(graph: &Graph, keys: u64, asks: bool) -> u64 {
    let rows = Source::new_in(graph, "rows");
    let round = Memo::infallible_in(graph, "round", move |_: ()| async move { rows.read(&1) });
    let cut = Memo::infallible_in(graph, "cut", move |key: u64| async move {
        round.get(()).await.unwrap();
        key
    });
    get_all(cut, 0..keys);
    rows.changed(&1);
    now(round.get(())).unwrap();
    if asks { (0..keys).map(|key| *ready(cut.get(key)).unwrap()).sum() } else { 0 }
}

fn peers() {
    let graph = Graph::new();
    let users = users(&graph);
    now(async {
        for key in 0..KEYS {
            users.get(key).await.unwrap();
        }
    });
    let moka = moka::future::Cache::<u64, Arc<User>>::new(KEYS * 10);
    let quick = quick_cache::sync::Cache::<u64, Arc<User>>::new(KEYS as usize * 10);
    let papaya = papaya::HashMap::<u64, Arc<User>>::new();
    let locked =
        parking_lot::RwLock::new(HashMap::<u64, Arc<User>, foldhash::fast::RandomState>::default());
    for key in 0..KEYS {
        let user = Arc::new(user(key));
        now(moka.insert(key, user.clone()));
        quick.insert(key, user.clone());
        papaya.pin().insert(key, user.clone());
        locked.write().insert(key, user);
    }
    for threads in [1, 2] {
        let own = calls("tidewire-memo get, owned handle", threads, |random| {
            ready(users.get(random.key())).unwrap().id
        });
        let theirs = calls("moka::future get_with", threads, |random| {
            let key = random.key();
            now(moka.get_with(key, async { Arc::new(user(key)) })).id
        });
        ratio("moka / tidewire-memo", threads, &theirs, &own);
        let theirs =
            calls("quick_cache get", threads, |random| quick.get(&random.key()).unwrap().id);
        ratio("quick_cache / tidewire-memo", threads, &theirs, &own);
        let theirs = calls("papaya pin, get, Arc clone", threads, |random| {
            papaya.pin().get(&random.key()).cloned().unwrap().id
        });
        ratio("papaya / tidewire-memo", threads, &theirs, &own);
        let theirs = calls("RwLock<HashMap>, Arc clone", threads, |random| {
            locked.read().get(&random.key()).cloned().unwrap().id
        });
        ratio("RwLock<HashMap> / tidewire-memo", threads, &theirs, &own);
    }
}

/// 40 readers on two workers, a writer beside them, and an oracle on every read.
fn reads() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let world: &'static Reads = Box::leak(Box::new(Reads::new()));
    now(async {
        for key in 0..KEYS {
            world.top.get(key).await.unwrap();
        }
    });
    const RATES: [u64; 4] = [0, 100, 10_000, 100_000];
    let mut shares = [const { Vec::new() }; RATES.len()];
    let mut speeds = [const { Vec::new() }; RATES.len()];
    for _ in 0..7 {
        let mut free = 0.0;
        for (at, rate) in RATES.into_iter().enumerate() {
            let speed = runtime.block_on(world.run(rate, Duration::from_millis(700)));
            if rate == 0 {
                free = speed;
            }
            speeds[at].push(speed);
            shares[at].push(speed / free * 100.0);
        }
    }
    for (at, rate) in RATES.into_iter().enumerate() {
        row(&format!("reads at {rate} changes/s"), &mut speeds[at], "M/s, both cores");
        row(&format!("reads at {rate} changes/s"), &mut shares[at], "% of write-free");
    }
    println!("| stale reads | {} | | | |", world.stale.load(SeqCst));
}

struct Reads {
    rows: Source<u64>,
    values: Vec<AtomicU64>,
    floors: Vec<AtomicU64>,
    top: Memo<u64, (u64, u64)>,
    stale: AtomicU64,
    /// Keeps the graph open.
    _graph: Graph,
}

impl Reads {
    fn new() -> Self {
        let graph = Graph::new();
        let rows = Source::new_in(&graph, "rows");
        let counters = || (0..KEYS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let values: &'static [AtomicU64] = Vec::leak(counters());
        let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
            rows.read(&key);
            (key, values[key as usize].load(SeqCst))
        });
        let top = Memo::infallible_in(&graph, "top", move |key: u64| async move {
            *leaf.get(key).await.unwrap()
        });
        // The values are shared with the function, so they are leaked; the writer uses the same.
        VALUES.set(values).unwrap();
        Self {
            rows,
            values: Vec::new(),
            floors: counters(),
            top,
            stale: AtomicU64::new(0),
            _graph: graph,
        }
    }

    async fn run(&'static self, rate: u64, length: Duration) -> f64 {
        debug_assert!(self.values.is_empty());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let writer = std::thread::spawn(move || self.write(rate, &stopped));
        let start = Instant::now();
        let readers: Vec<_> = (0..40)
            .map(|reader| {
                let stop = stop.clone();
                tokio::spawn(async move {
                    let mut random = Random(1_234_567 + reader * 7919);
                    let mut calls = 0u64;
                    while !stop.load(Relaxed) {
                        for _ in 0..1000 {
                            let key = random.key();
                            let floor = self.floors[key as usize].load(Relaxed);
                            let value = self.top.get(key).await.unwrap();
                            if value.1 < floor || value.0 != key {
                                self.stale.fetch_add(1, Relaxed);
                            }
                        }
                        calls += 1000;
                        tokio::task::yield_now().await;
                    }
                    calls
                })
            })
            .collect();
        tokio::time::sleep(length).await;
        stop.store(true, Relaxed);
        let mut calls = 0;
        for reader in readers {
            calls += reader.await.unwrap();
        }
        let speed = calls as f64 / start.elapsed().as_secs_f64() / 1e6;
        writer.join().unwrap();
        speed
    }

    fn write(&self, rate: u64, stop: &AtomicBool) {
        let values = VALUES.get().unwrap();
        let mut random = Random(99);
        let start = Instant::now();
        let mut written = 0;
        while rate > 0 && !stop.load(Relaxed) {
            let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
            while written < due && !stop.load(Relaxed) {
                let key = random.key();
                let value = values[key as usize].fetch_add(1, SeqCst) + 1;
                self.rows.changed(&key);
                self.floors[key as usize].store(value, SeqCst);
                written += 1;
            }
            std::thread::sleep(Duration::from_micros(if rate > 5000 { 200 } else { 1000 }));
        }
    }
}

static VALUES: OnceLock<&'static [AtomicU64]> = OnceLock::new();

fn compute() {
    let graph = Graph::new();
    graph.set_budget(usize::MAX);
    let base = Memo::infallible_in(&graph, "base", |key: u64| async move { key });
    now(async {
        for key in 0..MILLION {
            base.get(key).await.unwrap();
        }
    });
    for (name, distinct) in [
        ("hit in a computation, one dependency", 1),
        ("hit in a computation, 1,000 dependencies in turn", 1000),
        ("hit in a computation, 1,000,000 distinct, with publish", MILLION),
    ] {
        let (mut runs, mut publishes) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let read = Arc::new(AtomicU64::new(0));
            let reading = read.clone();
            let sum = Memo::infallible_in(&graph, "sum", move |_: ()| {
                let reading = reading.clone();
                async move {
                    let start = processor();
                    let (mut sum, mut key) = (0, 0);
                    for _ in 0..MILLION {
                        sum += base.with(&key, |value| *value).unwrap();
                        key = if key + 1 == distinct { 0 } else { key + 1 };
                    }
                    reading.store((processor() - start).as_nanos() as u64, Relaxed);
                    sum
                }
            });
            runs.push(each(MILLION, || _ = black_box(now(sum.get(())).unwrap())));
            publishes.push(runs[runs.len() - 1] - read.load(Relaxed) as f64 / MILLION as f64);
        }
        row(name, &mut runs, "ns");
        if distinct == MILLION {
            row("register at publish, cold: each of 1,000,000 dependencies", &mut publishes, "ns");
        }
    }
}

fn miss() {
    let mut fresh = Vec::new();
    let mut with_edge = Vec::new();
    let (runs, keys) = if is_quick() { (1, QUICK_CALLS) } else { (3, MILLION) };
    for _ in 0..runs {
        let graph = Graph::new();
        graph.set_budget(usize::MAX);
        let base = Memo::infallible_in(&graph, "base", |key: u64| async move { key });
        fresh.push(each(keys, || get_all(base, 0..keys)));
        let rows = Source::new_in(&graph, "rows");
        let one = Memo::infallible_in(&graph, "one", move |key: u64| async move {
            rows.read(&0);
            key
        });
        with_edge.push(each(keys, || get_all(one, 0..keys)));
    }
    row("miss, fresh key", &mut fresh, "ns");
    row("miss, fresh key, one source edge", &mut with_edge, "ns");
    if is_quick() {
        return;
    }

    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let small = Memo::infallible_in(&graph, "small", move |key: u64| async move {
        rows.read(&key);
        key
    });
    get_all(small, 0..KEYS);
    let mut pairs = Vec::new();
    let mut changes = Vec::new();
    let mut refetches = Vec::new();
    for _ in 0..7 {
        pairs.push(each(200_000, || {
            now(async {
                for i in 0..200_000 {
                    rows.changed(&(i % KEYS));
                    small.get(i % KEYS).await.unwrap();
                }
            });
        }));
        changes.push(each(200_000, || (0..200_000).for_each(|i| _ = rows.changed(&(i % KEYS)))));
        get_all(small, 0..KEYS);
        refetches.push(each(100_000, || {
            now(async {
                for i in 0..100_000 {
                    small.evict(&(i % KEYS));
                    small.get(i % KEYS).await.unwrap();
                }
            });
        }));
    }
    row("changed and recompute (equal value)", &mut pairs, "ns");
    row("changed, nothing to mark", &mut changes, "ns");
    row("evict and refetch", &mut refetches, "ns");
}

fn publish() {
    let mut single = Vec::new();
    let mut double = Vec::new();
    let mut factors = Vec::new();
    let mut recompute = Vec::new();
    publish_in_slices();
    for _ in 0..5 {
        let mut speeds = [0.0; 2];
        let mut pairs = [0.0; 2];
        for threads in [1u64, 2] {
            let graph = Graph::new();
            graph.set_budget(usize::MAX);
            let rows = Source::new_in(&graph, "rows");
            let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
                rows.read(&(key & 1023));
                key
            });
            const PER: u64 = 200_000;
            speeds[threads as usize - 1] =
                together(threads, |t| get_all(memo, t * PER..(t + 1) * PER)) * PER as f64 / 1e6;
            pairs[threads as usize - 1] = together(threads, |t| {
                now(async {
                    for i in 0..PER {
                        let key = t * 500 + i % 500;
                        rows.changed(&key);
                        memo.get(key).await.unwrap();
                    }
                });
            }) * PER as f64
                / 1e6;
        }
        single.push(speeds[0]);
        double.push(speeds[1]);
        factors.push(speeds[1] / speeds[0]);
        recompute.push(pairs[1] / pairs[0]);
    }
    row("publish, fresh keys, one edge, 1 thread", &mut single, "M/s");
    row("publish, fresh keys, one edge, 2 threads", &mut double, "M/s together");
    row("publish, 2 threads against 1", &mut factors, "×");
    row("changed and recompute, 2 threads against 1", &mut recompute, "×");
}

/// How fast each of two threads publishes, beside one alone, in slices.
fn publish_in_slices() {
    const KEYS_EACH: u64 = 64;
    const ROUNDS: u64 = 4000;
    let graph = Graph::new();
    graph.set_budget(usize::MAX);
    let rows = Source::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&(key & 1023));
        key
    });
    let next = AtomicU64::new(0);
    let mut best = Vec::new();
    for threads in [1, 2] {
        let slices = in_slices(threads, ROUNDS as usize, KEYS_EACH, || {
            let from = next.fetch_add(KEYS_EACH, Relaxed);
            get_all(memo, from..from + KEYS_EACH);
        });
        best.push(
            row(&format!("publish in slices, {threads} thread(s)"), &mut slices.clone(), "ns").best,
        );
    }
    single("publish, each of two threads beside one, best", best[0] / best[1], "×");
}

fn cascade() {
    let graph = Graph::new();
    graph.set_budget(usize::MAX);
    let rows = Source::new_in(&graph, "rows");
    let fan = Memo::infallible_in(&graph, "fan", move |key: u64| async move {
        rows.read(&0);
        key
    });
    let round = Memo::infallible_in(&graph, "round", move |_: ()| async move { rows.read(&1) });
    let cut = Memo::infallible_in(&graph, "cut", move |key: u64| async move {
        round.get(()).await.unwrap();
        key
    });
    let mut wide = Vec::new();
    let mut again = Vec::new();
    let mut verified = Vec::new();
    for _ in 0..5 {
        get_all(fan, 0..MILLION);
        wide.push(each(1_000_000, || assert_eq!(rows.changed(&0) as u64, MILLION)));
        again.push(each(1000, || _ = rows.changed(&0)));
        get_all(cut, 0..MILLION);
        rows.changed(&1);
        now(round.get(())).unwrap();
        verified.push(each(MILLION, || get_all(cut, 0..MILLION)));
    }
    row("changed, 1,000,000 dependants", &mut wide, "ms");
    row("the same again, nothing re-read", &mut again, "µs");
    row("cut-off read: suspect, one dependency, nothing changed", &mut verified, "ns");

    let hub = Memo::infallible_in(&graph, "hub", move |key: u64| async move { key });
    let sum = Memo::infallible_in(&graph, "sum", move |_: ()| async move {
        let mut sum = 0;
        for key in 0..1000 {
            sum += *hub.get(key).await.unwrap();
        }
        sum
    });
    now(sum.get(())).unwrap();
    let mut per_dependency = Vec::new();
    for _ in 0..200 {
        hub.invalidate(&500);
        now(hub.get(500)).unwrap();
        per_dependency.push(each(1000, || _ = now(sum.get(())).unwrap()));
    }
    row("cut-off read, per further dependency", &mut per_dependency, "ns");
    deep(&graph);
}

fn deep(graph: &Graph) {
    let rows = Source::new_in(graph, "bottom");
    let cell: &'static OnceLock<Memo<u64, u64>> = Box::leak(Box::new(OnceLock::new()));
    let chain = Memo::infallible_in(graph, "chain", move |key: u64| async move {
        if key == 0 {
            rows.read(&());
            return 0;
        }
        *cell.get().unwrap().get(key - 1).await.unwrap() + 1
    });
    cell.set(chain).unwrap();
    get_all(chain, 0..MILLION);
    let mut marks = Vec::new();
    let mut verifies = Vec::new();
    for _ in 0..5 {
        marks.push(each(1_000_000, || assert_eq!(rows.changed(&()) as u64, MILLION)));
        verifies.push(each(1_000_000, || _ = now(chain.get(MILLION - 1)).unwrap()));
    }
    row("chain 1,000,000 deep: changed", &mut marks, "ms");
    row("chain 1,000,000 deep: verify", &mut verifies, "ms");
}

/// While one thread changes a source with a million dependants over and over: how long an unrelated
/// change takes, and how fast hits are.
fn during_a_walk() {
    let graph = Graph::new();
    graph.set_budget(usize::MAX);
    let rows = Source::new_in(&graph, "rows");
    let other = Source::<u64>::new_in(&graph, "other");
    let users = users(&graph);
    get_all(users, 0..KEYS);
    let fan = Memo::infallible_in(&graph, "fan", move |key: u64| async move {
        rows.read(&0);
        key
    });
    let mut latencies = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..15 {
        get_all(fan, 0..MILLION);
        let quiet = hits_during(users, || {
            std::thread::sleep(Duration::from_millis(20));
        });
        let walking = hits_during(users, || _ = rows.changed(&0));
        rates.push(walking / quiet * 100.0);
        get_all(fan, 0..MILLION);
        let started = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.wait();
                rows.changed(&0);
            });
            let walks = graph.stats().walks;
            started.wait();
            while graph.stats().walks == walks {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            other.changed(&1);
            latencies.push(start.elapsed().as_secs_f64() * 1e3);
        });
    }
    row("an unrelated changed during a walk of 1,000,000 (max of 15 ≥ p99)", &mut latencies, "ms");
    row("hits during a walk of 1,000,000", &mut rates, "% of their rate");
}

/// How long an unrelated change takes while another thread publishes a value with 300,000 edges.
fn during_a_wide_publish() {
    const EDGES: u64 = 300_000;
    let graph = Graph::new();
    graph.set_budget(usize::MAX);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let other = Source::<u64>::new_in(&graph, "other");
    let wide = Memo::infallible_in(&graph, "wide", move |key: u64| async move {
        (0..EDGES).for_each(|row| rows.read(&row));
        key
    });
    let mut p99 = Vec::new();
    for round in 0..5 {
        let stop = AtomicBool::new(false);
        let mut times: Vec<f64> = std::thread::scope(|scope| {
            let changes = scope.spawn(|| {
                let mut times = Vec::new();
                while !stop.load(Relaxed) {
                    let start = Instant::now();
                    other.changed(&1);
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                    std::thread::sleep(Duration::from_micros(100));
                }
                times
            });
            for key in 0..4 {
                now(wide.get(round * 4 + key)).unwrap();
            }
            stop.store(true, Relaxed);
            changes.join().unwrap()
        });
        times.sort_unstable_by(f64::total_cmp);
        p99.push(times[times.len() * 99 / 100]);
    }
    row("an unrelated changed while 300,000 edges are published, p99", &mut p99, "ms");
}

/// 40,000 callers that wait for one key.
fn join() {
    const CALLERS: u64 = 40_000;
    let mut joins = Vec::new();
    for round in 0..5 {
        let graph = Graph::new();
        let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move {
            std::future::pending::<()>().await;
            key
        });
        let mut calls: Vec<_> = (0..CALLERS).map(|_| memo.get(round)).collect();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        joins.push(each(CALLERS * 1000, || {
            for call in &mut calls {
                assert!(std::pin::Pin::new(call).poll(&mut context).is_pending());
            }
            calls.clear();
        }));
    }
    row("joining one key and leaving it, 40,000 callers, each", &mut joins, "µs");
}

fn hits_during(users: Memo<u64, User>, work: impl FnOnce()) -> f64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut random = Random(7);
            let start = Instant::now();
            let mut calls = 0u64;
            while !stop.load(Relaxed) {
                for _ in 0..100 {
                    black_box(users.with(&random.key(), |user| user.id).unwrap());
                }
                calls += 100;
            }
            calls as f64 / start.elapsed().as_secs_f64()
        });
        work();
        stop.store(true, Relaxed);
        reader.join().unwrap()
    })
}

fn memory() {
    let graph = Graph::new();
    graph.set_budget(usize::MAX);
    let before = resident();
    let base = Memo::infallible_in(&graph, "base", |key: u64| async move { key });
    get_all(base, 0..MILLION);
    // 16 bytes are the key and the value themselves.
    single(
        "entry, beyond key and value",
        (resident() - before) as f64 / MILLION as f64 - 16.0,
        "B",
    );
    let rows = Source::new_in(&graph, "rows");
    let before = resident();
    let one = Memo::infallible_in(&graph, "one", move |key: u64| async move {
        rows.read(&0);
        key
    });
    get_all(one, 0..MILLION);
    let entry = (resident() - before) as f64 / MILLION as f64 - 16.0;
    single("entry with one edge, beyond key and value", entry, "B");
    for edges in [8, 100] {
        let before = resident();
        let nodes = MILLION / edges;
        let wide = Memo::infallible_in(&graph, "wide", move |node: u64| async move {
            for i in 0..edges {
                base.get((node * 31 + i * 7919) % 10_000).await.unwrap();
            }
            node
        });
        get_all(wide, 0..nodes);
        let bytes = (resident() - before) as f64 - nodes as f64 * 170.0;
        single(&format!("edge, both directions, at {edges} a node"), bytes / MILLION as f64, "B");
    }
}

fn users(graph: &Graph) -> Memo<u64, User> {
    Memo::infallible_in(graph, "user", |key: u64| async move { user(key) })
}

fn user(id: u64) -> User {
    User { id, name: format!("user {id}") }
}

fn get_all<V: Send + Sync>(memo: Memo<u64, V>, keys: std::ops::Range<u64>) {
    now(async {
        for key in keys {
            memo.get(key).await.unwrap();
        }
    });
}

/// What a row says.
struct Times {
    median: f64,
    best: f64,
}

/// Nanoseconds per call on each of `threads` threads.
fn calls(name: &str, threads: usize, call: impl Fn(&mut Random) -> u64 + Sync) -> Times {
    let slices = if is_quick() { QUICK_CALLS as usize / CALLS as usize } else { SLICES };
    let mut times = in_slices(threads, slices, CALLS, || {
        let mut random = Random(7);
        black_box((0..CALLS).fold(0u64, |sum, _| sum.wrapping_add(call(&mut random))));
    });
    let times = row(&format!("{name}, {threads} thread(s)"), &mut times, "ns");
    single(&format!("{name}, {threads} thread(s)"), 1e3 / times.median, "M/s per core");
    single(&format!("{name}, {threads} thread(s), best"), 1e3 / times.best, "M/s per core");
    times
}

/// Nanoseconds per unit of `work`, each slice from when all threads begin it to when all are done.
fn in_slices(threads: usize, slices: usize, units: u64, work: impl Fn() + Sync) -> Vec<f64> {
    let arrived = AtomicU64::new(0);
    let run = || {
        let slice = |number: u64| {
            arrived.fetch_add(1, SeqCst);
            while arrived.load(SeqCst) < (number + 1) * threads as u64 {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            work();
            (start, Instant::now())
        };
        (0..slices as u64).map(slice).collect::<Vec<_>>()
    };
    let times: Vec<Vec<(Instant, Instant)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let wall = |slice: usize| {
        let start = times.iter().map(|times| times[slice].0).min().unwrap();
        let end = times.iter().map(|times| times[slice].1).max().unwrap();
        (end - start).as_nanos() as f64 / units as f64
    };
    (0..slices).map(wall).collect()
}

/// Rounds per second of `threads` threads doing `work` once each.
fn together(threads: u64, work: impl Fn(u64) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    threads as f64 / start.elapsed().as_secs_f64()
}

/// Nanoseconds of this thread's processor time per unit of `work`; with a million units the number reads
/// as milliseconds in all.
fn each(units: u64, work: impl FnOnce()) -> f64 {
    let start = processor();
    work();
    (processor() - start).as_nanos() as f64 / units as f64
}

/// The processor time of this thread.
#[allow(unsafe_code)]
fn processor() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn row(name: &str, runs: &mut [f64], unit: &str) -> Times {
    runs.sort_unstable_by(f64::total_cmp);
    let median = runs[runs.len() / 2];
    println!("| {name} | {median:.2} | {:.2} | {:.2} | {unit} |", runs[0], runs[runs.len() - 1]);
    Times { median, best: runs[0] }
}

fn single(name: &str, value: f64, unit: &str) {
    println!("| {name} | {value:.1} | | | {unit} |");
}

fn ratio(name: &str, threads: usize, theirs: &Times, own: &Times) {
    let (median, best) = (theirs.median / own.median, theirs.best / own.best);
    println!("| **{name}, {threads} thread(s)** | **{median:.1}** | | | × |");
    println!("| **{name}, {threads} thread(s), best** | **{best:.1}** | | | × |");
}

fn is_quick() -> bool {
    std::env::args().any(|argument| argument == "quick")
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// The answer of a future that is ready at the first poll, without an executor.
#[inline(always)]
fn ready<F: Future + Unpin>(mut future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(&mut future).poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => unreachable!("a hit"),
    }
}

fn now<F: Future>(future: F) -> F::Output {
    futures::executor::block_on(future)
}

struct Random(u64);

impl Random {
    #[inline(always)]
    fn key(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        (bits * KEYS) >> 31
    }
}
