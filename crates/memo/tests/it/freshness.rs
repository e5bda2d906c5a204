//! What is stale is found out, however late the computation says what it read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::Poll;
use std::time::{Duration, Instant};

use tidewire_memo::{Graph, Memo, NotifySet, Source, scope};

use crate::support::{Gate, now, poll};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A leaf whose tasks declare what they read when they are let go, and a memo made of it.
struct World {
    graph: Graph,
    rows: Source<u64>,
    data: Arc<AtomicU64>,
    tasks: Arc<Mutex<Vec<Task>>>,
    leaf: Memo<u64, u64>,
    above: Memo<u64, u64>,
}

impl World {
    fn new(remembers: bool) -> Self {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (data, tasks) = (Arc::new(AtomicU64::new(1)), Arc::<Mutex<Vec<Task>>>::default());
        let (load, spawned) = (data.clone(), tasks.clone());
        let mut leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
            let (value, spawned) = (load.load(SeqCst), spawned.clone());
            async move {
                spawned.lock().unwrap().push(Box::pin(scope(async move { rows.read(&key) })));
                value
            }
        });
        if remembers {
            leaf = leaf.fingerprint(|value| *value);
        }
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            *leaf.get(key).await.unwrap()
        });
        Self { graph, rows, data, tasks, leaf, above }
    }

    /// The leaf is evicted, its row changes, it is computed anew, and the first tasks declare what they read.
    fn remake(&self) {
        assert_eq!(*now(self.above.get(1)).unwrap(), 1);
        assert!(self.leaf.evict(&1));
        self.data.store(2, SeqCst);
        self.rows.changed(&1);
        assert_eq!(*now(self.leaf.get(1)).unwrap(), 2);
        self.declare();
    }

    fn declare(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        tasks.into_iter().for_each(|mut task| assert!(poll(&mut task).is_ready()));
    }
}

#[test]
fn a_late_read_of_a_value_that_was_evicted_and_computed_anew_makes_stale_what_was_made_of_it() {
    for remembers in [false, true] {
        let world = World::new(remembers);
        world.remake();
        assert_eq!(*now(world.above.get(1)).unwrap(), 2, "remembers: {remembers}");
    }
}

#[test]
fn a_watch_hears_of_a_late_read_of_a_value_that_was_computed_anew() {
    let world = World::new(false);
    let mut watch = world.above.watch(1);
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 1);
    world.remake();
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 2);
}

#[test]
fn who_was_given_a_value_that_was_computed_anew_hears_that_it_was_outdated() {
    let world = World::new(false);
    let (mut watch, set) = (world.leaf.watch(1), NotifySet::new());
    let version = now(watch.next()).unwrap().unwrap().version();
    let member = set.add(&world.leaf, &1, version, 3);
    assert!(member.is_current());
    world.remake();
    let mut told = Vec::new();
    set.take(&mut told);
    assert_eq!(told, [3]);
    match poll(&mut Box::pin(watch.next())) {
        Poll::Ready(value) => assert_eq!(*value.unwrap().unwrap(), 2),
        Poll::Pending => panic!("nobody else will tell of it"),
    }
}

#[test]
fn a_late_read_of_a_value_that_is_another_by_now_leaves_that_a_hit() {
    let world = World::new(false);
    assert_eq!(*now(world.above.get(1)).unwrap(), 1);
    let first = std::mem::take(&mut *world.tasks.lock().unwrap());
    assert!(world.leaf.evict(&1));
    assert_eq!(*now(world.leaf.get(1)).unwrap(), 1);
    world.declare();
    assert_eq!(*now(world.above.get(1)).unwrap(), 1);
    let computed = world.graph.stats().started;
    first.into_iter().for_each(|mut task| assert!(poll(&mut task).is_ready()));
    assert!(world.leaf.cached(&1).is_some(), "the read was of the value before");
    now(world.above.get(1)).unwrap();
    assert!(world.graph.stats().started <= computed + 1, "only what was made of that one");
}

#[test]
fn a_late_read_that_is_not_right_any_more_leaves_a_value_that_was_made_since_a_hit() {
    let world = World::new(false);
    world.remake();
    assert!(world.leaf.cached(&1).is_some(), "it was made of what is right");
}

#[test]
fn a_late_read_of_an_external_source_gives_the_value_a_life() {
    for own in [None, Some(2), Some(60)] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows").external();
        let tasks = Arc::<Mutex<Vec<Task>>>::default();
        let spawned = tasks.clone();
        let mut leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
            spawned.lock().unwrap().push(Box::pin(scope(async move { rows.read(&key) })));
            async move { key }
        });
        if let Some(own) = own {
            leaf = leaf.ttl(Duration::from_secs(own));
        }
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            *leaf.get(key).await.unwrap()
        });
        let start = Instant::now();
        graph.advance(start);
        now(above.get(1)).unwrap();
        let mut task = tasks.lock().unwrap().pop().unwrap();
        assert!(poll(&mut task).is_ready());
        let life = own.map_or(5, |own| own.min(5));
        graph.advance(start + Duration::from_millis(life * 1000 - 1));
        assert!(above.cached(&1).is_some(), "own life: {own:?}");
        graph.advance(start + Duration::from_secs(life));
        assert!(leaf.cached(&1).is_none() && above.cached(&1).is_none(), "own life: {own:?}");
    }
}

