//! User code that panics where the graph has to go on: drops, weights, hashes, comparisons, wakers.

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Context, Wake, Waker};

use tidewire_memo::{ErrorKind, Graph, Memo, Source};

use crate::support::{Gate, Wakes, now, poll, poll_with};

/// A value whose drop panics, equal to every other one.
#[derive(Debug)]
struct Bomb;

impl PartialEq for Bomb {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("injected drop");
        }
    }
}

#[test]
fn a_value_whose_drop_panics_in_a_rejected_attempt_does_not_wedge_its_key() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let gate = Gate::default();
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            rows.read(&key);
            wait.pass().await;
            Bomb
        }
    });
    let mut early = memo.get(1);
    assert!(poll(&mut early).is_pending());
    rows.changed(&1);
    let mut late = memo.get(1);
    let wakes = Wakes::new();
    assert!(poll_with(&mut late, &wakes).is_pending());
    drop(early);
    gate.open();
    // The value of the first attempt is nobody's; its drop panics, and the second attempt is served.
    std::mem::forget(now(late).unwrap());
    std::mem::forget(now(memo.get(1)).unwrap());
}

#[test]
fn a_value_whose_drop_panics_in_a_cutoff_is_answered_all_the_same() {
    let graph = Graph::new();
    let gate = Gate::default();
    gate.open();
    let memo = Memo::infallible_in(&graph, "memo", |_: u64| async move { Bomb });
    std::mem::forget(now(memo.get(1)).unwrap());
    memo.invalidate(&1);
    let slow = Gate::default();
    let wait = slow.clone();
    let above = Memo::infallible_in(&graph, "above", move |key: u64| {
        let wait = wait.clone();
        async move {
            wait.pass().await;
            std::mem::forget(memo.get(key).await.unwrap());
        }
    });
    let mut first = above.get(1);
    let mut second = above.get(1);
    let wakes = Wakes::new();
    assert!(poll(&mut first).is_pending());
    assert!(poll_with(&mut second, &wakes).is_pending());
    slow.open();
    now(first).unwrap();
    assert!(wakes.count() > 0, "who waits is woken");
    now(second).unwrap();
    assert!(graph.stats().panicked_drops > 0);
}

#[test]
fn a_weight_that_overflows_is_taken_for_the_largest_and_harms_nothing() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
        .weigh(|value| if *value == 1 { usize::MAX } else { 0 });
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
    assert_eq!(*now(memo.get(2)).unwrap(), 2);
    assert!(memo.cached(&1).is_none(), "it is larger than any budget");
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
}

#[test]
fn weights_and_fingerprints_that_panic_are_errors_and_poison_nothing() {
    let graph = Graph::new();
    let weighed = Memo::infallible_in(&graph, "weighed", |key: u64| async move { key })
        .weigh(|value| if *value == 1 { panic!("injected") } else { 0 });
    let hashed = Memo::infallible_in(&graph, "hashed", |key: u64| async move { key })
        .fingerprint(|value| if *value == 1 { panic!("injected") } else { *value });
    for memo in [weighed, hashed] {
        assert_eq!(now(memo.get(1)).unwrap_err().kind(), ErrorKind::Panicked);
        assert_eq!(*now(memo.get(2)).unwrap(), 2);
        assert_eq!(now(memo.get(1)).unwrap_err().kind(), ErrorKind::Panicked);
    }
}

/// A key that panics where and when it is told to.
#[derive(Debug)]
struct Touchy {
    id: u64,
    fuse: Arc<AtomicU64>,
}

const HASH: u64 = 1;
const EQ: u64 = 2;
const CLONE: u64 = 3;
const DROP: u64 = 4;

impl Touchy {
    fn burn(&self, what: u64) {
        assert!(self.fuse.load(SeqCst) != what || std::thread::panicking(), "injected {what}");
    }
}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.burn(HASH);
        self.id.hash(state);
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        self.burn(EQ);
        self.id == other.id
    }
}

impl Eq for Touchy {}

impl PartialOrd for Touchy {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Touchy {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id.cmp(&other.id)
    }
}

