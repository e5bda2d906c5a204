//! What tasks read on behalf of a computation.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;

use futures::channel::oneshot;
use tidewire_memo::{
    Graph, Memo, Source, has_read, has_read_untracked, is_computing, read_untracked, scope,
};

use crate::support::{Gate, now, poll, yield_once};

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// An executor of one task, polled by hand.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<Vec<Task>>>);

impl Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().unwrap().push(Box::pin(task));
    }

    /// Polls every task once.
    fn run(&self) {
        let tasks = std::mem::take(&mut *self.0.lock().unwrap());
        for mut task in tasks {
            if poll(&mut task).is_pending() {
                self.0.lock().unwrap().push(task);
            }
        }
    }
}

#[test]
fn a_scope_inside_a_scoped_task_hands_its_reads_to_the_computation() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        let outer = scope(async move {
            let inner = scope(async move {
                rows.read(&7);
                scope(async move { rows.read(&8) }).await;
            });
            std::thread::spawn(move || now(inner)).join().unwrap();
        });
        std::thread::spawn(move || now(outer)).join().unwrap();
        key
    });
    for row in [7, 8] {
        now(memo.get(1)).unwrap();
        assert!(memo.cached(&1).is_some());
        rows.changed(&row);
        assert!(memo.cached(&1).is_none(), "row {row} was read in a scope inside a scope");
    }
}

#[test]
fn a_task_that_answers_through_a_channel_within_its_poll_has_handed_over_what_it_read() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (answers, answered) = std::sync::mpsc::channel::<oneshot::Sender<u64>>();
    let memo = Memo::infallible_in(&graph, "memo", move |_: ()| {
        let (send, receive) = oneshot::channel();
        answers.send(send).unwrap();
        let (ready, go) = std::sync::mpsc::channel::<()>();
        let (served, wait) = std::sync::mpsc::channel::<()>();
        SERVED.lock().unwrap().push((go, served));
        let task = scope(async move {
            rows.read(&1);
            ready.send(()).unwrap();
            // The computation is answered and published while this poll goes on.
            wait.recv().unwrap();
        });
        std::thread::spawn(move || now(task));
        async move { receive.await.unwrap() }
    });
    let mut get = memo.get(());
    assert!(poll(&mut get).is_pending());
    let (go, served) = SERVED.lock().unwrap().pop().unwrap();
    go.recv().unwrap();
    answered.recv().unwrap().send(5).unwrap();
    assert_eq!(*now(get).unwrap(), 5);
    rows.changed(&1);
    assert!(memo.cached(&()).is_none(), "the task had read the row before the answer came");
    served.send(()).unwrap();
}

type Signal = (std::sync::mpsc::Receiver<()>, std::sync::mpsc::Sender<()>);
static SERVED: Mutex<Vec<Signal>> = Mutex::new(Vec::new());

/// A memo whose task answers with the row and declares what it read in its next poll.
fn late(graph: &Graph, rows: Source<u64>, data: &Arc<AtomicU64>, tasks: &Tasks) -> Memo<u64, u64> {
    let (data, tasks) = (data.clone(), tasks.clone());
    Memo::infallible_in(graph, "late", move |_: u64| {
        let (send, receive) = oneshot::channel();
        let data = data.clone();
        tasks.spawn(scope(async move {
            let _ = send.send(data.load(SeqCst));
            yield_once().await;
            rows.read(&1);
        }));
        async move { receive.await.unwrap() }
    })
}

#[test]
fn a_read_that_comes_after_the_value_was_published_still_becomes_a_dependency() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (data, tasks) = (Arc::new(AtomicU64::new(1)), Tasks::default());
    let memo = late(&graph, rows, &data, &tasks);
    let mut get = memo.get(0);
    assert!(poll(&mut get).is_pending());
    tasks.run();
    assert_eq!(*now(get).unwrap(), 1);
    tasks.run();
    assert_eq!(graph.stats().late_reads, 1);
    assert!(memo.cached(&0).is_some(), "the row has not changed since the computation began");
    rows.changed(&1);
    assert!(memo.cached(&0).is_none());
}

#[test]
fn a_read_that_comes_after_its_row_has_changed_makes_the_published_value_stale() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (data, tasks) = (Arc::new(AtomicU64::new(1)), Tasks::default());
    let memo = late(&graph, rows, &data, &tasks);
    let mut get = memo.get(0);
    assert!(poll(&mut get).is_pending());
    tasks.run();
    assert_eq!(*now(get).unwrap(), 1);
    data.store(2, SeqCst);
    rows.changed(&1);
    tasks.run();
    assert!(memo.cached(&0).is_none(), "the value is older than the row that its task read");
}

