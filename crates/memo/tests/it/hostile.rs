//! User code at its worst: it drops the graph that runs it, in every place, and keys hash as they like.

use std::cmp::Ordering as Order;
use std::hash::{Hash, Hasher};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tidewire_memo::{ErrorKind, Graph, Memo, Source};

use crate::support::{Gate, now, poll};

/// User code that the room calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Hash,
    KeyEq,
    KeyOrd,
    KeyClone,
    KeyDrop,
    Call,
    Poll,
    FutureDrop,
    Weigh,
    Fingerprint,
    ValueEq,
    ValueDrop,
    With,
    Batch,
}

use Place as P;

const PLACES: [Place; 14] = [
    P::Hash,
    P::KeyEq,
    P::KeyOrd,
    P::KeyClone,
    P::KeyDrop,
    P::Call,
    P::Poll,
    P::FutureDrop,
    P::Weigh,
    P::Fingerprint,
    P::ValueEq,
    P::ValueDrop,
    P::With,
    P::Batch,
];

/// Drops the last handle of a graph when a place is reached, on whichever thread that is; then it is burnt.
#[derive(Clone, Debug, Default)]
struct Fuse(Arc<Mutex<Option<(Place, Graph)>>>, Arc<AtomicBool>);

impl Fuse {
    fn burn(&self, place: Place) {
        let mut armed = self.0.lock().unwrap();
        let hit = armed.as_ref().is_some_and(|(at, _)| *at == place);
        let graph = if hit { armed.take() } else { None };
        drop(armed);
        drop(graph);
        self.1.fetch_or(hit, SeqCst);
    }
}

#[derive(Debug)]
struct Key(u64, Fuse);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.1.burn(P::Hash);
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.1.burn(P::KeyEq);
        self.0 == other.0
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Order {
        self.1.burn(P::KeyOrd);
        self.0.cmp(&other.0)
    }
}

impl Clone for Key {
    fn clone(&self) -> Self {
        self.1.burn(P::KeyClone);
        Self(self.0, self.1.clone())
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.1.burn(P::KeyDrop);
    }
}

struct Value(Fuse);

impl PartialEq for Value {
    fn eq(&self, _: &Self) -> bool {
        self.0.burn(P::ValueEq);
        false
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.burn(P::ValueDrop);
    }
}

/// Lives as long as a run.
struct Run(Fuse);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.burn(P::FutureDrop);
    }
}

#[test]
fn a_graph_may_be_dropped_by_any_user_code_that_it_runs() {
    for place in PLACES {
        let fuse = Fuse::default();
        let graph = Graph::new();
        let rows = Source::<Key>::new_in(&graph, "rows");
        let (mine, gate) = (fuse.clone(), Gate::default());
        let wait = gate.clone();
        let memo = Memo::infallible_in(&graph, "memo", move |key: Key| {
            let (fuse, wait) = (mine.clone(), wait.clone());
            fuse.burn(P::Call);
            let run = Run(fuse.clone());
            async move {
                let _run = run;
                rows.read(&key);
                rows.range(Key(key.0, fuse.clone())..);
                if key.0 == 9 {
                    wait.pass().await;
                }
                fuse.burn(P::Poll);
                Value(fuse)
            }
        });
        let (weighs, hashes) = (fuse.clone(), fuse.clone());
        let memo = memo
            .weigh(move |_| {
                weighs.burn(P::Weigh);
                8
            })
            .fingerprint(move |_| {
                hashes.burn(P::Fingerprint);
                1
            });
        let key = |number| Key(number, fuse.clone());
        (0..4).for_each(|number| drop(now(memo.get(key(number)))));
        let mut watch = memo.watch(key(2));
        let mut waiting = memo.get(key(9));
        assert!(poll(&mut waiting).is_pending());
        *fuse.0.lock().unwrap() = Some((place, graph));
        // Every way into the graph, until it is gone.
        rows.changed(&key(1));
        tidewire_memo::batch(|batch| {
            batch.changed(&rows, &key(2));
            fuse.burn(P::Batch);
        });
        for number in 0..8 {
            drop(now(memo.get(key(number))));
            memo.with(&key(number), |value| value.0.burn(P::With));
            memo.invalidate(&key(number));
            drop(now(memo.get(key(number))));
            memo.evict(&key(number));
        }
        let _ = poll(&mut StreamExt::next(&mut watch));
        gate.open();
        let _ = poll(&mut waiting);
        drop(waiting);
        let mut rounds = 0;
        while !fuse.1.load(SeqCst) {
            // What was retired is dropped some time later, by whoever retires more.
            (100..700).for_each(|number| {
                drop(now(memo.get(key(number))));
                memo.evict(&key(number));
            });
            rounds += 1;
            assert!(rounds < 100, "{place:?} is never reached");
        }
        let error = now(memo.get(key(1))).err().map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::Closed), "{place:?}");
        assert_eq!(memo.with(&key(1), |_| ()), None, "{place:?}");
    }
}

/// Equal by number; hashes as it likes, differently each time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fickle(u64);

static HASHES: AtomicU64 = AtomicU64::new(0);

impl Hash for Fickle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Now and then the same, so that some keys are found and some are there more than once.
        (self.0 + HASHES.fetch_add(1, SeqCst) / 3 % 4).hash(state);
    }
}

