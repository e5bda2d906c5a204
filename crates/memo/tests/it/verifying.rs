//! `verify` runs beside hits, which know nothing of it.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;

use tidewire_memo::{Ambient, Graph, Memo, Source, batch};

use crate::support::{Gate, Wakes, now, poll_with};

#[test]
fn a_function_that_panics_when_it_is_verified_is_a_mismatch_and_no_panic_of_the_hit() {
    let graph = Graph::new();
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        assert_eq!(count.fetch_add(1, SeqCst), 0, "injected");
        async move { key }
    })
    .verify(1.0);
    graph.on_mismatch(|_| panic!("injected report"));
    now(memo.get(1)).unwrap();
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
    let stats = graph.stats();
    assert_eq!((runs.load(SeqCst), stats.audited, stats.mismatched), (2, 1, 1));
}

#[test]
fn a_verification_that_waits_holds_no_hit_up_and_goes_on_with_time() {
    let graph = Graph::new();
    let (gate, runs) = (Gate::default(), Arc::new(AtomicU64::new(0)));
    let (wait, count) = (gate.clone(), runs.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (wait, first) = (wait.clone(), count.fetch_add(1, SeqCst) == 0);
        async move {
            if !first {
                wait.pass().await;
            }
            key
        }
    })
    .verify(1.0);
    now(memo.get(1)).unwrap();
    for _ in 0..1000 {
        assert_eq!(*now(memo.get(1)).unwrap(), 1);
    }
    assert!(runs.load(SeqCst) < 100, "those that wait are few");
    assert_eq!(graph.stats().audited, 0);
    gate.open();
    graph.advance(Instant::now());
    assert_eq!(graph.stats().audited, runs.load(SeqCst) - 1);
}

#[test]
fn what_is_made_of_a_hit_that_is_verified_is_kept() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let gate = Gate::default();
    let (wait, first) = (gate, Arc::new(AtomicU64::new(0)));
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let (wait, first) = (wait.clone(), first.fetch_add(1, SeqCst) == 0);
        async move {
            rows.read(&key);
            if !first {
                wait.pass().await;
            }
            key
        }
    })
    .verify(1.0);
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    now(leaf.get(1)).unwrap();
    assert_eq!(*now(above.get(1)).unwrap(), 1);
    assert!(above.cached(&1).is_some());
    rows.changed(&1);
    assert!(above.cached(&1).is_none());
}

#[test]
fn who_asks_beside_a_verification_does_not_wait_until_that_goes_on() {
    let graph = Graph::new();
    let gate = Gate::default();
    let wait = gate.clone();
    let first = Arc::new(AtomicU64::new(0));
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let (wait, first) = (wait.clone(), first.fetch_add(1, SeqCst) == 0);
        async move {
            if !first {
                wait.pass().await;
            }
            key
        }
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    })
    .verify(1.0);
    now(above.get(1)).unwrap();
    assert!(leaf.evict(&1));
    let wakes = Wakes::new();
    let mut asked = leaf.get(1);
    assert!(poll_with(&mut asked, &wakes).is_pending());
    // The verification asks for the leaf as well; nobody polls it after that.
    now(above.get(1)).unwrap();
    gate.open();
    assert!(wakes.count() > 0, "whoever can go on is woken");
    assert_eq!(*now(asked).unwrap(), 1);
}

#[test]
fn a_value_that_a_write_is_about_to_outdate_is_no_mismatch() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        rows.read(&key);
        let value = load.load(SeqCst);
        async move { value }
    })
    .verify(1.0);
    now(memo.get(1)).unwrap();
    let elsewhere = std::thread::spawn(move || rows.write(&1)).join().unwrap();
    data.store(2, SeqCst);
    assert_eq!(*now(memo.get(1)).unwrap(), 1, "it is not announced yet");
    assert_eq!((graph.stats().audited, graph.stats().mismatched), (1, 0));
    elsewhere.finish();
    assert_eq!(*now(memo.get(1)).unwrap(), 2);
    data.store(3, SeqCst);
    now(memo.get(1)).unwrap();
    assert_eq!(graph.stats().mismatched, 1, "what nobody announces is one");
}

#[test]
fn a_verification_that_waits_ends_with_its_graph() {
    let (graph, runs) = (Graph::new(), AtomicU64::new(0));
    let held = Arc::new(Mutex::new(Weak::new()));
    let holds = held.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (is_first, holds) = (runs.fetch_add(1, SeqCst) == 0, holds.clone());
        async move {
            if !is_first {
                let kept = Arc::new(key);
                *holds.lock().unwrap() = Arc::downgrade(&kept);
                std::future::pending::<()>().await;
                drop(kept);
            }
            key
        }
    })
    .verify(1.0);
    now(memo.get(1)).unwrap();
    now(memo.get(1)).unwrap();
    let kept = held.lock().unwrap().clone();
    assert!(kept.upgrade().is_some(), "it waits");
    drop(graph);
    assert!(kept.upgrade().is_none());
}

