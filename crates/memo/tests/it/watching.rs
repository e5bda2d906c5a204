//! Watches: values and notifications.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use futures::{FutureExt, StreamExt};
use tidewire_memo::{ErrorKind, EventKind, Graph, Memo, Recording, Source};

use crate::support::{Gate, Wakes, logged, now, poll_with};

struct World {
    graph: Graph,
    rows: Source<u64>,
    data: Arc<AtomicU64>,
    tens: Memo<u64, u64>,
}

fn world() -> World {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(10));
    let load = data.clone();
    let raw = Memo::infallible_in(&graph, "raw", move |key: u64| {
        let load = load.clone();
        async move {
            rows.read(&key);
            load.load(SeqCst)
        }
    });
    let tens = Memo::infallible_in(&graph, "tens", move |key: u64| async move {
        *raw.get(key).await.unwrap() / 10
    });
    World { graph, rows, data, tens }
}

impl World {
    fn write(&self, value: u64) {
        self.data.store(value, SeqCst);
        self.rows.changed(&0);
    }
}

#[test]
fn a_watch_yields_the_current_value_and_then_one_after_each_change() {
    let world = world();
    let mut watch = world.tens.watch(0);
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 1);
    assert!(StreamExt::next(&mut watch).now_or_never().is_none());
    world.write(20);
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 2);
    world.write(30);
    world.write(40);
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 4, "the last one is never skipped");
    assert!(watch.next().now_or_never().is_none());
}

#[test]
fn a_change_that_is_cut_off_yields_nothing() {
    let world = world();
    let mut watch = world.tens.watch(0);
    now(watch.next()).unwrap().unwrap();
    world.write(15);
    assert!(watch.next().now_or_never().is_none());
    world.write(25);
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 2);
}

#[test]
fn a_watch_sees_changes_through_eviction_and_forcing_out() {
    let world = world();
    let mut watch = world.tens.watch(0);
    now(watch.next()).unwrap().unwrap();
    assert!(world.tens.evict(&0), "a watched value may be evicted");
    world.write(20);
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 2);
    world.tens.evict(&0);
    assert!(world.tens.force_out(&0));
    world.write(30);
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 3);
}

#[test]
fn a_notification_comes_at_mark_time_and_computes_nothing() {
    let world = world();
    let mut notify = world.tens.notify(0);
    assert!(notify.next().now_or_never().is_none());
    now(world.tens.get(0)).unwrap();
    world.graph.record_events(Recording::everything());
    world.write(15);
    assert_eq!(now(notify.next()), Some(()));
    assert!(logged(&world.graph, EventKind::Started).is_empty());
    world.write(16);
    assert!(notify.next().now_or_never().is_none(), "it is suspect already");
    now(world.tens.get(0)).unwrap();
    world.write(17);
    assert_eq!(now(notify.next()), Some(()));
}

#[test]
fn a_mark_between_making_a_notification_and_polling_it_is_not_lost() {
    let world = world();
    let mut notify = world.tens.notify(0);
    now(world.tens.get(0)).unwrap();
    world.write(20);
    assert_eq!(now(notify.next()), Some(()));
}

#[test]
fn a_watch_wakes_its_task() {
    let world = world();
    let (rows, data, tens) = (world.rows, world.data.clone(), world.tens);
    let watcher = std::thread::spawn(move || {
        let mut watch = tens.watch(0);
        let mut seen = Vec::new();
        while seen.last() != Some(&9) {
            seen.push(*now(watch.next()).unwrap().unwrap());
        }
        seen
    });
    for value in 2..=9 {
        data.store(value * 10, SeqCst);
        rows.changed(&0);
    }
    let seen = watcher.join().unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
}

#[test]
fn a_watch_yields_errors_and_goes_on() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(0));
    let load = data.clone();
    let memo = Memo::new_in(&graph, "memo", move |_: ()| {
        let load = load.clone();
        async move {
            rows.read(&());
            match load.load(SeqCst) {
                0 => Err("nothing yet"),
                value => Ok(value),
            }
        }
    })
    .error_ttl(std::time::Duration::from_secs(60));
    let mut watch = memo.watch(());
    assert_eq!(now(watch.next()).unwrap().unwrap_err().kind(), ErrorKind::Failed);
    assert!(watch.next().now_or_never().is_none(), "a memoized error is yielded once");
    data.store(5, SeqCst);
    rows.changed(&());
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 5);
}

