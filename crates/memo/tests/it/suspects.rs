//! What is suspect, and found unchanged at a glance or the long way.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use tidewire_memo::{Graph, Memo, Source};

use crate::support::{Gate, now, poll, work};

type Numbers = Arc<[AtomicU64]>;

/// Rows, their parities, and the sum of the parities of the first so many.
fn parities(graph: &Graph, rows: usize) -> (Source<usize>, Numbers, [Memo<usize, u64>; 2]) {
    let source = Source::new_in(graph, "rows");
    let numbers: Numbers = (0..rows).map(|_| AtomicU64::new(0)).collect();
    let all = numbers.clone();
    let parity = Memo::infallible_in(graph, "parity", move |row: usize| {
        source.read(&row);
        let number = all[row].load(SeqCst);
        async move { number % 2 }
    });
    let sum = Memo::infallible_in(graph, "sum", move |count: usize| async move {
        let mut sum = 0;
        for row in 0..count {
            sum += *parity.get(row).await.unwrap();
        }
        sum
    });
    (source, numbers, [parity, sum])
}

#[test]
fn a_sum_runs_again_whichever_of_its_dependencies_has_really_changed() {
    const COUNTS: [usize; 5] = [1, 2, 511, 512, 513];
    let graph = Graph::new();
    let (rows, numbers, [_, sum]) = parities(&graph, 600);
    let mut expected = 0;
    for count in COUNTS {
        assert_eq!(*now(sum.get(count)).unwrap(), expected);
        for row in [0, count / 2, count - 1] {
            // Changed, but not its parity: what is above is found unchanged.
            numbers[row].fetch_add(2, SeqCst);
            assert!(rows.changed(&row) > 0);
            let published = graph.stats().published;
            assert_eq!(*now(sum.get(count)).unwrap(), expected);
            assert_eq!(graph.stats().published - published, 1, "the parity alone, of {count}");
            // And again, with its parity, of which an edge must be left to tell.
            numbers[row].fetch_add(1, SeqCst);
            assert!(rows.changed(&row) > 1);
            expected = numbers.iter().map(|number| number.load(SeqCst) % 2).sum();
            assert_eq!(*now(sum.get(count)).unwrap(), expected, "row {row} of {count}");
            numbers[row].fetch_add(1, SeqCst);
            rows.changed(&row);
            expected -= 1;
            assert_eq!(*now(sum.get(count)).unwrap(), expected);
        }
    }
}

#[test]
fn a_value_that_is_found_unchanged_again_and_again_grows_nothing_and_still_hears_of_changes() {
    let graph = Graph::new();
    let (rows, numbers, [parity, sum]) = parities(&graph, 4);
    now(sum.get(4)).unwrap();
    let before = graph.stats().bytes;
    for round in 0..10_000u64 {
        let row = (round % 4) as usize;
        numbers[row].fetch_add(2, SeqCst);
        rows.changed(&row);
        if round % 3 > 0 {
            // Then a glance at it is enough.
            now(parity.get(row)).unwrap();
        }
        assert_eq!(*now(sum.get(4)).unwrap(), 0, "round {round}");
    }
    assert!(graph.stats().bytes <= before + 512, "{} after {before}", graph.stats().bytes);
    numbers[3].fetch_add(1, SeqCst);
    rows.changed(&3);
    assert_eq!(*now(sum.get(4)).unwrap(), 1);
}

#[test]
fn what_is_found_unchanged_does_not_live_longer_for_it() {
    let (graph, start) = (Graph::new(), Instant::now());
    let rows = Source::new_in(&graph, "rows");
    let below = Memo::infallible_in(&graph, "below", move |_: ()| async move { rows.read(&0) });
    let above = Memo::infallible_in(&graph, "above", move |_: ()| async move {
        below.get(()).await.unwrap();
    })
    .ttl(Duration::from_secs(10));
    graph.advance(start);
    now(above.get(())).unwrap();
    graph.record_events(tidewire_memo::Recording::everything());
    graph.advance(start + Duration::from_secs(6));
    rows.changed(&0);
    now(below.get(())).unwrap();
    now(above.get(())).unwrap();
    assert!(work(&graph).iter().all(|event| event != "started above(())"));
    let until = above.lifetime(&()).unwrap().until;
    assert_eq!(until, start + Duration::from_secs(10));
    graph.advance(until);
    assert!(above.cached(&()).is_none());
}

#[test]
fn threads_that_change_and_ask_at_once_each_see_what_they_have_written() {
    const THREADS: usize = 4;
    const WIDE: usize = 1200;
    let graph = Graph::new();
    let (rows, numbers, [_, sum]) = parities(&graph, WIDE);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (numbers, rows, sum) = (numbers.clone(), &rows, &sum);
            scope.spawn(move || {
                for round in 1..=300u64 {
                    numbers[thread].fetch_add(1, SeqCst);
                    rows.changed(&thread);
                    // The last thread's sum takes several holds to publish, which the others wait for.
                    let count = if thread == THREADS - 1 { WIDE } else { thread + 1 };
                    let found = *now(sum.get(count)).unwrap();
                    // Its own row is as it left it; the others' may be either.
                    let own = round % 2;
                    assert!((own..=own + THREADS as u64 - 1).contains(&found), "{found}");
                    if thread == 0 {
                        assert_eq!(found, own);
                    }
                }
            });
        }
    });
    assert_eq!(*now(sum.get(WIDE)).unwrap(), 0);
}

#[test]
fn what_becomes_suspect_again_while_a_later_dependency_is_computed_is_looked_at_again() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data: Numbers = (0..2).map(|_| AtomicU64::new(0)).collect();
    let (load, gate, first) = (data.clone(), Gate::default(), Arc::new(AtomicU64::new(0)));
    let wait = gate.clone();
    let row = Memo::infallible_in(&graph, "row", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        let slow = key == 1 && first.fetch_add(1, SeqCst) > 0;
        async move {
            rows.read(&key);
            if slow {
                wait.pass().await;
            }
            load[key as usize].load(SeqCst)
        }
    });
    let both = Memo::infallible_in(&graph, "both", move |_: u64| async move {
        *row.get(0).await.unwrap() + *row.get(1).await.unwrap()
    });
    assert_eq!(*now(both.get(0)).unwrap(), 0);
    rows.changed(&1);
    let mut get = both.get(0);
    assert!(poll(&mut get).is_pending(), "row 0 is unchanged, row 1 is computed anew");
    data[0].store(5, SeqCst);
    rows.changed(&0);
    gate.open();
    now(get).unwrap();
    assert_eq!(*now(both.get(0)).unwrap(), 5);
}