#[test]
fn what_taints_a_scoped_task_taints_its_computation() {
    let graph = Graph::new();
    let other = Graph::new();
    let foreign = Source::<u64>::new_in(&other, "foreign");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        let task = scope(async move { foreign.read(&1) });
        std::thread::spawn(move || now(task)).join().unwrap();
        key
    });
    now(memo.get(1)).unwrap();
    assert!(memo.cached(&1).is_none(), "what was read across graphs cannot be tracked");
}

#[test]
fn a_task_that_read_another_version_than_its_computation_keeps_the_value_from_being_kept() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (data, gate) = (Arc::new(AtomicU64::new(1)), Gate::default());
    let load = data.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let load = load.clone();
        async move {
            rows.read(&key);
            load.load(SeqCst)
        }
    });
    let (wait, store, runs) = (gate.clone(), data.clone(), AtomicU64::new(0));
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (wait, store, run) = (wait.clone(), store.clone(), runs.fetch_add(1, SeqCst));
        async move {
            let task = scope(async move { *leaf.get(key).await.unwrap() });
            let before = std::thread::spawn(move || now(task)).join().unwrap();
            if key == 1 {
                wait.pass().await;
            } else if run == 0 {
                // In the poll in which it goes on to read.
                let change = move || {
                    store.store(2, SeqCst);
                    rows.changed(&key);
                };
                std::thread::spawn(change).join().unwrap();
            }
            (before, *leaf.get(key).await.unwrap())
        }
    });
    let get = memo.get(2);
    assert_eq!(*now(get).unwrap(), (1, 2), "served once, to who asked before the change");
    assert!(memo.cached(&2).is_none());
    assert_eq!(*now(memo.get(2)).unwrap(), (2, 2));
    data.store(1, SeqCst);
    let mut get = memo.get(1);
    assert!(poll(&mut get).is_pending());
    data.store(2, SeqCst);
    rows.changed(&1);
    gate.open();
    assert_eq!(*now(get).unwrap(), (1, 2), "served once, to who asked before the change");
    assert!(memo.cached(&1).is_none());
    assert_eq!(*now(memo.get(1)).unwrap(), (2, 2));
}

#[test]
fn a_late_read_of_a_memo_that_was_computed_anew_since_makes_the_published_value_stale() {
    for change in ["source", "by hand"] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (data, tasks) = (Arc::new(AtomicU64::new(1)), Tasks::default());
        let (load, leave) = (data.clone(), tasks.clone());
        let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
            let load = load.clone();
            async move {
                rows.read(&key);
                load.load(SeqCst)
            }
        });
        let load = data.clone();
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
            let (send, receive) = oneshot::channel();
            let load = load.clone();
            leave.spawn(scope(async move {
                let _ = send.send(load.load(SeqCst));
                yield_once().await;
                leaf.get(key).await.unwrap();
            }));
            async move { receive.await.unwrap() }
        });
        now(leaf.get(1)).unwrap();
        let mut get = memo.get(1);
        assert!(poll(&mut get).is_pending());
        tasks.run();
        assert_eq!(*now(get).unwrap(), 1);
        data.store(2, SeqCst);
        match change {
            "source" => rows.changed(&1),
            _ => leaf.invalidate(&1),
        };
        assert_eq!(*now(leaf.get(1)).unwrap(), 2, "current, and newer than the value");
        tasks.run();
        assert!(
            memo.cached(&1).is_none(),
            "{change}: the value is older than the one that its task read"
        );
    }
}

#[test]
fn a_late_read_of_what_nothing_tells_of_makes_the_published_value_stale() {
    for is_foreign in [true, false] {
        let (graph, other) = (Graph::new(), Graph::new());
        let rows = Source::<u64>::new_in(if is_foreign { &other } else { &graph }, "rows");
        let _suspended = (!is_foreign).then(|| rows.suspend());
        let (data, tasks) = (Arc::new(AtomicU64::new(1)), Tasks::default());
        let memo = late(&graph, rows, &data, &tasks);
        let mut get = memo.get(0);
        assert!(poll(&mut get).is_pending());
        tasks.run();
        assert_eq!(*now(get).unwrap(), 1);
        assert!(memo.cached(&0).is_some(), "its task has declared nothing yet");
        tasks.run();
        assert!(memo.cached(&0).is_none(), "of another graph: {is_foreign}");
    }
}