#[test]
fn a_watch_rests_although_its_value_has_no_room_and_its_own_run_changes_what_it_needs() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        // Somebody else, as far as the computation knows.
        std::thread::spawn(move || rows.changed(&key)).join().unwrap();
        *leaf.get(key).await.unwrap()
    })
    .weigh(|_| usize::MAX);
    let mut watch = memo.watch(1);
    let mut yielded = 0;
    for _ in 0..100 {
        yielded += u64::from(watch.next().now_or_never().is_some());
    }
    assert_eq!(yielded, 1);
    // Another caller's run changes what the watch was given.
    now(memo.get(1)).unwrap();
    for _ in 0..100 {
        yielded += u64::from(watch.next().now_or_never().is_some());
    }
    assert!(yielded <= 2, "{yielded} values of one change");
}

#[test]
fn a_watch_that_is_late_with_an_error_that_is_not_kept_asks_again() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (data, gate) = (Arc::new(AtomicU64::new(0)), Gate::default());
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            wait.pass().await;
            match load.load(SeqCst) {
                0 => Err("nothing yet"),
                value => Ok(value),
            }
        }
    });
    let mut watch = memo.watch(1);
    assert!(StreamExt::next(&mut watch).now_or_never().is_none());
    gate.open();
    // Another caller drives the run to its end, and the next one is published before the watch looks.
    now(memo.get(1)).unwrap_err();
    data.store(5, SeqCst);
    rows.changed(&1);
    now(memo.get(1)).unwrap();
    assert_eq!(now(StreamExt::next(&mut watch)).unwrap().unwrap_err().kind(), ErrorKind::Failed);
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 5);
    assert!(watch.next().now_or_never().is_none());
}

#[test]
fn a_watch_that_was_answered_early_waits_for_the_end_and_lets_others_run() {
    let graph = Graph::new();
    graph.set_walk_chunk(1, false);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (first, gate) = (Gate::default(), Gate::default());
    first.open();
    let gates = Arc::new(std::sync::Mutex::new(first));
    let pass = gates.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let wait = pass.lock().unwrap().clone();
        async move {
            rows.read(&1);
            wait.pass().await;
            key
        }
    });
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            let value = *leaf.get(key).await.unwrap();
            wait.pass().await;
            value
        }
    });
    (0..10).for_each(|key| _ = now(leaf.get(key)).unwrap());
    let mut watch = memo.watch(0);
    assert!(watch.next().now_or_never().is_none());
    // A change is under way: the leaf is marked, others are not yet.
    let second = Gate::default();
    *gates.lock().unwrap() = second.clone();
    let mut change = Box::pin(rows.changed_async(&1));
    assert!(crate::support::poll(&mut change).is_pending());
    assert!(leaf.cached(&0).is_none() && leaf.cached(&9).is_some());
    // Somebody else waits, so that the computation goes on.
    let mut other = memo.get(0);
    assert!(crate::support::poll(&mut other).is_pending());
    gate.open();
    let early = StreamExt::next(&mut watch).now_or_never();
    assert_eq!(early.unwrap().unwrap().unwrap().version(), 0, "the leaf is computed anew");
    for _ in 0..3 {
        let next = watch.next().now_or_never();
        assert!(next.is_none(), "what is early is not given again and again");
    }
    second.open();
    now(change);
    assert_ne!(now(watch.next()).unwrap().unwrap().version(), 0);
}

#[test]
fn a_memoized_error_that_is_found_to_be_current_still_is_not_yielded_again() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let memo = Memo::new_in(&graph, "memo", move |key: u64| async move {
        leaf.get(key).await.map(|_| ())?;
        Err::<u64, _>(Box::<dyn std::error::Error + Send + Sync>::from("never"))
    })
    .error_ttl(std::time::Duration::from_secs(60));
    let mut watch = memo.watch(1);
    let error = now(watch.next()).unwrap().unwrap_err();
    assert_ne!(error.version(), 0);
    assert_eq!(now(memo.get(1)).unwrap_err().version(), error.version());
    rows.changed(&1);
    assert!(watch.next().now_or_never().is_none(), "the change was cut off");
}

