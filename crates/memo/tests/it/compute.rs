//! Hits, misses, single flight, capture, cutoff.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;

use tidewire_memo::{ErrorKind, EventKind, Graph, Memo, Recording, Source, scope};

use crate::support::{Gate, Wakes, logged, now, poll, poll_with, work, yield_once};

#[test]
fn a_second_get_is_a_hit_and_does_not_run_the_function() {
    let graph = Graph::new();
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let memo = Memo::infallible_in(&graph, "double", move |key: u64| {
        let runs = counted.clone();
        async move {
            runs.fetch_add(1, SeqCst);
            key * 2
        }
    });
    assert_eq!(memo.with(&4, |value| *value), None);
    assert_eq!(*now(memo.get(4)).unwrap(), 8);
    assert_eq!(*now(memo.get(4)).unwrap(), 8);
    assert_eq!(memo.with(&4, |value| *value), Some(8));
    assert_eq!(memo.copied(&4), Some(8));
    assert_eq!(memo.cached(&4).unwrap(), 8);
    assert_eq!(runs.load(SeqCst), 1);
}

#[test]
fn concurrent_misses_of_one_key_run_the_function_once() {
    let graph = Graph::new();
    let gate = Gate::default();
    let memo = gated(&graph, gate.clone());
    graph.record_events(Recording::everything());
    let mut calls: Vec<_> = (0..5).map(|_| memo.get(1)).collect();
    for call in &mut calls {
        assert!(poll(call).is_pending());
    }
    gate.open();
    for call in calls {
        assert_eq!(*now(call).unwrap(), 10);
    }
    assert_eq!(logged(&graph, EventKind::Started), ["started gated(1)"]);
}

#[test]
fn dropping_the_caller_that_polled_last_leaves_the_computation_to_another() {
    let graph = Graph::new();
    let gate = Gate::default();
    let memo = gated(&graph, gate.clone());
    let (mut first, mut second) = (memo.get(1), memo.get(1));
    let wakes = Wakes::new();
    assert!(poll_with(&mut second, &wakes).is_pending());
    assert!(poll(&mut first).is_pending());
    drop(first);
    gate.open();
    assert_eq!(wakes.count(), 1, "the one that is left is woken to drive");
    assert!(poll_with(&mut second, &wakes).is_ready());
}

#[test]
fn a_few_who_wait_are_all_woken_and_only_the_first_of_them_polls_the_function() {
    let graph = Graph::new();
    let (first, second, polls) = (Gate::default(), Gate::default(), Arc::new(AtomicU64::new(0)));
    let (gates, count) = ([first.clone(), second.clone()], polls.clone());
    let memo = Memo::infallible_in(&graph, "gated", move |key: u64| {
        let (gates, count) = (gates.clone(), count.clone());
        let mut run = Box::pin(async move {
            gates[0].pass().await;
            gates[1].pass().await;
            key
        });
        std::future::poll_fn(move |context| {
            count.fetch_add(1, SeqCst);
            run.as_mut().poll(context)
        })
    });
    let wakes: Vec<_> = (0..4).map(|_| Wakes::new()).collect();
    let mut calls: Vec<_> = (0..4).map(|_| memo.get(1)).collect();
    for (opened, gate) in [None, Some(&first)].into_iter().enumerate() {
        gate.into_iter().for_each(Gate::open);
        assert!(wakes.iter().all(|wakes| wakes.count() == opened));
        for (call, wakes) in calls.iter_mut().zip(&wakes) {
            assert!(poll_with(call, wakes).is_pending());
        }
        assert_eq!(polls.load(SeqCst) as usize, opened + 1);
    }
    second.open();
    assert!(wakes.iter().all(|wakes| wakes.count() == 2));
    assert!(calls.into_iter().rev().all(|call| *now(call).unwrap() == 1));
    assert_eq!(polls.load(SeqCst), 3);
}

