//! Bad input and trouble.

use std::hash::{Hash, Hasher};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use tidewire_memo::{BoxError, Error, ErrorKind, Graph, Memo, Source, scope};

use crate::support::{Gate, now, poll, yield_once};

#[test]
fn a_panic_gives_every_current_waiter_an_error_and_later_callers_compute_anew() {
    let graph = Graph::new();
    let gate = Gate::default();
    let bad = Arc::new(AtomicBool::new(true));
    let (wait, flag) = (gate.clone(), bad.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (wait, flag) = (wait.clone(), flag.clone());
        async move {
            wait.pass().await;
            assert!(!flag.load(SeqCst), "injected");
            key
        }
    });
    let mut calls: Vec<_> = (0..3).map(|_| memo.get(1)).collect();
    for call in &mut calls {
        assert!(poll(call).is_pending());
    }
    gate.open();
    for call in calls {
        let error = now(call).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panicked);
        assert_eq!(error.to_string(), "memo memo panicked: injected");
    }
    bad.store(false, SeqCst);
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
    // It runs again for who came after a change, of another test's graph as well.
    assert!((1..=3).contains(&graph.stats().panicked), "{:?}", graph.stats());
}

#[test]
fn a_panic_before_the_future_exists_or_in_a_comparison_is_an_error_too() {
    #[derive(Debug)]
    struct Touchy;
    impl PartialEq for Touchy {
        fn eq(&self, _: &Self) -> bool {
            panic!("injected comparison")
        }
    }
    let graph = Graph::new();
    let eager = Memo::<u64, u64>::infallible_in(&graph, "eager", |key| {
        assert!(key != 1, "injected");
        async move { key }
    });
    assert_eq!(now(eager.get(1)).unwrap_err().kind(), ErrorKind::Panicked);
    assert_eq!(*now(eager.get(2)).unwrap(), 2);
    let touchy = Memo::infallible_in(&graph, "touchy", |_: u64| async move { Touchy });
    now(touchy.get(1)).unwrap();
    touchy.invalidate(&1);
    assert_eq!(now(touchy.get(1)).unwrap_err().kind(), ErrorKind::Panicked);
}

#[test]
fn a_function_that_never_returns_holds_up_nobody_else_and_is_cancelled_by_its_last_caller() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let never = Memo::<u64, u64>::infallible_in(&graph, "never", move |key| async move {
        rows.read(&key);
        std::future::pending().await
    });
    let other = Memo::infallible_in(&graph, "other", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let mut stuck = never.get(1);
    assert!(poll(&mut stuck).is_pending());
    assert_eq!(*now(other.get(1)).unwrap(), 1);
    rows.changed(&1);
    assert_eq!(*now(other.get(1)).unwrap(), 1);
    drop(stuck);
    assert_eq!(graph.stats().cancelled, 1);
}

#[test]
fn a_function_with_different_results_for_one_key_serves_one_of_them_until_a_change() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let next = Arc::new(AtomicU64::new(0));
    let memo = Memo::infallible_in(&graph, "moody", move |_: ()| {
        let value = next.fetch_add(1, SeqCst);
        async move {
            rows.read(&());
            value
        }
    });
    let above =
        Memo::infallible_in(
            &graph,
            "above",
            move |_: ()| async move { *memo.get(()).await.unwrap() },
        );
    assert_eq!(*now(above.get(())).unwrap(), 0);
    assert_eq!((memo.copied(&()), above.copied(&())), (Some(0), Some(0)));
    rows.changed(&());
    assert_eq!(*now(above.get(())).unwrap(), 1);
    assert_eq!(memo.copied(&()), above.copied(&()));
}

#[test]
fn a_function_that_changes_a_source_that_it_reads_answers_each_caller_and_is_never_memoized() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let count = count.clone();
        async move {
            rows.read(&key);
            rows.changed(&key);
            count.fetch_add(1, SeqCst)
        }
    });
    assert_eq!(*now(memo.get(1)).unwrap(), 0);
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
    assert_eq!(runs.load(SeqCst), 2, "one run for each call, and no loop");
    assert!(memo.cached(&1).is_none());
}