#[test]
fn dropping_a_watch_lets_its_node_go() {
    let world = world();
    let mut watch = world.tens.watch(0);
    now(watch.next()).unwrap().unwrap();
    drop(watch);
    drop(world.tens.watch(77));
    assert!(world.tens.evict(&0));
    assert_eq!(world.graph.stats().nodes, 2, "the row and the raw value");
}

#[test]
fn dropping_a_graph_ends_its_watches_and_frees_its_values() {
    let value = Arc::new(());
    let held = value.clone();
    let graph = Graph::new();
    let memo = Memo::no_cutoff_in(&graph, "memo", move |_: u64| {
        let held = held.clone();
        async move { Ok::<_, std::convert::Infallible>(held) }
    });
    let mut watch = memo.watch(1);
    let mut notify = memo.notify(1);
    now(watch.next()).unwrap().unwrap();
    let mut waiting = Box::pin(async { (watch.next().await.is_none(), notify.next().await) });
    assert!((&mut waiting).now_or_never().is_none());
    drop(graph);
    assert_eq!(now(waiting), (true, None));
    let error = now(memo.get(1)).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Closed, "memo memo is closed")
    );
    assert!(memo.cached(&1).is_none());
    drop(watch);
    // Reclamation waits for readers that other tests have pinned.
    while Arc::strong_count(&value) > 1 {
        let other = Graph::new();
        drop(other);
        std::thread::yield_now();
    }
}

/// A table, and a memo of it that waits at a gate.
fn gated(graph: &Graph) -> (Source<u64>, Arc<AtomicU64>, Gate, Memo<u64, u64>) {
    let rows = Source::<u64>::new_in(graph, "rows");
    let (data, gate) = (Arc::new(AtomicU64::new(1)), Gate::default());
    let (load, wait) = (data.clone(), gate.clone());
    let slow = Memo::infallible_in(graph, "slow", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            let value = load.load(SeqCst);
            wait.pass().await;
            value
        }
    });
    (rows, data, gate, slow)
}

#[test]
fn a_next_that_is_called_after_a_change_yields_nothing_older_although_one_was_given_up_before() {
    for strict in [false, true] {
        let graph = Graph::new();
        let (rows, data, gate, slow) = gated(&graph);
        let slow = if strict { slow.strict() } else { slow };
        let mut watch = slow.watch(1);
        assert!(watch.next().now_or_never().is_none());
        data.store(2, SeqCst);
        rows.changed(&1);
        gate.open();
        assert_eq!(*now(watch.next()).unwrap().unwrap(), 2, "strict: {strict}");
        assert!(watch.next().now_or_never().is_none());
    }
}

#[test]
fn who_gives_up_again_and_again_while_everything_changes_is_shown_something_at_last() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    // Each run takes two polls, and is overtaken in between.
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        tokio::task::yield_now().await;
        key
    });
    let mut watch = memo.watch(1);
    let shown = (0..1000).find_map(|_| {
        let shown = watch.next().now_or_never();
        rows.changed(&1);
        shown
    });
    assert!(shown.is_some_and(|shown| *shown.unwrap().unwrap() == 1));
}

#[test]
fn a_watch_of_what_is_not_kept_lets_others_run_in_between() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    runtime.block_on(async move {
        let suspension = rows.suspend();
        let ends = tokio::spawn(async move { drop(suspension) });
        let mut watch = memo.watch(1);
        while watch.next().await.unwrap().unwrap().version() == 0 {}
        ends.await.unwrap();
    });
}

#[test]
fn a_watch_that_comes_late_for_what_another_computed_hears_of_the_change_since() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            wait.pass().await;
            load.load(SeqCst)
        }
    });
    let mut other = memo.get(1);
    assert!((&mut other).now_or_never().is_none());
    let mut watch = memo.watch(1);
    assert!(watch.next().now_or_never().is_none(), "it waits for the same run");
    gate.open();
    assert_eq!(*now(other).unwrap(), 1);
    data.store(2, SeqCst);
    rows.changed(&1);
    let mut last = None;
    while let Some(value) = watch.next().now_or_never() {
        last = Some(*value.unwrap().unwrap());
    }
    assert_eq!(last, Some(2), "the last one is never skipped");
}