/// A leaf whose tasks declare late, when they are let go, what only another graph is told of, and a memo made
/// of it.
struct Foreign {
    rows: Source<u64>,
    is_foreign: Arc<AtomicBool>,
    tasks: Arc<Mutex<Vec<Task>>>,
    leaf: Memo<u64, u64>,
    above: Memo<u64, u64>,
    _graphs: [Graph; 2],
}

impl Foreign {
    fn new() -> Self {
        let (graph, other) = (Graph::new(), Graph::new());
        let rows = Source::<u64>::new_in(&graph, "rows");
        let theirs = Source::<u64>::new_in(&other, "theirs");
        let is_foreign = Arc::new(AtomicBool::new(true));
        let tasks = Arc::<Mutex<Vec<Task>>>::default();
        let (foreign, spawned) = (is_foreign.clone(), tasks.clone());
        let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
            let read = if foreign.load(SeqCst) { theirs } else { rows };
            spawned.lock().unwrap().push(Box::pin(scope(async move { read.read(&key) })));
            async move { key }
        });
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            *leaf.get(key).await.unwrap()
        });
        Self { rows, is_foreign, tasks, leaf, above, _graphs: [graph, other] }
    }

    fn declare(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        tasks.into_iter().for_each(|mut task| assert!(poll(&mut task).is_ready()));
    }
}

#[test]
fn a_watch_of_what_is_read_late_of_another_graph_yields_after_each_run_and_never_spins() {
    let foreign = Foreign::new();
    for memo in [foreign.leaf, foreign.above] {
        yields_after_each_run(memo, || foreign.declare());
    }
}

#[test]
fn a_watch_of_what_changes_what_its_task_reads_late_yields_after_each_run_and_never_spins() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let tasks = Arc::<Mutex<Vec<Task>>>::default();
    let spawned = tasks.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        spawned.lock().unwrap().push(Box::pin(scope(async move { rows.read(&key) })));
        rows.changed(&key);
        async move { key }
    });
    yields_after_each_run(leaf, || {
        let tasks = std::mem::take(&mut *tasks.lock().unwrap());
        tasks.into_iter().for_each(|mut task| assert!(poll(&mut task).is_ready()));
    });
}

/// Its tasks declare what they read between two values.
fn yields_after_each_run(memo: Memo<u64, u64>, declare: impl Fn()) {
    let mut watch = memo.watch(1);
    for number in 0..6 {
        let mut next = Box::pin(watch.next());
        // A value that is not kept lets others run before it is computed again.
        let told = (0..2).any(|_| poll(&mut next).is_ready());
        assert!(told, "{memo:?}, {number}: nothing would tell of a change");
        drop(next);
        declare();
    }
}

#[test]
fn a_subscription_to_what_was_once_read_late_of_another_graph_asks_until_it_is_kept_again() {
    let foreign = Foreign::new();
    for memo in [foreign.leaf, foreign.above] {
        foreign.is_foreign.store(true, SeqCst);
        let mut notify = memo.notify(1);
        now(memo.get(1)).unwrap();
        foreign.declare();
        assert!(poll(&mut Box::pin(notify.next())).is_ready(), "{memo:?}: it is stale");
        foreign.is_foreign.store(false, SeqCst);
        now(memo.get(1)).unwrap();
        foreign.declare();
        if memo.cached(&1).is_none() {
            assert!(poll(&mut Box::pin(notify.next())).is_ready(), "{memo:?}: it was not kept");
            now(memo.get(1)).unwrap();
            foreign.declare();
        }
        assert!(memo.cached(&1).is_some(), "{memo:?}: what it is made of can be tracked now");
        assert!(poll(&mut Box::pin(notify.next())).is_pending());
        foreign.rows.changed(&1);
        assert!(poll(&mut Box::pin(notify.next())).is_ready(), "{memo:?}");
    }
}

#[test]
fn a_value_lives_no_longer_than_its_own_life_and_that_of_what_it_was_made_of() {
    for (own, lives) in [(1, 1), (60, 5)] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows").external();
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
            rows.read(&key);
            key
        })
        .ttl(Duration::from_secs(own));
        let start = Instant::now();
        graph.advance(start);
        now(memo.get(1)).unwrap();
        graph.advance(start + Duration::from_millis(lives * 1000 - 1));
        assert!(memo.cached(&1).is_some());
        graph.advance(start + Duration::from_secs(lives));
        assert!(memo.cached(&1).is_none());
    }
}

#[test]
fn time_does_not_go_back() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
        .ttl(Duration::from_secs(10));
    let start = Instant::now();
    graph.advance(start + Duration::from_secs(100));
    graph.advance(start);
    now(memo.get(1)).unwrap();
    graph.advance(start + Duration::from_secs(109));
    assert!(memo.cached(&1).is_some(), "it counts from the latest time that was told");
    graph.advance(start + Duration::from_secs(110));
    assert!(memo.cached(&1).is_none());
}

