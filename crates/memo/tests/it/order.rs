//! The order of reads while somebody writes: nobody is given the older state after the newer one was given out.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use tidewire_memo::{Ambient, Error, Graph, Memo, OrderedReads, Source, WriteGuard, scope};

use crate::support::{Gate, Wakes, now, poll, poll_with, yield_once};

/// A table, a memo of it that is in memory, and one that is not.
struct World {
    graph: Graph,
    rows: Source<u64>,
    data: Arc<AtomicU64>,
    /// In memory, of the state 1.
    held: Memo<u64, u64>,
    other: Memo<u64, u64>,
    /// What reads an interval.
    page: Memo<(u64, u64), u64>,
}

impl World {
    fn new() -> Self {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let data = Arc::new(AtomicU64::new(1));
        let table = |name: &str| {
            let load = data.clone();
            Memo::infallible_in(&graph, name, move |key: u64| {
                let load = load.clone();
                async move {
                    rows.read(&key);
                    load.load(SeqCst)
                }
            })
        };
        let load = data.clone();
        let page = Memo::infallible_in(&graph, "page", move |(from, to): (u64, u64)| {
            let load = load.clone();
            async move {
                rows.range(from..to);
                load.load(SeqCst)
            }
        });
        let (held, other) = (table("held"), table("other"));
        now(held.get(1)).unwrap();
        Self { graph, rows, data, held, other, page }
    }

    /// Somebody else, whose transaction has committed and is not announced yet.
    fn write(&self) -> WriteGuard {
        let rows = self.rows;
        let guard = std::thread::spawn(move || rows.write(&1)).join().unwrap();
        self.data.store(2, SeqCst);
        guard
    }
}

#[test]
fn what_is_computed_while_somebody_writes_is_given_to_nobody_before_that_is_announced() {
    let world = World::new();
    let guard = world.write();
    let wakes = Wakes::new();
    let mut get = world.other.get(1);
    assert!(poll_with(&mut get, &wakes).is_pending(), "it shows the newer state");
    assert!(poll(&mut world.other.get(1)).is_pending(), "to whoever joins, too");
    assert_eq!(*now(world.held.get(1)).unwrap(), 1, "hits go on");
    assert!(poll_with(&mut get, &wakes).is_pending());
    assert_eq!(wakes.count(), 0, "nobody can go on");
    guard.finish();
    assert!(wakes.count() > 0);
    assert_eq!(*now(get).unwrap(), 2);
    assert_eq!(*now(world.held.get(1)).unwrap(), 2);
}

#[test]
fn what_reads_other_keys_does_not_wait() {
    let world = World::new();
    now(world.page.get((0, 10))).unwrap();
    now(world.page.get((20, 30))).unwrap();
    world.held.invalidate(&1);
    world.page.invalidate(&(0, 10));
    world.page.invalidate(&(20, 30));
    let _guard = world.write();
    assert!(poll(&mut world.other.get(2)).is_ready());
    assert!(poll(&mut world.page.get((20, 30))).is_ready(), "the key lies outside");
    assert!(poll(&mut world.held.get(1)).is_pending());
    assert!(poll(&mut world.page.get((0, 10))).is_pending());
}

#[test]
fn an_interval_that_is_read_for_the_first_time_waits_only_if_it_has_the_key() {
    for has_intervals in [false, true] {
        let world = World::new();
        if has_intervals {
            now(world.page.get((20, 30))).unwrap();
        }
        let _guard = world.write();
        assert!(poll(&mut world.page.get((2, 9))).is_ready(), "the key lies outside");
        assert!(poll(&mut world.page.get((0, 9))).is_pending());
        let rows = world.rows;
        let run = OrderedReads::new(&world.graph).follow(async move { rows.range(3..7) });
        assert!(poll(&mut Box::pin(run)).is_ready());
        let _unknown = std::thread::spawn(move || rows.write_unknown()).join().unwrap();
        assert!(poll(&mut world.page.get((40, 50))).is_pending(), "any key may be written");
    }
}

