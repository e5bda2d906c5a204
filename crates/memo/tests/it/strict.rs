//! Strict memos, and values that can never be published.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use tidewire_memo::{Graph, Memo, Source, scope};

use crate::support::{Gate, now, poll, yield_once};

type Tasks = Arc<Mutex<Vec<Pin<Box<dyn Future<Output = ()> + Send>>>>>;

#[test]
fn a_strict_memo_runs_once_for_an_error_that_is_not_kept() {
    let graph = Graph::new();
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    let failing = Memo::new_in(&graph, "failing", move |_: u64| {
        count.fetch_add(1, SeqCst);
        async move { Err::<u64, _>(std::fmt::Error) }
    })
    .strict();
    now(failing.get(1)).unwrap_err();
    assert_eq!(runs.load(SeqCst), 1);
    let above_runs = Arc::new(AtomicU64::new(0));
    let count = above_runs.clone();
    let above = Memo::new_in(&graph, "above", move |key: u64| {
        count.fetch_add(1, SeqCst);
        async move { failing.get(key).await.map(|value| *value) }
    })
    .strict();
    now(above.get(1)).unwrap_err();
    assert_eq!((above_runs.load(SeqCst), runs.load(SeqCst)), (1, 2));
}

#[test]
fn a_strict_memo_that_reads_another_graph_runs_once() {
    let (graph, other) = (Graph::new(), Graph::new());
    let foreign = Source::<u64>::new_in(&other, "foreign");
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        count.fetch_add(1, SeqCst);
        async move {
            foreign.read(&key);
            key
        }
    })
    .strict();
    now(memo.get(1)).unwrap();
    assert_eq!(runs.load(SeqCst), 1);
}

#[test]
fn a_strict_memo_gives_nobody_what_is_made_of_two_states_also_when_it_is_not_kept_anyway() {
    let (graph, other) = (Graph::new(), Graph::new());
    let (rows, foreign) =
        (Source::<u64>::new_in(&graph, "rows"), Source::<u64>::new_in(&other, "foreign"));
    let data = Arc::new(AtomicU64::new(1));
    let gate = Gate::default();
    let (load, wait) = (data.clone(), gate.clone());
    let pair = Memo::infallible_in(&graph, "pair", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            foreign.read(&key);
            rows.read(&key);
            let before = load.load(SeqCst);
            wait.pass().await;
            (before, load.load(SeqCst))
        }
    })
    .strict();
    let mut get = pair.get(1);
    assert!(poll(&mut get).is_pending());
    data.store(2, SeqCst);
    rows.changed(&1);
    gate.open();
    assert_eq!(*now(get).unwrap(), (2, 2));
}

#[test]
fn a_strict_memo_gives_nobody_what_is_made_of_values_of_two_states_also_when_it_is_not_kept_anyway()
{
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let gate = Gate::default();
    let (load, wait) = (data.clone(), gate.clone());
    let row = Memo::infallible_in(&graph, "row", move |_: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&1);
            let value = load.load(SeqCst);
            wait.pass().await;
            value
        }
    });
    let pair = Memo::infallible_in(&graph, "pair", move |_: u64| async move {
        tidewire_memo::read_untracked();
        let first = *row.get(1).await.unwrap();
        (first, *row.get(2).await.unwrap())
    })
    .strict();
    let mut get = pair.get(1);
    assert!(poll(&mut get).is_pending());
    data.store(2, SeqCst);
    rows.changed(&1);
    gate.open();
    assert_eq!(*now(get).unwrap(), (2, 2));
}

#[test]
fn a_strict_memo_gives_nobody_what_is_made_of_two_states_also_after_a_late_read() {
    let (graph, other) = (Graph::new(), Graph::new());
    let (rows, foreign) =
        (Source::<u64>::new_in(&graph, "rows"), Source::<u64>::new_in(&other, "foreign"));
    let (data, gate, tasks) = (Arc::new(AtomicU64::new(1)), Gate::default(), Tasks::default());
    let (load, wait, spawned) = (data.clone(), gate.clone(), tasks.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        let is_first = {
            let mut tasks = spawned.lock().unwrap();
            tasks.push(Box::pin(scope(async move { foreign.read(&key) })));
            tasks.len() == 1
        };
        async move {
            rows.read(&key);
            let before = load.load(SeqCst);
            if !is_first {
                wait.pass().await;
            }
            (before, load.load(SeqCst))
        }
    })
    .strict();
    assert_eq!(*now(memo.get(1)).unwrap(), (1, 1));
    assert!(poll(&mut tasks.lock().unwrap()[0]).is_ready());
    let mut get = memo.get(1);
    assert!(poll(&mut get).is_pending(), "stale, and the next one is not kept");
    data.store(2, SeqCst);
    rows.changed(&1);
    gate.open();
    assert_eq!(*now(get).unwrap(), (2, 2));
}

