//! Models: shuttle drives the real core through random and adversarial schedules.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p tidewire-memo --test model`
//!
//! Walks and verifications take one step per chunk here, so they interleave as much as they can. Each
//! scenario checks guarantee 1 with floors like the stress program, and equality at the end. The
//! mutation table switches deliberate faults on and demands that the named scenario fails.
#![cfg(shuttle)]
#![allow(clippy::unwrap_used)]

#[path = "model/rung.rs"]
mod rung;
#[path = "model/told.rs"]
mod told;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use shuttle::future::{block_on, yield_now};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::{Config, FailurePersistence, Runner, thread};
use tidewire_memo::{Fault, Graph, Memo, Source, batch, inject};

/// What a memo answers: (source, its counter, bits that early cutoff dropped).
type Seen = Vec<(usize, u64, u64)>;

struct World {
    rows: Source<u64>,
    values: &'static [AtomicU64; 2],
    floors: [AtomicU64; 2],
    leaf: Memo<u64, Seen>,
    cut: Memo<u64, Seen>,
    page: Memo<u64, Seen>,
    mid: Memo<u64, Seen>,
    top: Memo<u64, Seen>,
}

#[derive(Clone, Copy, Default)]
struct Shape {
    /// Leaves yield before and after loading.
    yields: bool,
    /// Leaves load first and declare afterwards.
    late: bool,
    /// Leaf 0 changes the source that it reads.
    changes_itself: bool,
}

fn world(shape: Shape) -> Arc<World> {
    // Nothing is freed under shuttle, so nothing is closed either.
    let graph = std::mem::ManuallyDrop::new(Graph::new());
    let rows = Source::new_in(&graph, "rows");
    let values: &'static [AtomicU64; 2] =
        Box::leak(Box::new([AtomicU64::new(0), AtomicU64::new(0)]));
    let load = move |key: u64| (key as usize, values[key as usize].load(SeqCst), 0);
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
        if !shape.late {
            rows.read(&key);
        }
        if shape.yields {
            yield_now().await;
        }
        let seen = load(key);
        if shape.yields {
            yield_now().await;
        }
        if shape.late {
            rows.read(&key);
        }
        if shape.changes_itself && key == 0 {
            rows.changed(&0);
        }
        vec![seen]
    });
    let cut = Memo::infallible_in(&graph, "cut", move |key: u64| async move {
        let seen = leaf.get(key).await.unwrap();
        seen.iter().map(|s| (s.0, s.1 & !1, 1)).collect::<Seen>()
    });
    let page = Memo::infallible_in(&graph, "page", move |_: u64| async move {
        if shape.late {
            let seen = vec![load(0), load(1)];
            yield_now().await;
            rows.range(0..2);
            return seen;
        }
        rows.range(0..2);
        if shape.yields {
            yield_now().await;
        }
        vec![load(0), load(1)]
    });
    let mid = Memo::infallible_in(&graph, "mid", move |_: u64| async move {
        let mut seen = leaf.get(0).await.unwrap().to_vec();
        seen.extend(cut.get(1).await.unwrap().iter().copied());
        seen
    });
    let top = Memo::infallible_in(&graph, "top", move |_: u64| async move {
        let mut seen = mid.get(0).await.unwrap().to_vec();
        seen.extend(cut.get(0).await.unwrap().iter().copied());
        if shape.yields {
            yield_now().await;
        }
        seen
    });
    let floors = [AtomicU64::new(0), AtomicU64::new(0)];
    Arc::new(World { rows, values, floors, leaf, cut, page, mid, top })
}

fn floors(world: &World) -> [u64; 2] {
    [world.floors[0].load(SeqCst), world.floors[1].load(SeqCst)]
}

fn read(world: &World, memo: Memo<u64, Seen>) {
    let floors = floors(world);
    let key = u64::from(memo.name() == "cut");
    let seen = block_on(memo.get(key)).unwrap();
    for &(source, value, lost) in seen.iter() {
        let floor = floors[source] & !lost;
        assert!(value >= floor, "source {source}: got {value}, floor {floor}");
    }
}

/// Also the values that a watch or a second reader would hit later must be good.
fn read_twice(world: &World, memo: Memo<u64, Seen>) {
    read(world, memo);
    read(world, memo);
}

fn write(world: &World, i: usize) {
    let value = world.values[i].fetch_add(1, SeqCst) + 1;
    world.rows.changed(&(i as u64));
    world.floors[i].fetch_max(value, SeqCst);
}

fn write_async(world: &World, i: usize) {
    let value = world.values[i].fetch_add(1, SeqCst) + 1;
    block_on(world.rows.changed_async(&(i as u64)));
    world.floors[i].fetch_max(value, SeqCst);
}