#[test]
fn an_interval_whose_node_went_and_came_back_is_held_as_before() {
    let world = World::new();
    now(world.page.get((0, 9))).unwrap();
    let guard = world.write();
    world.page.evict(&(0, 9));
    assert!(poll(&mut world.page.get((0, 9))).is_pending());
    guard.finish();
    let guard = std::thread::spawn({
        let rows = world.rows;
        move || rows.write(&1).also(&rows, &100)
    });
    let guard = guard.join().unwrap();
    assert!(poll(&mut world.page.get((50, 101))).is_pending(), "the second key counts, too");
    assert!(poll(&mut world.page.get((50, 100))).is_ready());
    drop(guard);
    assert!(poll(&mut world.page.get((60, 101))).is_ready(), "the write is over");
}

#[test]
fn who_asked_before_he_began_to_write_does_not_wait_for_himself() {
    let world = World::new();
    let gated = |name: &str, gate: &Gate| {
        let (rows, load, wait) = (world.rows, world.data.clone(), gate.clone());
        Memo::infallible_in(&world.graph, name, move |key: u64| {
            let (load, wait) = (load.clone(), wait.clone());
            async move {
                rows.read(&key);
                wait.pass().await;
                load.load(SeqCst)
            }
        })
    };
    let rows = world.rows;
    let gate = Gate::default();
    let slow = gated("slow", &gate);
    let mut get = slow.get(1);
    assert!(poll(&mut get).is_pending());
    let guard = rows.write(&1);
    world.data.store(2, SeqCst);
    gate.open();
    assert_eq!(*now(get).unwrap(), 2);
    assert!(slow.cached(&1).is_none(), "it is nobody else's");
    guard.finish();
    // Also inside of a function.
    let gate = Gate::default();
    let slow = gated("slower", &gate);
    let act = Memo::infallible_in(&world.graph, "act", move |key: u64| {
        let gate = gate.clone();
        async move {
            let mut get = slow.get(key);
            let pending = std::future::poll_fn(|context| {
                Poll::Ready(Pin::new(&mut get).poll(context).is_pending())
            });
            assert!(pending.await);
            let guard = rows.write(&key);
            gate.open();
            let value = *get.await.unwrap();
            guard.finish();
            value
        }
    });
    assert_eq!(*now(act.get(5)).unwrap(), 2);
}

#[test]
fn a_watch_yields_nothing_before_it_is_announced() {
    let world = World::new();
    let guard = world.write();
    let mut watch = world.other.watch(1);
    let mut next = Box::pin(watch.next());
    assert!(poll(&mut next).is_pending());
    drop(guard);
    assert_eq!(*now(next).unwrap().unwrap(), 2);
}

#[test]
fn who_writes_does_not_wait_for_himself_and_what_he_reads_is_not_kept() {
    let world = World::new();
    let over = world.other;
    let above = Memo::infallible_in(&world.graph, "above", move |key: u64| async move {
        *over.get(key).await.unwrap()
    });
    let guard = world.rows.write(&1);
    world.data.store(2, SeqCst);
    assert_eq!(*now(above.get(1)).unwrap(), 2);
    assert!(above.cached(&1).is_none() && world.other.cached(&1).is_none());
    let other = world.other;
    let elsewhere = std::thread::spawn(move || poll(&mut other.get(1)).is_pending());
    assert!(elsewhere.join().unwrap(), "others wait");
    guard.finish();
    now(above.get(1)).unwrap();
    assert!(above.cached(&1).is_some());
}

#[test]
fn who_writes_and_asks_for_what_asks_for_itself_is_told_of_the_cycle() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let asked = cell.clone();
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let asked = asked.clone();
        async move { asked.get().unwrap().get(key).await.map(|value| *value) }
    });
    cell.set(memo).unwrap();
    let _guard = rows.write(&1);
    let error = now(memo.get(1)).unwrap_err();
    assert!(error.to_string().contains("memo(1) -> memo(1)"), "{error}");
}

#[test]
fn who_writes_and_asks_two_memos_of_one_name_is_told_of_no_cycle() {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Secret(u64);
    impl std::fmt::Debug for Secret {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("secret")
        }
    }
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let below = Memo::infallible_in(&graph, "memo", async |key: Secret| key.0);
    let above = Memo::infallible_in(&graph, "memo", move |key: Secret| async move {
        *below.get(key).await.unwrap()
    });
    let cell: Arc<OnceLock<Memo<Secret, u64>>> = Arc::default();
    let asked = cell.clone();
    let chain = Memo::infallible_in(&graph, "chain", move |Secret(key)| {
        let asked = asked.clone();
        async move {
            match key {
                0 => *above.get(Secret(7)).await.unwrap(),
                more => *asked.get().unwrap().get(Secret(more - 1)).await.unwrap(),
            }
        }
    });
    cell.set(chain).unwrap();
    let _guard = rows.write(&1);
    assert_eq!(*now(chain.get(Secret(3))).unwrap(), 7);
}

