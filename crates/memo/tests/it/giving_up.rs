//! Computations that ask for another's answer and do not wait for it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

use futures::future::{Either, select};
use tidewire_memo::{Graph, Memo, Source, scope};

use crate::support::{Gate, Wakes, now, poll, poll_with, yield_once};

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

#[test]
fn who_polls_and_then_neither_polls_again_nor_gives_up_holds_nobody_up() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let slow = slow(&graph, &gate);
    let (mut patient, wakes) = (slow.get(7), Wakes::new());
    assert!(poll_with(&mut patient, &wakes).is_pending());
    let mut put_away: Vec<_> = (0..3).map(|_| slow.get(7)).collect();
    assert!(put_away.iter_mut().all(|get| poll(get).is_pending()));
    gate.open();
    assert!(wakes.count() > 0, "nobody else goes on with it");
    assert_eq!(*now(patient).unwrap(), 7);
    assert!(slow.cached(&7).is_some());
    for get in put_away {
        assert_eq!(*now(get).unwrap(), 7);
    }
}

/// A function that asks `slow`, as `ask` says, and gives 99 when it has no answer; and what reads it.
fn impatient(
    graph: &Graph,
    ask: impl Fn(Memo<u64, u64>, u64) -> Option<u64> + Send + Sync + Copy + 'static,
    slow: Memo<u64, u64>,
) -> Memo<u64, u64> {
    Memo::infallible_in(
        graph,
        "impatient",
        move |key: u64| async move { ask(slow, key).unwrap_or(99) },
    )
}

type Spawned = Pin<Box<dyn Future<Output = u64> + Send>>;
thread_local! {
    /// Where the functions of one test leave what they do not wait for.
    static LEFT: std::cell::RefCell<Vec<Spawned>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn leave(future: impl Future<Output = u64> + Send + 'static) {
    LEFT.with(|left| left.borrow_mut().push(Box::pin(future)));
}

/// A memo that asks and does not wait: its question is left.
fn asker(graph: &Graph, slow: Memo<u64, u64>) -> Memo<u64, u64> {
    Memo::infallible_in(graph, "asker", move |key: u64| async move {
        let mut asked = slow.get(key);
        assert!(poll(&mut asked).is_pending());
        leave(async move { *asked.await.unwrap() });
        key
    })
}

#[test]
fn what_is_made_without_an_answer_is_not_kept_whoever_has_the_question_then() {
    type Ask = fn(Memo<u64, u64>, u64) -> Option<u64>;
    let asks: [(&str, Ask); 5] = [
        ("dropped", |slow, key| {
            let mut asked = slow.get(key);
            match poll(&mut asked) {
                Poll::Ready(value) => Some(*value.unwrap()),
                Poll::Pending => None,
            }
        }),
        ("forgotten", |slow, key| {
            let mut asked = slow.get(key);
            let answer = poll(&mut asked);
            if let Poll::Ready(value) = answer {
                return Some(*value.unwrap());
            }
            std::mem::forget(asked);
            None
        }),
        ("moved out", |slow, key| {
            let mut asked = slow.get(key);
            if let Poll::Ready(value) = poll(&mut asked) {
                return Some(*value.unwrap());
            }
            leave(async move { *asked.await.unwrap() });
            None
        }),
        ("in a task that goes on", |slow, key| {
            let mut task = Box::pin(scope(async move { *slow.get(key).await.unwrap() }));
            if let Poll::Ready(value) = poll(&mut task) {
                return Some(value);
            }
            leave(task);
            None
        }),
        ("in a task that another thread ends", |slow, key| {
            let mut task = Box::pin(scope(async move { *slow.get(key).await.unwrap() }));
            if let Poll::Ready(value) = poll(&mut task) {
                return Some(value);
            }
            std::thread::spawn(move || drop(task)).join().unwrap();
            None
        }),
    ];
    for (how, ask) in asks {
        let (graph, gate) = (Graph::new(), Gate::default());
        let slow = slow(&graph, &gate);
        let memo = impatient(&graph, ask, slow);
        let over = Memo::infallible_in(&graph, "over", move |key: u64| async move {
            *memo.get(key).await.unwrap() + 100
        });
        assert_eq!(*now(over.get(7)).unwrap(), 199, "{how}");
        assert!(memo.cached(&7).is_none() && over.cached(&7).is_none(), "{how}");
        gate.open();
        assert_eq!(*now(over.get(7)).unwrap(), 107, "{how}: the answer has come");
        assert!(memo.cached(&7).is_some() && over.cached(&7).is_some(), "{how}");
        LEFT.with(|left| left.borrow_mut().clear());
    }
}

#[test]
fn a_question_that_somebody_else_drops_is_not_his() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let asker = asker(&graph, slow(&graph, &gate));
    let innocent = Memo::infallible_in(&graph, "innocent", move |key: u64| async move {
        LEFT.with(|left| left.borrow_mut().clear());
        key
    });
    now(asker.get(7)).unwrap();
    now(innocent.get(7)).unwrap();
    assert!(asker.cached(&7).is_none(), "it asked and did not wait");
    assert!(innocent.cached(&7).is_some(), "it asked for nothing");
}