#[test]
fn a_computation_can_tell_what_it_has_read_so_far_with_its_tasks() {
    let (graph, elsewhere) = (Graph::new(), Graph::new());
    let rows = Source::<u64>::new_in(&graph, "rows");
    let foreign = Source::<u64>::new_in(&elsewhere, "foreign");
    let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key });
    let memo = Memo::infallible_in(&graph, "memo", move |way: u64| async move {
        assert!(is_computing() && !has_read(), "{way}");
        match way {
            0 => {}
            1 => rows.read(&1),
            2 => rows.range(1..),
            3 => drop(leaf.get(1).await),
            4 => drop(leaf.cached(&1).unwrap()),
            5 => scope(async move { rows.read(&1) }).await,
            6 => scope(async move { scope(async move { rows.read(&1) }).await }).await,
            7 => foreign.read(&1),
            _ => read_untracked(),
        }
        (has_read(), has_read_untracked())
    });
    assert!(!is_computing() && !has_read() && !has_read_untracked());
    let told = |way| *now(memo.get(way)).unwrap();
    assert_eq!(told(0), (false, false));
    (1..7).for_each(|way| assert_eq!(told(way), (true, false), "{way}"));
    assert_eq!((told(7), told(8)), ((false, false), (false, true)), "nothing will tell of these");
    (0..7).for_each(|way| assert!(memo.cached(&way).is_some(), "{way}"));
    assert!(memo.cached(&7).is_none() && memo.cached(&8).is_none());
}

#[test]
fn what_is_made_of_what_cannot_be_tracked_is_not_kept_and_can_tell_that() {
    let graph = Graph::new();
    let bare = Memo::infallible_in(&graph, "bare", move |in_task: bool| async move {
        match in_task {
            true => scope(async { read_untracked() }).await,
            false => read_untracked(),
        }
    });
    let above = Memo::infallible_in(&graph, "above", move |in_task: bool| async move {
        bare.get(in_task).await.unwrap();
        has_read_untracked()
    });
    for in_task in [false, true] {
        assert!(*now(above.get(in_task)).unwrap());
        assert!(bare.cached(&in_task).is_none() && above.cached(&in_task).is_none());
    }
    read_untracked();
    assert!(!has_read_untracked(), "there is no computation");
}

/// A memo that leaves a task to do something on its behalf in its first run, and waits in it.
fn left(
    graph: &Graph,
    tasks: &Tasks,
    gate: &Gate,
    late: impl Fn() + Clone + Send + Sync + 'static,
) -> (Memo<u64, u64>, Source<u64>) {
    let rows = Source::<u64>::new_in(graph, "own rows");
    let (tasks, gate, runs) = (tasks.clone(), gate.clone(), Arc::new(AtomicU64::new(0)));
    let memo = Memo::infallible_in(graph, "left", move |key: u64| {
        let (gate, run, late) = (gate.clone(), runs.fetch_add(1, SeqCst), late.clone());
        if run == 0 {
            tasks.spawn(scope(async move {
                yield_once().await;
                late();
            }));
            tasks.run();
        }
        async move {
            rows.read(&key);
            gate.pass().await;
            run
        }
    });
    (memo, rows)
}

#[test]
fn what_a_task_of_an_outdated_run_reads_is_nothing_to_the_next_one() {
    for is_foreign in [false, true] {
        let (graph, elsewhere) = (Graph::new(), Graph::new());
        let (tasks, gate) = (Tasks::default(), Gate::default());
        let other = Source::<u64>::new_in(if is_foreign { &elsewhere } else { &graph }, "other");
        let (memo, rows) = left(&graph, &tasks, &gate, move || other.read(&2));
        let mut early = memo.get(1);
        assert!(poll(&mut early).is_pending());
        rows.changed(&1);
        let mut late = memo.get(1);
        assert!(poll(&mut late).is_pending());
        gate.open();
        assert_eq!(*now(late).unwrap(), 1, "the second run");
        tasks.run();
        other.changed(&2);
        assert!(memo.cached(&1).is_some(), "it has not read that, foreign: {is_foreign}");
    }
}

