//! Scoped tasks that answer before they declare what the answer was made of.
//!
//! The computation may be published before, while or after the task declares its read: in each case the
//! read counts. A change between the two makes the value stale, a later one finds the edge, and a read
//! that cannot be tracked ends the value.

use std::cell::RefCell;
use std::sync::Arc;

use shuttle::future::{JoinHandle, block_on, yield_now};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::thread;
use tidewire_memo::{Graph, Memo, Source, scope};

/// What a task told its computation before it declared what that was made of.
struct Told {
    rows: Source<u64>,
    /// Of a graph of its own, whose reads cannot be tracked.
    other: Source<u64>,
    value: &'static AtomicU64,
    runs: &'static AtomicU64,
    memo: Memo<u64, u64>,
}

fn told(untracked: bool) -> Arc<Told> {
    let graph = std::mem::ManuallyDrop::new(Graph::new());
    let elsewhere = std::mem::ManuallyDrop::new(Graph::new());
    let rows = Source::new_in(&graph, "rows");
    let other = Source::new_in(&elsewhere, "other");
    let value: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let runs: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let memo = Memo::infallible_in(&graph, "told", move |_: u64| async move {
        runs.fetch_add(1, SeqCst);
        let (tell, told) = futures::channel::oneshot::channel();
        let task = shuttle::future::spawn(scope(async move {
            let _ = tell.send(value.load(SeqCst));
            yield_now().await;
            if untracked {
                other.read(&0);
            } else {
                rows.read(&0);
            }
        }));
        let answer = told.await.unwrap();
        TASKS.with(|tasks| tasks.borrow_mut().push(task));
        answer
    });
    Arc::new(Told { rows, other, value, runs, memo })
}

shuttle::thread_local! {
    /// Tasks that were left to themselves by computations that this thread has polled.
    static TASKS: RefCell<Vec<JoinHandle<()>>> = const { RefCell::new(Vec::new()) };
}

/// Everything that was spawned from here has ended.
fn await_tasks() {
    while let Some(task) = TASKS.with(|tasks| tasks.borrow_mut().pop()) {
        block_on(task).unwrap();
    }
}

/// A task declares its read while, before or after its computation is published; the change that follows
/// finds it, and so does one that comes between.
pub(crate) fn before_it_is_declared() {
    let world = told(false);
    let reader = world.clone();
    let reader = thread::spawn(move || {
        block_on(reader.memo.get(0)).unwrap();
        await_tasks();
    });
    world.value.store(1, SeqCst);
    world.rows.changed(&0);
    reader.join().unwrap();
    let seen = *block_on(world.memo.get(0)).unwrap();
    await_tasks();
    assert_eq!(seen, 1, "a change was missed that came while the task was to declare its read");
    world.value.store(2, SeqCst);
    world.rows.changed(&0);
    assert_eq!(*block_on(world.memo.get(0)).unwrap(), 2, "a read that came late is no dependency");
    await_tasks();
}

/// The same of a read that cannot be tracked: what was made of it is never kept.
pub(crate) fn before_it_is_found_untracked() {
    let world = told(true);
    block_on(world.memo.get(0)).unwrap();
    await_tasks();
    world.other.changed(&0);
    let runs = world.runs.load(SeqCst);
    block_on(world.memo.get(0)).unwrap();
    await_tasks();
    assert!(world.runs.load(SeqCst) > runs, "what was read elsewhere is kept");
}
