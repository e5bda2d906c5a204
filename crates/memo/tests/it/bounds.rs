//! The byte budget: eviction, ghosts, forcing out.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use tidewire_memo::{EventKind, Graph, Memo, Recording, Source};

use crate::support::{Gate, is_started_alone, logged, now, poll, work};

#[test]
fn an_evicted_value_with_a_dependant_leaves_a_ghost_that_still_carries_invalidations() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    now(above.get(1)).unwrap();
    assert!(leaf.evict(&1));
    assert!(leaf.cached(&1).is_none());
    assert!(above.cached(&1).is_some(), "nothing changed, so the dependant stays a hit");
    assert_eq!(graph.stats().ghosted, 1);
    rows.changed(&1);
    assert!(above.cached(&1).is_none(), "the change travelled through the ghost");
}

#[test]
fn an_evicted_value_without_dependants_goes_entirely() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    now(memo.get(1)).unwrap();
    assert!(memo.evict(&1));
    assert!(!memo.evict(&1));
    let stats = graph.stats();
    assert_eq!((stats.nodes, stats.bytes), (0, 0));
}

#[test]
fn a_watched_value_that_is_evicted_when_it_is_suspect_is_suspect_still() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        rows.read(&key);
        let value = load.load(SeqCst);
        async move { value }
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    let _watch = leaf.notify(1);
    assert_eq!(*now(above.get(1)).unwrap(), 1);
    data.store(2, SeqCst);
    rows.changed(&1);
    assert!(leaf.evict(&1));
    assert_eq!(*now(above.get(1)).unwrap(), 2);
}

#[test]
fn what_was_made_of_an_evicted_value_is_made_once_more_unless_a_hash_proves_that_it_came_out_equal()
{
    for remembered in [false, true] {
        let graph = Graph::new();
        let rows = Source::new_in(&graph, "rows");
        let mut leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
            rows.read(&key);
            key
        });
        if remembered {
            leaf = leaf.fingerprint(|value| *value);
        }
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            *leaf.get(key).await.unwrap() + *leaf.get(100).await.unwrap()
        });
        now(above.get(1)).unwrap();
        for _ in 0..2 {
            leaf.evict(&1);
            now(leaf.get(1)).unwrap();
            assert!(above.cached(&1).is_some(), "nothing has changed");
        }
        graph.record_events(Recording::everything());
        rows.changed(&100);
        now(above.get(1)).unwrap();
        let expected: &[&str] = if remembered {
            &["started leaf(100)", "cut off leaf(100)", "verified above(1)"]
        } else {
            &["started above(1)", "started leaf(100)", "cut off leaf(100)", "cut off above(1)"]
        };
        assert_eq!(work(&graph), expected);
        rows.changed(&100);
        now(above.get(1)).unwrap();
        let again = work(&graph);
        assert_eq!(again, ["started leaf(100)", "cut off leaf(100)", "verified above(1)"]);
        rows.changed(&1);
        now(above.get(1)).unwrap();
        assert!(work(&graph).contains(&"started leaf(1)".to_owned()));
    }
}

#[test]
fn a_hash_proves_that_a_value_came_out_equal_also_where_it_or_what_is_above_was_suspect_when_it_went()
 {
    for is_suspect in [false, true] {
        let graph = Graph::new();
        let rows = Source::new_in(&graph, "rows");
        let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
            rows.read(&key);
            key
        })
        .fingerprint(|value| *value);
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            *leaf.get(key).await.unwrap() + *leaf.get(100).await.unwrap()
        });
        now(above.get(1)).unwrap();
        rows.changed(if is_suspect { &1 } else { &100 });
        assert!(leaf.evict(&1));
        let runs = graph.stats().started;
        now(above.get(1)).unwrap();
        assert_eq!(graph.stats().started, runs + 1, "one leaf alone");
        graph.set_budget(0);
        assert_eq!(graph.stats().nodes, 0);
    }
}

