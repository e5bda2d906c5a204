//! What an operator does to one entry by its number.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use futures::executor::block_on;
use tidewire_memo::{EntryState, Graph, Memo, Source};

use crate::support::{Gate, poll};

/// A memo over a source, computed once for key 7, and the numbers of both entries.
fn kept(graph: &Graph) -> (Memo<u32, u32>, u64, u64) {
    let rows = Source::new_in(graph, "rows");
    let row = Memo::infallible_in(graph, "row", move |id: u32| async move {
        rows.read(&id);
        id
    });
    block_on(row.get(7)).unwrap();
    let number = |name: &str| graph.entries(name, 0, 1).entries[0].id;
    (row, number("row"), number("rows"))
}

#[test]
fn an_entry_that_is_invalidated_is_computed_again_be_it_a_value_or_what_it_read() {
    let graph = Graph::new();
    let (row, value, source) = kept(&graph);
    let get = || {
        block_on(row.get(7)).unwrap();
        graph.stats().started
    };
    assert_eq!(graph.invalidate(value), Some(0), "nothing depends on it");
    assert_eq!(graph.entry(value).unwrap().entry.state, EntryState::Dirty);
    assert_eq!((get(), get()), (2, 2));
    assert_eq!(graph.invalidate(source), Some(1));
    assert_eq!((get(), get()), (3, 3));
    assert_eq!(graph.invalidate(u64::MAX), None);
    assert_eq!(get(), 3);
}

#[test]
fn an_entry_that_is_evicted_is_gone_and_what_it_was_made_of_may_go_then() {
    let graph = Graph::new();
    let (row, value, source) = kept(&graph);
    assert!(!graph.evict(source), "somebody depends on it");
    assert!(graph.evict(value));
    assert!(graph.entries("row", 0, 1).entries.is_empty());
    assert!(!graph.evict(value), "it is gone");
    assert!(graph.evict(source));
    block_on(row.get(7)).unwrap();
    assert_eq!(graph.stats().started, 2);
}

#[test]
fn hits_are_counted_memo_by_memo_while_that_is_wanted_however_they_are_served() {
    let graph = Graph::new();
    let (row, _, _) = kept(&graph);
    let hits = |name: &str| {
        let owners = graph.owners();
        owners.iter().find(|owner| &*owner.name == name).unwrap().hits
    };
    let read = || {
        block_on(row.get(7)).unwrap();
        row.cached(&7).unwrap();
        row.with(&7, |_| ()).unwrap();
        row.copied(&7).unwrap();
    };
    read();
    assert_eq!(hits("row"), 0, "nobody counts");
    graph.count_hits(true);
    read();
    read();
    assert_eq!(hits("row"), 8);
    block_on(row.get(8)).unwrap();
    assert_eq!(hits("row"), 8, "it was computed");
    let later = Memo::infallible_in(&graph, "later", move |id: u32| async move {
        row.get(id).await.map_or(0, |row| *row)
    });
    block_on(later.get(7)).unwrap();
    block_on(later.get(7)).unwrap();
    assert_eq!((hits("row"), hits("later")), (9, 1), "one that is made meanwhile counts too");
    graph.count_hits(false);
    read();
    assert_eq!(hits("row"), 9, "what was counted stays to be read");
    graph.count_hits(true);
    assert_eq!(hits("row"), 0);
}

#[test]
fn a_source_entry_that_is_invalidated_counts_as_changed_for_what_had_loaded_before() {
    for ranges in [false, true] {
        let (graph, gate) = (Graph::new(), Gate::default());
        let rows = Source::new_in(&graph, "rows");
        let data = Arc::new(AtomicU32::new(1));
        let (load, wait) = (data.clone(), gate.clone());
        let row = Memo::infallible_in(&graph, "row", move |wants_gate: bool| {
            let (load, wait) = (load.clone(), wait.clone());
            async move {
                let loaded = load.load(SeqCst);
                if wants_gate {
                    wait.pass().await;
                }
                match ranges {
                    true => rows.range(0..9_u32),
                    false => rows.read(&7_u32),
                }
                loaded
            }
        });
        block_on(row.get(false)).unwrap();
        let source = graph.entries("rows", 0, 1).entries[0].id;
        let mut get = row.get(true);
        assert!(poll(&mut get).is_pending(), "it has loaded");
        data.store(2, SeqCst);
        assert_eq!(graph.invalidate(source), Some(1));
        gate.open();
        block_on(get).unwrap();
        assert_eq!(*block_on(row.get(true)).unwrap(), 2, "ranges: {ranges}");
    }
}

#[test]
fn a_key_of_a_source_that_is_invalidated_has_changed_for_those_who_read_an_interval_around_it() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let row = Memo::infallible_in(&graph, "row", move |id: u32| async move { rows.read(&id) });
    let page = Memo::infallible_in(&graph, "page", move |()| async move { rows.range(0..9_u32) });
    let far = Memo::infallible_in(&graph, "far", move |()| async move { rows.range(9..20_u32) });
    block_on(row.get(7)).unwrap();
    let key = graph.entries("rows", 0, 1).entries[0].id;
    block_on(async { (page.get(()).await.unwrap(), far.get(()).await.unwrap()) });
    assert_eq!(graph.invalidate(key), Some(2), "the row and the page");
    let is_cached =
        (row.cached(&7).is_some(), page.cached(&()).is_some(), far.cached(&()).is_some());
    assert_eq!(is_cached, (false, false, true));
}

#[test]
fn a_page_of_no_entries_is_one_of_one() {
    let graph = Graph::new();
    let (row, ..) = kept(&graph);
    block_on(row.get(8)).unwrap();
    let (mut found, mut next) = (0, Some(0));
    while let Some(from) = next {
        let page = graph.entries("row", from, 0);
        found += page.entries.len();
        next = page.next;
    }
    assert_eq!(found, 2);
}

#[test]
fn a_key_that_changed_and_left_memory_has_changed_for_what_had_loaded_before() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU32::new(1));
    let (load, wait) = (data.clone(), gate.clone());
    let row = Memo::infallible_in(&graph, "row", move |waits: bool| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            let loaded = load.load(SeqCst);
            if waits {
                wait.pass().await;
            }
            rows.read(&7_u32);
            loaded
        }
    });
    block_on(row.get(false)).unwrap();
    let mut get = row.get(true);
    assert!(poll(&mut get).is_pending(), "it has loaded");
    data.store(2, SeqCst);
    rows.changed(&7);
    row.evict(&false);
    assert!(graph.evict(graph.entries("rows", 0, 1).entries[0].id));
    gate.open();
    block_on(get).unwrap();
    assert_eq!(*block_on(row.get(true)).unwrap(), 2);
}
