//! Changes: guards, batches, ranges, the asynchronous form.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tidewire_memo::{Ambient, EventKind, Graph, Memo, Recording, Source, batch};

use crate::support::{Gate, logged, now, poll};

fn reader(graph: &Graph, rows: Source<u64>) -> Memo<u64, u64> {
    Memo::infallible_in(graph, "reader", move |key: u64| async move {
        rows.read(&key);
        key
    })
}

#[test]
fn a_write_guard_marks_when_finished_dropped_or_unwound() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let memo = reader(&graph, rows);
    let fresh = || {
        now(memo.get(1)).unwrap();
        assert!(memo.cached(&1).is_some());
    };
    fresh();
    let guard = rows.write(&1);
    assert!(memo.cached(&1).is_some(), "nothing is marked before the end");
    guard.finish();
    assert!(memo.cached(&1).is_none());
    fresh();
    drop(rows.write(&1));
    assert!(memo.cached(&1).is_none());
    fresh();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _guard = rows.write(&1);
        panic!("injected");
    }));
    assert!(unwound.is_err());
    assert!(memo.cached(&1).is_none());
    fresh();
    now(rows.write(&1).finish_async());
    assert!(memo.cached(&1).is_none());
}

#[test]
fn a_write_guard_marks_when_its_future_is_cancelled() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let memo = reader(&graph, rows);
    now(memo.get(1)).unwrap();
    let mut transaction = Box::pin(async {
        let guard = rows.write(&1);
        std::future::pending::<()>().await;
        guard.finish();
    });
    assert!(poll(&mut transaction).is_pending());
    drop(transaction);
    assert!(memo.cached(&1).is_none());
}

#[test]
fn a_batch_and_a_guard_over_two_sources_are_one_change() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let count = Source::new_in(&graph, "count");
    let one = reader(&graph, rows);
    let all = Memo::infallible_in(&graph, "all", move |_: ()| async move { count.read(&()) });
    for guarded in [false, true] {
        now(one.get(1)).unwrap();
        now(all.get(())).unwrap();
        let before = graph.stats().walks;
        if guarded {
            rows.write(&1).also(&count, &()).finish();
        } else {
            let marked = batch(|batch| {
                batch.changed(&rows, &1);
                batch.changed(&count, &());
            });
            assert_eq!(marked, 2);
        }
        assert_eq!(graph.stats().walks, before + 1);
        assert!(one.cached(&1).is_none() && all.cached(&()).is_none());
    }
}

#[test]
fn changed_many_marks_every_key() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let memo = reader(&graph, rows);
    for key in 0..10 {
        now(memo.get(key)).unwrap();
    }
    assert_eq!(rows.changed_many(&[2, 3, 5, 7, 11]), 4);
    let fresh: Vec<u64> = (0..10).filter(|key| memo.cached(key).is_some()).collect();
    assert_eq!(fresh, [0, 1, 4, 6, 8, 9]);
}

#[test]
fn a_change_reaches_exactly_the_intervals_that_contain_the_key() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let graph = Graph::new();
    let ids = Source::<u64>::new_in(&graph, "ids");
    let bounds = [
        (Excluded(0), Included(10)),
        (Excluded(10), Included(20)),
        (Excluded(20), Unbounded),
        (Unbounded, Unbounded),
    ];
    let page = Memo::infallible_in(&graph, "page", move |page: usize| async move {
        ids.range(bounds[page]);
    });
    let stale_after = |key: u64| {
        for page_number in 0..bounds.len() {
            now(page.get(page_number)).unwrap();
        }
        ids.changed(&key);
        (0..bounds.len())
            .filter(|page_number| page.cached(page_number).is_none())
            .collect::<Vec<_>>()
    };
    assert_eq!(stale_after(0), [3]);
    assert_eq!(stale_after(10), [0, 3]);
    assert_eq!(stale_after(11), [1, 3]);
    assert_eq!(stale_after(20), [1, 3]);
    assert_eq!(stale_after(5000), [2, 3]);
}

#[test]
fn an_asynchronous_change_yields_between_chunks_and_is_finished_by_its_drop() {
    let graph = Graph::new();
    graph.set_walk_chunk(1, false);
    let rows = Source::new_in(&graph, "rows");
    let fan = Memo::infallible_in(&graph, "fan", move |key: u64| async move {
        rows.read(&0);
        key
    });
    let fill = || (0..10).for_each(|key| _ = now(fan.get(key)).unwrap());
    fill();
    let mut change = Box::pin(rows.changed_async(&0));
    let mut polls = 1;
    while poll(&mut change).is_pending() {
        polls += 1;
    }
    assert!(polls > 5, "{polls} polls");
    assert!((0..10).all(|key| fan.cached(&key).is_none()));
    fill();
    let mut change = Box::pin(rows.changed_async(&0));
    assert!(poll(&mut change).is_pending());
    drop(change);
    assert!((0..10).all(|key| fan.cached(&key).is_none()));
}