#[test]
fn of_many_who_wait_eight_are_woken_and_all_when_none_of_them_polled() {
    let graph = Graph::new();
    let (gates, wakes) = ([Gate::default(), Gate::default()], Wakes::new());
    let of_run = gates.clone();
    let memo = Memo::infallible_in(&graph, "gated", move |key: u64| {
        let [first, second] = of_run.clone();
        async move {
            futures::future::join(first.pass(), second.pass()).await;
            key
        }
    });
    let mut calls: Vec<_> = (0..20).map(|_| memo.get(1)).collect();
    calls.iter_mut().for_each(|call| assert!(poll_with(call, &wakes).is_pending()));
    gates[0].open();
    assert_eq!(wakes.count(), 8);
    gates[1].open();
    assert_eq!(wakes.count(), 20, "none of the eight has polled since");
    assert_eq!(*now(calls.pop().unwrap()).unwrap(), 1);
}

#[test]
fn the_last_caller_that_leaves_cancels_the_computation() {
    let graph = Graph::new();
    let alive = Arc::new(());
    let held = alive.clone();
    let memo = Memo::infallible_in(&graph, "never", move |_: u64| {
        let held = held.clone();
        async move {
            std::future::pending::<()>().await;
            drop(held);
        }
    });
    let (mut first, mut second) = (memo.get(1), memo.get(1));
    assert!(poll(&mut first).is_pending());
    assert!(poll(&mut second).is_pending());
    drop(first);
    assert_eq!(Arc::strong_count(&alive), 3);
    drop(second);
    assert_eq!(Arc::strong_count(&alive), 2, "the function's future was dropped");
    assert_eq!((graph.stats().cancelled, graph.stats().nodes), (1, 0));
}

#[test]
fn capture_survives_join_and_yields() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
        yield_once().await;
        rows.read(&key);
        key
    });
    let sum = Memo::infallible_in(&graph, "sum", move |_: ()| async move {
        let (a, b, c) = futures::join!(leaf.get(1), leaf.get(2), leaf.get(3));
        *a.unwrap() + *b.unwrap() + *c.unwrap()
    });
    assert_eq!(*now(sum.get(())).unwrap(), 6);
    for key in 1..=3 {
        assert!(sum.cached(&()).is_some());
        rows.changed(&key);
        assert!(sum.cached(&()).is_none(), "a change of {key} reaches the sum");
        now(sum.get(())).unwrap();
    }
}

#[test]
fn what_a_scoped_task_reads_is_a_dependency_and_what_an_unscoped_one_reads_is_not() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let scoped = Memo::infallible_in(&graph, "scoped", move |key: u64| async move {
        tokio::spawn(scope(async move { rows.read(&key) })).await.unwrap();
    });
    let unscoped = Memo::infallible_in(&graph, "unscoped", move |key: u64| async move {
        tokio::spawn(async move { rows.read(&key) }).await.unwrap();
    });
    runtime.block_on(scoped.get(1)).unwrap();
    runtime.block_on(unscoped.get(1)).unwrap();
    rows.changed(&1);
    assert!(scoped.cached(&1).is_none());
    assert!(unscoped.cached(&1).is_some());
}

#[test]
fn reads_of_a_scoped_task_after_publish_are_counted_and_become_dependencies() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let (send, receive) = std::sync::mpsc::channel();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let send = send.clone();
        async move {
            let late = scope(async move { rows.read(&key) });
            send.send(Box::pin(late)).unwrap();
        }
    });
    now(memo.get(1)).unwrap();
    now(receive.recv().unwrap());
    assert!(memo.cached(&1).is_some());
    assert_eq!(graph.stats().late_reads, 1);
    rows.changed(&1);
    assert!(memo.cached(&1).is_none());
}

#[test]
fn a_value_that_comes_out_equal_leaves_its_dependants_valid_without_running_them() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let parity = Memo::infallible_in(&graph, "parity", move |key: u64| async move {
        rows.read(&key);
        key % 2
    });
    let word = Memo::infallible_in(&graph, "word", move |key: u64| async move {
        if *parity.get(key).await.unwrap() == 0 { "even" } else { "odd" }
    });
    now(word.get(4)).unwrap();
    graph.record_events(Recording::everything());
    rows.changed(&4);
    assert_eq!(*now(word.get(4)).unwrap(), "even");
    assert_eq!(
        work(&graph),
        ["started parity(4)", "cut off parity(4)", "verified word(4)"].as_slice()
    );
}

