//! The lock-free paths beside those that write: hit against publish, against reclaim, against growth.
//!
//! Small enough for Miri, which tries weak orders of memory and finds data races, reads of freed memory
//! and leaks; `scripts/proof.sh miri` runs them there with many seeds. Here they run as they are.
//!
//! What Miri cannot show is `membarrier`: there pinning ends with a fence, as off Linux. That a plain
//! store with a barrier of the collector is as good rests on the argument in `memory::epoch`.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread;

use tidewire_memo::{Graph, Memo, Source};

use crate::support::now;

const ROUNDS: u64 = if cfg!(miri) { 6 } else { 2_000 };

/// Counts and gives them in memory of its own, so that a value that is seen too early is a race.
fn counter(graph: &Graph) -> (Source<u64>, Memo<u64, Vec<u64>>, Arc<AtomicU64>) {
    let rows = Source::new_in(graph, "rows");
    let count = Arc::new(AtomicU64::new(0));
    let data = count.clone();
    let memo = Memo::infallible_in(graph, "memo", move |key: u64| {
        let data = data.clone();
        async move {
            rows.read(&key);
            vec![data.load(Relaxed); 3]
        }
    });
    (rows, memo, count)
}

/// A graph that comes and goes: closing one collects what nobody reads any more.
fn collect() {
    drop(Graph::new());
}

#[test]
fn a_reader_beside_a_writer_sees_whole_values_and_none_that_is_too_old() {
    let graph = Graph::new();
    let (rows, memo, data) = counter(&graph);
    now(memo.get(0)).unwrap();
    let announced = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                data.store(round, Relaxed);
                rows.changed(&0);
                announced.store(round, Release);
                now(memo.get(0)).unwrap();
            }
        });
        while announced.load(Acquire) < ROUNDS {
            let floor = announced.load(Acquire);
            let seen = match memo.cached(&0) {
                Some(value) => value.to_vec(),
                None => now(memo.get(0)).unwrap().to_vec(),
            };
            assert!(
                seen.iter().all(|count| *count == seen[0] && *count >= floor),
                "{seen:?}, {floor}"
            );
            thread::yield_now();
        }
    });
}

/// Nothing is replaced and nothing collected, so that the value itself is all that the two threads share.
#[test]
fn a_reader_of_keys_that_are_new_sees_whole_values() {
    let graph = Graph::new();
    let (_, memo, data) = counter(&graph);
    data.store(7, Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| (0..ROUNDS).for_each(|key| _ = now(memo.get(key)).unwrap()));
        for key in 0..ROUNDS {
            while memo.with(&key, |seen| assert_eq!(seen[..], [7; 3])).is_none() {
                thread::yield_now();
            }
        }
    });
}

#[test]
fn what_is_lent_or_owned_is_not_reclaimed() {
    let graph = Graph::new();
    let (rows, memo, data) = counter(&graph);
    now(memo.get(0)).unwrap();
    let over = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                data.store(round, Relaxed);
                rows.changed(&0);
                now(memo.get(0)).unwrap();
                memo.evict(&0);
                collect();
            }
            over.store(1, Release);
        });
        let mut held = Vec::new();
        while over.load(Acquire) == 0 {
            memo.with(&0, |value| {
                let first = value[0];
                thread::yield_now();
                assert!(value.iter().all(|count| *count == first));
            });
            held.extend(memo.cached(&0));
            for value in &held {
                assert!(value.iter().all(|count| *count == value[0]));
            }
            if held.len() > 3 {
                held.clear();
            }
            thread::yield_now();
        }
    });
}

#[test]
fn handles_travel_between_threads_and_outlive_their_graph() {
    let graph = Graph::new();
    let (_, memo, _) = counter(&graph);
    now(memo.get(0)).unwrap();
    let handles: Vec<_> = (0..3).filter_map(|_| memo.cached(&0)).collect();
    assert_eq!(handles.len(), 3);
    let counted = now(memo.get(1)).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || drop(graph));
        for handle in handles {
            scope.spawn(move || {
                collect();
                assert_eq!(handle.to_vec(), [0; 3]);
                drop(handle);
                collect();
            });
        }
    });
    collect();
    assert_eq!(counted.to_vec(), [0; 3]);
}

#[test]
fn a_table_that_grows_loses_nobody() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { vec![key; 2] });
    let keys = if cfg!(miri) { 40 } else { 4_000 };
    let published = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for key in 0..keys {
                now(memo.get(key)).unwrap();
                published.store(key + 1, Release);
                if key % 16 == 0 {
                    collect();
                }
            }
        });
        while published.load(Acquire) < keys {
            for key in 0..published.load(Acquire) {
                assert_eq!(memo.with(&key, Vec::clone), Some(vec![key; 2]), "{key}");
            }
            thread::yield_now();
        }
    });
}

#[test]
fn threads_that_come_and_go_hand_their_memory_on() {
    let graph = Graph::new();
    let (rows, memo, _) = counter(&graph);
    for round in 0..ROUNDS {
        thread::scope(|scope| {
            for key in 0..2 {
                scope.spawn(move || {
                    assert_eq!(now(memo.get(key)).unwrap().len(), 3);
                    rows.changed(&(round % 2));
                });
            }
        });
    }
}