#[test]
fn a_value_computed_anew_between_a_change_and_its_announcement_hides_it_from_nobody() {
    for case in 0..8 {
        let (remembered, evicted, verified) = (case & 1 > 0, case & 2 > 0, case & 4 > 0);
        let graph = Graph::new();
        let rows = Source::new_in(&graph, "rows");
        let data = Arc::new(AtomicU64::new(1));
        let load = data.clone();
        let mut leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
            let load = load.clone();
            async move {
                rows.read(&key);
                load.load(SeqCst)
            }
        });
        if remembered {
            leaf = leaf.fingerprint(|value| *value);
        }
        let same = Memo::infallible_in(&graph, "same", move |_: ()| async move { rows.read(&100) });
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            same.get(()).await.unwrap();
            *leaf.get(key).await.unwrap()
        });
        assert_eq!(*now(above.get(1)).unwrap(), 1);
        leaf.evict(&1);
        data.store(2, SeqCst);
        assert_eq!(*now(leaf.get(1)).unwrap(), 2);
        if verified {
            rows.changed(&100);
            now(same.get(())).unwrap();
            now(above.get(1)).unwrap();
        }
        if evicted {
            leaf.evict(&1);
        }
        rows.changed(&1);
        assert_eq!(*now(leaf.get(1)).unwrap(), 2);
        assert_eq!(*now(above.get(1)).unwrap(), 2, "case {case}");
    }
}

#[test]
fn a_value_computed_anew_while_a_change_walks_hides_it_from_nobody() {
    let graph = Graph::new();
    graph.set_walk_chunk(1, false);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", move |_: u64| {
        let load = load.clone();
        async move {
            rows.read(&1);
            load.load(SeqCst)
        }
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    // The walk comes to these first.
    (10..20).for_each(|key| _ = now(leaf.get(key)).unwrap());
    assert_eq!(*now(above.get(1)).unwrap(), 1);
    assert!(leaf.evict(&1));
    data.store(2, SeqCst);
    let mut change = Box::pin(rows.changed_async(&1));
    assert!(poll(&mut change).is_pending());
    assert_eq!(*now(leaf.get(1)).unwrap(), 2);
    now(change);
    assert_eq!(*now(above.get(1)).unwrap(), 2);
}

#[test]
fn the_hash_of_an_evicted_value_keeps_cutoff_alive() {
    for remembered in [false, true] {
        let graph = Graph::new();
        let rows = Source::new_in(&graph, "rows");
        let mut leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
            rows.read(&key);
            key / 10
        });
        if remembered {
            leaf = leaf.fingerprint(|value| *value);
        }
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            *leaf.get(key).await.unwrap()
        });
        let version = now(above.get(12)).unwrap().version();
        leaf.evict(&12);
        graph.record_events(Recording::everything());
        rows.changed(&12);
        let again = now(above.get(12)).unwrap().version();
        assert_eq!(again, version);
        let expected: &[&str] = if remembered {
            &["started leaf(12)", "cut off leaf(12)", "verified above(12)"]
        } else {
            &["started leaf(12)", "published leaf(12)", "started above(12)", "cut off above(12)"]
        };
        assert_eq!(work(&graph), expected);
    }
}

#[test]
fn the_graph_stays_within_its_budget_and_keeps_what_is_asked_for() {
    let graph = Graph::new();
    graph.set_budget(200_000);
    let memo = Memo::infallible_in(&graph, "blob", |key: u64| async move { vec![key as u8; 1000] })
        .weigh(Vec::len);
    for key in 0..5000 {
        now(memo.get(key)).unwrap();
        now(memo.get(0)).unwrap();
    }
    assert!(graph.stats().bytes <= 200_000, "{}", graph.stats().bytes);
    assert!(memo.cached(&0).is_some(), "the key that is always asked for survived every round");
    assert!(graph.stats().nodes > 100);
}

