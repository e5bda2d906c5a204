//! Everything that grows with use is bounded by what is alive, and accounted for.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tidewire_memo::{Graph, Memo, Source};

use crate::support::now;

/// Operations at a constant live size.
const OPERATIONS: u64 = 1_000_000;

#[test]
fn alternating_dependencies_do_not_grow_a_list_of_dependants() {
    let graph = Graph::new();
    let which = Source::<()>::new_in(&graph, "which");
    let side = Arc::new(AtomicU64::new(0));
    let sides = Memo::infallible_in(&graph, "side", |key: u64| async move { key });
    let load = side.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let load = load.clone();
        async move {
            which.read(&());
            *sides.get(load.load(SeqCst) % 2).await.unwrap() + key
        }
    });
    let round = |number| {
        side.store(number, SeqCst);
        which.changed(&());
        now(memo.get(number % 2)).unwrap();
        now(memo.get(1)).unwrap();
    };
    (0..100).for_each(round);
    let before = graph.stats();
    assert_eq!(before.nodes, 5);
    (0..OPERATIONS / 2).for_each(round);
    let after = graph.stats();
    assert_eq!((after.nodes, after.bytes), (before.nodes, before.bytes));
}

#[test]
fn lists_of_dependants_are_accounted_for() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&0);
        key
    });
    let alone = Memo::infallible_in(&graph, "alone", |key: u64| async move { key });
    let bytes_of = |memo: Memo<u64, u64>| {
        let before = graph.stats().bytes;
        (0..1024).for_each(|key| _ = now(memo.get(key)).unwrap());
        graph.stats().bytes - before
    };
    let (with_edges, without) = (bytes_of(memo), bytes_of(alone));
    assert!(with_edges >= without + 1024 * 8, "{with_edges} and {without}");
    rows.changed(&0);
    assert!(graph.stats().bytes < 2 * without + 1024, "a list that was walked is given back");
}

#[test]
fn lives_that_nobody_times_do_not_grow() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
        .ttl(Duration::from_secs(60));
    let round = |number: u64| {
        memo.invalidate(&(number % 10));
        now(memo.get(number % 10)).unwrap();
    };
    (0..100).for_each(round);
    let before = graph.stats().bytes;
    (0..OPERATIONS).for_each(round);
    assert_eq!(graph.stats().bytes, before);
    let timeless = Memo::infallible_in(&graph, "timeless", |key: u64| async move { key });
    (0..10).for_each(|key| _ = now(timeless.get(key)).unwrap());
    assert!(before > graph.stats().bytes - before, "deadlines are accounted for");
}

#[test]
fn lives_that_are_timed_do_not_grow() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
        .ttl(Duration::from_secs(60));
    let start = std::time::Instant::now();
    let round = |number: u64| {
        graph.advance(start + Duration::from_millis(number));
        memo.invalidate(&(number % 10));
        now(memo.get(number % 10)).unwrap();
    };
    (0..5_000).for_each(round);
    let before = graph.stats().bytes;
    (5_000..OPERATIONS).for_each(round);
    let after = graph.stats().bytes;
    assert!(after <= before + 40_000, "{before} became {after}");
}

#[test]
fn watches_that_come_and_go_do_not_grow() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    (0..10).for_each(|key| _ = now(memo.get(key)).unwrap());
    let bare = graph.stats().bytes;
    let held: Vec<_> = (0..10).map(|key| memo.notify(key)).collect();
    let before = graph.stats().bytes;
    assert!(before >= bare + 10 * 32, "watches are accounted for");
    for number in 0..OPERATIONS {
        drop(memo.notify(number % 20));
    }
    assert_eq!(graph.stats().bytes, before);
    drop(held);
    assert_eq!(graph.stats().bytes, bare);
}

#[test]
fn intervals_that_come_and_go_do_not_grow() {
    let graph = Graph::new();
    graph.set_budget(100_000);
    let ids = Source::<u64>::new_in(&graph, "ids");
    let page = Memo::infallible_in(&graph, "page", move |from: u64| async move {
        ids.range(from..from + 10);
        from
    });
    let mut largest = 0;
    for number in 0..OPERATIONS {
        now(page.get(number)).unwrap();
        largest = largest.max(graph.stats().bytes);
    }
    assert!(largest <= 110_000, "{largest}");
}