#[test]
fn keys_that_are_equal_and_hash_differently_are_several_entries_and_corrupt_nothing() {
    let graph = Graph::new();
    let rows = Source::<Fickle>::new_in(&graph, "rows");
    let value = Arc::new(());
    let held = value.clone();
    let memo = Memo::no_cutoff_in(&graph, "memo", move |key: Fickle| {
        let held = held.clone();
        async move {
            rows.read(&key);
            Ok::<_, std::convert::Infallible>((key.0, held))
        }
    });
    for round in 0..20_000_u64 {
        let key = Fickle(round % 1_000);
        assert_eq!(now(memo.get(key.clone())).unwrap().0, key.0);
        assert!(memo.cached(&key).is_none_or(|value| value.0 == key.0));
        match round % 7 {
            0 => _ = rows.changed(&key),
            1 => _ = memo.evict(&key),
            2 => _ = memo.invalidate(&key),
            3 => _ = rows.evict(&key),
            _ => {}
        }
    }
    assert!(graph.stats().nodes <= 8_000 + 8_000, "{}", graph.stats().nodes);
    graph.set_budget(0);
    assert_eq!((graph.stats().nodes, graph.stats().bytes), (0, 0), "each is found to be removed");
    drop(graph);
    // Reclamation waits for readers that other tests have pinned.
    while Arc::strong_count(&value) > 1 {
        drop(Graph::new());
        std::thread::yield_now();
    }
}

/// Not even equal to itself.
#[derive(Clone, Debug)]
struct Alien(u64);

impl Hash for Alien {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Alien {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

impl Eq for Alien {}

#[test]
fn keys_that_are_not_equal_to_themselves_are_computed_each_time_and_go_with_the_budget() {
    let graph = Graph::new();
    let rows = Source::<Alien>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: Alien| async move {
        rows.read(&key);
        key.0
    });
    for key in 0..5_000 {
        assert_eq!(*now(memo.get(Alien(key))).unwrap(), key);
        assert_eq!(memo.copied(&Alien(key)), None);
        rows.changed(&Alien(key));
        memo.invalidate(&Alien(key));
    }
    graph.set_budget(0);
    assert_eq!((graph.stats().nodes, graph.stats().bytes), (0, 0));
}

/// Larger than a page in alignment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[repr(align(8192))]
struct Aligned(u64);

#[test]
fn keys_and_values_may_have_any_layout() {
    let graph = Graph::new();
    let nothing = Memo::infallible_in(&graph, "nothing", |(): ()| async {});
    let aligned = Memo::infallible_in(&graph, "aligned", |key: Aligned| async move { key });
    let large = Memo::infallible_in(&graph, "large", |key: [u8; 3]| async move {
        vec![[key[0]; 40_000]; 1].pop().unwrap()
    });
    for round in 0..2_000_u64 {
        now(nothing.get(())).unwrap();
        let value = now(aligned.get(Aligned(round % 50))).unwrap();
        assert_eq!((value.0, std::ptr::from_ref(&*value).addr() % 8192), (round % 50, 0));
        let key = [round as u8, 1, 2];
        assert!(now(large.get(key)).unwrap().iter().all(|&byte| byte == round as u8));
        nothing.evict(&());
        aligned.evict(&Aligned(round * 7 % 50));
        large.evict(&key);
    }
    graph.set_budget(0);
    assert_eq!((graph.stats().nodes, graph.stats().bytes), (0, 0));
}

#[test]
fn whoever_is_lent_a_value_may_use_the_graph_meanwhile() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        vec![key; 4]
    });
    now(memo.get(1)).unwrap();
    let seen = memo.with(&1, |value| {
        for key in 0..1_000 {
            rows.changed(&1);
            memo.evict(&key);
            now(memo.get(key)).unwrap();
        }
        graph.set_budget(0);
        value.clone()
    });
    assert_eq!(seen, Some(vec![1; 4]), "what is lent stays");
}

/// Does one thing after another to a graph, in the wake.
struct Meddler {
    graph: Mutex<Option<Graph>>,
    rows: Source<u64>,
    memo: Memo<u64, u64>,
    next: AtomicU64,
}

impl Wake for Meddler {
    fn wake(self: Arc<Self>) {
        let graph = self.graph.lock().unwrap().clone();
        let Some(graph) = graph else { return };
        match self.next.fetch_add(1, SeqCst) % 10 {
            0 => _ = self.rows.changed(&1),
            1 => _ = self.memo.invalidate(&1),
            2 => _ = self.memo.evict(&1),
            3 => _ = self.memo.force_out(&1),
            4 => graph.set_budget(0),
            5 => drop(graph.advance(Instant::now() + Duration::from_secs(3600))),
            6 => _ = poll(&mut self.memo.get(1)),
            7 => _ = poll(&mut StreamExt::next(&mut self.memo.watch(1))),
            8 => _ = poll(&mut Box::pin(self.rows.changed_async(&1))),
            _ => drop(self.graph.lock().unwrap().take()),
        }
    }
}

#[test]
fn a_waker_may_do_anything_to_the_graph_that_wakes_it() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        crate::support::yield_once().await;
        key
    })
    .ttl(Duration::from_secs(60));
    let meddler =
        Arc::new(Meddler { graph: Mutex::new(Some(graph)), rows, memo, next: AtomicU64::new(0) });
    let waker = Waker::from(meddler.clone());
    let mut context = Context::from_waker(&waker);
    let mut watch = memo.watch(1);
    let mut ended = false;
    for _ in 0..100 {
        while let Poll::Ready(item) = watch.poll_next_unpin(&mut context) {
            ended = item.is_none();
            if ended {
                break;
            }
        }
        let mut get = memo.get(1);
        let _ = std::pin::Pin::new(&mut get).poll(&mut context);
        rows.changed(&1);
        memo.invalidate(&1);
    }
    assert!(ended && meddler.next.load(SeqCst) >= 10, "the last thing is that it drops the graph");
}