#[test]
fn what_a_running_computation_has_read_may_be_larger_than_the_budget() {
    for (name, bytes) in [("beyond the budget", 1 << 20), ("most of the budget", 60_000)] {
        let graph = Graph::new();
        graph.set_budget(100_000);
        let rows = Source::<u64>::new_in(&graph, "rows");
        let gate = Gate::default();
        let large = Memo::infallible_in(&graph, name, move |key: u64| async move {
            rows.read(&key);
            key
        })
        .weigh(move |_| bytes);
        let wait = gate.clone();
        let above = Memo::infallible_in(&graph, "above", move |key: u64| {
            let wait = wait.clone();
            async move {
                let first = *large.get(key).await.unwrap();
                wait.pass().await;
                first + *large.get(key + 1).await.unwrap()
            }
        });
        let mut get = above.get(1);
        assert!(poll(&mut get).is_pending());
        // Others need the room meanwhile.
        (10..20).for_each(|key| _ = now(large.get(key)).unwrap());
        assert!(large.cached(&1).is_none(), "{name}");
        gate.open();
        assert_ne!(now(get).unwrap().version(), 0, "{name}: it can be published all the same");
        assert!(above.cached(&1).is_some());
        rows.changed(&1);
        assert!(above.cached(&1).is_none());
        assert!(graph.stats().bytes <= 100_000, "{}", graph.stats().bytes);
    }
}

#[test]
fn a_source_that_a_running_computation_reads_again_stays_although_it_is_old() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let gate = Gate::default();
    gate.open();
    let gates = Arc::new(Mutex::new(gate));
    let pass = gates.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = pass.lock().unwrap().clone();
        async move {
            rows.read(&0);
            rows.read(&1);
            wait.pass().await;
            key
        }
    });
    now(memo.get(0)).unwrap();
    rows.changed(&1);
    let gate = Gate::default();
    *gates.lock().unwrap() = gate.clone();
    let mut get = memo.get(0);
    assert!(poll(&mut get).is_pending());
    graph.set_budget(100);
    gate.open();
    assert_ne!(now(get).unwrap().version(), 0);
    assert_eq!(graph.stats().rejected, 0, "what it had read was still there");
}

#[test]
fn values_that_were_all_asked_for_go_at_once_when_the_budget_shrinks() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    for key in 0..5_000 {
        now(memo.get(key)).unwrap();
        assert_eq!(memo.copied(&key), Some(key));
    }
    graph.set_budget(0);
    assert_eq!(graph.stats().bytes, 0);
}

#[test]
fn a_memo_has_a_budget_of_its_own() {
    let graph = Graph::new();
    let small = Memo::infallible_in(&graph, "small", |key: u64| async move { key }).budget(5_000);
    let large = Memo::infallible_in(&graph, "large", |key: u64| async move { key });
    for key in 0..1000 {
        now(small.get(key)).unwrap();
        now(large.get(key)).unwrap();
    }
    assert!((0..1000).all(|key| large.cached(&key).is_some()));
    let kept = (0..1000).filter(|key| small.cached(key).is_some()).count();
    assert!((5..100).contains(&kept), "{kept}");
}

#[test]
fn a_budget_smaller_than_one_value_computes_every_time_and_answers_all_the_same() {
    let graph = Graph::new();
    graph.set_budget(10);
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key + 1 });
    graph.record_events(Recording::everything());
    assert_eq!(*now(memo.get(1)).unwrap(), 2);
    assert_eq!(*now(memo.get(1)).unwrap(), 2);
    assert_eq!(logged(&graph, EventKind::Started).len(), 2);
    assert_eq!(graph.stats().bytes, 0);
}

