//! Computations that ask for another's answer and do not wait for it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;

use futures::future::{Either, select};
use tidewire_memo::{Graph, Memo, Source, scope};

use crate::support::{Gate, now, poll, yield_once};

/// A memo that waits at a gate and reads a source, so that it is kept.
fn slow(graph: &Graph, gate: &Gate) -> Memo<u64, u64> {
    let (rows, gate) = (Source::<u64>::new_in(graph, "rows"), gate.clone());
    Memo::infallible_in(graph, "slow", move |key: u64| {
        let gate = gate.clone();
        async move {
            rows.read(&key);
            gate.pass().await;
            key
        }
    })
}

#[test]
fn what_is_made_without_an_answer_that_it_asked_for_is_not_kept_nor_is_what_reads_it() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let slow = slow(&graph, &gate);
    let or_zero = Memo::infallible_in(&graph, "or zero", move |key: u64| async move {
        let mut asked = slow.get(key);
        match poll(&mut asked) {
            Poll::Ready(value) => *value.unwrap(),
            Poll::Pending => 0,
        }
    });
    let over = Memo::infallible_in(&graph, "over", move |key: u64| async move {
        *or_zero.get(key).await.unwrap() + 100
    });
    assert_eq!(*now(over.get(7)).unwrap(), 100);
    assert!(or_zero.cached(&7).is_none() && over.cached(&7).is_none());
    gate.open();
    assert_eq!(*now(over.get(7)).unwrap(), 107, "the answer has come, and nobody changed anything");
    assert!(or_zero.cached(&7).is_some() && over.cached(&7).is_some());
}

#[test]
fn the_first_of_two_answers_is_kept_where_the_other_had_come_too() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let slow = slow(&graph, &gate);
    let quick = Memo::infallible_in(&graph, "quick", |key: u64| async move { key + 1 });
    let first = Memo::infallible_in(&graph, "first", move |key: u64| async move {
        match select(slow.get(key), quick.get(key)).await {
            Either::Left((value, _)) | Either::Right((value, _)) => *value.unwrap(),
        }
    });
    assert_eq!(*now(first.get(7)).unwrap(), 8);
    assert!(first.cached(&7).is_none(), "the slower one would have been the first");
    gate.open();
    assert_eq!(*now(first.get(7)).unwrap(), 7);
    assert!(first.cached(&7).is_some(), "the other was not asked for: it was never polled");
}

#[test]
fn what_is_dropped_unasked_or_after_its_answer_is_no_reason() {
    let (graph, gate) = (Graph::new(), Gate::default());
    gate.open();
    let (slow, runs) = (slow(&graph, &gate), Arc::new(AtomicUsize::new(0)));
    let counted = runs.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let counted = counted.clone();
        async move {
            drop(slow.get(key + 1));
            counted.fetch_add(1, SeqCst);
            let mut asked = slow.get(key);
            assert!(poll(&mut asked).is_ready());
            yield_once().await;
        }
    });
    for _ in 0..3 {
        now(memo.get(7)).unwrap();
    }
    assert_eq!(runs.load(SeqCst), 1);
}

#[test]
fn a_task_on_behalf_of_a_computation_that_gives_up_says_so_for_it() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let slow = slow(&graph, &gate);
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        let task = scope(async move { drop(poll(&mut slow.get(key))) });
        std::thread::spawn(move || now(task)).join().unwrap();
    });
    now(memo.get(7)).unwrap();
    assert!(memo.cached(&7).is_none());
}

#[test]
fn who_gives_up_outside_of_computations_takes_nothing_from_anybody() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let slow = slow(&graph, &gate);
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        *slow.get(key).await.unwrap()
    });
    let (mut patient, mut other) = (memo.get(7), memo.get(7));
    assert!(poll(&mut other).is_pending() && poll(&mut patient).is_pending());
    drop(other);
    gate.open();
    assert_eq!(*now(patient).unwrap(), 7);
    assert!(memo.cached(&7).is_some());
}