impl Clone for Touchy {
    fn clone(&self) -> Self {
        self.burn(CLONE);
        Self { id: self.id, fuse: self.fuse.clone() }
    }
}

impl Drop for Touchy {
    fn drop(&mut self) {
        self.burn(DROP);
    }
}

#[test]
fn a_key_that_panics_anywhere_leaves_the_graph_as_it_was() {
    let fuse = Arc::new(AtomicU64::new(0));
    let key = |id| Touchy { id, fuse: fuse.clone() };
    let graph = Graph::new();
    let rows = Source::<Touchy>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: Touchy| async move {
        rows.read(&key);
        key.id
    });
    for what in [HASH, EQ, CLONE, DROP] {
        now(memo.get(key(1))).unwrap();
        fuse.store(what, SeqCst);
        for id in [1, 2] {
            let _ = catch_unwind(AssertUnwindSafe(|| now(memo.get(key(id))).map(|value| *value)));
            let _ = catch_unwind(AssertUnwindSafe(|| rows.changed(&key(id))));
            let _ = catch_unwind(AssertUnwindSafe(|| memo.evict(&key(id))));
            let _ = catch_unwind(AssertUnwindSafe(|| memo.with(&key(id), |value| *value)));
        }
        fuse.store(0, SeqCst);
        for id in [1, 2] {
            assert_eq!(*now(memo.get(key(id))).unwrap(), id, "after panics of kind {what}");
            rows.changed(&key(id));
            assert!(memo.cached(&key(id)).is_none());
        }
    }
}

/// A key that, dropped, asks for itself once more and panics, the one time it is told to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Parting(u64);

type Asked = Option<(Memo<Parting, u64>, tidewire_memo::Get<Parting, u64>)>;

thread_local! {
    static ASKED: RefCell<Asked> = const { RefCell::new(None) };
}

impl Drop for Parting {
    fn drop(&mut self) {
        let armed = ASKED.with(|asked| asked.take());
        let Some((memo, mut get)) = armed else { return };
        assert!(poll(&mut get).is_pending(), "somebody else is about to poll");
        ASKED.with(|asked| *asked.borrow_mut() = Some((memo, get)));
        panic!("injected drop of {}", self.0);
    }
}

#[test]
fn a_caller_whose_key_panics_before_its_poll_leaves_the_polling_to_who_came_after() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |key: Parting| async move { key.0 });
    // The node keeps a key of its own, which the function is called with, so the one that is dropped is the
    // caller's. With that of a new node the function is called.
    now(memo.get(Parting(1))).unwrap();
    memo.invalidate(&Parting(1));
    let (first, second) = (memo.get(Parting(1)), memo.get(Parting(1)));
    ASKED.with(|asked| *asked.borrow_mut() = Some((memo, second)));
    assert!(catch_unwind(AssertUnwindSafe(|| now(first))).is_err());
    let (_, mut second) = ASKED.with(|asked| asked.take()).unwrap();
    assert!(poll(&mut second).is_ready(), "it waits for a poll that never comes");
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("injected waker");
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_asleep() {
    let graph = Graph::new();
    let gate = Gate::default();
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            wait.pass().await;
            key
        }
    });
    let mut calls: Vec<_> = (0..4).map(|_| memo.get(1)).collect();
    let wakes = Wakes::new();
    let bad = Waker::from(Arc::new(Panics));
    assert!(poll(&mut calls[0]).is_pending());
    let pinned = std::pin::Pin::new(&mut calls[1]);
    assert!(pinned.poll(&mut Context::from_waker(&bad)).is_pending());
    assert!(poll_with(&mut calls[2], &wakes).is_pending());
    let others = Wakes::new();
    assert!(poll_with(&mut calls[3], &others).is_pending());
    gate.open();
    for call in calls {
        assert_eq!(*now(call).unwrap(), 1);
    }
    assert!(wakes.count() > 0 && others.count() > 0);
}