#[test]
fn a_million_distinct_keys_from_an_attacker_stay_within_the_budget() {
    // An unoptimized build would take a minute for the whole million.
    const KEYS: u64 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let graph = Graph::new();
    graph.set_budget(4 << 20);
    let rows = Source::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    now(async {
        for key in 0..KEYS {
            memo.get(key).await.unwrap();
        }
    });
    let stats = graph.stats();
    assert!(stats.bytes <= 4 << 20, "{}", stats.bytes);
    assert!(stats.nodes < 50_000, "{}", stats.nodes);
    // What was evicted is still exact.
    assert_eq!(*now(memo.get(3)).unwrap(), 3);
    rows.changed(&3);
    assert!(memo.cached(&3).is_none());
}

#[test]
fn ghosts_count_against_the_budget_and_the_oldest_are_forced_out_with_their_dependants_marked() {
    let graph = Graph::new();
    let computed = Arc::new(AtomicU64::new(0));
    let count = computed.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key });
    let above = Memo::infallible_in(&graph, "above", move |_: ()| {
        let count = count.clone();
        async move {
            count.fetch_add(1, SeqCst);
            let mut sum = 0;
            for key in 0..1000 {
                sum += *leaf.get(key).await.unwrap();
            }
            sum
        }
    });
    let handle = now(above.get(())).unwrap();
    graph.set_budget(40_000);
    assert!(graph.stats().bytes <= 40_000, "{}", graph.stats().bytes);
    assert!(graph.stats().forced > 0 || graph.stats().ghosted > 0);
    assert_eq!(*handle, 499_500, "handles are not the budget's business");
    graph.set_budget(256 << 20);
    assert_eq!(*now(above.get(())).unwrap(), 499_500);
    assert_eq!(computed.load(SeqCst), 2, "over-invalidated, never under-invalidated");
}

#[test]
fn ids_of_ghosts_that_recovered_do_not_hide_what_is_behind_them_from_an_empty_budget() {
    let graph = Graph::new();
    let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    now(above.get(1)).unwrap();
    for _ in 0..400 {
        assert!(leaf.evict(&1), "a ghost each time, since `above` depends on it");
        now(leaf.get(1)).unwrap();
    }
    graph.set_budget(0);
    let stats = graph.stats();
    assert_eq!((stats.nodes, stats.bytes), (0, 0));
}

#[test]
fn suspect_values_are_not_dropped_merely_because_they_are_marked() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&0);
        key
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *memo.get(key).await.unwrap()
    });
    for key in 0..100 {
        now(above.get(key)).unwrap();
    }
    rows.changed(&0);
    graph.record_events(Recording::everything());
    for key in 0..100 {
        now(above.get(key)).unwrap();
    }
    let events = work(&graph);
    assert_eq!(events.iter().filter(|event| event.starts_with("cut off memo")).count(), 100);
    assert_eq!(events.iter().filter(|event| event.starts_with("verified above")).count(), 100);
}

#[test]
fn what_the_oldest_run_has_read_is_spared_while_younger_ones_run() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key });
    let (gate, runs) = (Gate::default(), Arc::new(AtomicU64::new(0)));
    let (wait, count) = (gate.clone(), runs.clone());
    let above = Memo::infallible_in(&graph, "above", move |key: u64| {
        count.fetch_add(1, SeqCst);
        let wait = wait.clone();
        async move {
            let value = *leaf.get(key).await.unwrap();
            wait.pass().await;
            value
        }
    });
    let mut old = above.get(1);
    assert!(poll(&mut old).is_pending());
    (0..10).for_each(|_| _ = rows.changed(&0));
    let mut young = above.get(2);
    assert!(poll(&mut young).is_pending());
    graph.set_budget(0);
    gate.open();
    assert_ne!(now(old).unwrap().version(), 0);
    now(young).unwrap();
    assert_eq!(runs.load(SeqCst), 2, "neither had to begin again");
}