#[test]
fn a_question_that_moves_to_another_computation_is_that_ones() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let asker = asker(&graph, slow(&graph, &gate));
    let heir = Memo::infallible_in(&graph, "heir", move |_: u64| async move {
        let asked = LEFT.with(|left| left.borrow_mut().pop().unwrap());
        asked.await
    });
    now(asker.get(7)).unwrap();
    let mut get = heir.get(1);
    assert!(poll(&mut get).is_pending());
    gate.open();
    assert_eq!(*now(get).unwrap(), 7);
    assert!(heir.cached(&1).is_some(), "it has its answer");
}

#[test]
fn a_question_that_has_moved_and_is_not_waited_for_there_is_given_up_there() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let asker = asker(&graph, slow(&graph, &gate));
    let heir = Memo::infallible_in(&graph, "heir", move |key: u64| async move {
        let mut asked = LEFT.with(|left| left.borrow_mut().pop().unwrap());
        assert!(poll(&mut asked).is_pending());
        leave(asked);
        key
    });
    now(asker.get(7)).unwrap();
    assert_eq!(now(heir.get(1)).unwrap().version(), 0, "it may be made of not having waited");
    LEFT.with(|left| left.borrow_mut().clear());
}

#[test]
fn a_question_that_moves_to_what_it_waits_for_is_a_cycle() {
    for is_of_itself in [true, false] {
        let graph = Graph::new();
        let heir = Memo::infallible_in(&graph, "heir", |_: u64| async move {
            yield_once().await;
            match LEFT.with(|left| left.borrow_mut().pop()) {
                Some(asked) => asked.await,
                None => 0,
            }
        });
        let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
            *heir.get(key).await.unwrap()
        });
        let wanted = if is_of_itself { heir } else { above };
        let asker = Memo::infallible_in(&graph, "asker", move |key: u64| async move {
            let mut asked = wanted.get(key);
            assert!(poll(&mut asked).is_pending());
            leave(async move {
                let error = asked.await.unwrap_err().to_string();
                assert!(error.contains("cycle") && error.contains("heir(7)"), "{error}");
                99
            });
        });
        now(asker.get(7)).unwrap();
        let mut get = heir.get(7);
        let mut polled = (0..100).map(|_| poll(&mut get));
        let value = polled.find_map(|polled| match polled {
            Poll::Ready(value) => Some(*value.unwrap()),
            Poll::Pending => None,
        });
        // After a change in another test, which all graphs share the count of, it may run once more,
        // and has no question then.
        match value {
            None => panic!("it waits for itself (directly: {is_of_itself})"),
            Some(0) => {}
            Some(value) => assert!(value == 99 && heir.cached(&7).is_none(), "{value}"),
        }
    }
}