#[test]
fn what_is_made_after_a_read_whose_key_panics_is_not_kept() {
    let graph = Graph::new();
    let rows = Source::<Touchy>::new_in(&graph, "rows");
    for (what, is_range) in [(HASH, false), (CLONE, false), (CLONE, true)] {
        let memo = Memo::infallible_in(&graph, &format!("memo {what}"), move |id: u64| {
            let key = Touchy { id, fuse: Arc::new(AtomicU64::new(what)) };
            let read = catch_unwind(AssertUnwindSafe(|| match is_range {
                true => rows.range(&key..),
                false => rows.read(&key),
            }));
            async move { read.is_err() }
        });
        assert!(*now(memo.get(1)).unwrap(), "{what}");
        assert!(memo.cached(&1).is_none(), "{what}: nothing would say that it changed");
    }
}

/// A key whose drop panics when it is told so.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Fuse(u64);

static BLOWS: AtomicBool = AtomicBool::new(false);

impl Drop for Fuse {
    fn drop(&mut self) {
        assert!(!BLOWS.swap(false, SeqCst), "injected drop");
    }
}

#[test]
fn a_key_of_an_interval_that_panics_while_its_graph_is_closed_leaves_nothing_open() {
    let graph = Graph::new();
    let rows = Source::<Fuse>::new_in(&graph, "rows");
    let page = Memo::infallible_in(&graph, "page", move |key: u64| async move {
        rows.range(Fuse(0)..Fuse(9));
        key
    });
    now(page.get(1)).unwrap();
    BLOWS.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(graph))).is_ok());
    assert!(!BLOWS.load(SeqCst), "the key was dropped");
    assert!(page.cached(&1).is_none());
    assert_eq!(now(page.get(1)).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_panic_of_what_the_holder_of_a_write_asks_for_is_over_when_it_was_answered() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let panics = Arc::new(AtomicBool::new(true));
    let is_wrong = panics.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let is_wrong = is_wrong.clone();
        async move {
            rows.read(&key);
            assert!(!is_wrong.load(SeqCst), "injected");
            key
        }
    });
    let write = rows.write(&1);
    for _ in 0..2 {
        assert_eq!(now(memo.get(1)).unwrap_err().kind(), ErrorKind::Panicked);
    }
    panics.store(false, SeqCst);
    assert_eq!(*now(memo.get(1)).unwrap(), 1);
    write.finish();
}

/// A key whose comparison panics when it is asked for so often. One a thousand further has the same hash.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragile(u64);

impl Hash for Fragile {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.0 % 1000).hash(hasher);
    }
}

