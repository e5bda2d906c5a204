//! Several graphs in one program.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use tidewire_memo::{ErrorKind, Get, Graph, Memo, Source};

use crate::support::{Gate, Wakes, now, poll, poll_with};

#[test]
fn a_computation_that_asks_another_graph_closes_no_cycle_there() {
    let (one, two) = (Graph::new(), Graph::new());
    // The first node of each graph has the same number.
    let inner = Memo::infallible_in(&two, "inner", |key: u64| async move { key });
    let outer =
        Memo::new_in(
            &one,
            "outer",
            move |key: u64| async move { inner.get(key).await.map(|v| *v) },
        );
    assert_eq!(*now(outer.get(1)).unwrap(), 1);
}

#[test]
fn a_computation_that_a_foreign_one_asked_for_may_ask_for_more() {
    static LEAF: OnceLock<Memo<u64, u64>> = OnceLock::new();
    let (one, two) = (Graph::new(), Graph::new());
    let leaf = Memo::infallible_in(&two, "leaf", |key: u64| async move { key });
    LEAF.set(leaf).unwrap();
    let inner = Memo::new_in(&two, "inner", |key: u64| async move {
        crate::support::yield_once().await;
        LEAF.get().unwrap().get(key).await.map(|value| *value)
    });
    let outer = Memo::new_in(&one, "outer", move |key: u64| async move {
        let (a, b) = futures::join!(inner.get(key), inner.get(key));
        Ok::<_, tidewire_memo::Error>(*a? + *b?)
    });
    assert_eq!(*now(outer.get(1)).unwrap(), 2);
    assert_eq!(two.stats().cycles + one.stats().cycles, 0);
}

#[test]
fn who_asks_after_a_change_is_not_given_what_another_graph_had_begun_to_read_before_it() {
    let (one, two) = (Graph::new(), Graph::new());
    let rows = Source::<u64>::new_in(&one, "rows");
    let (data, gate) = (Arc::new(AtomicU64::new(1)), Gate::default());
    let (load, wait) = (data.clone(), gate.clone());
    let inner = Memo::infallible_in(&two, "inner", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            let seen = load.load(SeqCst);
            wait.pass().await;
            seen
        }
    });
    let outer = Memo::infallible_in(&one, "outer", move |key: u64| async move {
        *inner.get(key).await.unwrap()
    });
    let mut early = inner.get(1);
    assert!(poll(&mut early).is_pending());
    data.store(2, SeqCst);
    rows.changed(&1);
    let mut late = outer.get(1);
    assert!(poll(&mut late).is_pending(), "it has joined the run from before the change");
    gate.open();
    assert_eq!(*now(late).unwrap(), 2);
}

