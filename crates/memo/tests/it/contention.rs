//! Who drives a computation for others is answered all the same.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tidewire_memo::{Get, Graph, Memo, Source};

use crate::support::{now, poll};

/// A memo during each of whose first runs the data changes, and somebody else asks.
struct Contended {
    _graph: Graph,
    memo: Memo<u64, u64>,
    runs: Arc<AtomicUsize>,
    others: Arc<Mutex<Vec<Get<u64, u64>>>>,
}

impl Contended {
    fn new(disturbed: usize, is_strict: bool) -> Self {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let (runs, others) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<_>>>::default());
        let this = Arc::<std::sync::OnceLock<Memo<u64, u64>>>::default();
        let (memo, count, asked) = (this.clone(), runs.clone(), others.clone());
        let contended = Memo::infallible_in(&graph, "contended", move |key: u64| {
            let run = count.fetch_add(1, SeqCst) + 1;
            let memo = *memo.get().unwrap();
            let asked = asked.clone();
            async move {
                rows.read(&key);
                let ask = move || {
                    rows.changed(&key);
                    let mut other = memo.get(key);
                    assert!(poll(&mut other).is_pending());
                    asked.lock().unwrap().push(other);
                };
                if run <= disturbed {
                    std::thread::spawn(ask).join().unwrap();
                }
                run as u64
            }
        });
        let contended = if is_strict { contended.strict() } else { contended };
        this.set(contended).unwrap();
        Self { _graph: graph, memo: contended, runs, others }
    }
}

#[test]
fn a_caller_is_answered_after_17_runs_although_in_each_the_data_changes_and_somebody_joins() {
    for is_strict in [false, true] {
        let world = Contended::new(1_000, is_strict);
        let Poll::Ready(Ok(value)) = poll(&mut world.memo.get(1)) else { panic!("it waits") };
        assert_eq!(world.runs.load(SeqCst), 17, "16 in a row were for others");
        assert_eq!(value.version(), 0);
        assert_eq!(*value, 17);
    }
}

#[test]
fn those_who_joined_go_on_where_a_caller_has_left_and_are_all_answered() {
    for is_strict in [false, true] {
        let world = Contended::new(50, is_strict);
        assert!(poll(&mut world.memo.get(1)).is_ready());
        for number in 0..50 {
            let other = world.others.lock().unwrap().remove(0);
            let value = now(other).unwrap();
            assert!(*value > number + 1, "no older than the question");
        }
        assert_eq!(*now(world.memo.get(1)).unwrap(), 51, "the first undisturbed run is kept");
        assert_eq!(world.runs.load(SeqCst), 51);
    }
}