#[test]
fn a_verification_that_ends_within_a_computation_reads_nothing_on_its_behalf() {
    for is_announced in [true, false] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (data, gate, runs) = (Arc::new(AtomicU64::new(1)), Gate::default(), AtomicU64::new(0));
        let (load, wait) = (data.clone(), gate.clone());
        let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
            let (load, wait) = (load.clone(), wait.clone());
            let waits = key == 1 && runs.fetch_add(1, SeqCst) == 1;
            async move {
                rows.read(&key);
                if waits {
                    wait.pass().await;
                }
                if key == 1 { load.load(SeqCst) } else { 0 }
            }
        })
        .verify(1.0);
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            *leaf.get(key).await.unwrap()
        });
        for key in [2, 1, 1] {
            now(leaf.get(key)).unwrap();
        }
        data.store(2, SeqCst);
        if is_announced {
            rows.changed(&1);
        }
        gate.open();
        assert_eq!(graph.stats().audited, 0);
        now(above.get(2)).unwrap();
        // What it compares with is gone from memory, or there.
        assert_eq!(graph.stats().audited, 2, "one began before, and one with the hit of the leaf");
        assert_eq!(graph.stats().mismatched, u64::from(!is_announced));
        assert!(above.cached(&2).is_some(), "announced: {is_announced}");
        rows.changed(&1);
        assert!(above.cached(&2).is_some(), "announced: {is_announced}");
    }
}

#[test]
fn a_value_that_was_replaced_while_its_function_ran_again_is_no_mismatch() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (gate, runs, data) =
        (Gate::default(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(1)));
    let (wait, count, load) = (gate.clone(), runs.clone(), data.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (wait, load, run) = (wait.clone(), load.clone(), count.fetch_add(1, SeqCst));
        async move {
            rows.read(&key);
            if run == 1 {
                wait.pass().await;
            }
            load.load(SeqCst)
        }
    })
    .verify(1.0);
    now(memo.get(1)).unwrap();
    assert_eq!(*now(memo.get(1)).unwrap(), 1, "the hit that is verified");
    data.store(2, SeqCst);
    rows.changed(&1);
    assert_eq!(*now(memo.get(1)).unwrap(), 2);
    gate.open();
    graph.advance(Instant::now());
    assert_eq!((runs.load(SeqCst), graph.stats().audited), (3, 1));
    assert_eq!(graph.stats().mismatched, 0, "what was served had changed, and was declared");
}

#[test]
fn a_value_that_was_replaced_before_its_function_ran_again_is_no_mismatch() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        rows.read(&key);
        let value = load.load(SeqCst);
        async move { value }
    })
    .verify(1.0);
    // It is looked at before the other, and replaces what that was served.
    let (gate, runs) = (Gate::default(), AtomicU64::new(0));
    let wait = gate.clone();
    let other = Memo::infallible_in(&graph, "other", move |_: u64| {
        let (wait, data, run) = (wait.clone(), data.clone(), runs.fetch_add(1, SeqCst));
        async move {
            if run == 1 {
                wait.pass().await;
                data.store(2, SeqCst);
                rows.changed(&1);
                memo.get(1).await.unwrap();
            }
        }
    })
    .verify(1.0);
    (0..2).for_each(|_| now(other.get(1)).map(drop).unwrap());
    now(memo.get(1)).unwrap();
    gate.open();
    assert_eq!(*now(memo.get(1)).unwrap(), 1, "the hit that is verified");
    assert_eq!((graph.stats().audited, graph.stats().mismatched), (2, 0));
}