#[test]
fn strict_memos_above_a_function_that_changes_what_it_reads_run_once_for_each_call() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let runs: Arc<[AtomicU64; 3]> = Arc::default();
    let count = runs.clone();
    let bottom = Memo::infallible_in(&graph, "bottom", move |key: u64| {
        let count = count.clone();
        async move {
            rows.read(&key);
            yield_once().await;
            rows.changed(&key);
            count[0].fetch_add(1, SeqCst)
        }
    })
    .strict();
    let above = |level: usize, name, below: Memo<u64, u64>| {
        let count = runs.clone();
        Memo::infallible_in(&graph, name, move |key: u64| {
            let count = count.clone();
            async move {
                count[level].fetch_add(1, SeqCst);
                *below.get(key).await.unwrap()
            }
        })
        .strict()
    };
    let top = above(2, "top", above(1, "middle", bottom));
    for call in 1..=3 {
        assert_eq!(now(top.get(1)).unwrap().version(), 0, "never kept");
        let made: Vec<u64> = runs.iter().map(|runs| runs.load(SeqCst)).collect();
        assert_eq!(made, [call; 3]);
    }
}

#[test]
fn an_error_that_is_not_kept_and_is_outdated_by_a_change_is_made_anew_for_strict_callers() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(0));
    let gate = Gate::default();
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            let value = load.load(SeqCst);
            wait.pass().await;
            if value == 0 { Err(std::fmt::Error) } else { Ok(value) }
        }
    })
    .strict();
    let mut get = memo.get(1);
    assert!(poll(&mut get).is_pending());
    data.store(5, SeqCst);
    rows.changed(&1);
    gate.open();
    assert_eq!(*now(get).unwrap(), 5);
}

#[test]
fn a_value_after_a_memoized_error_is_a_new_version_also_when_it_was_evicted() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(5));
    let load = data.clone();
    let leaf = Memo::new_in(&graph, "leaf", move |key: u64| {
        let load = load.clone();
        async move {
            rows.read(&key);
            match load.load(SeqCst) {
                0 => Err(std::fmt::Error),
                value => Ok(value),
            }
        }
    })
    .error_ttl(std::time::Duration::from_secs(60))
    .fingerprint(|value| *value);
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        leaf.get(key).await.map_or(0, |value| *value)
    });
    assert_eq!(*now(above.get(1)).unwrap(), 5);
    data.store(0, SeqCst);
    rows.changed(&1);
    assert_eq!(*now(above.get(1)).unwrap(), 0, "made of the error");
    leaf.evict(&1);
    data.store(5, SeqCst);
    rows.changed(&1);
    assert_eq!(*now(leaf.get(1)).unwrap(), 5);
    assert_eq!(*now(above.get(1)).unwrap(), 5, "the error was not equal to the value before it");
}

#[test]
fn a_strict_memo_gives_out_nothing_early_however_often_it_was_outdated_within_reason() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (data, pause) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (load, paused) = (data.clone(), pause.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (load, paused) = (load.clone(), paused.clone());
        async move {
            rows.read(&key);
            let value = load.load(SeqCst);
            paused.fetch_add(1, SeqCst);
            yield_once().await;
            value
        }
    })
    .strict();
    let mut get = memo.get(1);
    for round in 1..=15 {
        assert!(poll(&mut get).is_pending(), "attempt {round} was outdated");
        data.store(round, SeqCst);
        rows.changed(&1);
    }
    let value = now(get).unwrap();
    assert_eq!((*value, value.version() != 0), (15, true));
    assert_eq!(pause.load(SeqCst), 16);
}