#[test]
fn a_computation_that_a_closed_graph_waited_for_is_driven_by_who_is_left_or_ends() {
    for is_joined in [true, false] {
        let (closed, open, gate) = (Graph::new(), Graph::new(), Gate::default());
        let wait = gate.clone();
        let below = Memo::infallible_in(&open, "below", move |key: u64| {
            let wait = wait.clone();
            async move {
                wait.pass().await;
                key
            }
        });
        let above = Memo::new_in(&closed, "above", move |key: u64| async move {
            below.get(key).await.map(|value| *value)
        });
        let mut outer = above.get(1);
        assert!(poll(&mut outer).is_pending());
        let wakes = Wakes::new();
        let mut inner = is_joined.then(|| below.get(1));
        inner.iter_mut().for_each(|inner| assert!(poll_with(inner, &wakes).is_pending()));
        drop(closed);
        assert_eq!(now(outer).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(open.stats().cancelled, u64::from(!is_joined));
        gate.open();
        let Some(mut inner) = inner else { continue };
        assert!(wakes.count() > 0, "nobody else drives");
        assert_eq!(poll(&mut inner).map(|value| *value.unwrap()), Poll::Ready(1));
    }
}

#[test]
fn a_closed_memo_is_no_longer_listed_and_one_that_is_made_after_it_is_its_own() {
    let graph = Graph::new();
    let memo =
        |name, value: u64| Memo::infallible_in(&graph, name, move |_: u64| async move { value });
    let names = || graph.owners().iter().map(|owner| owner.name.to_string()).collect::<Vec<_>>();
    let (first, second) = (memo("first", 1), memo("second", 2));
    let above = Memo::new_in(&graph, "above", move |key: u64| async move {
        first.get(key).await.map(|value| *value)
    });
    now(above.get(1)).unwrap();
    now(second.get(1)).unwrap();
    first.close();
    assert_eq!(names(), ["second", "above"]);
    assert!(above.cached(&1).is_none() && second.cached(&1).is_some());
    let third = memo("third", 3);
    assert_eq!(names(), ["third", "second", "above"]);
    assert_eq!(*now(third.get(1)).unwrap(), 3);
    assert_eq!(now(first.get(1)).unwrap_err().kind(), ErrorKind::Closed);
    assert!(first.cached(&1).is_none() && first.entry(&1).is_none());
    first.close();
    assert_eq!(*third.cached(&1).unwrap(), 3, "it is another one");
}

#[test]
fn versions_of_a_graph_begin_after_the_number_that_it_is_told() {
    let graph = Graph::starting_at(1_000_000);
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    assert!(now(memo.get(1)).unwrap().version() > 1_000_000);
    assert!(Graph::starting_at(5).stats().published == 0);
}

#[test]
fn a_batch_over_two_graphs_is_one_change_of_each_and_tells_how_many_it_marked() {
    let worlds: Vec<_> = (0..2)
        .map(|_| {
            let graph = Graph::new();
            let rows = Source::<u64>::new_in(&graph, "rows");
            let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
                rows.read(&key);
                key
            });
            (0..5).for_each(|key| _ = now(memo.get(key)).unwrap());
            (graph, rows, memo)
        })
        .collect();
    let marked = tidewire_memo::batch(|batch| {
        for (_, rows, _) in &worlds {
            batch.changed(rows, &1);
            batch.changed(rows, &2);
        }
    });
    assert_eq!(marked, 4);
    assert!(worlds.iter().all(|(graph, ..)| graph.stats().walks == 1));
    let marked = tidewire_memo::batch(|batch| {
        batch.changed_all(&worlds[0].1);
        batch.changed(&worlds[1].1, &3);
    });
    assert_eq!(marked, 3 + 1);
    assert!((0..5).all(|key| worlds[0].2.cached(&key).is_none()));
    assert!(worlds[1].2.cached(&4).is_some());
}

/// Polls a `get` when it is woken.
#[derive(Default)]
struct Polls {
    get: Mutex<Option<Get<u64, u64>>>,
    answer: Mutex<Option<Result<u64, ErrorKind>>>,
}

impl Wake for Polls {
    fn wake(self: Arc<Self>) {
        let Some(mut get) = self.get.lock().unwrap().take() else { return };
        if let Poll::Ready(answer) = poll(&mut get) {
            let answer = answer.map(|value| *value).map_err(|error| error.kind());
            *self.answer.lock().unwrap() = Some(answer);
        }
    }
}

#[test]
fn what_is_made_of_a_graph_that_is_being_closed_is_given_to_nobody() {
    let graph = Graph::new();
    let low = Memo::infallible_in(&graph, "low", |key: u64| async move {
        match key {
            1 => 1,
            _ => std::future::pending().await,
        }
    });
    let gate = Gate::default();
    let wait = gate.clone();
    let up = Memo::infallible_in(&graph, "up", move |key: u64| {
        let wait = wait.clone();
        async move {
            wait.pass().await;
            low.get(key).await.map_or(77, |value| *value)
        }
    });
    let mut get = up.get(1);
    assert!(poll(&mut get).is_pending());
    gate.open();
    let polls = Arc::new(Polls { get: Mutex::new(Some(get)), ..Polls::default() });
    let mut never = low.get(2);
    let waker = Waker::from(polls.clone());
    assert!(Pin::new(&mut never).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(graph);
    let answer = polls.answer.lock().unwrap().take();
    assert_eq!(answer, Some(Err(ErrorKind::Closed)), "`low` was closed by then, `up` was not");
}

#[test]
fn what_who_writes_makes_of_a_graph_that_was_closed_meanwhile_is_given_to_nobody() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let low = Memo::infallible_in(&graph, "low", |key: u64| async move { key });
    let last = Arc::new(Mutex::new(None));
    let takes = last.clone();
    let up = Memo::infallible_in(&graph, "up", move |key: u64| {
        let last: Option<Graph> = takes.lock().unwrap().take();
        async move {
            drop(last);
            low.get(key).await.map_or(77, |value| *value)
        }
    });
    let write = rows.write(&1);
    *last.lock().unwrap() = Some(graph);
    let answer = now(up.get(1)).map(|value| *value).map_err(|error| error.kind());
    assert_eq!(answer, Err(ErrorKind::Closed));
    write.finish();
}