#[test]
fn two_who_write_and_read_what_the_other_writes_do_not_wait_for_each_other() {
    let world = World::new();
    let (rows, other) = (world.rows, world.other);
    let both = Arc::new(std::sync::Barrier::new(2));
    let threads: Vec<_> = [1, 2]
        .map(|key| {
            let both = both.clone();
            std::thread::spawn(move || {
                let guard = rows.write(&key);
                both.wait();
                let value = now(other.get(3 - key)).unwrap();
                both.wait();
                guard.finish();
                *value
            })
        })
        .into();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 1);
    }
}

#[test]
fn a_write_whose_key_is_not_known_yet_holds_every_key_and_announces_the_one_it_was() {
    let world = World::new();
    now(world.held.get(2)).unwrap();
    let (rows, held) = (world.rows, world.held);
    let guard = std::thread::spawn(move || rows.write_unknown()).join().unwrap();
    assert!(poll(&mut world.other.get(2)).is_pending());
    guard.also(&world.rows, &1).finish();
    assert!(held.cached(&1).is_none() && held.cached(&2).is_some(), "the one that it was");
    now(held.get(1)).unwrap();
    world.rows.write_unknown().unchanged();
    assert!(held.cached(&1).is_some() && held.cached(&2).is_some(), "it was rolled back");
    drop(world.rows.write_unknown());
    assert!(held.cached(&1).is_none() && held.cached(&2).is_none(), "it may have been any");
}

#[test]
fn a_write_that_nobody_ends_holds_others_up_for_a_limited_time() {
    let world = World::new();
    let start = Instant::now();
    world.graph.set_write_limit(Duration::from_secs(10));
    std::mem::forget(world.write());
    let mut get = world.other.get(1);
    assert!(poll(&mut get).is_pending());
    assert_eq!(world.graph.advance(start), Some(start + Duration::from_secs(10)));
    assert!(poll(&mut get).is_pending());
    assert_eq!(world.graph.advance(start + Duration::from_secs(10)), None);
    assert!(matches!(poll(&mut get), Poll::Ready(Ok(_))));
}

#[test]
fn a_write_that_is_announced_a_chunk_a_poll_holds_until_the_last() {
    let world = World::new();
    world.graph.set_walk_chunk(1, false);
    for key in 10..20 {
        let held = world.held;
        let above = Memo::infallible_in(&world.graph, "above", move |_: u64| async move {
            *held.get(1).await.unwrap()
        });
        now(above.get(key)).unwrap();
    }
    let mut finish = Box::pin(world.write().finish_async());
    let mut get = world.other.get(1);
    let mut polls = 0;
    while poll(&mut finish).is_pending() {
        polls += 1;
        assert!(poll(&mut get).is_pending(), "not everything is marked");
    }
    assert!(polls > 3);
    assert_eq!(*now(get).unwrap(), 2);
}

#[test]
fn a_run_that_is_no_computation_is_held_as_a_value_is() {
    let world = World::new();
    let (rows, data) = (world.rows, world.data.clone());
    let run = |read: fn(Source<u64>)| {
        let data = data.clone();
        Box::pin(OrderedReads::new(&world.graph).follow(async move {
            read(rows);
            data.load(SeqCst)
        }))
    };
    assert_eq!(now(run(|rows| rows.read(&1))), 1);
    let guard = world.write();
    let mut row = run(|rows| rows.read(&1));
    let mut page = run(|rows| rows.range(0..5));
    assert_eq!(poll(&mut row), Poll::Pending);
    assert_eq!(poll(&mut page), Poll::Pending);
    assert_eq!(now(run(|rows| rows.read(&2))), 2, "another key");
    assert_eq!(now(run(|_| {})), 2, "it read nothing");
    drop(run(|rows| rows.read(&1)));
    let other = Graph::new();
    let mut of_other = Box::pin(OrderedReads::new(&other).follow(async move { rows.read(&1) }));
    assert_eq!(poll(&mut of_other), Poll::Ready(()), "sources of another graph do not count");
    guard.finish();
    assert_eq!(poll(&mut row), Poll::Ready(2));
    assert_eq!(poll(&mut page), Poll::Ready(2));
}

