//! Changes that are announced whatever becomes of whoever announces them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use tidewire_memo::{Graph, Memo, Source, batch};

use crate::support::{Wakes, now, poll, poll_with};

struct World {
    rows: Source<u64>,
    fan: Memo<u64, u64>,
    /// Keeps the graph open.
    _graph: Graph,
}

/// Ten values that depend on row 0, one each on rows 1 and 2, and walks of one step.
fn world() -> World {
    let graph = Graph::new();
    graph.set_walk_chunk(1, false);
    let rows = Source::new_in(&graph, "rows");
    let fan = Memo::infallible_in(&graph, "fan", move |key: u64| async move {
        rows.read(&if key < 10 { 0 } else { key - 9 });
        key
    });
    (0..12).for_each(|key| _ = now(fan.get(key)).unwrap());
    World { rows, fan, _graph: graph }
}

impl World {
    fn is_stale(&self, row: u64) -> bool {
        self.fan.cached(&(row + 9)).is_none()
    }
}

#[test]
fn an_asynchronous_change_that_is_dropped_while_it_waits_for_another_walk_is_announced() {
    let world = world();
    let mut first = Box::pin(world.rows.changed_async(&0));
    assert!(poll(&mut first).is_pending(), "its walk is under way");
    let mut second = Box::pin(world.rows.changed_async(&1));
    assert!(poll(&mut second).is_pending(), "it waits for the first one's walk");
    drop(second);
    assert!(world.is_stale(1), "dropping what was begun finishes it");
    drop(first);
}

#[test]
fn a_write_whose_finish_is_dropped_while_it_waits_is_announced() {
    let world = world();
    let mut first = Box::pin(world.rows.changed_async(&0));
    assert!(poll(&mut first).is_pending());
    let mut second = Box::pin(world.rows.write(&1).finish_async());
    assert!(poll(&mut second).is_pending());
    drop(second);
    assert!(world.is_stale(1));
    drop(world.rows.write(&2).finish_async());
    assert!(world.is_stale(2), "a guard whose future was never polled is a guard that is dropped");
    drop(first);
}

#[test]
fn a_batch_whose_closure_panics_announces_what_it_had_collected() {
    let world = world();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        batch(|batch| {
            batch.changed(&world.rows, &1);
            panic!("injected");
        })
    }));
    assert!(panicked.is_err());
    assert!(world.is_stale(1));
    assert!(!world.is_stale(2));
}

/// Equal by number; comparing panics while `PANICS` is set.
#[derive(Clone, Debug)]
struct Touchy(u64);

impl std::hash::Hash for Touchy {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

static PANICS: AtomicBool = AtomicBool::new(false);

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        assert!(!PANICS.load(SeqCst), "injected comparison");
        self.0 == other.0
    }
}

impl Eq for Touchy {}

#[test]
fn a_key_whose_comparison_panics_takes_no_other_change_with_it() {
    let graph = Graph::new();
    let touchy = Source::<Touchy>::new_in(&graph, "touchy");
    let plain = Source::<u64>::new_in(&graph, "plain");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        if key == 0 {
            touchy.read(&Touchy(1));
        } else {
            plain.read(&key);
        }
    });
    for key in 0..3 {
        now(memo.get(key)).unwrap();
    }
    let guard = touchy.write(&Touchy(1)).also(&plain, &1);
    PANICS.store(true, SeqCst);
    let panicked = catch_unwind(AssertUnwindSafe(|| guard.finish()));
    PANICS.store(false, SeqCst);
    assert!(panicked.is_err());
    assert!(memo.cached(&1).is_none(), "the other key of the write was announced");
    assert!(memo.cached(&0).is_none(), "whose comparison panics is taken for changed");
    assert!(memo.cached(&2).is_some());
}

/// A key that can be cloned and hashed so often.
#[derive(Debug, Eq, PartialEq)]
struct Fragile(u64);

thread_local! {
    /// Whether clones, and hashes, of keys panic.
    static BREAKS: std::cell::Cell<(bool, bool)> = const { std::cell::Cell::new((false, false)) };
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(!BREAKS.get().0, "injected clone");
        Self(self.0)
    }
}

impl std::hash::Hash for Fragile {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        assert!(!BREAKS.get().1, "injected hash");
        self.0.hash(state);
    }
}

#[test]
fn a_change_of_a_key_whose_clone_or_hash_panics_is_announced() {
    type Change = fn(Source<Fragile>);
    let changes: [(&str, Change); 6] = [
        ("changed", |rows| _ = rows.changed(&Fragile(1))),
        ("changed_many", |rows| _ = rows.changed_many(&[Fragile(2), Fragile(1)])),
        ("changed_async", |rows| now(rows.changed_async(&Fragile(1)))),
        ("write", |rows| rows.write(&Fragile(1)).finish()),
        ("also", |rows| rows.write_unknown().also(&rows, &Fragile(1)).finish()),
        ("batch", |rows| _ = batch(|batch| batch.changed(&rows, &Fragile(1)))),
    ];
    for (how, change) in changes {
        for breaks in [(true, false), (false, true)] {
            let graph = Graph::new();
            let rows = Source::<Fragile>::new_in(&graph, "rows");
            let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
                rows.read(&Fragile(key));
                key
            });
            now(memo.get(1)).unwrap();
            BREAKS.set(breaks);
            let panicked = catch_unwind(AssertUnwindSafe(|| change(rows)));
            BREAKS.set((false, false));
            assert!(panicked.is_err(), "{how}: the panic is the caller's");
            assert!(memo.cached(&1).is_none(), "{how}: the change is announced");
        }
    }
}

#[test]
fn who_asks_whether_a_change_was_announced_lets_the_change_go_on_that_waits_for_him() {
    static IS_SLOW: AtomicBool = AtomicBool::new(false);
    static IS_COMPARED: AtomicBool = AtomicBool::new(false);
    #[derive(Clone, Debug, Eq)]
    struct Slow(u64);
    impl std::hash::Hash for Slow {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }
    impl PartialEq for Slow {
        fn eq(&self, other: &Self) -> bool {
            while IS_SLOW.load(SeqCst) {
                IS_COMPARED.store(true, SeqCst);
                std::thread::yield_now();
            }
            self.0 == other.0
        }
    }
    let graph = Graph::new();
    let rows = Source::<Slow>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        rows.read(&Slow(key));
        async move { key }
    });
    now(memo.get(1)).unwrap();
    let tick = rows.tick();
    IS_SLOW.store(true, SeqCst);
    let asks = std::thread::spawn(move || rows.changed_since(&Slow(1), tick));
    while !IS_COMPARED.load(SeqCst) {
        std::thread::yield_now();
    }
    let (wakes, other) = (Wakes::new(), Slow(3));
    let mut change = Box::pin(rows.changed_async(&other));
    assert!(poll_with(&mut change, &wakes).is_pending(), "he has the lock");
    IS_SLOW.store(false, SeqCst);
    assert!(!asks.join().unwrap());
    assert!(wakes.count() > 0);
    now(change);
}
