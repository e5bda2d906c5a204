//! Who drives a computation for others is answered all the same, and nobody runs it again for nothing.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use tidewire_memo::{Get, Graph, Memo, Source};

use crate::support::{Gate, is_started_alone, now, poll};

/// A memo during each of whose first runs the data changes, and somebody else asks.
struct Contended {
    _graph: Graph,
    memo: Memo<u64, u64>,
    runs: Arc<AtomicUsize>,
    others: Arc<Mutex<Vec<Get<u64, u64>>>>,
}

impl Contended {
    fn new(disturbed: usize, is_strict: bool) -> Self {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (runs, others) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<_>>>::default());
        let this = Arc::<std::sync::OnceLock<Memo<u64, u64>>>::default();
        let (memo, count, asked) = (this.clone(), runs.clone(), others.clone());
        let contended = Memo::infallible_in(&graph, "contended", move |key: u64| {
            let run = count.fetch_add(1, SeqCst) + 1;
            let memo = *memo.get().unwrap();
            let asked = asked.clone();
            async move {
                rows.read(&key);
                let ask = move || {
                    rows.changed(&key);
                    let mut other = memo.get(key);
                    assert!(poll(&mut other).is_pending());
                    asked.lock().unwrap().push(other);
                };
                if run <= disturbed {
                    std::thread::spawn(ask).join().unwrap();
                }
                run as u64
            }
        });
        let contended = if is_strict { contended.strict() } else { contended };
        this.set(contended).unwrap();
        Self { _graph: graph, memo: contended, runs, others }
    }
}

#[test]
fn a_caller_is_answered_after_17_runs_although_in_each_the_data_changes_and_somebody_joins() {
    for is_strict in [false, true] {
        let world = Contended::new(1_000, is_strict);
        let Poll::Ready(Ok(value)) = poll(&mut world.memo.get(1)) else { panic!("it waits") };
        assert_eq!(world.runs.load(SeqCst), 17, "16 in a row were for others");
        assert_eq!(value.version(), 0);
        assert_eq!(*value, 17);
    }
}

#[test]
fn those_who_joined_go_on_where_a_caller_has_left_and_are_all_answered() {
    for is_strict in [false, true] {
        let world = Contended::new(50, is_strict);
        assert!(poll(&mut world.memo.get(1)).is_ready());
        for number in 0..50 {
            let other = world.others.lock().unwrap().remove(0);
            let value = now(other).unwrap();
            assert!(*value > number + 1, "no older than the question");
        }
        assert_eq!(*now(world.memo.get(1)).unwrap(), 51, "the first undisturbed run is kept");
        assert_eq!(world.runs.load(SeqCst), 51);
    }
}

#[test]
fn who_asks_after_something_was_forced_out_is_given_the_run_that_goes_on() {
    if is_started_alone(
        "contention::who_asks_after_something_was_forced_out_is_given_the_run_that_goes_on",
    ) {
        return;
    }
    let (graph, gate, runs) = (Graph::new(), Gate::default(), Arc::<AtomicUsize>::default());
    let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key });
    let (pass, count) = (gate.clone(), runs.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let pass = pass.clone();
        count.fetch_add(1, SeqCst);
        async move {
            let value = *leaf.get(key).await.unwrap();
            pass.pass().await;
            value
        }
    });
    let mut first = memo.get(1);
    assert!(poll(&mut first).is_pending());
    assert!(leaf.force_out(&1));
    let mut second = memo.get(1);
    assert!(poll(&mut second).is_pending());
    gate.open();
    assert_eq!((*now(first).unwrap(), *now(second).unwrap()), (1, 1));
    assert_eq!(runs.load(SeqCst), 1, "nothing has changed");
}

/// A value whose function is over while what it is made of has to be looked at, and a caller who is kept and not
/// polled. To be made in a process of its own.
struct Settling {
    graph: Graph,
    start: Instant,
    rows: Source<u64>,
    data: Arc<AtomicU64>,
    high: Memo<u64, u64>,
    runs: Arc<AtomicUsize>,
    _kept: Get<u64, u64>,
}