#[test]
fn a_run_does_not_wait_for_its_own_write_nor_for_one_that_begins_later() {
    let world = World::new();
    let rows = world.rows;
    let run = OrderedReads::new(&world.graph).follow(async move {
        let guard = rows.write(&1);
        rows.read(&1);
        guard
    });
    let guard = now(run);
    let mut reads = OrderedReads::new(&world.graph);
    reads.note(|| rows.read(&1));
    assert!(reads.are_announced(), "whoever holds the guard is not held");
    drop(guard);
    let mut reads = OrderedReads::new(&world.graph);
    reads.note(|| rows.read(&1));
    assert!(reads.are_announced());
    let _later = world.write();
    assert!(!reads.are_announced());
}

#[test]
fn a_run_that_is_held_is_woken_when_the_write_ends() {
    let world = World::new();
    let rows = world.rows;
    let guard = world.write();
    let mut run = Box::pin(OrderedReads::new(&world.graph).follow(async move { rows.read(&1) }));
    let wakes = Wakes::new();
    assert_eq!(poll_with(&mut run, &wakes), Poll::Pending);
    let before = wakes.count();
    drop(guard);
    assert!(wakes.count() > before);
    assert_eq!(poll_with(&mut run, &wakes), Poll::Ready(()));
}

#[test]
fn what_a_writer_does_not_wait_for_is_an_answer_that_it_asked_for_all_the_same() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let rows = Source::<u64>::new_in(&graph, "rows");
    let wait = gate.clone();
    let slow = Memo::infallible_in(&graph, "slow", move |key: u64| {
        let wait = wait.clone();
        async move {
            wait.pass().await;
            key
        }
    });
    let writes = Memo::infallible_in(&graph, "writes", move |key: u64| async move {
        let guard = rows.write(&100);
        let answer = match poll(&mut slow.get(key)) {
            Poll::Ready(value) => *value.unwrap(),
            Poll::Pending => 99,
        };
        guard.unchanged();
        answer
    });
    assert_eq!(*now(writes.get(1)).unwrap(), 99);
    assert!(writes.cached(&1).is_none(), "it did not wait");
    gate.open();
    assert_eq!(*now(writes.get(1)).unwrap(), 1);
}

#[test]
fn of_two_runs_of_one_caller_that_are_held_each_is_woken_when_the_write_ends() {
    let world = World::new();
    let rows = world.rows;
    let guard = world.write();
    let held = || {
        let run = OrderedReads::new(&world.graph).follow(async move { rows.read(&1) });
        let (mut run, wakes) = (Box::pin(run), Wakes::new());
        assert_eq!(poll_with(&mut run, &wakes), Poll::Pending);
        (run, wakes)
    };
    let mut runs = [held(), held()];
    let before = runs.each_ref().map(|(_, wakes)| wakes.count());
    drop(guard);
    for ((run, wakes), before) in runs.iter_mut().zip(before) {
        assert!(wakes.count() > before);
        assert_eq!(poll_with(run, wakes), Poll::Ready(()));
    }
}

#[cfg(feature = "tokio")]
#[test]
fn tasks_of_one_call_are_one_holder_and_two_calls_of_one_task_are_two() {
    let world = World::new();
    let (rows, other) = (world.rows, world.other);
    let waits =
        move |call| Ambient::new(call).scope(async move { poll(&mut other.get(1)).is_pending() });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let write = Ambient::new(7).scope(async move { rows.write(&1) });
        let guard = tokio::spawn(write).await.unwrap();
        assert!(!tokio::spawn(waits(7)).await.unwrap(), "another task of the same call");
        assert!(tokio::spawn(waits(8)).await.unwrap(), "another call");
        guard.unchanged();
        let of_two_calls = async move {
            let _guard = Ambient::new(7).scope(async move { rows.write(&1) }).await;
            (waits(7).await, waits(8).await)
        };
        assert_eq!(tokio::spawn(of_two_calls).await.unwrap(), (false, true));
    });
}

