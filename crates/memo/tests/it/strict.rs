//! Strict memos, and values that can never be published.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock};

use tidewire_memo::{Graph, Memo, Source, batch, read_untracked, scope};

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
        read_untracked();
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

/// Why a value is not kept.
#[derive(Clone, Copy, Debug)]
enum Why {
    Declared,
    Foreign,
    Failed,
    Panicked,
    GivenUp,
    Missed,
    InTask,
    Above,
}

/// What a strict memo makes of a value that is not kept, of a value that is read in `second` after a change of
/// both, and how many of it were asked for at once.
fn strict_over_unkept(why: Why, second: u64, count: u64) -> Vec<[u64; 2]> {
    let (graph, elsewhere) = (Graph::new(), Graph::new());
    let rows = Source::<u64>::new_in(&graph, "rows");
    let foreign = Source::<u64>::new_in(&elsewhere, "foreign");
    let (data, gate) = (Arc::new([AtomicU64::new(0), AtomicU64::new(0)]), Gate::default());
    let never = Memo::infallible_in(&graph, "never", |_: u64| std::future::pending::<()>());
    let load = data.clone();
    let unkept = Memo::new_in(&graph, "unkept", move |_: u64| {
        let load = load.clone();
        async move {
            rows.read(&1);
            let one = load[0].load(SeqCst);
            match why {
                Why::Foreign => foreign.read(&1),
                Why::Failed => return Err(Failed(one)),
                Why::Panicked => std::panic::panic_any(format!("injected {one}")),
                Why::GivenUp => assert!(poll(&mut never.get(1)).is_pending()),
                Why::Missed => assert!(never.cached(&2).is_none()),
                Why::InTask => scope(async { read_untracked() }).await,
                Why::Declared | Why::Above => read_untracked(),
            }
            Ok(one)
        }
    });
    let above = Memo::infallible_in(&graph, "above", move |_: u64| async move {
        *scope(async move { unkept.get(1).await.unwrap() }).await
    });
    let load = data.clone();
    let kept = Memo::infallible_in(&graph, "kept", move |_: u64| {
        let load = load.clone();
        async move {
            rows.read(&2);
            load[1].load(SeqCst)
        }
    });
    let (load, wait) = (data.clone(), gate.clone());
    let strict = Memo::infallible_in(&graph, "strict", move |_: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            let is_above = matches!(why, Why::Above);
            let one = if is_above { above.get(1).await } else { unkept.get(1).await };
            let one = match one {
                Ok(one) => *one,
                Err(error) => error.to_string().ends_with('1').into(),
            };
            wait.pass().await;
            if second == 0 {
                return [one, *kept.get(1).await.unwrap()];
            }
            rows.read(&2);
            [one, load[1].load(SeqCst)]
        }
    })
    .strict();
    let mut gets: Vec<_> = (0..count).map(|key| strict.get(key)).collect();
    gets.iter_mut().for_each(|get| assert!(poll(get).is_pending()));
    data.iter().for_each(|data| data.store(1, SeqCst));
    batch(|changes| {
        changes.changed(&rows, &1);
        changes.changed(&rows, &2);
    });
    gate.open();
    gets.into_iter().map(|get| *now(get).unwrap()).collect()
}

#[derive(Debug)]
struct Failed(u64);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "failed at {}", self.0)
    }
}

impl std::error::Error for Failed {}

#[test]
fn a_strict_memo_mixes_no_states_over_a_value_that_is_not_kept() {
    use Why::*;
    for why in [Declared, Foreign, Failed, Panicked, GivenUp, Missed, InTask, Above] {
        for second in 0..2 {
            let made = strict_over_unkept(why, second, 1);
            assert_eq!(made, [[1, 1]], "{why:?}, the second by {second}");
        }
    }
}

#[test]
fn two_strict_memos_over_one_value_that_is_not_kept_both_see_that_it_is_outdated() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (data, gates) = (Arc::new(AtomicU64::new(0)), [Gate::default(), Gate::default()]);
    let (load, wait) = (data.clone(), gates[0].clone());
    let unkept = Memo::infallible_in(&graph, "unkept", move |_: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&1);
            read_untracked();
            wait.pass().await;
            load.load(SeqCst)
        }
    });
    let (load, wait) = (data.clone(), gates[1].clone());
    let strict = Memo::infallible_in(&graph, "strict", move |_: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            let one = *unkept.get(1).await.unwrap();
            wait.pass().await;
            [one, load.load(SeqCst)]
        }
    })
    .strict();
    let mut gets = [strict.get(1), strict.get(2)];
    gets.iter_mut().for_each(|get| assert!(poll(get).is_pending()));
    gates[0].open();
    gets.iter_mut().for_each(|get| assert!(poll(get).is_pending()));
    data.store(1, SeqCst);
    rows.changed(&1);
    gates[1].open();
    for get in gets {
        assert_eq!(*now(get).unwrap(), [1, 1]);
    }
}

#[test]
fn a_strict_memo_over_very_many_values_that_are_not_kept_sees_that_one_is_outdated() {
    for (reads, links) in [(3000, 2), (2, 20_000)] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (data, gate) = (Arc::new(AtomicU64::new(0)), Gate::default());
        let load = data.clone();
        let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
        let next = cell.clone();
        let unkept = Memo::infallible_in(&graph, "unkept", move |key: u64| {
            let (load, next) = (load.clone(), next.clone());
            async move {
                rows.read(&key);
                if key > 1 {
                    return *next.get().unwrap().get(key - 1).await.unwrap();
                }
                read_untracked();
                load.load(SeqCst)
            }
        })
        .strict();
        cell.set(unkept).unwrap();
        let (wait, runs) = (gate.clone(), Arc::new(AtomicU64::new(0)));
        let count = runs.clone();
        let strict = Memo::infallible_in(&graph, "strict", move |_: u64| {
            let wait = wait.clone();
            count.fetch_add(1, SeqCst);
            async move {
                let one = *unkept.get(links).await.unwrap();
                wait.pass().await;
                let mut last = one;
                for _ in 1..reads {
                    last = *unkept.get(links).await.unwrap();
                }
                one == last
            }
        })
        .strict();
        let mut get = strict.get(1);
        // What is deep takes more than one.
        (0..3).for_each(|_| assert!(poll(&mut get).is_pending()));
        data.store(1, SeqCst);
        rows.changed(&1);
        gate.open();
        assert!(*now(get).unwrap());
        assert_eq!(runs.load(SeqCst), 2);
        assert!(*now(strict.get(1)).unwrap());
        assert_eq!(runs.load(SeqCst), 3, "it is not kept");
    }
}
