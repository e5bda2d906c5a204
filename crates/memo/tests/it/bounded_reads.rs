//! The budget holds, whoever reads: functions of another graph, who writes, tasks that outlive their run.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tidewire_memo::{Graph, Memo, OrderedReads, Source, scope};

use crate::support::{now, poll, yield_once};

const BUDGET: usize = 50_000;

#[test]
fn what_runs_read_that_are_not_memoized_stays_within_the_budget() {
    let graph = Graph::new();
    graph.set_budget(200_000);
    let rows = Source::<u64>::new_in(&graph, "rows");
    for key in 0..20_000 {
        now(OrderedReads::new(&graph).follow(async move { rows.read(&key) }));
    }
    assert!(graph.stats().bytes <= 200_000, "{} bytes", graph.stats().bytes);
}

#[test]
fn what_functions_of_another_graph_ask_for_stays_within_the_budget() {
    let (graph, other) = (Graph::new(), Graph::new());
    graph.set_budget(200_000);
    let near = Memo::infallible_in(&graph, "near", |key: u64| async move { key });
    let far =
        Memo::infallible_in(
            &other,
            "far",
            move |key: u64| async move { *near.get(key).await.unwrap() },
        );
    for key in 0..20_000 {
        now(far.get(key)).unwrap();
    }
    assert!(graph.stats().bytes <= 200_000, "{} bytes", graph.stats().bytes);
}

#[test]
fn what_who_writes_and_who_comes_late_reads_is_bounded_by_the_budget() {
    let graph = Graph::new();
    graph.set_budget(BUDGET);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let write = rows.write(&0);
    for key in 1..2_000 {
        now(memo.get(key)).unwrap();
        assert!(graph.stats().bytes < 2 * BUDGET, "{key}: {:?}", graph.stats());
    }
    write.finish();
    let task = Arc::<Mutex<Option<BoxFuture<'static, ()>>>>::default();
    let spawn = task.clone();
    let above = Memo::infallible_in(&graph, "above", move |key: u64| {
        let late = scope(async move {
            for key in 0..2_000 {
                rows.read(&key);
                yield_once().await;
            }
        });
        *spawn.lock().unwrap() = Some(Box::pin(late));
        async move { key }
    });
    now(above.get(1)).unwrap();
    let mut task = task.lock().unwrap().take().unwrap();
    while poll(&mut task).is_pending() {
        assert!(graph.stats().bytes < 2 * BUDGET, "{:?}", graph.stats());
    }
}

#[test]
fn what_functions_of_another_graph_read_of_sources_stays_within_the_budget() {
    let (graph, other) = (Graph::new(), Graph::new());
    graph.set_budget(BUDGET);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let far = Memo::infallible_in(&other, "far", move |key: u64| async move {
        rows.read(&key);
        rows.range(key..key + 1);
        key
    });
    for key in 0..5_000 {
        now(far.get(key)).unwrap();
        assert!(graph.stats().bytes <= 2 * BUDGET, "{key}: {:?}", graph.stats());
    }
}

#[test]
fn what_a_task_reads_of_another_graph_stays_within_the_budget() {
    let (graph, other) = (Graph::new(), Graph::new());
    graph.set_budget(BUDGET);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let near = Memo::infallible_in(&graph, "near", |key: u64| async move { key });
    let task = Arc::<Mutex<Option<BoxFuture<'static, ()>>>>::default();
    let spawn = task.clone();
    let above = Memo::infallible_in(&other, "above", move |key: u64| {
        let near = near;
        let late = scope(async move {
            for key in 0..5_000 {
                rows.read(&key);
                near.get(key).await.unwrap();
                yield_once().await;
            }
        });
        *spawn.lock().unwrap() = Some(Box::pin(late));
        async move { key }
    });
    now(above.get(1)).unwrap();
    let mut task = task.lock().unwrap().take().unwrap();
    while poll(&mut task).is_pending() {
        assert!(graph.stats().bytes < 2 * BUDGET, "{:?}", graph.stats());
    }
}

#[test]
fn what_a_task_reads_whose_function_has_failed_or_was_given_up_stays_within_the_budget() {
    for fails in ["panics", "errors", "given up"] {
        let graph = Graph::new();
        graph.set_budget(BUDGET);
        let rows = Source::<u64>::new_in(&graph, "rows");
        let task = Arc::<Mutex<Option<BoxFuture<'static, ()>>>>::default();
        let spawn = task.clone();
        let above = Memo::new_in(&graph, "above", move |key: u64| {
            let late = scope(async move {
                for key in 0..5_000 {
                    rows.read(&key);
                    yield_once().await;
                }
            });
            *spawn.lock().unwrap() = Some(Box::pin(late));
            async move {
                match fails {
                    "panics" => panic!("injected"),
                    "errors" => Err(std::io::Error::other("injected")),
                    _ => {
                        std::future::pending::<()>().await;
                        Ok(key)
                    }
                }
            }
        });
        if fails == "given up" {
            assert!(poll(&mut above.get(1)).is_pending());
        } else {
            now(above.get(1)).unwrap_err();
        }
        let mut task = task.lock().unwrap().take().unwrap();
        while poll(&mut task).is_pending() {
            assert!(graph.stats().bytes < 2 * BUDGET, "{fails} {:?}", graph.stats());
        }
    }
}