#[test]
fn what_has_read_two_keys_that_are_written_waits_for_both_writes() {
    let world = World::new();
    now(world.held.get(2)).unwrap();
    let load = world.data.clone();
    let rows = world.rows;
    let pair = Memo::infallible_in(&world.graph, "pair", move |(one, two): (u64, u64)| {
        let load = load.clone();
        async move {
            rows.read(&one);
            rows.read(&two);
            load.load(SeqCst)
        }
    });
    let first = world.write();
    let second = std::thread::spawn(move || rows.write(&2)).join().unwrap();
    let mut get = pair.get((1, 2));
    let wakes = Wakes::new();
    assert!(poll_with(&mut get, &wakes).is_pending());
    first.unchanged();
    assert!(poll_with(&mut get, &wakes).is_pending(), "the other one is not announced");
    assert_eq!(*now(world.held.get(2)).unwrap(), 1);
    let before = wakes.count();
    second.finish();
    assert!(wakes.count() > before);
    assert_eq!(*now(get).unwrap(), 2);
    assert_eq!(*now(world.held.get(2)).unwrap(), 2);
}

/// A guard of another thread.
fn elsewhere(begin: impl FnOnce() -> WriteGuard + Send + 'static) -> WriteGuard {
    std::thread::spawn(begin).join().unwrap()
}

#[test]
fn an_interval_that_is_read_for_the_first_time_waits_for_every_write_of_a_key_in_it() {
    for first_ends in [true, false] {
        let world = World::new();
        let rows = world.rows;
        let one = elsewhere(move || rows.write(&1));
        let two = elsewhere(move || rows.write(&2));
        let (ends, stays) = if first_ends { (one, two) } else { (two, one) };
        let mut both = world.page.get((0, 9));
        assert!(poll(&mut both).is_pending());
        ends.finish();
        assert!(poll(&mut both).is_pending(), "the other write goes on");
        let of_other = if first_ends { (2, 3) } else { (1, 2) };
        let mut other = world.page.get(of_other);
        assert!(poll(&mut other).is_pending(), "also for who begins now");
        assert!(poll(&mut world.page.get((3, 9))).is_ready());
        stays.finish();
        now(both).unwrap();
        now(other).unwrap();
    }
}

#[test]
fn a_write_of_several_keys_holds_what_has_read_any_of_them() {
    let world = World::new();
    let rows = world.rows;
    now(world.page.get((20, 30))).unwrap();
    world.page.invalidate(&(20, 30));
    let guard = elsewhere(move || rows.write(&1).also(&rows, &2).also(&rows, &25));
    for key in [1, 2, 25] {
        assert!(poll(&mut world.other.get(key)).is_pending(), "{key}");
    }
    assert!(poll(&mut world.page.get((20, 30))).is_pending());
    assert!(poll(&mut world.page.get((2, 3))).is_pending());
    assert!(poll(&mut world.other.get(3)).is_ready());
    guard.finish();
    assert!(poll(&mut world.other.get(2)).is_ready());
}

#[test]
fn the_time_of_each_write_that_nobody_ends_begins_when_it_is_first_seen() {
    let (world, start) = (World::new(), Instant::now());
    let second = Duration::from_secs(1);
    world.graph.set_write_limit(10 * second);
    let rows = world.rows;
    std::mem::forget(elsewhere(move || rows.write(&1)));
    assert_eq!(world.graph.advance(start), Some(start + 10 * second));
    std::mem::forget(elsewhere(move || rows.write(&2)));
    let ends = |now| world.graph.advance(start + now * second);
    assert_eq!(ends(4), Some(start + 10 * second), "that of the first");
    assert_eq!(ends(8), Some(start + 10 * second));
    let (mut one, mut two) = (world.other.get(1), world.other.get(2));
    assert!(poll(&mut one).is_pending() && poll(&mut two).is_pending());
    assert_eq!(ends(10), Some(start + 14 * second), "that of the second");
    assert!(poll(&mut one).is_ready() && poll(&mut two).is_pending());
    assert_eq!(ends(14), None);
    assert!(poll(&mut two).is_ready());
}