#[test]
fn a_hundred_thousand_changes_of_one_source_neither_starve_a_reader_nor_grow_anything() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(0));
    let load = data.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let load = load.clone();
        async move {
            rows.read(&key);
            yield_once().await;
            load.load(SeqCst)
        }
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    let floor = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let (raise, announce, end) = (data, floor.clone(), done.clone());
    let writer = std::thread::spawn(move || {
        for value in 1..=100_000 {
            raise.store(value, SeqCst);
            rows.changed(&0);
            announce.store(value, SeqCst);
        }
        end.store(true, SeqCst);
    });
    let mut answers = 0;
    while !done.load(SeqCst) {
        let least = floor.load(SeqCst);
        assert!(*now(above.get(0)).unwrap() >= least);
        answers += 1;
    }
    writer.join().unwrap();
    assert!(answers > 0);
    assert_eq!(*now(above.get(0)).unwrap(), 100_000);
    assert_eq!(graph.stats().nodes, 3);
}

#[test]
fn keys_that_hash_badly_are_slow_and_correct() {
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Bad(u64);
    impl Hash for Bad {
        fn hash<H: Hasher>(&self, state: &mut H) {
            0u64.hash(state);
        }
    }
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: Bad| async move {
        rows.read(&key);
        key.0
    });
    for key in 0..1000 {
        assert_eq!(*now(memo.get(Bad(key))).unwrap(), key);
    }
    rows.changed(&Bad(500));
    let stale: Vec<u64> = (0..1000).filter(|&key| memo.cached(&Bad(key)).is_none()).collect();
    assert_eq!(stale, [500]);
    assert!((0..1000).all(|key| memo.evict(&Bad(key))));
    assert_eq!(memo.with(&Bad(1), |_| ()), None);
}

#[test]
fn a_value_whose_drop_panics_harms_nobody_who_did_not_hold_it() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0, "injected drop");
        }
    }
    let graph = Graph::new();
    let memo = Memo::no_cutoff_in(&graph, "bomb", |key: u64| async move {
        Ok::<_, std::convert::Infallible>(Bomb(key == 1))
    });
    let before = graph.stats().panicked_drops;
    now(async { drop(memo.get(1).await.map(|handle| handle.version())) });
    memo.evict(&1);
    while graph.stats().panicked_drops == before {
        for key in 2..600 {
            now(memo.get(key)).unwrap();
            memo.evict(&key);
        }
    }
    assert!(now(memo.get(7)).is_ok());
}

#[test]
fn a_value_whose_drop_is_slow_or_calls_back_holds_no_lock() {
    struct Calls(Source<u64>, Arc<AtomicU64>);
    impl Drop for Calls {
        fn drop(&mut self) {
            self.0.changed(&1);
            self.1.fetch_add(1, SeqCst);
        }
    }
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let drops = Arc::new(AtomicU64::new(0));
    let count = drops.clone();
    let memo = Memo::no_cutoff_in(&graph, "memo", move |key: u64| {
        let count = count.clone();
        async move {
            rows.read(&key);
            Ok::<_, std::convert::Infallible>(Calls(rows, count))
        }
    });
    while drops.load(SeqCst) == 0 {
        for key in 0..600 {
            now(memo.get(key)).unwrap();
            memo.evict(&key);
        }
    }
}

#[test]
fn closing_a_memo_fails_its_callers_and_makes_its_dependants_stale() {
    let graph = Graph::new();
    let gate = Gate::default();
    let wait = gate.clone();
    let below = Memo::infallible_in(&graph, "below", move |key: u64| {
        let wait = wait.clone();
        async move {
            if key == 2 {
                wait.pass().await;
            }
            key
        }
    });
    let above = Memo::new_in(&graph, "above", move |key: u64| async move {
        Ok::<_, Error>(*below.get(key).await?)
    });
    now(above.get(1)).unwrap();
    let mut waiting = below.get(2);
    assert!(poll(&mut waiting).is_pending());
    below.close();
    assert_eq!(now(waiting).unwrap_err().kind(), ErrorKind::Closed);
    assert!(above.cached(&1).is_none());
    assert!(now(above.get(1)).unwrap_err().to_string().contains("memo below is closed"));
    gate.open();
}

