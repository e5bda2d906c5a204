//! What tasks read on behalf of a computation.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use futures::channel::oneshot;
use tidewire_memo::{Graph, Memo, Source, scope};

use crate::support::{Gate, now, poll};

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
            crate::support::yield_once().await;
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
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            let task = scope(async move { *leaf.get(key).await.unwrap() });
            let before = std::thread::spawn(move || now(task)).join().unwrap();
            wait.pass().await;
            (before, *leaf.get(key).await.unwrap())
        }
    });
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
            crate::support::yield_once().await;
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
    rows.changed(&1);
    assert_eq!(*now(leaf.get(1)).unwrap(), 2, "current, and newer than the value");
    tasks.run();
    assert!(memo.cached(&1).is_none(), "the value is older than the one that its task read");
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
