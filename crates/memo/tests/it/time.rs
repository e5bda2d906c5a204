//! Lives that end by time; time is an argument.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tidewire_memo::{ErrorKind, EventKind, Graph, Memo, Recording, Source, scope};

use crate::support::{Gate, logged, now, poll, work};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_value_expires_when_advance_says_that_its_time_is_over() {
    let graph = Graph::new();
    let start = Instant::now();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key }).ttl(60 * SECOND);
    assert_eq!(graph.advance(start), None);
    now(memo.get(1)).unwrap();
    assert_eq!(graph.advance(start + 10 * SECOND), Some(start + 60 * SECOND));
    now(memo.get(2)).unwrap();
    assert_eq!(graph.advance(start + 59 * SECOND), Some(start + 60 * SECOND));
    assert!(memo.cached(&1).is_some());
    assert_eq!(graph.advance(start + 60 * SECOND), Some(start + 70 * SECOND));
    assert!(memo.cached(&1).is_none() && memo.cached(&2).is_some());
    assert_eq!(graph.advance(start + 70 * SECOND), None);
    assert!(memo.cached(&2).is_none());
}

#[test]
fn nothing_expires_while_nobody_tells_the_time() {
    let graph = Graph::new();
    let memo =
        Memo::infallible_in(&graph, "memo", |key: u64| async move { key }).ttl(Duration::ZERO);
    now(memo.get(1)).unwrap();
    assert!(memo.cached(&1).is_some());
    graph.advance(Instant::now());
    assert!(memo.cached(&1).is_none());
}

#[test]
fn an_expired_value_that_comes_out_equal_keeps_its_dependants() {
    let graph = Graph::new();
    let start = Instant::now();
    graph.advance(start);
    let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key }).ttl(SECOND);
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    now(above.get(1)).unwrap();
    graph.record_events(Recording::everything());
    graph.advance(start + SECOND);
    now(above.get(1)).unwrap();
    let events = work(&graph);
    assert!(events.contains(&"expired leaf(1)".to_owned()));
    assert!(events.contains(&"verified above(1)".to_owned()), "{events:?}");
    assert!(!events.contains(&"published above(1)".to_owned()));
}

#[test]
fn a_recomputed_value_lives_its_whole_life_again() {
    let graph = Graph::new();
    let start = Instant::now();
    graph.advance(start);
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key }).ttl(10 * SECOND);
    now(memo.get(1)).unwrap();
    graph.advance(start + 9 * SECOND);
    memo.invalidate(&1);
    now(memo.get(1)).unwrap();
    graph.advance(start + 15 * SECOND);
    assert!(memo.cached(&1).is_some());
    graph.advance(start + 19 * SECOND);
    assert!(memo.cached(&1).is_none());
}

#[test]
fn what_was_made_of_an_evicted_value_ends_with_its_life_although_that_is_computed_anew() {
    let graph = Graph::new();
    let start = Instant::now();
    graph.advance(start);
    let clock = Arc::new(AtomicU64::new(1));
    let load = clock.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", move |_: u64| {
        let load = load.clone();
        async move { load.load(SeqCst) }
    })
    .ttl(10 * SECOND);
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    assert_eq!(*now(above.get(1)).unwrap(), 1);
    assert!(leaf.evict(&1));
    graph.advance(start + 9 * SECOND);
    clock.store(2, SeqCst);
    assert_eq!(*now(leaf.get(1)).unwrap(), 2);
    graph.advance(start + 10 * SECOND);
    assert!(above.cached(&1).is_none(), "it is ten seconds old");
    assert_eq!(*now(above.get(1)).unwrap(), 2);
}

#[test]
fn a_value_in_place_of_an_evicted_error_makes_stale_what_was_made_of_the_error() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let runs = Arc::new(AtomicU64::new(0));
    let failing = Memo::new_in(&graph, "failing", move |_: u64| {
        let run = runs.fetch_add(1, SeqCst);
        async move { if run == 0 { Err(std::fmt::Error) } else { Ok(run) } }
    })
    .error_ttl(60 * SECOND);
    let same = Memo::infallible_in(&graph, "same", move |key: u64| async move { rows.read(&key) });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        same.get(key).await.unwrap();
        failing.get(key).await.map_or(0, |value| *value)
    });
    assert_eq!(*now(above.get(1)).unwrap(), 0);
    assert!(failing.evict(&1));
    assert_eq!(*now(failing.get(1)).unwrap(), 1);
    // The rest of what it was made of is as it was.
    rows.changed(&1);
    now(same.get(1)).unwrap();
    assert_eq!(*now(above.get(1)).unwrap(), 1);
}