/// A memo of which each key asks for the one below, down to 0, which does what it is told to.
fn chain<R>(graph: &Graph, end: impl Fn() -> R + Send + Sync + 'static) -> Memo<u64, u64>
where
    R: Future<Output = u64> + Send + 'static,
{
    let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let (below, end) = (cell.clone(), Arc::new(end));
    let chain = Memo::new_in(graph, "chain", move |key: u64| {
        let (below, end) = (below.clone(), end.clone());
        async move {
            match key {
                0 => Ok::<_, Error>(end().await),
                key => Ok(*below.get().unwrap().get(key - 1).await? + 1),
            }
        }
    });
    cell.set(chain).unwrap();
    chain
}

#[test]
fn who_writes_may_ask_for_a_chain_of_any_depth_that_reads_what_he_writes() {
    const DEPTH: u64 = if cfg!(miri) { 200 } else { 20_000 };
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let gate = Gate::default();
    let wait = gate.clone();
    let chain = chain(&graph, move || {
        rows.read(&1);
        let wait = wait.clone();
        async move {
            yield_once().await;
            wait.pass().await;
            yield_once().await;
            7
        }
    });
    let guard = rows.write(&1);
    let (mut get, mut given_up) = (chain.get(DEPTH), chain.get(DEPTH));
    for get in [&mut get, &mut given_up] {
        for _ in 0..5 {
            assert!(poll(get).is_pending(), "the end waits");
        }
    }
    drop(given_up);
    gate.open();
    assert_eq!(*now(get).unwrap(), DEPTH + 7);
    guard.finish();
    assert_ne!(now(chain.get(3)).unwrap().version(), 0);
}

#[test]
fn who_writes_is_told_of_a_cycle_and_of_a_panic_at_any_depth() {
    for depth in [1, 40, 63, 64, 65, 100, 1000] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let top: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
        let again = top.clone();
        let ring = chain(&graph, move || {
            let again = again.clone();
            async move {
                again.get().unwrap().get(depth).await.map_or_else(|error| panic!("{error}"), |_| 0)
            }
        });
        top.set(ring).unwrap();
        let guard = rows.write(&1);
        let error = now(ring.get(depth)).unwrap_err().to_string();
        assert!(error.contains("panicked: cycle: chain("), "{error}");
        guard.finish();
    }
}

#[test]
fn a_thread_that_begins_when_the_holder_has_ended_is_not_taken_for_it() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        rows.read(&key);
        async move { key }
    });
    for key in 0..20 {
        let guard = std::thread::spawn(move || rows.write(&key)).join().unwrap();
        let held = std::thread::spawn(move || poll(&mut memo.get(key)).is_pending());
        assert!(held.join().unwrap());
        drop(guard);
    }
}

#[test]
fn calls_whose_numbers_differ_in_one_bit_are_two() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        rows.read(&key);
        async move { key }
    });
    for bit in 1..64 {
        let guard = now(Ambient::new(1).scope(async { rows.write(&bit) }));
        let mut other = Box::pin(Ambient::new(1 | 1 << bit).scope(memo.get(bit)));
        assert!(poll(&mut other).is_pending(), "{bit}");
        drop(other);
        assert!(poll(&mut Box::pin(Ambient::new(1).scope(memo.get(bit)))).is_ready(), "{bit}");
        drop(guard);
    }
}

#[test]
fn what_was_read_of_a_source_whose_entry_went_meanwhile_is_held_like_any_other() {
    let graph = Graph::new();
    let (data, rows) = (Arc::new(AtomicU64::new(0)), Source::<u64>::new_in(&graph, "rows"));
    let read = data.clone();
    let page = Memo::infallible_in(&graph, "page", move |_: u64| {
        rows.range(0..10);
        let value = read.load(SeqCst);
        async move { value }
    });
    let (read, gate) = (data.clone(), Gate::default());
    let waits = gate.clone();
    let row = Memo::infallible_in(&graph, "row", move |key: u64| {
        rows.read(&key);
        let (value, waits) = (read.load(SeqCst), waits.clone());
        async move {
            waits.pass().await;
            value
        }
    });
    now(page.get(0)).unwrap();
    let guard = std::thread::spawn(move || rows.write(&1)).join().unwrap();
    data.store(1, SeqCst);
    let mut newer = row.get(1);
    assert!(poll(&mut newer).is_pending());
    rows.evict(&1);
    gate.open();
    assert!(poll(&mut newer).is_pending(), "the page still shows what was before");
    assert_eq!(*page.cached(&0).unwrap(), 0);
    guard.finish();
    assert_eq!(*now(newer).unwrap(), 1);
    assert_eq!(*now(page.get(0)).unwrap(), 1);
}