thread_local! {
    /// Comparisons until one panics; 0 for none.
    static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

impl PartialOrd for Fragile {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fragile {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let left = COMPARISONS.get();
        COMPARISONS.set(left.saturating_sub(1));
        assert!(left != 1, "injected comparison");
        self.0.cmp(&other.0)
    }
}

/// A table of which so many intervals were read; the next one was added while a comparison panicked.
struct Broken {
    rows: Source<Fragile>,
    page: Memo<u64, u64>,
    pages: u64,
    _graph: Graph,
}

impl Broken {
    /// One for each comparison of which it makes a difference whether it panics. Something happens before.
    fn each(what: impl Fn(&Graph, Source<Fragile>)) -> impl Iterator<Item = Self> {
        (2..40).flat_map(move |pages| {
            let what = &what;
            let all: Vec<_> = (1..).map_while(|at| Self::after(pages, at, what)).collect();
            all
        })
    }

    /// `None` when so many comparisons are not made.
    fn after(pages: u64, comparisons: u64, what: &dyn Fn(&Graph, Source<Fragile>)) -> Option<Self> {
        let graph = Graph::new();
        let rows = Source::<Fragile>::new_in(&graph, "rows");
        let page = Memo::infallible_in(&graph, "page", move |page: u64| async move {
            let (low, high) = Self::bounds(page);
            rows.range(Fragile(low)..Fragile(high));
            page
        });
        (0..pages).for_each(|number| drop(now(page.get(number)).unwrap()));
        what(&graph, rows);
        COMPARISONS.set(comparisons);
        let added = now(page.get(pages));
        COMPARISONS.set(0);
        added.is_err().then_some(Self { rows, page, pages, _graph: graph })
    }

    fn bounds(page: u64) -> (u64, u64) {
        let low = page * 17 % 40;
        (low, low + 1 + page % 5 * 4)
    }

    /// The pages that show a key.
    fn with(&self, key: u64) -> impl Iterator<Item = u64> {
        let shows = move |&page: &u64| (Self::bounds(page).0..Self::bounds(page).1).contains(&key);
        (0..self.pages).filter(shows)
    }
}

#[test]
fn a_comparison_that_panics_while_an_interval_is_added_hides_no_change_from_who_read_others() {
    for broken in Broken::each(|_, _| ()) {
        for key in 0..56 {
            broken.rows.changed(&Fragile(key));
            broken.with(key).for_each(|page| {
                assert!(broken.page.cached(&page).is_none(), "page {page} shows {key}");
            });
        }
    }
}

#[test]
fn a_write_holds_who_reads_its_key_although_a_comparison_panicked_before() {
    for (number, broken) in (0..).zip(Broken::each(|_, _| ())) {
        let (rows, key) = (broken.rows, number * 7 % 56);
        (0..broken.pages).for_each(|page| _ = broken.page.invalidate(&page));
        let guard = std::thread::spawn(move || rows.write(&Fragile(key))).join().unwrap();
        broken.with(key).for_each(|page| {
            assert!(poll(&mut broken.page.get(page)).is_pending(), "page {page} shows {key}");
        });
        guard.finish();
    }
}

#[test]
fn a_write_of_a_key_that_panics_holds_every_key() {
    let graph = Graph::new();
    let rows = Source::<Fragile>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        match key {
            0 => rows.range(Fragile(10)..Fragile(20)),
            key => rows.read(&Fragile(key)),
        }
        key
    });
    now(memo.get(0)).unwrap();
    memo.invalidate(&0);
    let write = move || {
        COMPARISONS.set(1);
        let guard = rows.write(&Fragile(15));
        COMPARISONS.set(0);
        guard
    };
    let guard = std::thread::spawn(write).join().unwrap();
    for key in [0, 1, 15] {
        assert!(poll(&mut memo.get(key)).is_pending(), "{key}");
    }
    guard.finish();
    assert!(poll(&mut memo.get(0)).is_ready());
}

#[test]
fn a_change_is_none_of_an_interval_that_a_panic_has_hidden_for_a_key_that_shares_its_place() {
    for key in [4, 13, 22, 31] {
        let tick = Cell::new(0);
        // What is known of the one, which nobody has read, is what is known of the other.
        let what = |_: &Graph, rows: Source<Fragile>| {
            tick.set(rows.tick());
            rows.changed(&Fragile(1000 + key));
        };
        for pages in 2..40 {
            for broken in (1..).map_while(|at| Broken::after(pages, at, &what)) {
                let is_shown = broken.with(key).any(|page| broken.page.cached(&page).is_some());
                assert_eq!(is_shown, broken.with(key).next().is_some(), "nobody has said that");
                assert!(!is_shown || !broken.rows.changed_since(&Fragile(key), tick.get()));
            }
        }
    }
}

/// A key whose code panics where it is told to.
#[derive(Debug)]
struct Trap(u64);