fn failing(graph: &Graph, runs: &Arc<AtomicU64>) -> Memo<u64, u64> {
    let runs = runs.clone();
    Memo::new_in(graph, "failing", move |_: u64| {
        let run = runs.fetch_add(1, SeqCst);
        async move { Err::<u64, _>(format!("run {run}")) }
    })
}

#[test]
fn an_error_is_not_memoized_unless_it_has_a_life_of_its_own() {
    let graph = Graph::new();
    let runs = Arc::new(AtomicU64::new(0));
    let memo = failing(&graph, &runs);
    assert_eq!(now(memo.get(1)).unwrap_err().to_string(), "run 0");
    assert_eq!(now(memo.get(1)).unwrap_err().to_string(), "run 1");
    assert_eq!(graph.stats().nodes, 0);
}

#[test]
fn a_memoized_error_is_served_until_its_own_shorter_life_is_over() {
    let graph = Graph::new();
    let start = Instant::now();
    graph.advance(start);
    let runs = Arc::new(AtomicU64::new(0));
    let memo = failing(&graph, &runs).ttl(60 * SECOND).error_ttl(SECOND);
    assert_eq!(now(memo.get(1)).unwrap_err().to_string(), "run 0");
    let again = now(memo.get(1)).unwrap_err();
    assert_eq!((again.to_string().as_str(), again.kind()), ("run 0", ErrorKind::Failed));
    assert!(memo.cached(&1).is_none(), "an error is no value");
    graph.advance(start + SECOND);
    assert_eq!(now(memo.get(1)).unwrap_err().to_string(), "run 1");
}

#[test]
fn what_used_an_error_that_is_not_memoized_is_not_memoized_either() {
    let graph = Graph::new();
    let runs = Arc::new(AtomicU64::new(0));
    let below = failing(&graph, &runs);
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        below.get(key).await.map_or(0, |value| *value)
    });
    now(above.get(1)).unwrap();
    now(above.get(1)).unwrap();
    assert_eq!(runs.load(SeqCst), 2);
    let below = below.error_ttl(SECOND);
    now(above.get(1)).unwrap();
    now(above.get(1)).unwrap();
    assert_eq!(runs.load(SeqCst), 3);
    below.invalidate(&1);
    assert!(above.cached(&1).is_none());
}

#[test]
fn one_call_of_advance_expires_a_bounded_number_and_asks_to_be_called_again() {
    let graph = Graph::new();
    let start = Instant::now();
    graph.advance(start);
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key }).ttl(SECOND);
    (0..3000).for_each(|key| _ = now(memo.get(key)).unwrap());
    graph.record_events(Recording::everything());
    let over = start + 2 * SECOND;
    let mut calls = 0;
    while graph.advance(over) == Some(over) {
        calls += 1;
    }
    assert_eq!(calls, 2);
    assert_eq!(logged(&graph, EventKind::Expired).len(), 3000);
}

#[cfg(feature = "driver")]
#[test]
fn the_driver_expires_values_from_a_thread_that_its_drop_joins() {
    let graph = Graph::new();
    let driver = graph.drive().unwrap();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
        .ttl(Duration::from_millis(1));
    let mut stale = memo.notify(1);
    now(memo.get(1)).unwrap();
    assert_eq!(now(stale.next()), Some(()), "waits for the driver, however long that takes");
    drop(driver);
    assert_eq!(graph.stats().expired, 1);
}

#[cfg(feature = "driver")]
#[test]
fn a_graph_is_driven_until_its_last_driver_is_dropped_and_can_be_driven_again() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
        .ttl(Duration::from_millis(1));
    let (first, second) = (graph.drive().unwrap(), graph.drive().unwrap());
    drop(second);
    for (driver, key) in [(first, 1), (graph.drive().unwrap(), 2)] {
        let mut stale = memo.notify(key);
        now(memo.get(key)).unwrap();
        assert_eq!(now(stale.next()), Some(()), "waits for the driver, however long that takes");
        drop(driver);
    }
    let third = graph.drive().unwrap();
    let mut stale = memo.notify(3);
    now(memo.get(3)).unwrap();
    assert_eq!(now(stale.next()), Some(()));
    drop(third);
}

