//! Several graphs in one program.

use std::sync::OnceLock;

use tidewire_memo::{Graph, Memo};

use crate::support::now;

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