#[test]
fn what_mismatches_are_reported_to_is_dropped_with_the_graph_or_when_it_is_replaced() {
    let (graph, held) = (Graph::new(), Arc::new(()));
    let report = || {
        let held = held.clone();
        move |_: &tidewire_memo::Mismatch| _ = &held
    };
    graph.on_mismatch(report());
    graph.on_mismatch(report());
    assert_eq!(Arc::strong_count(&held), 2);
    drop(graph);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn the_share_of_hits_that_are_verified_is_the_one_that_was_asked_for() {
    for (share, verified) in [(0.0, 0), (-1.0, 0), (0.1, 10), (0.5, 50), (1.0, 100), (5.0, 100)] {
        // Each thread counts its own hits.
        let of_thread = std::thread::spawn(move || {
            let graph = Graph::new();
            let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
            let memo = memo.verify(share);
            (0..101).for_each(|_| _ = now(memo.get(1)).unwrap());
            graph.stats().audited
        });
        assert_eq!(of_thread.join().unwrap(), verified, "a share of {share}");
    }
}

#[test]
fn what_a_verification_asks_for_is_not_verified_and_belongs_to_nobody_else() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    let inner = Memo::infallible_in(&graph, "inner", move |key: u64| {
        let run = count.fetch_add(1, SeqCst);
        async move {
            // The first one reads the row 0, those that verify read others.
            rows.read(&run);
            key
        }
    })
    .verify(1.0);
    let middle = Memo::infallible_in(&graph, "middle", move |key: u64| async move {
        *inner.get(key).await.unwrap()
    })
    .verify(1.0);
    let outer = Memo::infallible_in(&graph, "outer", move |key: u64| async move {
        *middle.get(key).await.unwrap() + *inner.get(key).await.unwrap()
    });
    now(middle.get(1)).unwrap();
    assert_eq!((runs.load(SeqCst), graph.stats().audited), (1, 0));
    now(outer.get(1)).unwrap();
    let stats = graph.stats();
    assert_eq!((stats.audited, stats.mismatched), (2, 0), "one hit of middle, one of inner");
    assert_eq!(runs.load(SeqCst), 2, "a verification of middle is served what inner has");
    (1..5).for_each(|row| _ = rows.changed(&row));
    assert!(outer.cached(&1).is_some() && middle.cached(&1).is_some());
    rows.changed(&0);
    assert!(outer.cached(&1).is_none() && middle.cached(&1).is_none());
}

#[test]
fn a_verification_has_the_context_of_the_hit_and_as_many_as_end_may_come() {
    let graph = Graph::new();
    let seen = Arc::<Mutex<Vec<u64>>>::default();
    let notes = seen.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let notes = notes.clone();
        async move {
            notes.lock().unwrap().push(Ambient::current().tag());
            key
        }
    })
    .verify(1.0);
    for number in 1..=200 {
        now(Ambient::new(number).scope(memo.get(1))).unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), (1..=200).collect::<Vec<_>>());
    assert_eq!(graph.stats().audited, 199);
}

#[test]
fn a_run_beside_a_hit_that_fails_is_a_mismatch_and_one_over_what_others_change_is_none() {
    for is_external in [false, true] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let rows = if is_external { rows.external() } else { rows };
        let runs = AtomicU64::new(0);
        let memo = Memo::new_in(&graph, "memo", move |key: u64| {
            let run = runs.fetch_add(1, SeqCst);
            async move {
                rows.read(&key);
                if run == 0 { Ok(key) } else { Err(std::fmt::Error) }
            }
        })
        .verify(1.0);
        now(memo.get(1)).unwrap();
        now(memo.get(1)).unwrap();
        let stats = graph.stats();
        assert_eq!((stats.audited, stats.mismatched), (1, u64::from(!is_external)));
    }
}

#[test]
fn a_panic_that_panics_when_it_is_dropped_is_a_mismatch_like_any_other() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "the payload");
        }
    }
    let (graph, runs) = (Graph::new(), Arc::new(AtomicU64::new(0)));
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        if runs.fetch_add(1, SeqCst) > 0 {
            std::panic::panic_any(Bomb);
        }
        async move { key }
    });
    let memo = memo.verify(1.0);
    now(memo.get(1)).unwrap();
    now(memo.get(1)).unwrap();
    assert_eq!((graph.stats().audited, graph.stats().mismatched), (1, 1));
}

#[test]
fn runs_of_verify_that_wait_do_not_keep_a_caller_from_being_woken() {
    let graph = Graph::new();
    let gate = Arc::new(Mutex::new(Gate::default()));
    let of_run = gate.clone();
    gate.lock().unwrap().open();
    let below = Memo::infallible_in(&graph, "below", move |key: u64| {
        let waits = of_run.lock().unwrap().clone();
        async move {
            waits.pass().await;
            key
        }
    });
    let above =
        Memo::infallible_in(
            &graph,
            "above",
            move |_: u64| async move { *below.get(0).await.unwrap() },
        );
    let above = above.verify(1.0);
    (0..10).for_each(|key| _ = now(above.get(key)).unwrap());
    *gate.lock().unwrap() = Gate::default();
    below.evict(&0);
    // Hits, each of which is computed once more beside it and waits for what is below.
    (0..10).for_each(|key| _ = now(above.get(key)).unwrap());
    let (mut caller, wakes) = (below.get(0), Wakes::new());
    assert!(poll_with(&mut caller, &wakes).is_pending());
    gate.lock().unwrap().open();
    assert!(wakes.count() > 0, "it can go on, and is the only one who will");
}