#[test]
fn a_cycle_through_a_task_without_scope_is_named_when_it_has_lasted_for_long() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let graph = Graph::new();
    let start = Instant::now();
    let told: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let teller = told.clone();
    graph.on_stuck(5 * SECOND, move |stuck| teller.lock().unwrap().push(stuck.to_string()));

    let cell: Arc<std::sync::OnceLock<Memo<u64, u64>>> = Arc::default();
    let below = cell.clone();
    let order = Memo::new_in(&graph, "order", move |key: u64| {
        let customer = *below.get().unwrap();
        async move { Ok::<_, tidewire_memo::Error>(*customer.get(key).await?) }
    });
    let customer = Memo::new_in(&graph, "customer", move |key: u64| async move {
        let task = tokio::spawn(async move { order.get(key).await.map(|value| *value) });
        task.await.unwrap()
    });
    cell.set(customer).unwrap();

    runtime.block_on(async {
        let waiting = tokio::spawn(customer.get(7));
        let idle = async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        };
        idle.await;
        assert_eq!(graph.advance(start), Some(start + 5 * SECOND));
        graph.advance(start + 4 * SECOND);
        assert!(told.lock().unwrap().is_empty());
        graph.advance(start + 6 * SECOND);
        graph.advance(start + 12 * SECOND);
        waiting.abort();
    });
    let told = told.lock().unwrap();
    assert_eq!(
        *told,
        [
            "customer(7) has been running for 6s with 2 waiting calls, of order(7); if it waits for a \
          spawned task that asks for order(7), that is a cycle: wrap the task's future in `scope`"
        ]
    );
}

#[test]
fn what_ends_in_time_or_waits_for_something_else_is_not_called_stuck() {
    let graph = Graph::new();
    let start = Instant::now();
    let told: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let teller = told.clone();
    graph.on_stuck(SECOND, move |stuck| teller.lock().unwrap().push(stuck.running.clone()));
    let slow = Memo::infallible_in(&graph, "slow", |_: u64| std::future::pending::<u64>());
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *slow.get(key).await.unwrap()
    });
    let quick = Memo::infallible_in(&graph, "quick", |key: u64| async move { key });
    let mut get = above.get(1);
    assert!(poll(&mut get).is_pending());
    now(quick.get(1)).unwrap();
    graph.advance(start);
    graph.advance(start + SECOND);
    assert_eq!(*told.lock().unwrap(), ["slow(1)"]);
}

#[cfg(feature = "driver")]
#[test]
fn a_report_that_panics_or_drops_the_driver_ends_no_other_thing() {
    let graph = Graph::new();
    let driver = Arc::new(std::sync::Mutex::new(None));
    let (told, dropped) = (Gate::default(), driver.clone());
    let tells = told.clone();
    graph.on_stuck(Duration::from_millis(1), move |_| {
        // The thread that drives is this one.
        drop(dropped.lock().unwrap().take());
        tells.open();
        panic!("injected report");
    });
    let slow = Memo::infallible_in(&graph, "slow", |_: u64| std::future::pending::<u64>());
    let mut get = slow.get(1);
    assert!(poll(&mut get).is_pending());
    *driver.lock().unwrap() = Some(graph.drive().unwrap());
    now(told.pass());
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
        .ttl(Duration::from_millis(1));
    let mut stale = memo.notify(1);
    now(memo.get(1)).unwrap();
    let _driver = graph.drive().unwrap();
    assert_eq!(now(stale.next()), Some(()), "it can be driven again, and goes on");
}

#[test]
fn a_report_that_panics_does_not_end_who_tells_the_time() {
    let graph = Graph::new();
    let start = Instant::now();
    graph.on_stuck(SECOND, |_| panic!("injected report"));
    let slow = Memo::infallible_in(&graph, "slow", |_: u64| std::future::pending::<u64>());
    let mut get = slow.get(1);
    assert!(poll(&mut get).is_pending());
    graph.advance(start);
    assert_eq!(graph.advance(start + 2 * SECOND), Some(start + 3 * SECOND));
}

