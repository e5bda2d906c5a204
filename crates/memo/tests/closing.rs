//! What is given back: by what is closed, and by what goes on for long. A binary of its own: its allocator
//! counts.
#![cfg(not(any(shuttle, miri)))]
#![allow(unsafe_code, clippy::unwrap_used, clippy::print_stdout)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use futures::FutureExt;
use futures::future::BoxFuture;
use tidewire_memo::{Graph, Memo, Source, scope};

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator, and a counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), SeqCst);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test counts at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// A memo and a source with this many keys, and as many intervals up to 50.
fn fill(graph: &Graph, keys: u64) -> Memo<u64, u64> {
    let rows = Source::<u64>::new_in(graph, "rows");
    let memo = Memo::infallible_in(graph, "memo", move |key: u64| async move {
        rows.read(&key);
        if key < 50 {
            rows.range(key..key + 10);
        }
        key
    });
    (0..keys).for_each(|key| _ = futures::executor::block_on(memo.get(key)).unwrap());
    memo
}

/// Bytes that one round leaves behind, when pools and garbage have settled.
fn left(rounds: usize, round: impl Fn()) -> usize {
    (0..rounds).for_each(|_| round());
    let before = IN_USE.load(SeqCst);
    (0..rounds).for_each(|_| round());
    IN_USE.load(SeqCst).saturating_sub(before) / rounds
}

#[test]
fn what_is_closed_keeps_nothing_for_each_key_that_it_had() {
    let _alone = ALONE.lock().unwrap();
    let graph = |keys| left(100, move || drop((fill(&Graph::new(), keys), Graph::new())));
    let (empty, full) = (graph(0), graph(500));
    if std::env::var_os("MEMO_LOUD").is_some() {
        println!("a closed graph with a memo and a source leaves {empty} bytes");
    }
    assert!(full <= empty + 1024, "a graph of 500 keys leaves {full} bytes, of none {empty}");
    let graph = Graph::new();
    let memo = |rounds, keys| {
        let graph = graph.clone();
        left(rounds, move || {
            let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
            (0..keys).for_each(|key| _ = futures::executor::block_on(memo.get(key)).unwrap());
            memo.close();
        })
    };
    let (empty, full) = (memo(5_000, 0), memo(5_000, 50));
    assert!(full <= empty + 64, "a memo of 50 keys leaves {full} bytes, of none {empty}");
    if std::env::var_os("MEMO_LOUD").is_some() {
        println!("a closed memo leaves {empty} bytes");
    }
    assert!(empty <= 4096, "{empty} bytes");
}

#[test]
fn what_was_watched_or_written_at_once_is_nothing_to_a_graph_that_is_closed() {
    let _alone = ALONE.lock().unwrap();
    for graph_first in [false, true] {
        let graph = |keys| {
            left(50, move || {
                let graph = Graph::new();
                let rows = Source::<u64>::new_in(&graph, "written");
                let memo = fill(&graph, keys);
                let watches: Vec<_> = (0..keys).map(|key| memo.notify(key)).collect();
                let guards: Vec<_> = (0..keys).map(|key| rows.write(&key)).collect();
                let (first, second): (Box<dyn Send>, Box<dyn Send>) = match graph_first {
                    false => (Box::new((watches, guards)), Box::new(graph)),
                    true => (Box::new(graph), Box::new((watches, guards))),
                };
                drop(first);
                drop(second);
            })
        };
        let (empty, full) = (graph(0), graph(500));
        assert!(full <= empty + 1024, "{full} bytes with 500 of each, {empty} with none");
    }
}

#[test]
fn a_source_that_is_read_after_its_graph_was_closed_keeps_nothing() {
    let _alone = ALONE.lock().unwrap();
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    drop(graph);
    let other = Graph::new();
    let memo = Memo::infallible_in(&other, "memo", move |key: u64| async move {
        rows.read(&key);
        rows.range(key..);
        key
    });
    assert_eq!(*futures::executor::block_on(memo.get(1)).unwrap(), 1);
    assert!(memo.cached(&1).is_none(), "nobody can tell of its changes");
}