#[test]
fn a_row_that_many_read_counts_for_no_more_however_often_it_changes() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let fan = Memo::infallible_in(&graph, "fan", move |key: u64| async move {
        rows.read(&0);
        key
    });
    let round = || {
        (0..100).for_each(|key| _ = now(fan.get(key)).unwrap());
        let bytes = graph.stats().bytes;
        rows.changed(&0);
        bytes
    };
    let first = round();
    (0..20).for_each(|_| assert_eq!(round(), first));
}

#[test]
fn what_was_kept_for_watches_goes_with_them() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    let watches: Vec<_> = (0..20).map(|key| memo.notify(key)).collect();
    (0..20).for_each(|key| _ = now(memo.get(key)).unwrap());
    let budget = 1_000;
    graph.set_budget(budget);
    assert!(graph.stats().bytes > budget, "a watch and what it needs are not forced out");
    drop(watches);
    assert!(graph.stats().bytes <= budget);
}

#[test]
fn what_a_watch_needs_is_not_forced_out_because_an_earlier_reader_of_it_is_gone() {
    let graph = Graph::new();
    let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key });
    let reads =
        |name| {
            Memo::infallible_in(&graph, name, move |key: u64| async move {
                *leaf.get(key).await.unwrap()
            })
        };
    let (earlier, above) = (reads("earlier"), reads("above"));
    now(earlier.get(1)).unwrap();
    assert!(earlier.evict(&1));
    let mut watch = above.notify(1);
    now(above.get(1)).unwrap();
    graph.set_budget(0);
    assert!(poll(&mut Box::pin(watch.next())).is_pending(), "nothing has changed");
}

#[test]
fn a_value_that_goes_while_the_last_of_many_dependants_is_current_leaves_a_ghost() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let above =
        Memo::infallible_in(
            &graph,
            "above",
            move |_: u64| async move { *leaf.get(1).await.unwrap() },
        );
    for many in [1, 3, 64, 65, 300] {
        (0..many).for_each(|key| drop(now(above.get(key)).unwrap()));
        (0..many - 1).for_each(|key| _ = above.invalidate(&key));
        assert!(leaf.evict(&1));
        assert!(above.cached(&(many - 1)).is_some(), "nothing that it read has changed");
        rows.changed(&1);
        assert!(above.cached(&(many - 1)).is_none(), "the last of {many}");
    }
}

#[test]
fn what_a_watch_kept_beyond_a_budget_goes_with_the_watch() {
    for (whole, above) in [(false, false), (false, true), (true, false), (true, true)] {
        let graph = Graph::new();
        let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key });
        let leaf = if whole { leaf } else { leaf.budget(1) };
        let over = Memo::infallible_in(&graph, "over", move |key: u64| async move {
            *leaf.get(key).await.unwrap()
        });
        if whole {
            graph.set_budget(1);
        }
        let mut watch = if above { over } else { leaf }.watch(1);
        now(watch.next()).unwrap().unwrap();
        assert!(leaf.entry(&1).is_some(), "a watch needs it");
        drop(watch);
        assert!(leaf.entry(&1).is_none(), "whole: {whole}, above: {above}");
    }
}

#[test]
fn a_value_that_cannot_be_compared_is_another_one_also_when_its_hash_is_remembered() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let leaf = Memo::no_cutoff_in(&graph, "leaf", move |key: u64| async move {
        rows.read(&key);
        Ok::<_, std::convert::Infallible>(key)
    })
    .fingerprint(|value| *value);
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    now(above.get(1)).unwrap();
    let first = now(leaf.get(1)).unwrap();
    assert_eq!(first.fingerprint(), Some(1));
    for evicted in [false, true] {
        let before = leaf.cached(&1).unwrap().version();
        if evicted {
            assert!(leaf.evict(&1));
        }
        rows.changed(&1);
        graph.record_events(Recording::everything());
        now(above.get(1)).unwrap();
        assert!(work(&graph).contains(&"started above(1)".to_owned()), "evicted: {evicted}");
        assert!(leaf.cached(&1).unwrap().version() > before);
    }
}