#[test]
fn what_waited_for_something_else_is_called_stuck_when_it_hangs_by_itself() {
    let (graph, gate, start) = (Graph::new(), Gate::default(), Instant::now());
    let told: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let teller = told.clone();
    graph.on_stuck(SECOND, move |stuck| teller.lock().unwrap().push(stuck.running.clone()));
    let wait = gate.clone();
    let slow = Memo::infallible_in(&graph, "slow", move |key: u64| {
        let wait = wait.clone();
        async move {
            wait.pass().await;
            key
        }
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        slow.get(key).await.unwrap();
        std::future::pending::<u64>().await
    });
    let mut get = above.get(1);
    assert!(poll(&mut get).is_pending());
    graph.advance(start);
    graph.advance(start + SECOND);
    assert_eq!(*told.lock().unwrap(), ["slow(1)"]);
    gate.open();
    assert!(poll(&mut get).is_pending());
    graph.advance(start + 2 * SECOND);
    graph.advance(start + 3 * SECOND);
    assert_eq!(*told.lock().unwrap(), ["slow(1)", "above(1)"]);
}

#[test]
fn an_error_that_follows_a_value_of_a_longer_life_ends_with_its_own() {
    let (graph, start) = (Graph::new(), Instant::now());
    let rows = Source::new_in(&graph, "rows");
    let fails = Arc::new(AtomicU64::new(0));
    let count = fails.clone();
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let fails = count.load(SeqCst) != 0;
        async move {
            rows.read(&key);
            if fails { Err(std::fmt::Error) } else { Ok(key) }
        }
    })
    .ttl(60 * SECOND)
    .error_ttl(SECOND);
    graph.advance(start);
    now(memo.get(1)).unwrap();
    fails.store(1, SeqCst);
    rows.changed(&1);
    assert_eq!(now(memo.get(1)).unwrap_err().kind(), ErrorKind::Failed);
    fails.store(0, SeqCst);
    assert!(now(memo.get(1)).is_err(), "it is kept");
    assert_eq!(graph.advance(start), Some(start + SECOND));
    graph.advance(start + SECOND);
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
}

#[cfg(feature = "driver")]
#[test]
fn the_driver_ends_what_a_write_holds_up_that_nobody_ends() {
    let graph = Graph::new();
    graph.set_write_limit(Duration::from_millis(1));
    let driver = graph.drive().unwrap();
    let rows = Source::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    // By the second one the driver has slept.
    for key in 0..10 {
        let guard = std::thread::spawn(move || rows.write(&key)).join().unwrap();
        assert_eq!(
            *now(memo.get(key)).unwrap(),
            key,
            "waits for the driver, however long that takes"
        );
        drop(guard);
    }
    drop(driver);
}

#[cfg(feature = "driver")]
#[test]
fn the_driver_looks_for_what_is_stuck_also_when_that_is_asked_for_while_it_sleeps() {
    let graph = Graph::new();
    let driver = graph.drive().unwrap();
    let quick = Memo::infallible_in(&graph, "quick", |key: u64| async move { key })
        .ttl(Duration::from_millis(1));
    let mut stale = quick.notify(1);
    now(quick.get(1)).unwrap();
    // With nothing else to do the driver sleeps after this.
    assert_eq!(now(stale.next()), Some(()));
    let slow = Memo::infallible_in(&graph, "slow", |_: u64| std::future::pending::<u64>());
    let mut get = slow.get(1);
    assert!(poll(&mut get).is_pending());
    let (send, receive) = std::sync::mpsc::channel();
    let send = std::sync::Mutex::new(send);
    graph.on_stuck(Duration::from_millis(1), move |stuck| {
        _ = send.lock().unwrap().send(stuck.running.clone());
    });
    assert_eq!(receive.recv().unwrap(), "slow(1)", "waits for the driver, however long that takes");
    drop(driver);
}

#[test]
fn a_value_without_a_life_does_not_end_with_that_of_the_error_before_it() {
    let (graph, start) = (Graph::new(), Instant::now());
    let rows = Source::new_in(&graph, "rows");
    let fails = Arc::new(AtomicU64::new(1));
    let count = fails.clone();
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let fails = count.load(SeqCst) != 0;
        async move {
            rows.read(&key);
            if fails { Err(std::fmt::Error) } else { Ok(key) }
        }
    })
    .error_ttl(SECOND);
    graph.advance(start);
    assert_eq!(now(memo.get(1)).unwrap_err().kind(), ErrorKind::Failed);
    fails.store(0, SeqCst);
    rows.changed(&1);
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
    assert_eq!(memo.lifetime(&1), None);
    graph.advance(start + SECOND);
    assert!(memo.cached(&1).is_some(), "nothing ends it but a change");
}