#[test]
fn a_row_that_ever_new_values_are_made_of_does_not_grow() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&0);
        key
    });
    let mut largest = 0;
    for number in 0..OPERATIONS {
        now(memo.get(number)).unwrap();
        memo.evict(&number.saturating_sub(100));
        largest = largest.max(graph.stats().bytes);
    }
    assert!(largest < 50_000, "{largest}");
}

#[test]
fn values_that_are_evicted_and_computed_anew_do_not_grow() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let bare = Memo::infallible_in(&graph, "bare", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let hashed = Memo::infallible_in(&graph, "hashed", move |key: u64| async move {
        rows.read(&key);
        key
    })
    .fingerprint(|value| *value);
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *bare.get(key).await.unwrap() + *hashed.get(key).await.unwrap()
    });
    let round = |number: u64| {
        let key = number % 10;
        now(above.get(key)).unwrap();
        assert!(bare.evict(&key) && hashed.evict(&key));
        now(bare.get(key)).unwrap();
        now(hashed.get(key)).unwrap();
        if number.is_multiple_of(3) {
            rows.changed(&key);
        }
    };
    (0..3_000).for_each(round);
    let before = graph.stats();
    (0..OPERATIONS / 4).for_each(round);
    let after = graph.stats();
    assert_eq!(after.nodes, before.nodes);
    // The line of ghosts is tidied up when it has become long.
    assert!(after.bytes <= before.bytes + 16_384, "{} became {}", before.bytes, after.bytes);
    (0..10).for_each(|key| _ = rows.changed(&key));
    (0..10).for_each(|key| _ = now(above.get(key)).unwrap());
}

#[test]
fn computations_that_are_given_up_do_not_grow() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::<u64, u64>::infallible_in(&graph, "memo", move |key| async move {
        rows.read(&(key % 10));
        std::future::pending().await
    });
    let round = |number: u64| {
        let mut get = memo.get(number);
        assert!(crate::support::poll(&mut get).is_pending());
    };
    (0..100).for_each(round);
    let before = graph.stats();
    (0..OPERATIONS).for_each(round);
    let after = graph.stats();
    assert_eq!((after.nodes, after.bytes), (before.nodes, before.bytes));
}

#[test]
fn publishing_many_edges_lets_others_in_between() {
    const EDGES: u64 = 100_000;
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let wide = Memo::infallible_in(&graph, "wide", move |key: u64| async move {
        (0..EDGES).for_each(|row| rows.read(&row));
        key
    });
    now(wide.get(0)).unwrap();
    let longest = graph.stats().longest_hold;
    assert!(longest <= 2_048, "{longest} edges in one hold of the graph lock");
    assert!(wide.cached(&0).is_some());
    rows.changed(&(EDGES / 2));
    assert!(wide.cached(&0).is_none());
    now(wide.get(0)).unwrap();
    rows.changed(&(EDGES / 2));
    assert!(wide.cached(&0).is_none(), "an edge that was walked is restored");
}

#[test]
fn a_change_between_two_holds_of_a_large_publish_rejects_it() {
    let graph = Graph::new();
    graph.set_walk_chunk(64, true);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(0));
    let load = data.clone();
    let wide = Memo::infallible_in(&graph, "wide", move |_: u64| {
        let load = load.clone();
        async move {
            let seen = load.load(SeqCst);
            (0..4_000).for_each(|row| rows.read(&row));
            seen
        }
    });
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            for round in 1..=300 {
                data.store(round, SeqCst);
                // Of those whose edges are registered first.
                rows.changed(&(round * 13 % 500));
            }
        });
        while !writer.is_finished() {
            let floor = data.load(SeqCst).saturating_sub(1);
            assert!(*now(wide.get(0)).unwrap() >= floor);
        }
    });
    assert_eq!(*now(wide.get(0)).unwrap(), 300);
}

