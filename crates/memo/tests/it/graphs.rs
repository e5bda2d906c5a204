//! Several graphs in one program.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock};

use tidewire_memo::{Graph, Memo, Source};

use crate::support::{Gate, now, poll};

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