#[test]
fn a_value_that_is_made_after_a_change_does_not_end_with_the_evicted_one_before_it() {
    let (graph, start) = (Graph::new(), Instant::now());
    let rows = Source::<u64>::new_in(&graph, "rows");
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
        rows.read(&key);
        key
    })
    .ttl(10 * SECOND);
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    graph.advance(start);
    now(above.get(1)).unwrap();
    assert!(leaf.evict(&1));
    graph.advance(start + 6 * SECOND);
    rows.changed(&1);
    now(leaf.get(1)).unwrap();
    let life = leaf.lifetime(&1).unwrap();
    assert_eq!((life.since, life.until), (start + 6 * SECOND, start + 16 * SECOND));
    graph.advance(start + 15 * SECOND);
    assert!(leaf.cached(&1).is_some());
    graph.advance(start + 16 * SECOND);
    assert!(leaf.cached(&1).is_none());
}

#[cfg(feature = "driver")]
#[test]
fn the_driver_is_woken_by_every_life_that_begins_while_it_sleeps() {
    let graph = Graph::new();
    let driver = graph.drive().unwrap();
    let rows = Source::<u64>::new_in(&graph, "rows").external();
    graph.set_external_life(Some(3600 * SECOND));
    let tasks = Arc::<std::sync::Mutex<Vec<_>>>::default();
    let spawned = tasks.clone();
    let late = Memo::infallible_in(&graph, "late", move |key: u64| {
        spawned.lock().unwrap().push(Box::pin(scope(async move { rows.read(&key) })));
        async move { key }
    });
    let memo =
        Memo::infallible_in(&graph, "memo", |key: u64| async move { key }).ttl(3600 * SECOND);
    // By the second one the driver has slept.
    for key in 0..10 {
        for memo in [memo, late] {
            now(memo.get(key)).unwrap();
            tasks.lock().unwrap().drain(..).for_each(now);
            let life = loop {
                match memo.lifetime(&key) {
                    Some(life) => break life,
                    // For the driver, however long that takes.
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(life.until, life.since + 3600 * SECOND);
        }
    }
    drop(driver);
}

#[test]
fn lives_that_nobody_has_timed_yet_are_those_of_what_is_there() {
    let (graph, start) = (Graph::new(), Instant::now());
    let rows = Source::<u64>::new_in(&graph, "rows");
    let fails = Arc::new(AtomicU64::new(1));
    let count = fails.clone();
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let fails = count.load(SeqCst) != 0;
        async move {
            rows.read(&key);
            if fails { Err(std::fmt::Error) } else { Ok(key) }
        }
    })
    .ttl(60 * SECOND)
    .error_ttl(SECOND);
    now(memo.get(1)).unwrap_err();
    now(memo.get(2)).unwrap_err();
    fails.store(0, SeqCst);
    rows.changed(&1);
    now(memo.get(1)).unwrap();
    assert_eq!(graph.advance(start), Some(start + SECOND), "that of the error");
    assert_eq!(memo.lifetime(&1).unwrap().until, start + 60 * SECOND, "a value has its own");
    graph.advance(start + SECOND);
    assert!(memo.cached(&1).is_some());
    assert_eq!(*now(memo.get(2)).unwrap(), 2, "the error is over");
}

#[test]
fn a_late_read_shortens_a_life_that_nobody_has_timed_yet_and_lengthens_none() {
    for (own, lives) in [(2, 2), (60, 5)] {
        let (graph, start) = (Graph::new(), Instant::now());
        let rows = Source::<u64>::new_in(&graph, "rows").external();
        let tasks = Arc::<std::sync::Mutex<Vec<_>>>::default();
        let spawned = tasks.clone();
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
            spawned.lock().unwrap().push(Box::pin(scope(async move { rows.read(&key) })));
            async move { key }
        })
        .ttl(own * SECOND);
        now(memo.get(1)).unwrap();
        tasks.lock().unwrap().drain(..).for_each(now);
        graph.advance(start);
        assert_eq!(memo.lifetime(&1).unwrap().until, start + lives * SECOND);
    }
}