#[test]
fn what_a_task_reads_for_a_value_that_is_another_by_now_is_nothing_to_that() {
    let (graph, tasks, gate) = (Graph::new(), Tasks::default(), Gate::default());
    gate.open();
    let other = Source::<u64>::new_in(&graph, "other");
    let (memo, _) = left(&graph, &tasks, &gate, move || other.read(&2));
    assert_eq!(*now(memo.get(1)).unwrap(), 0);
    memo.invalidate(&1);
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
    tasks.run();
    assert_eq!(graph.stats().late_reads, 1);
    other.changed(&2);
    assert!(memo.cached(&1).is_some());
}

#[test]
fn a_task_that_announces_a_change_of_something_else_late_makes_nothing_stale() {
    let (graph, tasks, gate) = (Graph::new(), Tasks::default(), Gate::default());
    gate.open();
    let other = Source::<u64>::new_in(&graph, "other");
    let (memo, rows) = left(&graph, &tasks, &gate, move || _ = other.changed(&2));
    now(memo.get(1)).unwrap();
    tasks.run();
    assert!(memo.cached(&1).is_some());
    rows.changed(&1);
    assert!(memo.cached(&1).is_none());
}

#[test]
fn what_is_read_late_counts_for_what_it_would_have_in_time() {
    let bytes = |late: u64| {
        let (graph, tasks, gate) = (Graph::new(), Tasks::default(), Gate::default());
        let other = Source::<u64>::new_in(&graph, "other");
        let (memo, _) =
            left(&graph, &tasks, &gate, move || (0..20).for_each(|key| other.read(&key)));
        let mut get = memo.get(1);
        assert!(poll(&mut get).is_pending());
        if late == 0 {
            tasks.run();
        }
        gate.open();
        now(get).unwrap();
        tasks.run();
        assert_eq!(graph.stats().late_reads, late);
        let bytes = (memo.entry(&1).unwrap().entry.bytes, graph.stats().bytes);
        memo.evict(&1);
        (0..20).for_each(|key| _ = other.evict(&key));
        let own = graph.entries("own rows", 0, 1).entries[0].id;
        graph.evict(own);
        assert_eq!(graph.stats().bytes, 0);
        bytes
    };
    assert_eq!(bytes(0), bytes(20));
}

#[test]
fn a_task_that_looks_late_for_what_is_not_in_memory_makes_the_published_value_stale() {
    let graph = Graph::new();
    let (data, rows) = (Arc::new(AtomicU64::new(0)), Source::new_in(&graph, "rows"));
    let read = data.clone();
    let row = Memo::infallible_in(&graph, "row", move |_: u64| {
        rows.read(&1);
        let value = read.load(SeqCst);
        async move { value }
    });
    type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
    let tasks: Arc<Mutex<Vec<Task>>> = Arc::default();
    let (read, spawned) = (data.clone(), tasks.clone());
    let page = Memo::infallible_in(&graph, "page", move |_: u64| {
        let (send, receive) = oneshot::channel();
        let value = read.load(SeqCst);
        spawned.lock().unwrap().push(Box::pin(scope(async move {
            send.send(value).unwrap();
            yield_once().await;
            assert!(row.cached(&1).is_none());
        })));
        let polled = poll(spawned.lock().unwrap().last_mut().unwrap());
        assert!(polled.is_pending());
        async move { receive.await.unwrap() }
    });
    assert_eq!(*now(page.get(1)).unwrap(), 0);
    data.store(1, SeqCst);
    rows.changed(&1);
    now(tasks.lock().unwrap().pop().unwrap());
    assert_eq!(*now(page.get(1)).unwrap(), 1, "it was made of what row(1) was before");
    assert_eq!(graph.stats().late_reads, 1);
}

#[test]
fn what_a_task_has_declared_untracked_is_known_to_the_function() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |declares: bool| async move {
        scope(async move {
            if declares {
                read_untracked();
            }
        })
        .await;
        has_read_untracked()
    });
    for declares in [false, true] {
        assert_eq!(*now(memo.get(declares)).unwrap(), declares);
    }
}

#[test]
fn what_a_task_of_another_function_answers_is_not_kept() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let (left, place) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
    let leaves = left.clone();
    let first = Memo::infallible_in(&graph, "first", move |_: u64| {
        let (load, leaves) = (load.clone(), leaves.clone());
        async move {
            leaves.lock().unwrap().push(Box::pin(scope(async move {
                rows.read(&1);
                load.load(SeqCst)
            })));
        }
    });
    now(first.get(1)).unwrap();
    place.lock().unwrap().append(&mut left.lock().unwrap());
    let reload = data.clone();
    let second = Memo::infallible_in(&graph, "second", move |_: u64| {
        let (task, reload) = (place.lock().unwrap().pop(), reload.clone());
        async move {
            match task {
                Some(task) => task.await,
                None => reload.load(SeqCst),
            }
        }
    });
    let answer = now(second.get(1)).unwrap();
    assert_eq!((*answer, answer.version()), (1, 0));
    data.store(2, SeqCst);
    rows.changed(&1);
    assert_eq!(*now(second.get(1)).unwrap(), 2);
}