#[test]
fn what_asks_for_whoever_goes_on_with_its_question_is_a_cycle() {
    let graph = Graph::new();
    let heir = Memo::infallible_in(&graph, "heir", |_: u64| async move {
        match LEFT.with(|left| left.borrow_mut().pop()) {
            Some(asked) => asked.await,
            None => 0,
        }
    });
    let wanted = Memo::infallible_in(&graph, "wanted", move |key: u64| async move {
        yield_once().await;
        match heir.get(key).await {
            Ok(value) => *value,
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("cycle") && error.contains("wanted(7)"), "{error}");
                99
            }
        }
    });
    let asker = Memo::infallible_in(&graph, "asker", move |key: u64| async move {
        let mut asked = wanted.get(key);
        assert!(poll(&mut asked).is_pending());
        leave(async move { *asked.await.unwrap() });
    });
    now(asker.get(7)).unwrap();
    match poll(&mut heir.get(7)) {
        Poll::Pending => panic!("they wait for each other, and neither ends"),
        // As above.
        Poll::Ready(value) => assert!([0, 99].contains(&*value.unwrap())),
    }
}

#[test]
fn looking_for_a_value_in_memory_and_finding_none_is_a_read_of_its_absence() {
    let graph = Graph::new();
    let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key });
    let looks = Memo::infallible_in(&graph, "looks", move |key: u64| async move {
        leaf.copied(&key).unwrap_or(99)
    });
    let asks = Memo::infallible_in(&graph, "asks", move |key: u64| async move {
        match leaf.copied(&key) {
            Some(value) => value,
            None => *leaf.get(key).await.unwrap(),
        }
    });
    assert_eq!(*now(looks.get(7)).unwrap(), 99);
    assert!(looks.cached(&7).is_none(), "nothing tells it when the value comes");
    assert_eq!(*now(asks.get(8)).unwrap(), 8);
    assert!(asks.cached(&8).is_some(), "it has asked for what it did not find");
    now(leaf.get(7)).unwrap();
    assert_eq!(*now(looks.get(7)).unwrap(), 7);
    assert!(looks.cached(&7).is_some());
}

#[test]
fn a_peek_depends_on_what_it_finds_and_not_on_an_absence() {
    let graph = Graph::new();
    let source = Source::<u64>::new_in(&graph, "source");
    let read = source;
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        read.read(&key);
        async move { key }
    });
    let peeks = Memo::infallible_in(&graph, "peeks", move |key: u64| async move {
        leaf.peek(&key).map_or(key, |found| *found)
    });
    assert_eq!(*now(peeks.get(7)).unwrap(), 7);
    assert!(peeks.cached(&7).is_some(), "the answer is the same in another way");
    now(leaf.get(8)).unwrap();
    assert_eq!(*now(peeks.get(8)).unwrap(), 8);
    source.changed(&8);
    assert!(peeks.cached(&8).is_none(), "what it found ended");
    assert!(peeks.cached(&7).is_some());
}

#[test]
fn a_question_that_a_task_asks_and_the_function_waits_for_is_answered() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let slow = slow(&graph, &gate);
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        #[expect(clippy::async_yields_async, reason = "the function awaits what the task asked")]
        let asks = scope(async move {
            let mut asked = slow.get(key);
            assert!(poll(&mut asked).is_pending());
            asked
        });
        *asks.await.await.unwrap()
    });
    let mut asked = memo.get(7);
    assert!(poll(&mut asked).is_pending());
    gate.open();
    assert_eq!(*now(asked).unwrap(), 7);
    assert!(memo.cached(&7).is_some(), "it has waited");
}

#[test]
fn to_ask_for_another_value_does_not_make_good_for_one_that_was_not_found() {
    let graph = Graph::new();
    let leaf = Memo::infallible_in(&graph, "leaf", |key: u64| async move { key });
    let looks = Memo::infallible_in(&graph, "looks", move |key: u64| async move {
        let found = leaf.copied(&key).unwrap_or(99);
        leaf.get(key + 1).await.unwrap();
        found
    });
    assert_eq!(*now(looks.get(7)).unwrap(), 99);
    assert!(looks.cached(&7).is_none(), "nothing tells it when the value comes");
    now(leaf.get(7)).unwrap();
    assert_eq!(*now(looks.get(7)).unwrap(), 7);
    assert!(looks.cached(&7).is_some());
}