#[test]
fn a_value_that_is_invalidated_or_gone_has_no_life_and_does_not_expire() {
    let (graph, start) = (Graph::new(), Instant::now());
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key }).ttl(SECOND);
    graph.advance(start);
    let bare = graph.stats().bytes;
    (0..3).for_each(|key| _ = now(memo.get(key)).unwrap());
    memo.invalidate(&0);
    memo.evict(&1);
    assert!(memo.lifetime(&0).is_none() && memo.lifetime(&1).is_none());
    assert_eq!(graph.advance(start + SECOND), None);
    assert_eq!(graph.stats().expired, 1);
    (0..3).for_each(|key| _ = memo.evict(&key));
    assert_eq!(graph.stats().bytes, bare);
}

#[test]
fn what_is_to_expire_does_although_thousands_that_were_made_since_have_gone() {
    let (graph, start) = (Graph::new(), Instant::now());
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key }).ttl(60 * SECOND);
    graph.advance(start);
    (0..10).for_each(|key| _ = now(memo.get(key)).unwrap());
    let bytes = graph.stats().bytes;
    for key in 10..10_000 {
        now(memo.get(key)).unwrap();
        memo.evict(&key);
    }
    assert!(graph.stats().bytes < bytes + 40_000, "{} after {bytes}", graph.stats().bytes);
    graph.advance(start + 60 * SECOND);
    assert!((0..10).all(|key| memo.cached(&key).is_none()));
}

#[test]
fn lives_count_for_memory_whether_somebody_has_told_the_time_or_not() {
    for is_told in [false, true] {
        let graph = Graph::new();
        let bytes = |memo: Memo<u64, u64>| {
            let before = graph.stats().bytes;
            (0..100).for_each(|key| _ = now(memo.get(key)).unwrap());
            graph.stats().bytes - before
        };
        if is_told {
            graph.advance(Instant::now());
        }
        let memo = |name| Memo::infallible_in(&graph, name, |key: u64| async move { key });
        let (bare, timed) = (bytes(memo("bare")), bytes(memo("timed").ttl(60 * SECOND)));
        assert!(timed >= bare + 100 * 24, "{timed} beside {bare}");
    }
}

#[test]
fn the_longest_life_there_is_is_one() {
    let (graph, start) = (Graph::new(), Instant::now());
    graph.advance(start);
    let memo = Memo::new_in(&graph, "memo", |key: u64| async move {
        if key == 0 { Err(std::fmt::Error) } else { Ok(key) }
    })
    .ttl(Duration::MAX)
    .error_ttl(Duration::MAX);
    now(memo.get(1)).unwrap();
    let error = now(memo.get(0)).unwrap_err();
    graph.advance(start + 1_000_000 * SECOND);
    assert!(memo.cached(&1).is_some());
    assert_eq!(now(memo.get(0)).unwrap_err().version(), error.version());
    assert_ne!(error.version(), 0, "it is kept");
}

#[test]
fn the_report_of_what_is_stuck_names_who_waits_nearest_first_and_the_last_reporter_is_told() {
    let (graph, start) = (Graph::new(), Instant::now());
    graph.on_stuck(SECOND, |_| panic!("it was replaced"));
    let told = Arc::<std::sync::Mutex<Vec<tidewire_memo::Stuck>>>::default();
    let teller = told.clone();
    graph.on_stuck(2 * SECOND, move |stuck| teller.lock().unwrap().push(stuck.clone()));
    let cell: Arc<std::sync::OnceLock<Memo<u64, u64>>> = Arc::default();
    let below = cell.clone();
    let chain = Memo::infallible_in(&graph, "chain", move |key: u64| {
        let below = *below.get().unwrap();
        async move {
            match key {
                0 => std::future::pending().await,
                key => *below.get(key - 1).await.unwrap(),
            }
        }
    });
    cell.set(chain).unwrap();
    let (mut first, mut second) = (chain.get(3), chain.get(0));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    graph.advance(start);
    graph.advance(start + SECOND);
    assert!(told.lock().unwrap().is_empty());
    (2..6).for_each(|time| _ = graph.advance(start + time * SECOND));
    let told = told.lock().unwrap();
    let [stuck] = &told[..] else { panic!("once: {told:?}") };
    assert_eq!((stuck.running.as_str(), stuck.callers), ("chain(0)", 2));
    assert_eq!(stuck.waiting, ["chain(1)", "chain(2)", "chain(3)"]);
    assert_eq!(stuck.seen_for, 2 * SECOND);
    let text = stuck.to_string();
    assert!(text.contains("with 2 waiting calls, of chain(1) and chain(2) and chain(3)"), "{text}");
}