#[test]
fn a_watch_of_who_writes_does_not_wait_for_him() {
    let world = World::new();
    let guard = world.rows.write(&1);
    let mut watch = world.other.watch(1);
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 1);
    world.data.store(2, SeqCst);
    let mut next = Box::pin(watch.next());
    assert!(poll(&mut next).is_pending(), "others run before it is computed again");
    let Poll::Ready(second) = poll(&mut next) else { panic!("it waits for its own guard") };
    drop(next);
    assert_eq!(*second.unwrap().unwrap(), 2);
    guard.finish();
    let third = now(watch.next()).unwrap().unwrap();
    assert!(*third == 2 && third.version() != 0, "what is kept now");
    assert!(poll(&mut Box::pin(watch.next())).is_pending());
}

#[test]
fn two_who_write_and_follow_reads_of_what_the_other_writes_do_not_wait_for_each_other() {
    let world = World::new();
    let rows = world.rows;
    let begin = |number: u64, mine: u64, other: u64| {
        let graph = world.graph.clone();
        Box::pin(Ambient::new(number).scope(async move {
            let reads = OrderedReads::new(&graph);
            let guard = rows.write(&mine);
            yield_once().await;
            reads.follow(async move { rows.read(&other) }).await;
            guard.finish();
        }))
    };
    let (mut one, mut two) = (begin(1, 1, 2), begin(2, 2, 1));
    assert!(poll(&mut one).is_pending() && poll(&mut two).is_pending());
    assert!(poll(&mut one).is_ready(), "it waits for the other");
    assert!(poll(&mut two).is_ready());
}

#[test]
fn who_waits_for_the_order_of_his_reads_and_begins_to_write_waits_no_longer() {
    let world = World::new();
    let (rows, other) = (world.rows, world.write());
    let reads = OrderedReads::new(&world.graph);
    let mut follow = Box::pin(reads.follow(async move { rows.read(&1) }));
    assert!(poll(&mut follow).is_pending());
    let own = rows.write(&2);
    assert!(poll(&mut follow).is_ready());
    own.finish();
    other.finish();
}

type Tasks = Arc<Mutex<Vec<Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>>>>>;

#[test]
fn who_writes_and_asks_for_itself_in_a_task_is_told_of_the_cycle() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (tasks, cell) = (Tasks::default(), Arc::<OnceLock<Memo<u64, u64>>>::default());
    let (spawned, asked) = (tasks.clone(), cell.clone());
    let gate = Gate::default();
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (spawned, asked, wait) = (spawned.clone(), asked.clone(), wait.clone());
        async move {
            let asks = async move { asked.get().unwrap().get(key).await.map(|value| *value) };
            spawned.lock().unwrap().push(Box::pin(scope(asks)));
            wait.pass().await;
            key
        }
    });
    cell.set(memo).unwrap();
    let guard = rows.write(&1);
    let mut get = memo.get(1);
    assert!(poll(&mut get).is_pending());
    let mut task = tasks.lock().unwrap().pop().unwrap();
    let Poll::Ready(Err(error)) = poll(&mut task) else { panic!("a run without end") };
    assert!(error.to_string().contains("memo(1) -> memo(1)"), "{error}");
    // A task that is left over from a run is no part of it.
    assert!(poll(&mut memo.get(2)).is_pending());
    let mut left = tasks.lock().unwrap().pop().unwrap();
    gate.open();
    assert_eq!(*now(get).unwrap(), 1);
    let Poll::Ready(Ok(2)) = poll(&mut left) else { panic!("its run is over") };
    guard.finish();
}