#[test]
fn a_change_of_a_million_deep_chain_needs_no_stack() {
    const DEEP: u64 = if cfg!(miri) { 100 } else { 100_000 };
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let this = cell.clone();
    let chain = Memo::infallible_in(&graph, "chain", move |key: u64| {
        let this = this.clone();
        async move {
            if key == 0 {
                rows.read(&0);
                return 0;
            }
            *this.get().unwrap().get(key - 1).await.unwrap() + 1
        }
    });
    cell.set(chain).unwrap();
    let small = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        now(async {
            for key in 0..DEEP {
                chain.get(key).await.unwrap();
            }
        });
        assert_eq!(rows.changed(&0) as u64, DEEP);
        assert_eq!(*now(chain.get(DEEP - 1)).unwrap(), DEEP - 1);
    });
    small.unwrap().join().unwrap();
    assert_eq!(graph.stats().verified, DEEP - 1);
}

/// Only the top is asked for: the chain is computed from the top down.
fn chain_from_the_top(deep: u64, yields: bool) {
    let graph = Graph::new();
    let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let this = cell.clone();
    let chain = Memo::infallible_in(&graph, "chain", move |key: u64| {
        let this = this.clone();
        async move {
            if yields && key.is_multiple_of(1000) {
                yield_once().await;
            }
            if key == 0 {
                return 0;
            }
            *this.get().unwrap().get(key - 1).await.unwrap() + 1
        }
    });
    cell.set(chain).unwrap();
    let top = std::thread::Builder::new().stack_size(1 << 20);
    let top = top.spawn(move || *now(chain.get(deep)).unwrap()).unwrap();
    assert_eq!(top.join().unwrap(), deep);
    assert_eq!(graph.stats().started, deep + 1);
}

#[test]
fn a_deep_chain_asked_for_from_the_top_does_not_overflow_the_stack() {
    chain_from_the_top(if cfg!(miri) { 200 } else { 50_000 }, false);
}

#[test]
fn a_deep_chain_whose_functions_yield_does_not_overflow_the_stack() {
    chain_from_the_top(if cfg!(miri) { 200 } else { 10_000 }, true);
}

#[test]
fn a_deep_chain_that_waits_is_given_up_and_closed_without_a_deep_stack() {
    const DEEP: u64 = if cfg!(miri) { 200 } else { 30_000 };
    for way in ["call", "memo", "graph", "forgotten"] {
        let small = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            let graph = Graph::new();
            let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
            let this = Arc::downgrade(&cell);
            let chain = Memo::infallible_in(&graph, "chain", move |key: u64| {
                let below = (key > 0).then(|| this.upgrade().unwrap().get().unwrap().get(key - 1));
                async move {
                    match below {
                        Some(below) => *below.await.unwrap() + 1,
                        None => std::future::pending().await,
                    }
                }
            });
            cell.set(chain).unwrap();
            let mut call = chain.get(DEEP);
            assert!(poll(&mut call).is_pending());
            match way {
                "call" => drop(call),
                "memo" => {
                    chain.close();
                    assert_eq!(now(call).unwrap_err().kind(), ErrorKind::Closed);
                }
                "graph" => {
                    drop(graph);
                    assert_eq!(now(call).unwrap_err().kind(), ErrorKind::Closed);
                }
                _ => std::mem::forget(call),
            }
        });
        small.unwrap().join().unwrap();
    }
}