fn write_both(world: &World) {
    let a = world.values[0].fetch_add(1, SeqCst) + 1;
    let b = world.values[1].fetch_add(1, SeqCst) + 1;
    batch(|batch| {
        batch.changed(&world.rows, &0);
        batch.changed(&world.rows, &1);
    });
    world.floors[0].fetch_max(a, SeqCst);
    world.floors[1].fetch_max(b, SeqCst);
}

/// A change that bypasses the source and is announced by invalidating its only reader.
fn bypass(world: &World) {
    let value = world.values[0].fetch_add(1, SeqCst) + 1;
    world.leaf.invalidate(&0);
    world.floors[0].fetch_max(value, SeqCst);
}

/// Polls `top` a few times and drops the call.
fn drop_after(world: &World, mut polls: u32) {
    let mut get = pin!(world.top.get(0));
    block_on(std::future::poll_fn(|context| match get.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending if polls == 0 => Poll::Ready(()),
        Poll::Pending => {
            polls -= 1;
            Poll::Pending
        }
    }));
}

/// When everybody is done, every answer is exact.
fn settle(world: &World, memos: &[Memo<u64, Seen>]) {
    for &memo in memos {
        for &(source, value, lost) in block_on(memo.get(0)).unwrap().iter() {
            let now = world.values[source].load(SeqCst) & !lost;
            assert_eq!(value, now, "{}: stale at the end", memo.name());
        }
    }
}

type Part = Box<dyn FnOnce(&World) + Send>;