#[test]
fn computations_that_are_given_up_leave_nothing_behind() {
    let _alone = ALONE.lock().unwrap();
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |_: u64| std::future::pending::<u64>());
    let round = || {
        for key in 0..5_000 {
            let given_up = FutureExt::now_or_never(memo.get(key % 7));
            assert!(given_up.is_none());
        }
    };
    let bytes = left(4, round);
    assert!(bytes < 5_000, "{bytes} bytes of 5,000 computations are not given back");
}

/// Returns `Pending` once.
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        match std::mem::replace(&mut paused, true) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

/// How the function of a task ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Answered,
    Failed,
    GivenUp,
    NotYet,
}

#[test]
fn a_task_that_reads_on_and_on_keeps_no_more_than_the_budget() {
    const ROUNDS: u64 = 100_000;
    let _alone = ALONE.lock().unwrap();
    type Read = fn(Source<u64>, Memo<u64, u64>, u64);
    let kinds: [(&str, Read); 3] = [
        ("read", |rows, _, round| rows.read(&round)),
        ("range", |rows, _, round| rows.range(round..round + 3)),
        ("cached", |_, memo, round| drop(memo.cached(&(round % 10)))),
    ];
    for ((kind, read), end) in kinds.into_iter().flat_map(|kind| {
        [End::Answered, End::Failed, End::GivenUp, End::NotYet].map(|end| (kind, end))
    }) {
        if end == End::NotYet && kind != "cached" {
            // A value that is made of very much needs to know all of it.
            continue;
        }
        let graph = Graph::new();
        graph.set_budget(256 << 10);
        let rows = Source::<u64>::new_in(&graph, "rows");
        let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
        let task = std::sync::Arc::<std::sync::Mutex<Option<BoxFuture<'static, ()>>>>::default();
        let spawn = task.clone();
        let above = Memo::new_in(&graph, "above", move |key: u64| {
            let reads = async move {
                for round in 0..ROUNDS {
                    read(rows, memo, round);
                    pause().await;
                }
            };
            *spawn.lock().unwrap() = Some(Box::pin(scope(reads)));
            async move {
                match end {
                    End::Answered => Ok(key),
                    End::Failed => Err("injected"),
                    End::GivenUp | End::NotYet => std::future::pending().await,
                }
            }
        });
        let mut get = above.get(1);
        let answered = (&mut get).now_or_never().is_some();
        assert_eq!(answered, matches!(end, End::Answered | End::Failed));
        let _waits = (end == End::NotYet).then_some(get);
        let mut task = task.lock().unwrap().take().unwrap();
        let before = IN_USE.load(SeqCst);
        while (&mut task).now_or_never().is_none() {}
        let kept = IN_USE.load(SeqCst).saturating_sub(before);
        assert!(kept < 2 << 20, "{kind}, {end:?}: {kept} bytes are kept of {ROUNDS} reads");
    }
}

#[test]
fn a_function_that_looks_on_and_on_for_what_is_not_there_keeps_each_key_once() {
    let _alone = ALONE.lock().unwrap();
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        for round in 0..100_000 {
            assert!(memo.cached(&(round % 10)).is_none());
            pause().await;
        }
        key
    });
    let mut get = above.get(1);
    let before = IN_USE.load(SeqCst);
    let mut most = 0;
    while (&mut get).now_or_never().is_none() {
        most = most.max(IN_USE.load(SeqCst).saturating_sub(before));
    }
    assert!(most < 100_000, "{most} bytes");
}

#[test]
fn errors_that_are_kept_count_for_their_message() {
    let _alone = ALONE.lock().unwrap();
    let graph = Graph::new();
    graph.set_budget(1 << 20);
    let memo = Memo::<u64, u64>::new_in(&graph, "memo", |key: u64| async move {
        Err(format!("{key} is not there: {}", "x".repeat(4_096)))
    })
    .error_ttl(std::time::Duration::from_secs(60));
    let before = IN_USE.load(SeqCst);
    (0..2_000).for_each(|key| _ = futures::executor::block_on(memo.get(key)).unwrap_err());
    let kept = IN_USE.load(SeqCst).saturating_sub(before);
    assert!(kept < 6 << 20, "{kept} bytes are kept with a budget of 1 MiB");
}