#[test]
fn what_a_run_gave_up_that_was_outdated_does_not_count_against_the_next_one() {
    let (graph, gate, end) = (Graph::new(), Gate::default(), Gate::default());
    gate.open();
    let own = Source::<u64>::new_in(&graph, "own");
    let closed = slow(&graph, &Gate::default());
    let (slow, runs, wait) = (slow(&graph, &gate), Arc::new(AtomicUsize::new(0)), end.clone());
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let (run, wait) = (runs.fetch_add(1, SeqCst), wait.clone());
        async move {
            own.read(&key);
            if run == 0 {
                assert!(poll(&mut closed.get(key)).is_pending());
                wait.pass().await;
            }
            slow.get(key).await.unwrap();
            run
        }
    })
    .strict();
    let mut get = memo.get(7);
    assert!(poll(&mut get).is_pending());
    own.changed(&7);
    end.open();
    assert_eq!(*now(get).unwrap(), 1);
    assert!(memo.cached(&7).is_some(), "it has waited for all that it asked for");
}

#[test]
fn what_an_outdated_run_did_not_find_in_memory_is_no_reason_for_the_next_one() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let rows = Source::<u64>::new_in(&graph, "rows");
    let other = Memo::infallible_in(&graph, "other", |key: u64| async move { key + 1 });
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            rows.read(&key);
            let found = other.copied(&key);
            wait.pass().await;
            found
        }
    });
    let mut early = memo.get(1);
    assert!(poll(&mut early).is_pending());
    rows.changed(&1);
    now(other.get(1)).unwrap();
    let mut late = memo.get(1);
    assert!(poll(&mut late).is_pending());
    gate.open();
    assert_eq!(*now(late).unwrap(), Some(2));
    assert!(memo.cached(&1).is_some(), "its run has found what it looked for");
}

#[test]
fn what_asks_for_an_earlier_run_closes_no_cycle_with_the_one_that_goes_on() {
    for by_task in [false, true] {
        let graph = Graph::new();
        let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
        let (above_gate, below_gate) = (Gate::default(), Gate::default());
        let left: Arc<Mutex<Option<Left>>> = Arc::default();
        let (wait, asked) = (below_gate.clone(), cell.clone());
        let below = Memo::new_in(&graph, "below", move |key: u64| {
            let (wait, asked) = (wait.clone(), asked.clone());
            async move {
                wait.pass().await;
                asked.get().unwrap().get(key).await.map(|value| *value)
            }
        });
        let (wait, leaves, runs) = (above_gate.clone(), left.clone(), AtomicU64::new(0));
        let above = Memo::infallible_in(&graph, "above", move |key: u64| {
            let (wait, leaves) = (wait.clone(), leaves.clone());
            let is_first = runs.fetch_add(1, SeqCst) == 0;
            async move {
                if !is_first {
                    wait.pass().await;
                    return 5;
                }
                let mut get = below.get(key);
                let task: Left = if by_task {
                    Box::pin(scope(async move { get.await.map(|value| *value) }))
                } else {
                    poll_fn(|context| {
                        assert!(Pin::new(&mut get).poll(context).is_pending());
                        Poll::Ready(())
                    })
                    .await;
                    Box::pin(async move { get.await.map(|value| *value) })
                };
                *leaves.lock().unwrap() = Some(task);
                0
            }
        });
        cell.set(above).unwrap();
        // The node stays.
        let _notify = above.notify(1);
        assert_eq!(*now(above.get(1)).unwrap(), 0);
        above.invalidate(&1);
        let mut task = left.lock().unwrap().take().unwrap();
        assert!(poll(&mut task).is_pending());
        let mut again = above.get(1);
        assert!(poll(&mut again).is_pending(), "waits for its gate only");
        below_gate.open();
        let polled = poll(&mut task);
        assert!(polled.is_pending(), "by_task={by_task}: {polled:?}");
        above_gate.open();
        assert_eq!(*now(again).unwrap(), 5);
        assert_eq!(now(task).unwrap(), 5);
        assert_eq!(graph.stats().cycles, 0);
    }
}

/// What a run leaves behind.
type Left = Pin<Box<dyn Future<Output = Result<u64, tidewire_memo::Error>> + Send>>;