#[test]
fn a_computation_may_drop_another_call_of_itself() {
    let graph = Graph::new();
    let call: Arc<Mutex<Option<tidewire_memo::Get<u64, u64>>>> = Arc::default();
    let mine = call.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let mine = mine.clone();
        async move {
            yield_once().await;
            let other = mine.lock().unwrap().take();
            drop(other);
            key
        }
    });
    let mut other = memo.get(1);
    assert!(poll(&mut other).is_pending());
    *call.lock().unwrap() = Some(other);
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
    assert!(call.lock().unwrap().is_none());
}

#[test]
fn a_function_that_changes_what_it_reads_runs_once_for_each_call_however_it_says_so() {
    type Announce = fn(&Graph, Source<u64>, Memo<u64, u64>);
    let ways: [(&str, Announce); 8] = [
        ("changed", |_, rows, _| _ = rows.changed(&1)),
        ("changed_all", |_, rows, _| _ = rows.changed_all()),
        ("changed_many", |_, rows, _| _ = rows.changed_many([&2, &1])),
        ("batch of all", |_, rows, _| _ = tidewire_memo::batch(|batch| batch.changed_all(&rows))),
        ("guard", |_, rows, _| rows.write(&1).finish()),
        ("unknown", |_, rows, _| rows.write_unknown().finish()),
        ("invalidate", |_, _, leaf| _ = leaf.invalidate(&1)),
        ("steering", |graph, _, _| {
            let id = graph.entries("rows", 0, 1).entries[0].id;
            graph.invalidate(id).unwrap();
        }),
    ];
    for (way, announce) in ways {
        for (strict, in_task) in [(false, false), (true, false), (false, true), (true, true)] {
            let graph = Graph::new();
            let rows = Source::<u64>::new_in(&graph, "rows");
            let made = AtomicU64::new(0);
            let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
                let run = made.fetch_add(1, SeqCst);
                async move {
                    rows.read(&key);
                    run
                }
            });
            let runs = Arc::new(AtomicU64::new(0));
            let (count, held) = (runs.clone(), Arc::new(Mutex::new(Some(graph.clone()))));
            let lent = held.clone();
            let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
                let (count, graph) = (count.clone(), lent.lock().unwrap().clone().unwrap());
                async move {
                    count.fetch_add(1, SeqCst);
                    leaf.get(key).await.unwrap();
                    rows.read(&key);
                    let task = async move { announce(&graph, rows, leaf) };
                    if in_task {
                        scope(task).await
                    } else {
                        task.await
                    }
                    key
                }
            });
            let memo = if strict { memo.strict() } else { memo };
            for call in 1..=3 {
                assert_eq!(now(memo.get(1)).unwrap().version(), 0, "{way}: never kept");
                assert_eq!(runs.load(SeqCst), call, "{way}: {strict}, {in_task}");
            }
            held.lock().unwrap().take();
        }
    }
}

#[test]
fn an_error_that_many_memos_hand_on_has_one_cause_and_is_dropped_at_once() {
    const DEEP: u64 = 100_000;
    for kind in [ErrorKind::Failed, ErrorKind::Panicked, ErrorKind::Cycle] {
        let graph = Graph::new();
        let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
        let itself = cell.clone();
        let chain = Memo::new_in(&graph, "chain", move |key: u64| {
            let itself = itself.clone();
            async move {
                match (key, kind) {
                    (0, ErrorKind::Failed) => Err("seven".parse::<u64>().unwrap_err().into()),
                    (0, ErrorKind::Panicked) => panic!("at the end"),
                    (0, _) => Ok(*itself.get().unwrap().get(0).await?),
                    _ => Ok::<_, BoxError>(*itself.get().unwrap().get(key - 1).await?),
                }
            }
        });
        cell.set(chain).unwrap();
        let error = now(chain.get(DEEP)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "a function has returned it");
        match kind {
            ErrorKind::Failed => assert!(error.downcast_ref::<std::num::ParseIntError>().is_some()),
            _ => assert_eq!(error.downcast_ref::<Error>().unwrap().kind(), kind),
        }
        drop(error);
    }
}