#[test]
fn a_strict_memo_waits_while_it_is_looked_at_whether_a_dependency_has_changed() {
    for (strict, changes) in [(false, true), (true, true), (true, false)] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (data, read) = (Arc::new(AtomicU64::new(1)), Gate::default());
        let (load, wait, again) = (data.clone(), read.clone(), Gate::default());
        let (reload, runs) = (again.clone(), Arc::new(AtomicU64::new(0)));
        let inner = Memo::infallible_in(&graph, "inner", move |key: u64| {
            let (load, reload, run) = (load.clone(), reload.clone(), runs.fetch_add(1, SeqCst));
            async move {
                rows.read(&key);
                if run > 0 {
                    reload.pass().await;
                }
                load.load(SeqCst)
            }
        });
        let outer = Memo::infallible_in(&graph, "outer", move |key: u64| {
            let wait = wait.clone();
            async move {
                let value = *inner.get(key).await.unwrap();
                wait.pass().await;
                value
            }
        });
        let outer = if strict { outer.strict() } else { outer };
        let mut get = outer.get(1);
        assert!(poll(&mut get).is_pending());
        data.store(if changes { 2 } else { 1 }, SeqCst);
        rows.changed(&1);
        read.open();
        assert_eq!(poll(&mut get).is_pending(), strict, "while inner runs anew");
        again.open();
        if strict {
            let value = now(get).unwrap();
            assert_eq!((*value, value.version() != 0), (if changes { 2 } else { 1 }, true));
        }
    }
}

/// A strict memo that somebody else outdates during each of its runs; its value is the run's.
fn outdated_by_others(
    graph: &Graph,
    rows: Source<u64>,
    run: impl Fn() -> u64 + Send + Sync + 'static,
) -> Memo<u64, u64> {
    let memo = Memo::infallible_in(graph, "outdated", move |key: u64| {
        let run = run();
        async move {
            rows.read(&key);
            // Somebody else, who is not asked to run again.
            std::thread::spawn(move || rows.changed(&key)).join().unwrap();
            run
        }
    });
    memo.strict()
}

#[test]
fn a_strict_memo_that_others_outdate_again_and_again_answers_after_the_seventeenth_run() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let runs: Arc<[AtomicU64; 2]> = Arc::default();
    let count = runs.clone();
    let inner = outdated_by_others(&graph, rows, move || count[0].fetch_add(1, SeqCst));
    let count = runs.clone();
    let outer = Memo::infallible_in(&graph, "outer", move |key: u64| {
        count[1].fetch_add(1, SeqCst);
        async move { *inner.get(key).await.unwrap() }
    })
    .strict();
    let value = now(inner.get(1)).unwrap();
    assert_eq!((*value, value.version()), (16, 0), "16 were rejected in a row before");
    assert_eq!(now(outer.get(1)).unwrap().version(), 0);
    assert_eq!((runs[0].load(SeqCst), runs[1].load(SeqCst)), (34, 1), "who reads it tries once");
}

#[test]
fn strict_memos_above_one_that_others_outdate_again_and_again_answer_after_one_run() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let runs: Arc<[AtomicU64; 3]> = Arc::default();
    let count = runs.clone();
    let bottom = outdated_by_others(&graph, rows, move || count[0].fetch_add(1, SeqCst));
    let above = |level: usize, name, below: Memo<u64, u64>| {
        let count = runs.clone();
        Memo::infallible_in(&graph, name, move |key: u64| {
            count[level].fetch_add(1, SeqCst);
            async move {
                // The runs below outdate this one, too.
                rows.read(&key);
                *below.get(key).await.unwrap()
            }
        })
        .strict()
    };
    let top = above(2, "top", above(1, "middle", bottom));
    for call in 1..=2 {
        let value = now(top.get(1)).unwrap();
        assert_eq!((*value, value.version()), (17 * call - 1, 0));
        let made: Vec<u64> = runs.iter().map(|runs| runs.load(SeqCst)).collect();
        assert_eq!(made, [17 * call, call, call]);
    }
}

#[test]
fn who_changes_another_graph_is_not_taken_for_who_outdates_himself() {
    let (graph, elsewhere) = (Graph::new(), Graph::new());
    let rows = Source::<u64>::new_in(&graph, "rows");
    let others = Source::<u64>::new_in(&elsewhere, "others");
    let (data, gate) = (Arc::new(AtomicU64::new(1)), Gate::default());
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            others.changed(&key);
            let value = load.load(SeqCst);
            wait.pass().await;
            value
        }
    })
    .strict();
    let mut get = memo.get(1);
    assert!(poll(&mut get).is_pending());
    data.store(2, SeqCst);
    rows.changed(&1);
    gate.open();
    assert_eq!(*now(get).unwrap(), 2);
    assert!(memo.cached(&1).is_some());
}