#[test]
fn what_somebody_who_writes_waits_for_ends_when_its_memo_or_its_graph_is_closed() {
    for (closes_graph, depth) in [(true, 0), (true, 100), (false, 0), (false, 100)] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let memo = chain(&graph, move || {
            rows.read(&1);
            std::future::pending()
        });
        let guard = rows.write(&1);
        let wakes = Wakes::new();
        let mut get = memo.get(depth);
        for _ in 0..3 {
            assert!(poll_with(&mut get, &wakes).is_pending());
        }
        let before = wakes.count();
        if closes_graph {
            drop(graph)
        } else {
            memo.close()
        }
        assert!(wakes.count() > before, "it is told");
        let Poll::Ready(Err(error)) = poll_with(&mut get, &wakes) else { panic!("it waits") };
        assert_eq!(error.kind(), tidewire_memo::ErrorKind::Closed);
        drop(guard);
    }
}

#[test]
fn a_run_that_is_held_goes_on_when_the_graph_is_closed() {
    let World { graph, rows, other, .. } = World::new();
    let guard = elsewhere(move || rows.write(&1));
    let wakes = Wakes::new();
    let reads = OrderedReads::new(&graph);
    let mut follow = Box::pin(reads.follow(async move { rows.read(&1) }));
    assert!(poll_with(&mut follow, &wakes).is_pending());
    drop((graph, other));
    assert_eq!(wakes.count(), 1);
    assert!(poll_with(&mut follow, &wakes).is_ready());
    drop(guard);
}

#[test]
fn what_somebody_who_writes_asks_for_deep_within_goes_on_also_where_it_is_given_to_somebody_else() {
    type Left = Arc<Mutex<Option<tidewire_memo::Get<u64, u64>>>>;
    for depth in [1, 46, 47, 48, 49, 95, 96, 97, 200] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (gate, left) = (Gate::default(), Left::default());
        let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
        let (below, wait, leaves) = (cell.clone(), gate.clone(), left.clone());
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
            let (below, wait, leaves) = (below.clone(), wait.clone(), leaves.clone());
            async move {
                let below = below.get().unwrap();
                match key {
                    0 => {
                        rows.read(&1);
                        wait.pass().await;
                        0
                    }
                    1 => {
                        let mut get = below.get(0);
                        std::future::poll_fn(|context| {
                            _ = Pin::new(&mut get).poll(context);
                            Poll::Ready(())
                        })
                        .await;
                        *leaves.lock().unwrap() = Some(get);
                        std::future::pending().await
                    }
                    key => *below.get(key - 1).await.unwrap() + 1,
                }
            }
        });
        cell.set(memo).unwrap();
        let (guard, wakes) = (rows.write(&1), Wakes::new());
        let mut get = memo.get(depth);
        for _ in 0..6 {
            assert!(poll(&mut get).is_pending());
        }
        let mut deep = left.lock().unwrap().take().unwrap();
        assert!(poll_with(&mut deep, &wakes).is_pending());
        gate.open();
        assert!(wakes.count() > 0);
        let answer = (0..9).find_map(|_| match poll_with(&mut deep, &wakes) {
            Poll::Ready(answer) => Some(answer.map(|value| *value).map_err(|error| error.kind())),
            Poll::Pending => None,
        });
        assert_eq!(answer, Some(Ok(0)), "depth {depth}");
        drop(get);
        guard.finish();
    }
}

#[test]
fn what_a_function_asked_for_while_it_wrote_holds_its_answer_after_that() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let row = Memo::infallible_in(&graph, "row", move |key: u64| {
        let load = load.clone();
        async move {
            rows.read(&key);
            load.load(SeqCst)
        }
    });
    assert_eq!(*now(row.get(3)).unwrap(), 1);
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *row.get(key).await.unwrap()
    });
    let writes = Memo::infallible_in(&graph, "writes", move |_: u64| async move {
        let write = rows.write(&4);
        // Not in memory, so that it is computed for who writes.
        let value = *above.get(3).await.unwrap();
        write.finish();
        value
    });
    let (send, receive) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let write = rows.write(&3);
        send.send(write).unwrap();
    });
    let write = receive.recv().unwrap();
    other.join().unwrap();
    data.store(2, SeqCst);
    row.evict(&3);
    let mut first = writes.get(0);
    assert!(poll(&mut first).is_pending(), "it shows what nobody else is given yet");
    write.finish();
    assert_eq!(*now(first).unwrap(), 2);
    assert_eq!(*now(row.get(3)).unwrap(), 2);
}