#[test]
fn a_key_that_cannot_be_shown_is_reported_all_the_same() {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Hidden;
    impl std::fmt::Debug for Hidden {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("not for anybody's eyes")
        }
    }
    let graph = Graph::new();
    let reports: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let told = reports.clone();
    graph.on_stuck(Duration::from_secs(1), move |stuck| {
        told.lock().unwrap().push(stuck.running.clone());
    });
    let memo = Memo::infallible_in(&graph, "memo", |_: Hidden| std::future::pending::<u64>());
    let mut waits = memo.get(Hidden);
    assert!(poll(&mut waits).is_pending());
    let start = Instant::now();
    (0..3).for_each(|second| _ = graph.advance(start + Duration::from_secs(second)));
    assert_eq!(*reports.lock().unwrap(), ["memo(a key whose Debug panics)"]);
}

#[test]
fn what_takes_the_place_of_an_evicted_value_ends_no_later_than_that_and_its_own_life() {
    // What is there at first, what takes its place, and when the value made of the first ends.
    let cases = [
        ("error", "value", 1),
        ("error", "timed", 1),
        ("timed", "error", 1),
        ("timed", "value", 60),
        ("timed", "external", 5),
        ("external", "value", 5),
        ("value", "error", 1),
        ("value", "external", 5),
    ];
    for (first, second, end) in cases {
        for is_dated in [true, false] {
            let (graph, start) = (Graph::new(), Instant::now());
            let rows = Source::<u64>::new_in(&graph, "rows").external();
            let kind = Arc::new(std::sync::Mutex::new(first));
            let is = kind.clone();
            let inner = Memo::new_in(&graph, "inner", move |key: u64| {
                let kind = *is.lock().unwrap();
                async move {
                    if kind == "external" {
                        rows.read(&key);
                    }
                    if kind == "error" { Err(std::fmt::Error) } else { Ok(kind) }
                }
            })
            .error_ttl(SECOND);
            let outer = Memo::infallible_in(&graph, "outer", move |key: u64| async move {
                inner.get(key).await.map_or("error", |kind| *kind)
            });
            let make = |kind_now| {
                *kind.lock().unwrap() = kind_now;
                let memo = if kind_now == "timed" { inner.ttl(60 * SECOND) } else { inner };
                drop(now(memo.get(1)));
            };
            if is_dated {
                graph.advance(start);
            }
            make(first);
            assert_eq!(*now(outer.get(1)).unwrap(), first);
            assert!(inner.evict(&1));
            make(second);
            graph.advance(start);
            let case = format!("{first}, {second}, dated: {is_dated}");
            assert!(outer.cached(&1).is_some(), "{case}");
            if end > 1 {
                graph.advance(start + (end - 1) * SECOND);
                assert!(outer.cached(&1).is_some(), "{case}");
            }
            graph.advance(start + end * SECOND);
            assert!(outer.cached(&1).is_none(), "{case}");
            assert!(inner.cached(&1).is_none(), "{case}");
        }
    }
}

#[cfg(feature = "driver")]
#[test]
fn a_driver_that_ends_leaves_the_graph_awake() {
    struct Ends(std::sync::mpsc::Sender<()>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    thread_local! {
        static ENDS: std::cell::RefCell<Option<Ends>> = const { std::cell::RefCell::new(None) };
    }
    let graph = Graph::new();
    let driver = Arc::new(std::sync::Mutex::new(None));
    let (dropped, (ends, ended)) = (driver.clone(), std::sync::mpsc::channel());
    graph.on_stuck(Duration::from_millis(1), move |_| {
        // The thread that drives is this one.
        ENDS.set(Some(Ends(ends.clone())));
        drop(dropped.lock().unwrap().take());
    });
    let slow = Memo::infallible_in(&graph, "slow", |_: u64| std::future::pending::<u64>());
    let mut get = slow.get(1);
    assert!(poll(&mut get).is_pending());
    *driver.lock().unwrap() = Some(graph.drive().unwrap());
    ended.recv().unwrap();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key }).ttl(SECOND);
    now(memo.get(1)).unwrap();
    assert!(memo.lifetime(&1).is_some(), "it counts from the last time that was told");
    graph.advance(Instant::now() + 1000 * SECOND);
    assert!(memo.cached(&1).is_none());
}