#[test]
fn a_value_that_the_budget_of_its_memo_has_no_room_for_goes_before_all_others() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
        .weigh(|value| if *value == 77 { 100_000 } else { 10 })
        .budget(20_000);
    (0..20).for_each(|key| _ = now(memo.get(key)).unwrap());
    assert_eq!(*now(memo.get(77)).unwrap(), 77);
    assert!(memo.cached(&77).is_none());
    assert!((0..20).all(|key| memo.cached(&key).is_some()));
}

#[test]
fn what_was_read_last_goes_last_and_each_memo_has_a_budget_of_its_own() {
    let graph = Graph::new();
    let memo = |name| Memo::infallible_in(&graph, name, |key: u64| async move { key });
    let (small, other) = (memo("small").weigh(|_| 1000), memo("other").weigh(|_| 1000));
    (0..20).for_each(|key| {
        now(small.get(key)).unwrap();
        now(other.get(key)).unwrap();
    });
    // Those that are asked for again have a second chance.
    [3, 17].iter().for_each(|key| drop(small.cached(key).unwrap()));
    let small = small.budget(10_000);
    let left: Vec<_> = (0..20).filter(|key| small.cached(key).is_some()).collect();
    assert!(left.contains(&3) && left.contains(&17) && left.len() < 10, "{left:?}");
    assert!((0..20).all(|key| other.cached(&key).is_some()), "it is not above its own");
    let owners = graph.owners();
    assert!(owners[0].bytes <= 10_000 && owners[1].bytes > 20_000, "{owners:?}");
    // The graph's takes from who has the most.
    graph.set_budget(20_000);
    assert!(graph.stats().bytes <= 20_000);
    assert_eq!(left, (0..20).filter(|key| small.cached(key).is_some()).collect::<Vec<_>>());
}

#[test]
fn intervals_whose_readers_have_gone_give_their_keys_back_and_hide_no_others() {
    let graph = Graph::new();
    let rows = Source::<Arc<u64>>::new_in(&graph, "rows");
    let end = Arc::new(1_000_000);
    let high = end.clone();
    let page = Memo::infallible_in(&graph, "page", move |low: u64| {
        let high = high.clone();
        async move {
            rows.range(Arc::new(low)..high);
            low
        }
    });
    let kept = |low: &u64| low.is_multiple_of(50);
    for low in 0..1000 {
        now(page.get(low)).unwrap();
    }
    (0..1000).filter(|low| !kept(low)).for_each(|low| assert!(page.evict(&low)));
    let entries = graph.entries("rows", 0, 10_000).entries;
    assert_eq!(entries.len(), 1000);
    let gone = entries.iter().filter(|entry| graph.evict(entry.id)).count();
    assert_eq!(gone, 980, "those that somebody depends on stay");
    now(page.get(2000)).unwrap();
    // Reclamation waits for readers that other tests have pinned.
    while Arc::strong_count(&end) > 200 {
        drop(Graph::new());
        std::thread::yield_now();
    }
    for low in (0..1000).filter(kept) {
        assert!(page.cached(&low).is_some());
        rows.changed(&Arc::new(low));
        assert!(page.cached(&low).is_none(), "{low}");
        now(page.get(low)).unwrap();
    }
}