#[test]
fn without_cutoff_an_equal_value_still_makes_its_dependants_run() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    // Not `PartialEq`.
    struct Opaque;
    let opaque = Memo::no_cutoff_in(&graph, "opaque", move |key: u64| async move {
        rows.read(&key);
        Ok::<_, std::convert::Infallible>(Opaque)
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        opaque.get(key).await.unwrap();
    });
    now(above.get(1)).unwrap();
    graph.record_events(Recording::everything());
    rows.changed(&1);
    now(above.get(1)).unwrap();
    let ran = logged(&graph, EventKind::Started);
    assert_eq!(ran, ["started opaque(1)", "started above(1)"]);
}

#[test]
fn a_hit_in_the_gap_never_sees_the_older_value() {
    // Fusion §4.3: invalidate during compute; the attempt that loaded before is never a hit.
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let gate = Gate::default();
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            let value = load.load(SeqCst);
            wait.pass().await;
            value
        }
    });
    let mut early = memo.get(0);
    assert!(poll(&mut early).is_pending());
    data.store(2, SeqCst);
    rows.changed(&0);
    assert!(memo.cached(&0).is_none());
    gate.open();
    let early = now(early).unwrap();
    assert_eq!(
        (*early, early.version()),
        (1, 0),
        "arrived before the change: may have the old one"
    );
    assert!(memo.cached(&0).is_none(), "the older value is never a hit");
    assert_eq!(*now(memo.get(0)).unwrap(), 2);
}

#[test]
fn a_caller_that_joins_after_a_change_gets_the_next_attempt() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let gate = Gate::default();
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            let value = load.load(SeqCst);
            wait.pass().await;
            value
        }
    });
    let mut early = memo.get(0);
    assert!(poll(&mut early).is_pending());
    data.store(2, SeqCst);
    rows.changed(&0);
    let mut late = memo.get(0);
    assert!(poll(&mut late).is_pending());
    gate.open();
    assert_eq!(*now(late).unwrap(), 2);
    assert_eq!(memo.copied(&0), Some(2));
    assert_eq!(graph.stats().started, 2);
}

#[test]
fn a_strict_memo_makes_early_callers_wait_for_a_valid_value() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let gate = Gate::default();
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            let value = load.load(SeqCst);
            wait.pass().await;
            value
        }
    })
    .strict();
    let mut early = memo.get(0);
    assert!(poll(&mut early).is_pending());
    data.store(2, SeqCst);
    rows.changed(&0);
    gate.open();
    assert_eq!(*now(early).unwrap(), 2);
}

#[test]
fn a_dependency_that_changed_between_read_and_publish_rejects_the_value() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let (load, gate) = (data.clone(), Gate::default());
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let load = load.clone();
        async move {
            rows.read(&key);
            load.load(SeqCst)
        }
    });
    let wait = gate.clone();
    let above = Memo::infallible_in(&graph, "above", move |key: u64| {
        let wait = wait.clone();
        async move {
            let value = *leaf.get(key).await.unwrap();
            wait.pass().await;
            value
        }
    });
    let mut early = above.get(0);
    assert!(poll(&mut early).is_pending());
    data.store(2, SeqCst);
    rows.changed(&0);
    let mut late = above.get(0);
    assert!(poll(&mut late).is_pending());
    gate.open();
    assert_eq!(*now(late).unwrap(), 2);
    drop(early);
    assert!(graph.stats().rejected >= 1);
}