#[test]
fn a_synchronous_change_finishes_an_asynchronous_one_that_was_left_half_way() {
    let graph = Graph::new();
    graph.set_walk_chunk(1, false);
    let rows = Source::new_in(&graph, "rows");
    let fan = Memo::infallible_in(&graph, "fan", move |key: u64| async move {
        rows.read(&(key % 2));
        key
    });
    (0..10).for_each(|key| _ = now(fan.get(key)).unwrap());
    let mut change = Box::pin(rows.changed_async(&0));
    assert!(poll(&mut change).is_pending());
    rows.changed(&1);
    assert!((0..10).all(|key| fan.cached(&key).is_none()), "on one thread, without a deadlock");
    assert!(poll(&mut change).is_ready());
}

#[test]
fn what_did_not_depend_on_the_change_stays_a_hit() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let memo = reader(&graph, rows);
    now(memo.get(1)).unwrap();
    now(memo.get(2)).unwrap();
    graph.record_events(Recording::everything());
    rows.changed(&1);
    assert_eq!(logged(&graph, EventKind::Marked), ["marked rows(1)", "marked reader(1)"]);
    assert!(memo.cached(&2).is_some());
}

#[test]
fn an_explicit_invalidation_outdates_the_value_and_the_run_that_is_under_way() {
    let graph = Graph::new();
    let (data, gate) = (Arc::new(AtomicU64::new(1)), Gate::default());
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |_: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            let value = load.load(SeqCst);
            wait.pass().await;
            value
        }
    });
    let mut get = memo.get(0);
    assert!(poll(&mut get).is_pending());
    data.store(2, SeqCst);
    memo.invalidate(&0);
    gate.open();
    now(get).unwrap();
    assert_eq!(*now(memo.get(0)).unwrap(), 2, "the run had loaded before");
    data.store(3, SeqCst);
    memo.invalidate(&0);
    assert_eq!(*now(memo.get(0)).unwrap(), 3);
}

/// A key whose comparison does something once.
#[derive(Clone, Debug)]
struct Trap(u64);

thread_local! {
    static SPRUNG: std::cell::RefCell<Option<Box<dyn FnOnce()>>> = const { std::cell::RefCell::new(None) };
}

impl PartialEq for Trap {
    fn eq(&self, other: &Self) -> bool {
        let sprung = SPRUNG.with(|sprung| sprung.borrow_mut().take());
        sprung.into_iter().for_each(|sprung| sprung());
        self.0 == other.0
    }
}

impl Eq for Trap {}

impl std::hash::Hash for Trap {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn an_interval_that_is_read_for_the_first_time_while_a_change_looks_for_intervals_is_marked() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let traps = Source::<Trap>::new_in(&graph, "traps");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |from: u64| {
        let load = load.clone();
        async move {
            traps.read(&Trap(1));
            rows.range(from..100);
            load.load(SeqCst)
        }
    });
    // An index, and a key whose comparison is asked for.
    now(memo.get(50)).unwrap();
    let page = Memo::infallible_in(&graph, "page", {
        let load = data.clone();
        move |from: u64| {
            let load = load.clone();
            async move {
                rows.range(from..10);
                load.load(SeqCst)
            }
        }
    });
    SPRUNG.with(|sprung| {
        let (before, data) = (data.load(SeqCst), data.clone());
        *sprung.borrow_mut() = Some(Box::new(move || {
            // What the page loads is of before the change.
            data.store(before, SeqCst);
            now(page.get(0)).unwrap();
            data.store(before + 1, SeqCst);
        }));
    });
    // The row is looked for first, then the trap.
    batch(|batch| {
        batch.changed(&rows, &1);
        batch.changed(&traps, &Trap(1));
    });
    assert_eq!(*now(page.get(0)).unwrap(), 2);
}