#[test]
fn a_watch_beyond_the_budget_settles_though_late_reads_come_a_run_late() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
    let tasks: Arc<Mutex<std::collections::VecDeque<Task>>> = Arc::default();
    let spawns = tasks.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let spawns = spawns.clone();
        async move {
            rows.read(&key);
            let late = Box::pin(scope(async move { rows.read(&(key + 100)) }));
            spawns.lock().unwrap().push_back(late);
        }
    })
    .budget(1);
    let (mut watch, wakes) = (memo.watch(1), crate::support::Wakes::new());
    let mut yields = 0;
    let mut turn = |yields: &mut usize| {
        while crate::support::poll_with(&mut Box::pin(watch.next()), &wakes).is_ready() {
            *yields += 1;
        }
    };
    turn(&mut yields);
    rows.changed(&1);
    for _ in 0..100 {
        turn(&mut yields);
        let Some(task) = tasks.lock().unwrap().pop_front() else { break };
        now(task);
    }
    assert_eq!(yields, 2, "one value, and one after the change");
    rows.changed(&101);
    turn(&mut yields);
    assert_eq!(yields, 3, "what is read late counts");
}

#[test]
fn what_a_task_reads_of_a_run_whose_value_was_computed_anew_is_told_to_whom_had_it() {
    let (graph, tasks, gate) = (Graph::new(), Tasks::default(), Gate::default());
    gate.open();
    let other = Source::<u64>::new_in(&graph, "other");
    let (memo, _) = left(&graph, &tasks, &gate, move || other.read(&2));
    now(memo.get(1)).unwrap();
    let mut notify = memo.notify(1);
    assert!(memo.evict(&1));
    other.changed(&2);
    now(memo.get(1)).unwrap();
    assert!(poll(&mut Box::pin(notify.next())).is_pending());
    tasks.run();
    assert!(poll(&mut Box::pin(notify.next())).is_ready(), "the first value is outdated");
}

#[test]
fn values_that_depend_on_each_other_by_a_late_read_are_made_anew_after_a_change() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let (below, tasks) = (Arc::<OnceLock<Memo<u64, u64>>>::default(), Tasks::default());
    let equal = Memo::infallible_in(&graph, "equal", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let (asks, spawns) = (below.clone(), tasks.clone());
    let above = Memo::infallible_in(&graph, "above", move |key: u64| {
        let asks = asks.clone();
        spawns.spawn(scope(async move {
            yield_once().await;
            asks.get().unwrap().get(key).await.unwrap();
        }));
        spawns.run();
        async move { *equal.get(key).await.unwrap() }
    });
    let memo = Memo::infallible_in(&graph, "below", move |key: u64| async move {
        *above.get(key).await.unwrap()
    });
    below.set(memo).unwrap();
    now(memo.get(1)).unwrap();
    // What is verified after the other was made may depend on it.
    rows.changed(&1);
    now(memo.get(1)).unwrap();
    tasks.run();
    assert!(above.cached(&1).is_some() && memo.cached(&1).is_some());
    rows.changed(&1);
    assert_eq!(*now(above.get(1)).unwrap(), 1);
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
}