#[test]
fn versions_order_the_values_of_a_key_and_survive_a_cutoff() {
    let graph = Graph::starting_at(1_000_000);
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |_: ()| {
        let load = load.clone();
        async move {
            rows.read(&());
            load.load(SeqCst)
        }
    });
    let first = now(memo.get(())).unwrap().version();
    assert!(first > 1_000_000);
    rows.changed(&());
    assert_eq!(now(memo.get(())).unwrap().version(), first, "equal value, same version");
    data.store(2, SeqCst);
    rows.changed(&());
    assert!(now(memo.get(())).unwrap().version() > first);
}

#[test]
fn a_read_across_graphs_is_not_memoized_because_it_cannot_be_tracked() {
    let (one, other) = (Graph::new(), Graph::new());
    let below = Memo::infallible_in(&other, "below", |key: u64| async move { key });
    let above = Memo::infallible_in(&one, "above", move |key: u64| async move {
        *below.get(key).await.unwrap()
    });
    assert_eq!(*now(above.get(1)).unwrap(), 1);
    assert!(above.cached(&1).is_none());
    assert!(one.stats().foreign_reads >= 1);
}

#[test]
fn handles_are_send_static_outlive_eviction_and_count_when_slots_run_out() {
    fn is_send_static<T: Send + Sync + 'static>(_: &T) {}
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "text", |key: u64| async move { key.to_string() });
    now(memo.get(7)).unwrap();
    let handles: Vec<_> = (0..100).map(|_| memo.cached(&7).unwrap()).collect();
    is_send_static(&handles[0]);
    let copy = handles[99].clone();
    assert!(memo.evict(&7));
    let sums = std::thread::spawn(move || handles.iter().map(|handle| handle.len()).sum::<usize>());
    assert_eq!(sums.join().unwrap(), 100);
    assert_eq!(*copy, "7");
}

#[test]
fn verify_reports_a_function_that_reads_what_no_source_covers() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let hidden = Arc::new(AtomicU64::new(1));
    let (load, reports) = (hidden.clone(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let memo = Memo::infallible_in(&graph, "leaky", move |key: u64| {
        let load = load.clone();
        async move {
            rows.read(&key);
            load.load(SeqCst)
        }
    })
    .verify(1.0);
    let sink = reports.clone();
    graph.on_mismatch(move |mismatch| sink.lock().unwrap().push(mismatch.clone()));
    now(memo.get(3)).unwrap();
    now(memo.get(3)).unwrap();
    assert!(reports.lock().unwrap().is_empty());
    hidden.store(2, SeqCst);
    assert_eq!(*now(memo.get(3)).unwrap(), 1, "the hit is served as it was");
    let reports = reports.lock().unwrap();
    assert_eq!(reports.len(), 1);
    assert_eq!((reports[0].memo.as_str(), reports[0].key.as_str()), ("leaky", "3"));
    assert_eq!(reports[0].dependencies, ["rows(3)"]);
    assert_eq!((graph.stats().audited, graph.stats().mismatched), (2, 1));
}

#[test]
fn errors_keep_the_type_of_the_function_that_made_them() {
    let graph = Graph::new();
    let memo = Memo::<u64, u64>::new_in(&graph, "parse", |_| async move { "x".parse::<u64>() });
    let error = now(memo.get(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    assert_eq!(error.to_string(), "invalid digit found in string");
}

fn gated(graph: &Graph, gate: Gate) -> Memo<u64, u64> {
    Memo::infallible_in(graph, "gated", move |key: u64| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            key * 10
        }
    })
}

#[test]
fn a_hit_is_ready_at_the_first_poll() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    now(memo.get(1)).unwrap();
    assert!(matches!(poll(&mut memo.get(1)), Poll::Ready(Ok(_))));
}

/// A memo of a row whose runs each wait at a gate of their own.
struct Runs {
    rows: Source<u64>,
    gates: Vec<Gate>,
    begun: Arc<AtomicU64>,
    memo: Memo<u64, u64>,
    _graph: Graph,
}