#[test]
fn memos_that_are_asked_in_turn_are_each_verified_for_their_share() {
    for share in [0.001, 0.1, 0.4, 0.5, 0.6, 0.75] {
        for memos in 1..5 {
            let graph = Graph::new();
            let runs = Arc::new(Mutex::new(vec![0_u32; memos]));
            let asked: Vec<_> = (0..memos)
                .map(|number| {
                    let runs = runs.clone();
                    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
                        runs.lock().unwrap()[number] += 1;
                        async move { key }
                    });
                    memo.verify(share)
                })
                .collect();
            for _ in 0..2001 {
                asked.iter().for_each(|memo| _ = now(memo.get(1)).unwrap());
            }
            for runs in runs.lock().unwrap().iter() {
                let verified = f64::from(runs - 1);
                let expected = 2000.0 * share;
                let case = format!("{share} of each of {memos}: {verified}");
                assert!((verified - expected).abs() <= 5.0 && verified > 0.0, "{case}");
            }
        }
    }
}

#[test]
fn a_task_that_a_verification_has_begun_is_not_verified_in_turn() {
    type Tasks = Arc<Mutex<Vec<Pin<Box<dyn Future<Output = ()> + Send>>>>>;
    let graph = Graph::new();
    let (tasks, cell) = (Tasks::default(), Arc::<OnceLock<Memo<u64, u64>>>::default());
    let (spawned, asked) = (tasks.clone(), cell.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let asked = asked.clone();
        let again = async move { _ = asked.get().unwrap().get(key).await };
        spawned.lock().unwrap().push(Box::pin(tidewire_memo::scope(again)));
        async move { key }
    })
    .verify(1.0);
    cell.set(memo).unwrap();
    now(memo.get(1)).unwrap();
    drop(std::mem::take(&mut *tasks.lock().unwrap()));
    now(memo.get(1)).unwrap();
    for _ in 0..3 {
        for task in std::mem::take(&mut *tasks.lock().unwrap()) {
            now(task);
        }
    }
    assert!(tasks.lock().unwrap().is_empty(), "each task is looked at by another one");
    assert_eq!(graph.stats().audited, 1);
}

#[test]
fn a_change_that_passes_during_the_look_is_no_mismatch_though_the_value_is_equal_after_it() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (data, gate) = (Arc::new([AtomicU64::new(0), AtomicU64::new(0)]), Gate::default());
    let (load, wait, runs) = (data.clone(), gate.clone(), AtomicU64::new(0));
    let memo = Memo::infallible_in(&graph, "even", move |_: u64| {
        let (load, wait, run) = (load.clone(), wait.clone(), runs.fetch_add(1, SeqCst));
        async move {
            rows.read(&0);
            let one = load[0].load(SeqCst);
            if run == 1 {
                wait.pass().await;
            }
            rows.read(&1);
            (one + load[1].load(SeqCst)).is_multiple_of(2)
        }
    })
    .verify(1.0);
    assert!(*now(memo.get(1)).unwrap());
    assert!(*now(memo.get(1)).unwrap(), "a hit, which is looked at");
    data.iter().for_each(|data| data.store(1, SeqCst));
    batch(|changes| {
        changes.changed(&rows, &0);
        changes.changed(&rows, &1);
    });
    assert!(*now(memo.get(1)).unwrap());
    gate.open();
    graph.advance(Instant::now());
    assert!(graph.stats().audited >= 1);
    assert_eq!(graph.stats().mismatched, 0);
    data[1].store(2, SeqCst);
    now(memo.get(1)).unwrap();
    assert_eq!(graph.stats().mismatched, 1, "what is not announced is found all the same");
}

#[test]
fn a_hit_on_what_a_change_has_not_marked_yet_is_no_mismatch() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |_: u64| {
        let load = load.clone();
        async move {
            rows.read(&0);
            load.load(SeqCst)
        }
    })
    .verify(1.0);
    for key in 0..2_000 {
        now(memo.get(key)).unwrap();
    }
    data.store(2, SeqCst);
    let mut change = Box::pin(rows.changed_async(&0));
    assert!(poll_with(&mut change, &Wakes::new()).is_pending(), "there are more than a chunk");
    let old = (0..2_000).filter(|key| *now(memo.get(*key)).unwrap() == 1).count();
    assert!(old > 0, "they are not marked yet");
    now(change);
    assert!((0..2_000).all(|key| *now(memo.get(key)).unwrap() == 2));
    let stats = graph.stats();
    assert!(stats.audited > 0);
    assert_eq!(stats.mismatched, 0);
}