#[test]
fn what_begins_before_a_suspension_ends_is_not_kept() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (data, gate) = (Arc::new(AtomicU64::new(1)), Gate::default());
    let (load, wait) = (data.clone(), gate.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (value, wait) = (load.load(SeqCst), wait.clone());
        async move {
            wait.pass().await;
            rows.read(&key);
            value
        }
    });
    let suspension = rows.suspend();
    let mut get = memo.get(1);
    assert!(poll(&mut get).is_pending());
    data.store(2, SeqCst);
    drop(suspension);
    gate.open();
    assert!(matches!(poll(&mut get), Poll::Ready(Ok(_))));
    assert_eq!(*now(memo.get(1)).unwrap(), 2, "nobody could tell of the change while it loaded");
}

#[test]
fn an_error_that_is_kept_is_current_for_nobody_who_asks_for_its_version() {
    let graph = Graph::new();
    let memo = Memo::<u64, u64>::new_in(&graph, "memo", |_| async move { Err::<u64, _>("no") })
        .error_ttl(Duration::from_secs(1));
    let error = now(memo.get(1)).unwrap_err();
    assert_ne!(error.version(), 0, "it is kept");
    assert!(!memo.validate(&1, error.version()), "there is no value to go on with");
}

#[test]
fn who_asks_after_an_invalidation_of_what_is_gone_is_given_nothing_of_before_it() {
    // A change anywhere in the process, by another test for one, would do as well: so many times.
    for _ in 0..200 {
        let (graph, gate) = (Graph::new(), Gate::default());
        let data = Arc::new(AtomicU64::new(1));
        let load = data.clone();
        let leaf = Memo::infallible_in(&graph, "leaf", move |_: u64| {
            let value = load.load(SeqCst);
            async move { value }
        });
        let wait = gate.clone();
        let above = Memo::infallible_in(&graph, "above", move |key: u64| {
            let wait = wait.clone();
            async move {
                let value = *leaf.get(key).await.unwrap();
                wait.pass().await;
                value
            }
        });
        let mut before = above.get(1);
        assert!(poll(&mut before).is_pending());
        assert!(leaf.evict(&1));
        data.store(2, SeqCst);
        leaf.invalidate(&1);
        let mut after = above.get(1);
        assert!(poll(&mut after).is_pending());
        gate.open();
        assert_eq!(*now(after).unwrap(), 2);
        now(before).unwrap();
    }
}

#[test]
fn an_interval_of_a_suspended_source_is_memoized_by_nobody_who_reads_it() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let page = Memo::infallible_in(&graph, "page", move |from: u64| async move {
        rows.range(from..from + 10);
        from
    });
    now(page.get(1)).unwrap();
    let suspension = rows.suspend();
    for from in [1, 2] {
        assert_eq!(now(page.get(from)).unwrap().version(), 0);
        assert!(page.cached(&from).is_none());
    }
    drop(suspension);
    now(page.get(1)).unwrap();
    assert!(page.cached(&1).is_some());
}

#[test]
fn what_an_interval_of_an_external_source_shows_lives_as_long_as_what_its_rows_show() {
    let (graph, start) = (Graph::new(), Instant::now());
    let rows = Source::<u64>::new_in(&graph, "rows").external();
    let page = Memo::infallible_in(&graph, "page", move |from: u64| async move {
        rows.range(from..from + 10);
        from
    });
    let above = Memo::infallible_in(&graph, "above", move |from: u64| async move {
        *page.get(from).await.unwrap()
    });
    graph.advance(start);
    now(above.get(1)).unwrap();
    assert_eq!(above.lifetime(&1).unwrap().until, start + Duration::from_secs(5));
    graph.advance(start + Duration::from_secs(5));
    assert!(page.cached(&1).is_none() && above.cached(&1).is_none());
}

#[test]
fn what_reads_no_external_source_any_more_lives_without_its_bound() {
    for many in [0, 600] {
        let (graph, start) = (Graph::new(), Instant::now());
        let near = Source::<u64>::new_in(&graph, "near");
        let far = Source::<u64>::new_in(&graph, "far").external();
        let is_far = Arc::new(AtomicBool::new(true));
        let reads_far = is_far.clone();
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
            let reads_far = reads_far.clone();
            async move {
                near.read(&key);
                (0..many).for_each(|other| near.read(&other));
                if reads_far.load(SeqCst) {
                    far.read(&key);
                }
            }
        });
        graph.advance(start);
        now(memo.get(1)).unwrap();
        assert!(memo.entry(&1).unwrap().entry.is_external);
        is_far.store(false, SeqCst);
        near.changed(&1);
        now(memo.get(1)).unwrap();
        assert!(!memo.entry(&1).unwrap().entry.is_external);
        graph.advance(start + Duration::from_secs(60));
        assert!(memo.cached(&1).is_some(), "{many}");
    }
}