#[test]
fn a_row_whose_node_was_evicted_still_counts_as_changed_for_who_read_it_before() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let gate = crate::support::Gate::default();
    let (wait, data) = (gate.clone(), Arc::new(AtomicU64::new(1)));
    let load = data.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (wait, load) = (wait.clone(), load.clone());
        async move {
            let seen = load.load(SeqCst);
            wait.pass().await;
            rows.read(&key);
            seen
        }
    });
    let reader = Memo::infallible_in(&graph, "reader", move |key: u64| async move {
        rows.read(&key);
    });
    now(reader.get(1)).unwrap();
    let mut get = memo.get(1);
    assert!(crate::support::poll(&mut get).is_pending(), "it has loaded and not declared yet");
    data.store(2, SeqCst);
    rows.changed(&1);
    assert!(rows.evict(&1), "nothing current depends on the row");
    let late = memo.get(1);
    gate.open();
    assert_eq!(*now(late).unwrap(), 2, "the row changed after the attempt began");
    drop(get);
}

#[test]
fn values_that_end_unread_do_not_grow_a_graph_that_is_swept() {
    const LIVE: u64 = 1_000;
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let memo = memo.weigh(|_| 1_000);
    (0..LIVE).for_each(|key| _ = now(memo.get(key)).unwrap());
    let before = graph.stats();
    let mut most = before;
    for key in LIVE..OPERATIONS {
        now(memo.get(key)).unwrap();
        rows.changed(&key);
        memo.sweep(4);
        if key % 1_000 == 0 && graph.stats().bytes > most.bytes {
            most = graph.stats();
        }
    }
    assert!(most.bytes < 2 * before.bytes, "{most:?} after {before:?}");
    assert!(most.nodes < 2 * before.nodes, "{most:?} after {before:?}");
    assert!((0..LIVE).all(|key| memo.cached(&key).is_some()), "what is current stays");
    assert_eq!(graph.stats().started, OPERATIONS);
}

#[test]
fn a_stale_value_that_was_asked_for_stays_for_a_round_and_a_small_memo_keeps_all() {
    for (weight, asked, left) in
        [(10_000, 0, [0, 0]), (10_000, 400, [400, 0]), (10, 0, [1_000, 1_000])]
    {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
            rows.read(&key);
            key
        });
        let memo = memo.weigh(move |_| weight);
        (0..1_000).for_each(|key| _ = now(memo.get(key)).unwrap());
        assert!((0..asked).all(|key| memo.cached(&key).is_some()));
        memo.sweep(1_000);
        assert_eq!(graph.stats().nodes, 2_000, "what is current stays");
        rows.changed_all();
        for left in left {
            // One round, however many steps that would be.
            memo.sweep(usize::MAX);
            // A value and the key that it read.
            assert_eq!(graph.stats().nodes, 2 * left, "{weight}, {asked}");
        }
    }
}

#[test]
fn a_memo_that_is_closed_keeps_no_function_that_it_was_given() {
    for closes_graph in [false, true] {
        let (graph, token) = (Graph::new(), Arc::new(()));
        let held = || {
            let token = token.clone();
            move || _ = &token
        };
        let (weigh, hash) = (held(), held());
        let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
            .weigh(move |_| {
                weigh();
                1
            })
            .fingerprint(move |key| {
                hash();
                *key
            });
        now(memo.get(1)).unwrap();
        assert_eq!(Arc::strong_count(&token), 3);
        if closes_graph {
            drop(graph)
        } else {
            memo.close()
        }
        assert_eq!(Arc::strong_count(&token), 1);
    }
}

#[test]
fn what_is_evicted_again_and_again_while_somebody_watches_it_takes_no_more() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let _watch = memo.notify(1);
    let bytes_after = |rounds| {
        for _ in 0..rounds {
            now(memo.get(1)).unwrap();
            assert!(memo.evict(&1));
        }
        graph.stats().bytes
    };
    let few = bytes_after(10);
    let many = bytes_after(if cfg!(miri) { 3_000 } else { 20_000 });
    assert!(many <= few + 16 * 1024, "{many} bytes, and {few} before");
}