/// A row that is gone has no answer, and is asked for only where the list has it.
#[test]
fn what_is_read_in_a_scope_is_looked_at_before_what_was_read_after_it() {
    for spawned in [false, true] {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (exists, runs) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let (is_there, count) = (exists.clone(), runs.clone());
        let row = Memo::infallible_in(&graph, "row", move |key: u64| {
            let is_there = is_there.clone();
            count.fetch_add(1, SeqCst);
            async move {
                rows.read(&key);
                match is_there.load(SeqCst) {
                    0 => std::future::pending().await,
                    _ => key,
                }
            }
        });
        let (is_there, tasks) = (exists.clone(), Tasks::default());
        let spawns = tasks.clone();
        let page = Memo::infallible_in(&graph, "page", move |_: u64| {
            let (is_there, spawns) = (is_there.clone(), spawns.clone());
            let (tell, told) = oneshot::channel();
            let list = scope(async move {
                rows.read(&100);
                tell.send(is_there.load(SeqCst)).unwrap();
            });
            async move {
                if spawned {
                    spawns.spawn(list);
                } else {
                    list.await;
                }
                if told.await.unwrap() == 1 { *row.get(7).await.unwrap() } else { 0 }
            }
        });
        let ask = || {
            let mut get = page.get(1);
            let first = poll(&mut get);
            tasks.run();
            let Poll::Ready(answer) = (if first.is_ready() { first } else { poll(&mut get) })
            else {
                panic!("{spawned}: it waits for a row that it does not ask for");
            };
            *answer.unwrap()
        };
        assert_eq!((ask(), runs.load(SeqCst)), (7, 1));
        exists.store(0, SeqCst);
        rows.changed_many([&7, &100]);
        assert_eq!((ask(), runs.load(SeqCst)), (0, 1));
    }
}

#[test]
fn a_task_knows_that_its_function_and_other_tasks_have_read() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let note = {
            let notes = notes.clone();
            move || notes.lock().unwrap().push((has_read(), has_read_untracked()))
        };
        async move {
            match key {
                // The function has.
                0 => {
                    rows.read(&key);
                    read_untracked();
                }
                // A task of its has, and is over.
                1 => {
                    scope(async move {
                        rows.read(&key);
                        read_untracked();
                    })
                    .await;
                }
                // A task has, after this one was made.
                2 => {
                    let late = scope(async move { note() });
                    scope(async move {
                        rows.read(&key);
                        read_untracked();
                    })
                    .await;
                    return late.await;
                }
                _ => {}
            }
            scope(async move { note() }).await;
        }
    });
    (0..4).for_each(|key| now(memo.get(key)).map(drop).unwrap());
    assert_eq!(*seen.lock().unwrap(), [(true, true), (true, true), (true, true), (false, false)]);
}

#[test]
fn what_does_not_wait_for_a_task_of_another_function_is_not_kept() {
    let graph = Graph::new();
    let gate = Gate::default();
    let wait = gate.clone();
    let slow = Memo::infallible_in(&graph, "slow", move |key: u64| {
        let wait = wait.clone();
        async move {
            wait.pass().await;
            key
        }
    });
    let tasks = Tasks::default();
    let spawns = tasks.clone();
    let other = Memo::infallible_in(&graph, "other", move |key: u64| {
        spawns.spawn(scope(async move { slow.get(key).await.map(drop).unwrap() }));
        async move { key }
    });
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let tasks = tasks.clone();
        async move {
            other.get(key).await.unwrap();
            // As with a timeout.
            tasks.run();
            tasks.0.lock().unwrap().is_empty()
        }
    });
    let value = now(memo.get(1)).unwrap();
    assert_eq!((*value, value.version()), (false, 0));
    gate.open();
    assert!(memo.cached(&1).is_none());
}

#[test]
fn a_watch_beyond_the_budget_settles_though_tasks_ask_late_for_what_is_not_kept() {
    for (budget, remembers, reads, asks) in
        (0..32).map(|n| ([0, 300, 600, 1_000][n % 4], n & 4 != 0, n & 8 != 0, n & 16 != 0))
    {
        let graph = Graph::new();
        graph.set_budget(budget);
        let (rows, tasks) = (Source::<u64>::new_in(&graph, "rows"), Tasks::default());
        let mut leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
            if reads {
                rows.read(&key);
            }
            key
        });
        if remembers {
            leaf = leaf.fingerprint(|value| *value);
        }
        let spawns = tasks.clone();
        let above = Memo::infallible_in(&graph, "above", move |key: u64| {
            let leaf = leaf;
            spawns.spawn(scope(async move {
                yield_once().await;
                leaf.get(key).await.unwrap();
                leaf.get(key + 1).await.unwrap();
            }));
            async move {
                if asks {
                    leaf.get(key).await.unwrap();
                }
                key
            }
        });
        let mut watch = above.watch(1);
        let mut turn = || {
            let yielded = poll(&mut Box::pin(watch.next())).is_ready();
            tasks.run();
            yielded
        };
        assert!(turn());
        for _ in 0..6 {
            assert!(!turn(), "nothing has changed");
        }
        let started = graph.stats().started;
        turn();
        assert_eq!(graph.stats().started, started, "{budget} {remembers} {reads} {asks}: it rests");
    }
}