/// A leaf and what is made of it.
fn pair(graph: &Graph, name: &str) -> (Memo<u64, u64>, Memo<u64, u64>) {
    let leaf = Memo::infallible_in(graph, name, |key: u64| async move { key });
    let above = Memo::infallible_in(graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    (leaf, above)
}

#[test]
fn ghosts_of_a_memo_within_its_budget_are_not_forced_out_for_another_one() {
    let graph = Graph::new();
    let ((one, of_one), (two, of_two)) = (pair(&graph, "one"), pair(&graph, "two"));
    for (leaf, above) in [(one, of_one), (two, of_two)] {
        (0..300).for_each(|key| _ = now(above.get(key)).unwrap());
        (0..300).for_each(|key| assert!(leaf.evict(&key)));
    }
    let two = two.budget(1);
    assert!((0..300).all(|key| of_one.cached(&key).is_some() && one.entry(&key).is_some()));
    assert!((0..300).all(|key| of_two.cached(&key).is_none() && two.entry(&key).is_none()));
}

#[test]
fn thousands_of_ghosts_are_all_forced_out_when_there_is_no_room() {
    let graph = Graph::new();
    let (leaf, above) = pair(&graph, "leaf");
    for key in 0..3000 {
        now(above.get(key)).unwrap();
        assert!(leaf.evict(&key));
    }
    let leaf = leaf.budget(10_000);
    let owners = graph.owners();
    assert!(owners[0].bytes <= 10_000, "{owners:?}");
    let left = (0..3000).filter(|key| leaf.entry(key).is_some()).count();
    assert_eq!(left, (0..3000).filter(|key| above.cached(key).is_some()).count());
}

#[test]
fn remembered_hashes_count_for_memory() {
    let bytes = |hashed: bool| {
        let graph = Graph::new();
        let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
        let memo = if hashed { memo.fingerprint(|value| *value) } else { memo };
        (0..100).for_each(|key| _ = now(memo.get(key)).unwrap());
        graph.stats().bytes
    };
    assert!(bytes(true) >= bytes(false) + 100 * 16);
}

#[test]
fn what_was_spared_for_a_run_goes_when_the_run_is_over_although_nothing_is_kept_of_it() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let wait = gate.clone();
    let failing = Memo::new_in(&graph, "failing", move |_: u64| {
        let wait = wait.clone();
        async move {
            wait.pass().await;
            Err::<u64, _>(std::fmt::Error)
        }
    });
    let (leaf, above) = pair(&graph, "leaf");
    graph.set_budget(20_000);
    let mut runs = failing.get(1);
    assert!(poll(&mut runs).is_pending());
    (0..200).for_each(|key| _ = now(above.get(key)).unwrap());
    assert!(graph.stats().bytes > 20_000, "the run may have read any of them");
    assert!(above.evict(&199) && leaf.evict(&199));
    assert!(above.entry(&199).is_none() && leaf.entry(&199).is_none(), "nobody depends on them");
    gate.open();
    now(runs).unwrap_err();
    assert!(graph.stats().bytes <= 20_000, "{}", graph.stats().bytes);
}

#[test]
fn values_that_nobody_can_have_any_more_are_freed_by_their_weight() {
    // Other tests free what waits, too.
    if is_started_alone("bounds::values_that_nobody_can_have_any_more_are_freed_by_their_weight") {
        return;
    }
    /// Unlike any other.
    struct Alive(#[allow(dead_code)] Arc<()>);

    for way in ["changed", "invalidate", "evict", "ghost", "force_out", "budget"] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let alive = Arc::<()>::default();
        let value = alive.clone();
        let memo = Memo::no_cutoff_in(&graph, "memo", move |key: u64| {
            let value = Alive(value.clone());
            async move {
                rows.read(&key);
                Ok::<_, std::io::Error>(value)
            }
        });
        let memo = memo.weigh(|_| 1 << 20);
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            memo.get(key).await.unwrap().version()
        });
        if way == "ghost" {
            now(above.get(1)).unwrap();
        }
        if way == "budget" {
            graph.set_budget(4 << 20);
        }
        for turn in 0..200 {
            let key = if way == "budget" { turn } else { 1 };
            now(memo.get(key)).unwrap();
            match way {
                "changed" => _ = rows.changed(&1),
                "invalidate" => _ = memo.invalidate(&1),
                "evict" | "ghost" => _ = memo.evict(&1),
                "force_out" => _ = memo.force_out(&1),
                _ => {}
            }
            let count = Arc::strong_count(&alive);
            assert!(count < 16, "{way}: after {turn} there are {count} values of a MiB");
        }
    }
}
