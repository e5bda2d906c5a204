//! Threads that end: what they kept for themselves is given back, whatever still runs in them.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Poll;

use tidewire_memo::{CachedValue, Graph, Memo, Source};

use crate::support::{now, poll};

/// A graph with values, dropped when its thread ends.
struct World {
    graph: Graph,
    rows: Source<u64>,
    memo: Memo<u64, [u64; 5]>,
    handle: Option<CachedValue<[u64; 5]>>,
}

impl World {
    fn new() -> Self {
        let graph = Graph::new();
        let rows = Source::new_in(&graph, "rows");
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
            rows.read(&key);
            [key; 5]
        });
        let world = Self { graph, rows, memo, handle: None };
        world.fill();
        world
    }

    fn fill(&self) {
        for key in 0..200 {
            // Not through an executor: its own thread-locals may have ended.
            let Poll::Ready(value) = poll(&mut self.memo.get(key)) else { unreachable!() };
            assert_eq!(*value.unwrap(), [key; 5]);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The thread's own lists may have ended before this; all of it has to work all the same.
        self.fill();
        self.rows.changed(&3);
        self.fill();
        assert_eq!(self.memo.with(&7, |value| value[0]), Some(7));
        self.handle = self.memo.cached(&9);
        assert_eq!(self.graph.stats().nodes, 400);
    }
}

thread_local! {
    static EARLY: RefCell<Option<World>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<World>> = const { RefCell::new(None) };
}

#[test]
fn a_graph_in_a_thread_local_works_until_its_thread_has_ended() {
    for _ in 0..20 {
        let thread = std::thread::spawn(|| {
            // One is registered before the thread's own lists are, the other one after.
            EARLY.with(|world| drop(world.borrow_mut().take()));
            LATE.with(|world| *world.borrow_mut() = Some(World::new()));
            EARLY.with(|world| *world.borrow_mut() = Some(World::new()));
        });
        thread.join().unwrap();
        // What was given back serves the next ones.
        let world = World::new();
        world.fill();
    }
}

#[test]
fn a_hundred_thousand_threads_that_come_and_go_leave_nothing_behind_and_share_their_places() {
    const THREADS: u64 = 100_000;
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        Arc::new(key)
    });
    for first in (0..THREADS).step_by(4) {
        std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|thread| {
                scope.spawn(move || {
                    let key = (first + thread) % 1_000;
                    let value = now(memo.get(key)).unwrap();
                    let again = now(memo.get(key)).unwrap();
                    assert!(**value == key && Arc::ptr_eq(&value, &again));
                    rows.changed(&key);
                })
            });
            // The scope alone does not wait for their ends, of which a busy machine has thousands.
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
    let stats = graph.stats();
    assert!(
        stats.threads < 100,
        "{} threads are known, of {THREADS} that have ended",
        stats.threads
    );
    assert_eq!(stats.nodes, 2_000);
}

/// Writes, and reads what it writes, when its thread ends.
struct Last(Source<u64>, Memo<u64, u64>);

impl Drop for Last {
    fn drop(&mut self) {
        let write = self.0.write(&1);
        self.1.evict(&1);
        let Poll::Ready(Ok(value)) = poll(&mut self.1.get(1)) else { panic!("it waits") };
        assert_eq!(*value, 1);
        write.finish();
        assert!(poll(&mut self.1.get(2)).is_ready());
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_that_ends_may_write_and_read_what_it_writes() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let thread = std::thread::spawn(move || {
        // Made first, so dropped last.
        LAST.with(|last| *last.borrow_mut() = Some(Last(rows, memo)));
        let write = rows.write(&1);
        now(memo.get(1)).unwrap();
        write.finish();
    });
    thread.join().unwrap();
    assert!(memo.cached(&2).is_some(), "it was dropped to the end");
}