fn together(world: &Arc<World>, parts: Vec<Part>) {
    let start = |part: Part| {
        let world = world.clone();
        thread::spawn(move || part(&world))
    };
    let threads: Vec<_> = parts.into_iter().map(start).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn part(part: impl FnOnce(&World) + Send + 'static) -> Part {
    Box::new(part)
}

macro_rules! parts {
    ($($part:expr),* $(,)?) => { vec![$(part($part)),*] };
}

fn publish_vs_changed() {
    let world = world(Shape { yields: true, ..Shape::default() });
    together(
        &world,
        parts![
            |w| read(w, w.top),
            |w| {
                write(w, 0);
                read(w, w.top);
            },
            |w| read(w, w.mid),
        ],
    );
    settle(&world, &[world.top]);
}

fn order_of_reads() {
    let world = world(Shape::default());
    block_on(world.leaf.get(0)).unwrap();
    let writes = part(|world| {
        let guard = world.rows.write(&0);
        let value = world.values[0].fetch_add(1, SeqCst) + 1;
        guard.finish();
        world.floors[0].fetch_max(value, SeqCst);
    });
    let reads = |newer: fn(&World) -> Memo<u64, Seen>, older: fn(&World) -> Memo<u64, Seen>| {
        part(move |world| {
            let shown = |memo: Memo<u64, Seen>| block_on(memo.get(0)).unwrap()[0].1;
            let first = shown(newer(world));
            assert!(shown(older(world)) >= first, "the older state after the newer one");
        })
    };
    let parts = vec![
        writes,
        reads(|world| world.page, |world| world.leaf),
        reads(|world| world.page, |world| world.mid),
    ];
    together(&world, parts);
    settle(&world, &[world.leaf, world.page, world.mid]);
}

fn overlapping_cascades() {
    let world = world(Shape::default());
    read(&world, world.top);
    together(
        &world,
        parts![
            |w| {
                write(w, 0);
                read(w, w.top);
            },
            |w| {
                write_both(w);
                read(w, w.top);
            },
            |w| {
                write_async(w, 0);
                read(w, w.mid);
            },
        ],
    );
    settle(&world, &[world.top]);
}

fn evict_vs_cascade() {
    let world = world(Shape::default());
    read(&world, world.top);
    together(
        &world,
        parts![
            |w| {
                write(w, 0);
                read(w, w.top);
                write(w, 1);
                read(w, w.top);
            },
            |w| {
                w.mid.evict(&0);
                w.leaf.evict(&0);
                w.cut.force_out(&1);
                w.leaf.evict(&1);
                w.rows.evict(&0);
                w.mid.force_out(&0);
            },
            |w| {
                read(w, w.top);
                read(w, w.mid);
            },
        ],
    );
    settle(&world, &[world.top]);
}

fn last_caller_drop() {
    let world = world(Shape { yields: true, ..Shape::default() });
    together(
        &world,
        parts![
            |w| drop_after(w, 0),
            |w| drop_after(w, 1),
            |w| {
                write(w, 0);
                read(w, w.top);
            },
            |w| read(w, w.mid),
        ],
    );
    settle(&world, &[world.top]);
}

fn ghost_recompute() {
    let world = world(Shape { yields: true, ..Shape::default() });
    read(&world, world.top);
    world.mid.evict(&0);
    world.leaf.evict(&0);
    together(
        &world,
        parts![
            |w| read(w, w.mid),
            |w| {
                write(w, 0);
                read(w, w.top);
            },
            |w| {
                w.mid.evict(&0);
                w.cut.evict(&1);
                drop_after(w, 0);
            },
        ],
    );
    settle(&world, &[world.top]);
}

fn verify_vs_changed() {
    let world = world(Shape::default());
    read(&world, world.top);
    together(
        &world,
        parts![
            |w| {
                write(w, 1);
                read(w, w.top);
                write(w, 1);
                read(w, w.top);
            },
            |w| {
                write(w, 0);
                read(w, w.top);
            },
            |w| read_twice(w, w.top),
        ],
    );
    settle(&world, &[world.top]);
}

fn invalidate_vs_compute() {
    let world = world(Shape { yields: true, ..Shape::default() });
    together(
        &world,
        parts![
            |w| {
                bypass(w);
                read(w, w.top);
            },
            |w| read(w, w.top),
            |w| {
                write(w, 1);
                read(w, w.mid);
            },
        ],
    );
    settle(&world, &[world.top]);
}

fn late_declaration() {
    let world = world(Shape { yields: true, late: true, ..Shape::default() });
    together(
        &world,
        parts![
            |w| read(w, w.top),
            |w| {
                write(w, 0);
                read(w, w.top);
            },
            |w| {
                w.rows.evict(&0);
                read(w, w.mid);
            },
        ],
    );
    settle(&world, &[world.top]);
}

/// The source node goes while a change has looked it up, and a late declaration makes another one.
fn source_replaced_under_a_change() {
    let world = world(Shape { late: true, ..Shape::default() });
    read(&world, world.leaf);
    together(
        &world,
        parts![
            |w| {
                w.leaf.evict(&0);
                w.rows.evict(&0);
                read_twice(w, w.leaf);
            },
            |w| {
                write(w, 0);
                read(w, w.leaf);
            },
        ],
    );
    settle(&world, &[world.leaf]);
}

fn force_vs_cascade() {
    let world = world(Shape::default());
    read(&world, world.top);
    together(
        &world,
        parts![
            |w| {
                w.leaf.force_out(&0);
                write(w, 0);
                read(w, w.top);
            },
            |w| {
                read(w, w.mid);
                write(w, 0);
                read(w, w.top);
            },
            |w| {
                w.mid.force_out(&0);
                read(w, w.top);
            },
        ],
    );
    settle(&world, &[world.top]);
}

/// A value that was used is gone when its invalidation comes.
fn invalidate_after_force() {
    let world = world(Shape { yields: true, ..Shape::default() });
    read(&world, world.leaf);
    together(
        &world,
        parts![|w| read(w, w.mid), |w| {
            w.leaf.force_out(&0);
            bypass(w);
            read(w, w.mid);
        },],
    );
    settle(&world, &[world.mid]);
}

/// An attempt that began in the middle of a walk used what the walk had not reached yet; whoever joins
/// it after the walk must not get its value.
fn join_after_walk() {
    let world = world(Shape { yields: true, ..Shape::default() });
    read(&world, world.top);
    world.top.evict(&0);
    together(
        &world,
        parts![
            |w| {
                write(w, 0);
                read(w, w.top);
            },
            |w| read(w, w.top),
        ],
    );
    settle(&world, &[world.top]);
}

fn self_change() {
    let world = world(Shape { yields: true, changes_itself: true, ..Shape::default() });
    together(
        &world,
        parts![|w| read(w, w.top), |w| {
            write(w, 0);
            read(w, w.mid);
        },],
    );
    settle(&world, &[world.top]);
}

fn range_vs_changed() {
    let world = world(Shape { yields: true, ..Shape::default() });
    together(
        &world,
        parts![
            |w| read_twice(w, w.page),
            |w| {
                write(w, 0);
                read(w, w.page);
            },
            |w| {
                w.page.evict(&0);
                write(w, 1);
                read(w, w.page);
            },
        ],
    );
    settle(&world, &[world.page]);
}

fn late_range() {
    let world = world(Shape { late: true, ..Shape::default() });
    together(
        &world,
        parts![|w| read_twice(w, w.page), |w| {
            write(w, 0);
            read(w, w.page);
        },],
    );
    settle(&world, &[world.page]);
}

/// By itself, so that a mutant needs no more than this.
#[test]
fn what_rings_in_a_set_is_told() {
    let _alone = alone();
    explore(rung::before_any_change_returns, schedules(400), true);
    explore(rung::while_others_go, schedules(400), true);
}

type Scenario = (&'static str, fn());

const SCENARIOS: &[Scenario] = &[
    ("publish_vs_changed", publish_vs_changed),
    ("order_of_reads", order_of_reads),
    ("overlapping_cascades", overlapping_cascades),
    ("evict_vs_cascade", evict_vs_cascade),
    ("last_caller_drop", last_caller_drop),
    ("ghost_recompute", ghost_recompute),
    ("verify_vs_changed", verify_vs_changed),
    ("invalidate_vs_compute", invalidate_vs_compute),
    ("late_declaration", late_declaration),
    ("source_replaced_under_a_change", source_replaced_under_a_change),
    ("force_vs_cascade", force_vs_cascade),
    ("invalidate_after_force", invalidate_after_force),
    ("join_after_walk", join_after_walk),
    ("self_change", self_change),
    ("range_vs_changed", range_vs_changed),
    ("late_range", late_range),
    ("rung_before_any_change_returns", rung::before_any_change_returns),
    ("rung_while_others_go", rung::while_others_go),
    ("told_before_it_is_declared", told::before_it_is_declared),
    ("told_before_it_is_found_untracked", told::before_it_is_found_untracked),
];

/// Which scenarios must notice which fault.
const MUTATIONS: &[(Fault, &[&str])] = &[
    (Fault::NoCascadeLock, &["overlapping_cascades", "verify_vs_changed"]),
    (Fault::VersionsNotCompared, &["overlapping_cascades"]),
    (Fault::SuspectAccepted, &["verify_vs_changed"]),
    (Fault::EarlyForAnyone, &["publish_vs_changed", "last_caller_drop"]),
    (Fault::RevisionNeverBumped, &["evict_vs_cascade"]),
    (Fault::NoGhost, &["evict_vs_cascade", "ghost_recompute"]),
    (Fault::SourceStartIgnored, &["late_declaration", "late_range"]),
    (Fault::GhostDroppedSilently, &["force_vs_cascade"]),
    (Fault::TickNotBumpedPerChunk, &["verify_vs_changed"]),
    (Fault::RejectIgnored, &["invalidate_vs_compute"]),
    (Fault::EdgesNotRestored, &["verify_vs_changed"]),
    (Fault::RevisionBumpedEarly, &["join_after_walk"]),
    (Fault::InsertUnnoticed, &["source_replaced_under_a_change"]),
    (Fault::AbsentNotRaised, &["late_declaration"]),
    (Fault::NotHeld, &["order_of_reads"]),
];

#[test]
fn every_scenario_keeps_the_guarantees_in_every_schedule_tried() {
    let _alone = alone();
    for &(name, scenario) in SCENARIOS {
        let schedules = schedules(400);
        explore(scenario, schedules, true);
        println!("{name}: {schedules} random and {schedules} pct(3) schedules");
    }
}

/// By itself, so that a mutant needs no more than this.
#[test]
fn what_a_task_declares_late_is_never_lost() {
    let _alone = alone();
    explore(told::before_it_is_declared, schedules(400), true);
    explore(told::before_it_is_found_untracked, schedules(400), true);
}

#[test]
fn every_deliberate_fault_is_caught_by_the_models_named_for_it() {
    let _alone = alone();
    let mut missed = Vec::new();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for &(fault, names) in MUTATIONS {
        inject(Some(fault));
        let caught: Vec<&str> = names
            .iter()
            .filter(|wanted| {
                let scenario = SCENARIOS.iter().find(|(name, _)| name == *wanted).unwrap().1;
                is_caught(scenario)
            })
            .copied()
            .collect();
        inject(None);
        println!("{fault:?}: caught by {caught:?} of {names:?}");
        if caught.is_empty() {
            missed.push(fault);
        }
    }
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "no model noticed {missed:?}");
}

fn is_caught(scenario: fn()) -> bool {
    let schedules = schedules(4000);
    catch_unwind(AssertUnwindSafe(|| explore(scenario, schedules, false))).is_err()
}

/// Random schedules, then adversarial ones (probabilistic concurrency testing, three preemptions).
fn explore(scenario: fn(), schedules: usize, print_failure: bool) {
    let mut config = Config::new();
    config.silence_warnings = true;
    if !print_failure {
        config.failure_persistence = FailurePersistence::None;
    }
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(scenario);
    Runner::new(PctScheduler::new(3, schedules), config).run(scenario);
}

/// How many schedules to try; `make proof` asks for many more.
fn schedules(default: usize) -> usize {
    std::env::var("MODEL_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Faults are switched on for the whole process, so models run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