impl Runs {
    fn new() -> Self {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let gates: Vec<_> = (0..4).map(|_| Gate::default()).collect();
        let begun = Arc::new(AtomicU64::new(0));
        let (wait, count) = (gates.clone(), begun.clone());
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
            let run = count.fetch_add(1, SeqCst);
            let wait = wait[run as usize].clone();
            async move {
                rows.read(&key);
                wait.pass().await;
                run
            }
        });
        Self { rows, gates, begun, memo, _graph: graph }
    }

    /// A caller who waits.
    fn joins(&self) -> (tidewire_memo::Get<u64, u64>, Arc<Wakes>) {
        let (mut get, wakes) = (self.memo.get(1), Wakes::new());
        assert!(poll_with(&mut get, &wakes).is_pending());
        (get, wakes)
    }
}

#[test]
fn who_waits_is_given_the_run_that_was_under_way_or_the_next_one_and_woken_for_it() {
    let world = Runs::new();
    let (mut first, _) = world.joins();
    world.rows.changed(&1);
    let (mut second, _) = world.joins();
    let mut others = [world.joins(), world.joins()];
    world.gates[0].open();
    let Poll::Ready(Ok(value)) = poll(&mut first) else { panic!("it asked before the change") };
    assert_eq!((*value, value.version()), (0, 0));
    assert!(poll(&mut second).is_pending(), "it asked after that");
    for (other, wakes) in &mut others {
        assert!(poll_with(other, wakes).is_pending());
    }
    world.rows.changed(&1);
    let (mut last, _) = world.joins();
    assert!(poll(&mut second).is_pending());
    let counts = || others.iter().map(|(_, wakes)| wakes.count()).collect::<Vec<_>>();
    let before = counts();
    world.gates[1].open();
    let Poll::Ready(Ok(value)) = poll(&mut second) else { panic!("it waits for a third run") };
    assert_eq!((*value, value.version()), (1, 0));
    assert!(counts().iter().zip(before).all(|(now, before)| *now > before), "for each of them");
    for (mut other, _) in others {
        assert_eq!(poll(&mut other).map(|value| *value.unwrap()), Poll::Ready(1));
    }
    assert!(poll(&mut last).is_pending());
    world.gates[2].open();
    let value = now(last).unwrap();
    assert_eq!((*value, value.version() != 0), (2, true));
    assert_eq!(world.begun.load(SeqCst), 3);
}

#[test]
fn who_came_after_a_change_and_went_away_costs_no_run() {
    let world = Runs::new();
    let (early, _) = world.joins();
    world.rows.changed(&1);
    drop(world.joins());
    world.gates[0].open();
    assert_eq!(now(early).unwrap().version(), 0);
    assert_eq!(world.begun.load(SeqCst), 1);
}

#[test]
fn a_run_that_follows_one_that_was_invalidated_is_kept() {
    let world = Runs::new();
    let (early, _) = world.joins();
    world.memo.invalidate(&1);
    let (late, _) = world.joins();
    world.gates[0].open();
    world.gates[1].open();
    let value = now(late).unwrap();
    assert_eq!((*value, value.version() != 0), (1, true));
    assert_eq!(world.memo.cached(&1).as_deref(), Some(&1));
    drop(early);
}

#[test]
fn an_early_answer_is_told_to_all_who_may_have_it() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let gates = [Gate::default(), Gate::default()];
    let (pass, runs) = (gates.clone(), AtomicU64::new(0));
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = pass[runs.fetch_add(1, SeqCst) as usize].clone();
        async move {
            rows.read(&key);
            wait.pass().await;
            key
        }
    });
    let mut early: Vec<_> = (0..10).map(|_| (memo.get(1), Wakes::new())).collect();
    for (get, wakes) in &mut early {
        assert!(poll_with(get, wakes).is_pending());
    }
    rows.changed(&1);
    let mut late = memo.get(1);
    assert!(poll(&mut late).is_pending());
    gates[0].open();
    let Poll::Ready(answer) = poll_with(&mut early[0].0, &Wakes::new()) else { panic!("it waits") };
    assert_eq!(answer.unwrap().version(), 0);
    assert!(early[1..].iter().all(|(_, wakes)| wakes.count() > 0), "more than are woken to poll");
    assert!(poll(&mut late).is_pending(), "the second run waits");
}