impl Settling {
    fn new() -> Self {
        let (graph, start) = (Graph::new(), Instant::now());
        graph.advance(start);
        let rows = Source::<u64>::new_in(&graph, "rows").external();
        let (data, runs) = (Arc::new(AtomicU64::new(7)), Arc::<AtomicUsize>::default());
        let is_slow = Arc::<AtomicU64>::default();
        let (gate, slow) = (Gate::default(), Gate::default());
        let (load, pass, waits) = (data.clone(), slow.clone(), is_slow.clone());
        let base = Memo::infallible_in(&graph, "base", move |key: u64| {
            let (load, pass, waits) = (load.clone(), pass.clone(), waits.clone());
            async move {
                rows.read(&key);
                if waits.load(SeqCst) > 0 {
                    pass.pass().await;
                }
                load.load(SeqCst)
            }
        });
        let low = Memo::infallible_in(&graph, "low", move |key: u64| async move {
            *base.get(key).await.unwrap()
        });
        let (pass, count) = (gate.clone(), runs.clone());
        let high = Memo::infallible_in(&graph, "high", move |key: u64| {
            let pass = pass.clone();
            count.fetch_add(1, SeqCst);
            async move {
                let value = *low.get(key).await.unwrap();
                pass.pass().await;
                value
            }
        });
        now(low.get(1)).unwrap();
        let mut kept = high.get(1);
        assert!(poll(&mut kept).is_pending());
        assert!(base.force_out(&1), "as the budget does");
        is_slow.store(1, SeqCst);
        gate.open();
        let early = now(high.get(1)).unwrap();
        assert_eq!((*early, early.version()), (7, 0), "it has waited for the function");
        slow.open();
        Self { graph, start, rows, data, high, runs, _kept: kept }
    }
}

#[test]
fn who_comes_when_a_function_is_over_goes_on_with_what_the_kept_callers_leave() {
    if is_started_alone(
        "contention::who_comes_when_a_function_is_over_goes_on_with_what_the_kept_callers_leave",
    ) {
        return;
    }
    let world = Settling::new();
    let value = now(world.high.get(1)).unwrap();
    assert_eq!(*value, 7);
    assert_ne!(value.version(), 0, "nothing has changed");
    assert_eq!(world.runs.load(SeqCst), 1);
}

#[test]
fn what_a_kept_caller_waits_for_does_not_outlive_the_life_of_its_source() {
    if is_started_alone(
        "contention::what_a_kept_caller_waits_for_does_not_outlive_the_life_of_its_source",
    ) {
        return;
    }
    let world = Settling::new();
    world.data.store(8, SeqCst);
    // One call dates the value, the next finds it over.
    assert_eq!(*now(world.high.get(1)).unwrap(), 7);
    world.graph.advance(world.start + Duration::from_secs(60));
    assert_eq!(*now(world.high.get(1)).unwrap(), 8);
}

#[test]
fn a_change_while_a_function_that_is_over_is_looked_at_is_seen() {
    if is_started_alone("contention::a_change_while_a_function_that_is_over_is_looked_at_is_seen") {
        return;
    }
    let world = Settling::new();
    world.data.store(8, SeqCst);
    world.rows.changed(&1);
    assert_eq!(*now(world.high.get(1)).unwrap(), 8);
}

#[test]
fn a_notification_of_what_a_kept_caller_waits_for_comes_once() {
    if is_started_alone("contention::a_notification_of_what_a_kept_caller_waits_for_comes_once") {
        return;
    }
    let world = Settling::new();
    let high = world.high;
    let top = Memo::infallible_in(&world.graph, "top", move |key: u64| async move {
        *high.get(key).await.unwrap()
    });
    let mut notify = top.notify(1);
    let mut notified = 0;
    for _ in 0..10 {
        assert_eq!(*now(top.get(1)).unwrap(), 7);
        notified += u32::from(poll(&mut Box::pin(notify.next())).is_ready());
    }
    assert!(notified <= 1, "{notified} times");
}
