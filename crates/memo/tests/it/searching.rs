//! What happens while a table is searched: keys with one hash are compared by user code, and whatever that
//! does comes between the search and the lock.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use tidewire_memo::{Graph, Memo, Source};

use crate::support::{Gate, now, poll};

/// All have the same hash, so a search compares it with those that are there.
#[derive(Clone, Debug, Eq)]
struct Crowded(u64);

/// What a comparison does, and how many come before it.
type Hook = (u32, Box<dyn FnOnce()>);

thread_local! {
    static NEXT: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static LEAF: RefCell<Option<Memo<u64, u64>>> = const { RefCell::new(None) };
}

impl PartialEq for Crowded {
    fn eq(&self, other: &Self) -> bool {
        let now = NEXT.with(|next| {
            next.borrow_mut()
                .take_if(|(before, _)| before.checked_sub(1).map(|n| *before = n).is_none())
        });
        now.into_iter().for_each(|(_, now)| now());
        self.0 == other.0
    }
}

impl Hash for Crowded {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(7);
    }
}

fn when_compared(before: u32, next: impl FnOnce() + 'static) {
    NEXT.with(|place| *place.borrow_mut() = Some((before, Box::new(next))));
}

/// A search for a key that is not there passes a place that is free again, then compares with the key 0.
fn leave_room(rows: Source<Crowded>, leaf: Memo<u64, u64>) {
    now(leaf.get(9)).unwrap();
    now(leaf.get(0)).unwrap();
    assert!(leaf.evict(&9) && rows.evict(&Crowded(9)));
}

#[test]
fn a_source_key_that_two_computations_read_for_the_first_time_at_once_is_one() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let load = load.clone();
        async move {
            if key == 1 && load.load(SeqCst) == 1 {
                // Another thread reads the same key while this one looks for it, before it adds it.
                let memo = LEAF.with(|leaf| *leaf.borrow()).unwrap();
                when_compared(1, move || {
                    std::thread::spawn(move || now(memo.get(2)).unwrap()).join().unwrap();
                });
            }
            rows.read(&Crowded(if key == 2 { 1 } else { key }));
            load.load(SeqCst)
        }
    });
    LEAF.with(|place| *place.borrow_mut() = Some(leaf));
    leave_room(rows, leaf);
    assert_eq!((*now(leaf.get(1)).unwrap(), leaf.copied(&2)), (1, Some(1)));
    data.store(5, SeqCst);
    rows.changed(&Crowded(1));
    assert_eq!((*now(leaf.get(1)).unwrap(), *now(leaf.get(2)).unwrap()), (5, 5));
}

#[test]
fn a_read_that_is_declared_while_its_change_looks_for_it_is_found() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let (data, gate) = (Arc::new(AtomicU64::new(1)), Gate::default());
    let (load, wait) = (data.clone(), gate.clone());
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            let value = load.load(SeqCst);
            if key == 1 {
                wait.pass().await;
            }
            rows.read(&Crowded(key));
            value
        }
    });
    leave_room(rows, leaf);
    let mut get = leaf.get(1);
    assert!(poll(&mut get).is_pending());
    data.store(5, SeqCst);
    when_compared(0, move || {
        gate.open();
        assert_eq!(*now(get).unwrap(), 1, "what it had loaded before the change");
    });
    rows.changed(&Crowded(1));
    assert_eq!(*now(leaf.get(1)).unwrap(), 5);
}