thread_local!(static TRAP: Cell<&'static str> = const { Cell::new("") });

fn spring(place: &'static str) {
    assert!(TRAP.get() != place || std::thread::panicking(), "{place}");
}

impl Clone for Trap {
    fn clone(&self) -> Self {
        spring("clone");
        Self(self.0)
    }
}

impl PartialEq for Trap {
    fn eq(&self, other: &Self) -> bool {
        spring("eq");
        self.0 == other.0
    }
}

impl Eq for Trap {}

impl Hash for Trap {
    fn hash<H: Hasher>(&self, state: &mut H) {
        spring("hash");
        self.0.hash(state);
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        spring("drop");
    }
}

#[test]
fn what_a_function_makes_after_the_key_of_what_it_asks_for_has_panicked_is_not_kept() {
    type Ask = fn(Memo<Trap, u64>);
    let asks: [(&str, Ask); 4] = [
        ("get", |rows| _ = poll(&mut rows.get(Trap(1)))),
        ("cached", |rows| drop(rows.cached(&Trap(1)))),
        ("peek", |rows| drop(rows.peek(&Trap(1)))),
        ("copied", |rows| _ = rows.copied(&Trap(1))),
    ];
    for place in ["clone", "eq", "hash", "drop"] {
        // The others are lent their key, and do not drop it.
        let asks = asks.into_iter().filter(|(name, _)| place != "drop" || *name == "get");
        for (name, ask) in asks {
            for is_known in [false, true] {
                let graph = Graph::new();
                let (data, rows) = (Arc::new(AtomicU64::new(0)), Source::new_in(&graph, "data"));
                let (read, panicked) = (data.clone(), Arc::new(AtomicBool::new(false)));
                let row = Memo::infallible_in(&graph, "row", move |key: Trap| {
                    rows.read(&key.0);
                    let value = read.load(SeqCst);
                    async move { value }
                });
                let (read, seen) = (data.clone(), panicked.clone());
                let page = Memo::infallible_in(&graph, "page", move |_: u64| {
                    TRAP.set(place);
                    let asked = catch_unwind(AssertUnwindSafe(|| ask(row)));
                    TRAP.set("");
                    seen.store(asked.is_err(), SeqCst);
                    let value = read.load(SeqCst);
                    async move { value }
                });
                if is_known {
                    now(row.get(Trap(1))).unwrap();
                }
                assert_eq!(*now(page.get(1)).unwrap(), 0);
                let said = format!("{place} {name} {is_known}");
                assert!(!panicked.load(SeqCst) || page.cached(&1).is_none(), "{said}");
                data.store(1, SeqCst);
                rows.changed(&1);
                if panicked.load(SeqCst) {
                    assert_eq!(*now(page.get(1)).unwrap(), 1, "{said}");
                }
            }
        }
    }
}

#[test]
fn a_watch_whose_key_has_panicked_tells_of_what_comes_after() {
    for place in ["clone", "eq", "hash", "drop"] {
        for is_begun in [false, true] {
            let graph = Graph::new();
            let (data, rows) = (Arc::new(AtomicU64::new(0)), Source::<u64>::new_in(&graph, "rows"));
            let read = data.clone();
            let memo = Memo::infallible_in(&graph, "memo", move |key: Trap| {
                rows.read(&key.0);
                let value = read.load(SeqCst);
                async move { value }
            });
            let mut values = memo.watch(Trap(1));
            if is_begun {
                assert_eq!(*now(values.next()).unwrap().unwrap(), 0);
                rows.changed(&1);
            }
            TRAP.set(place);
            let asked = catch_unwind(AssertUnwindSafe(|| drop(poll(&mut Box::pin(values.next())))));
            TRAP.set("");
            data.store(1, SeqCst);
            rows.changed(&1);
            let said = format!("{place}, begun: {is_begun}, panicked: {}", asked.is_err());
            assert_eq!(*now(values.next()).unwrap().unwrap(), 1, "{said}");
        }
    }
}

#[test]
fn a_panic_of_a_run_that_a_change_has_overtaken_is_of_who_asked_before_it() {
    for strict in [false, true] {
        let (graph, gate) = (Graph::new(), Gate::default());
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (data, wait) = (Arc::new(AtomicU64::new(0)), gate.clone());
        let load = data.clone();
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
            let (load, wait) = (load.clone(), wait.clone());
            async move {
                rows.read(&key);
                let value = load.load(SeqCst);
                wait.pass().await;
                assert_ne!(value, 0, "a row that is not there yet");
                value
            }
        });
        let memo = if strict { memo.strict() } else { memo };
        let mut before = memo.get(1);
        assert!(poll(&mut before).is_pending());
        data.store(1, SeqCst);
        rows.changed(&1);
        let mut after = memo.get(1);
        assert!(poll(&mut after).is_pending());
        gate.open();
        let before = now(before);
        assert!(
            before.map_or_else(|error| error.kind() == ErrorKind::Panicked, |value| *value == 1)
        );
        assert_eq!(*now(after).unwrap(), 1);
        assert_eq!((graph.stats().panicked, graph.stats().started), (1, 2));
        assert!(memo.cached(&1).is_some());
    }
}