#[test]
fn a_next_that_follows_one_given_up_asks_again_for_what_is_not_kept() {
    let graph = Graph::new();
    let (rows, data, gate, slow) = gated(&graph);
    let _suspension = rows.suspend();
    let mut watch = slow.watch(1);
    assert!(watch.next().now_or_never().is_none());
    let mut next = Box::pin(watch.next());
    assert!((&mut next).now_or_never().is_none(), "it waits for the run of the first call");
    data.store(2, SeqCst);
    gate.open();
    let answer = next.now_or_never().expect("nothing else will ever wake it");
    assert_eq!(*answer.unwrap().unwrap(), 2, "what the first call asked for is of before");
}

#[test]
fn who_polled_a_stream_last_is_woken() {
    let world = world();
    let mut watch = world.tens.watch(0);
    let mut notify = world.tens.notify(0);
    now(watch.next()).unwrap().unwrap();
    let (first, second) = (Wakes::new(), Wakes::new());
    for wakes in [&first, &second] {
        assert!(poll_with(&mut Box::pin(watch.next()), wakes).is_pending());
        assert!(poll_with(&mut Box::pin(notify.next()), wakes).is_pending());
    }
    let set = tidewire_memo::NotifySet::new();
    let version = world.tens.cached(&0).unwrap().version();
    let _member = set.add(&world.tens, &0, version, 1);
    for wakes in [&first, &second] {
        set.wakes(&std::task::Waker::from(wakes.clone()));
    }
    world.rows.changed(&0);
    assert_eq!((first.count(), second.count()), (0, 3));
}

#[test]
fn streams_of_a_closed_memo_end_at_once_and_a_set_has_nothing_current_of_it() {
    let world = world();
    let version = now(world.tens.get(0)).unwrap().version();
    world.tens.close();
    let (mut watch, mut notify) = (world.tens.watch(0), world.tens.notify(0));
    assert!(now(watch.next()).is_none());
    assert_eq!(notify.next().now_or_never(), Some(None));
    let set = tidewire_memo::NotifySet::new();
    assert!(!set.add(&world.tens, &0, version, 1).is_current());
}

#[test]
fn streams_are_woken_when_their_memo_or_graph_is_closed() {
    for closes_graph in [false, true] {
        let world = world();
        let (mut watch, mut notify) = (world.tens.watch(0), world.tens.notify(0));
        now(watch.next()).unwrap().unwrap();
        let wakes = Wakes::new();
        assert!(poll_with(&mut Box::pin(watch.next()), &wakes).is_pending());
        assert!(poll_with(&mut Box::pin(notify.next()), &wakes).is_pending());
        match closes_graph {
            true => drop(world.graph),
            false => world.tens.close(),
        }
        assert_eq!(wakes.count(), 2);
        assert!(now(watch.next()).is_none());
        assert!(now(notify.next()).is_none());
    }
}

#[test]
fn a_watch_that_waits_for_a_run_ends_when_its_memo_or_graph_is_closed() {
    for closes_graph in [false, true] {
        let graph = Graph::new();
        let (_, _, _gate, slow) = gated(&graph);
        let mut watch = slow.watch(1);
        let mut next = Box::pin(watch.next());
        assert!((&mut next).now_or_never().is_none());
        match closes_graph {
            true => drop(graph),
            false => slow.close(),
        }
        assert!(now(next).is_none());
    }
}

#[test]
fn a_stream_of_a_closed_memo_ends_as_often_as_it_is_asked() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    let (mut shown, mut unseen, mut told) = (memo.watch(1), memo.watch(2), memo.notify(3));
    assert!(now(shown.next()).is_some());
    memo.close();
    let mut late = memo.watch(4);
    for _ in 0..3 {
        assert!(now(shown.next()).is_none() && now(unseen.next()).is_none());
        assert!(now(late.next()).is_none() && now(told.next()).is_none());
    }
}

#[test]
fn a_watch_of_a_value_whose_drop_changes_it_lets_others_run() {
    struct Loud(Source<u64>);
    impl PartialEq for Loud {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }
    impl Drop for Loud {
        fn drop(&mut self) {
            self.0.changed(&1);
        }
    }
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "loud", move |key: u64| async move {
        rows.read(&key);
        Loud(rows)
    });
    let mut watch = memo.watch(1);
    now(watch.next()).unwrap().unwrap();
    rows.changed(&1);
    let (mut next, wakes) = (Box::pin(watch.next()), Wakes::new());
    assert!(poll_with(&mut next, &wakes).is_pending(), "each is equal to the one before");
    assert_eq!(wakes.count(), 1, "it goes on later");
}