#[test]
fn nothing_is_kept_from_the_moment_at_which_a_suspension_marks() {
    struct Asks(Memo<u64, u64>);
    impl std::task::Wake for Asks {
        fn wake(self: Arc<Self>) {
            now(self.0.get(1)).unwrap();
        }
    }
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    now(memo.get(1)).unwrap();
    let mut notify = memo.notify(1);
    let mut next = Box::pin(notify.next());
    let waker = std::task::Waker::from(Arc::new(Asks(memo)));
    assert!(next.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    let _suspension = rows.suspend();
    assert!(memo.cached(&1).is_none(), "whoever was told by the mark asked while nothing is told");
}

#[test]
fn a_guard_whose_key_is_not_known_marks_every_key_although_keys_of_another_source_were_named() {
    let graph = Graph::new();
    let (rows, other) = (Source::new_in(&graph, "rows"), Source::new_in(&graph, "other"));
    let memo = reader(&graph, rows);
    for named in [None, Some(1)] {
        now(memo.get(1)).unwrap();
        now(memo.get(2)).unwrap();
        let guard = rows.write_unknown().also(&other, &7);
        match named {
            Some(key) => guard.also(&rows, &key).finish(),
            None => guard.finish(),
        }
        assert!(memo.cached(&1).is_none());
        assert_eq!(memo.cached(&2).is_some(), named.is_some(), "{named:?}");
    }
}

#[test]
fn of_two_asynchronous_changes_the_one_that_helps_the_other_announces_its_own_as_well() {
    let graph = Graph::new();
    graph.set_walk_chunk(1, false);
    let rows = Source::new_in(&graph, "rows");
    let fan = Memo::infallible_in(&graph, "fan", move |key: u64| async move {
        rows.read(&(key % 2));
        key
    });
    (0..10).for_each(|key| _ = now(fan.get(key)).unwrap());
    let mut first = Box::pin(rows.changed_async(&0));
    assert!(poll(&mut first).is_pending());
    now(rows.changed_async(&1));
    assert!((0..10).all(|key| fan.cached(&key).is_none()));
    assert!(poll(&mut first).is_ready());
}

#[test]
fn intervals_that_differ_only_in_whether_an_end_counts_are_told_apart() {
    use std::ops::Bound::{Excluded, Included};
    let bounds = [
        (Excluded(5), Excluded(9)),
        (Excluded(5), Included(9)),
        (Included(5), Excluded(9)),
        (Included(5), Included(9)),
    ];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let graph = Graph::new();
        let ids = Source::<u64>::new_in(&graph, "ids");
        let page = Memo::infallible_in(&graph, "page", move |page: usize| async move {
            ids.range(bounds[page]);
        });
        for (key, expected) in [(5, vec![2, 3]), (9, vec![1, 3]), (7, vec![0, 1, 2, 3])] {
            order.iter().for_each(|&page_number| now(page.get(page_number)).map(drop).unwrap());
            ids.changed(&key);
            let stale = (0..bounds.len()).filter(|number| page.cached(number).is_none());
            assert_eq!(stale.collect::<Vec<_>>(), expected, "{key}, read in the order {order:?}");
        }
    }
}

#[test]
fn what_is_published_of_the_older_state_while_every_key_is_marked_a_chunk_a_poll_is_stale() {
    let (graph, gate) = (Graph::new(), Gate::default());
    graph.set_walk_chunk(1, false);
    graph.set_write_limit(Duration::ZERO);
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            let loaded = load.load(SeqCst);
            if key == 109 {
                wait.pass().await;
            }
            rows.read(&(key % 10));
            loaded
        }
    });
    (0..10).for_each(|key| _ = now(memo.get(key)).unwrap());
    let mut get = memo.get(109);
    assert!(poll(&mut get).is_pending(), "it has loaded");
    data.store(2, SeqCst);
    let mut finish = Box::pin(rows.write_unknown().finish_async());
    assert!(poll(&mut finish).is_pending());
    // Nothing is held any more.
    let start = Instant::now();
    (0..2).for_each(|_| _ = graph.advance(start));
    gate.open();
    now(get).unwrap();
    now(finish);
    assert_eq!(*now(memo.get(109)).unwrap(), 2);
}

#[test]
fn what_is_verified_for_all_is_computed_once_though_who_asked_first_writes_by_then() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (gate, runs) = (Gate::default(), Arc::new(AtomicU64::new(0)));
    let (wait, count) = (gate.clone(), runs.clone());
    let low = Memo::infallible_in(&graph, "low", move |key: u64| {
        let (wait, run) = (wait.clone(), count.fetch_add(1, SeqCst));
        async move {
            rows.read(&key);
            if run > 0 {
                crate::support::yield_once().await;
                wait.pass().await;
            }
            key
        }
    });
    let up =
        Memo::infallible_in(
            &graph,
            "up",
            move |key: u64| async move { *low.get(key).await.unwrap() },
        );
    now(up.get(1)).unwrap();
    low.invalidate(&1);
    let ask = |caller| Box::pin(Ambient::new(caller).scope(async move { up.get(1).await }));
    let (mut first, mut second) = (ask(7), ask(8));
    assert!(poll(&mut first).is_pending());
    let write = now(Ambient::new(7).scope(async move { rows.write(&9) }));
    assert!(poll(&mut second).is_pending());
    assert_eq!(runs.load(SeqCst), 2);
    gate.open();
    assert_eq!(*now(second).unwrap(), 1);
    write.finish();
    assert_eq!(*now(first).unwrap(), 1);
    assert_eq!(runs.load(SeqCst), 2);
}
