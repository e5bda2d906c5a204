//! Functions that ask for themselves, and those that only seem to.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

use futures::future::BoxFuture;
use tidewire_memo::{Ambient, Error, ErrorKind, Graph, Memo, Source, scope};

use crate::support::{Gate, Wakes, now, poll, poll_with, yield_once};

#[test]
fn a_function_that_calls_itself_gets_an_error_that_names_the_cycle() {
    let graph = Graph::new();
    let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let this = cell.clone();
    let memo = Memo::new_in(&graph, "ring", move |key: u64| {
        let this = this.clone();
        async move { Ok::<_, Error>(*this.get().unwrap().get((key + 1) % 3).await? + 1) }
    });
    cell.set(memo).unwrap();
    let error = now(memo.get(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    let cause = error.downcast_ref::<Error>().unwrap();
    assert!(
        error.to_string().contains("cycle: ring(0) -> ring(1) -> ring(2) -> ring(0)"),
        "{error}"
    );
    assert_eq!(graph.stats().cycles, 1);
    assert_eq!(graph.stats().nodes, 0, "a cycle is never memoized");
    let _ = cause;
}

#[test]
fn a_cycle_that_spans_tasks_is_an_error_and_never_a_hang() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let graph = Graph::new();
    let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let this = cell.clone();
    let memo = Memo::new_in(&graph, "ring", move |key: u64| {
        let this = this.clone();
        async move {
            yield_once().await;
            let (a, b) = futures::join!(
                this.get().unwrap().get((key + 1) % 3),
                this.get().unwrap().get((key + 1) % 3)
            );
            Ok::<_, Error>(*a? + *b?)
        }
    });
    cell.set(memo).unwrap();
    let answers = runtime.block_on(async {
        let tasks: Vec<_> = (0..3).map(|key| tokio::spawn(memo.get(key))).collect();
        futures::future::join_all(tasks).await
    });
    for answer in answers {
        let error = answer.unwrap().unwrap_err();
        assert!(error.to_string().contains("cycle: "), "{error}");
    }
    assert!(graph.stats().cycles >= 1);
}

#[test]
fn what_is_made_of_a_cycle_is_not_kept_although_the_error_was_swallowed() {
    let graph = Graph::new();
    let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let asked = cell.clone();
    let below = Memo::infallible_in(&graph, "below", move |key: u64| {
        let asked = asked.clone();
        async move { asked.get().unwrap().get(key).await.map_or(100, |value| *value) }
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        below.get(key).await.map_or(7, |value| *value + 1)
    });
    cell.set(above).unwrap();
    assert_eq!(*now(above.get(1)).unwrap(), 101);
    assert!(below.cached(&1).is_none(), "asked alone it answers something else");
    assert_eq!(*now(below.get(1)).unwrap(), 7);
}

#[test]
fn what_a_computation_no_longer_waits_for_may_wait_for_it() {
    let graph = Graph::new();
    let (first, second) = (Gate::default(), Gate::default());
    let (wait_first, wait_second) = (first.clone(), second.clone());
    let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let asked = cell.clone();
    let child = Memo::infallible_in(&graph, "child", move |key: u64| {
        let (wait, asked) = (wait_first.clone(), asked.clone());
        async move {
            wait.pass().await;
            *asked.get().unwrap().get(key).await.unwrap() + 1
        }
    });
    let parent = Memo::infallible_in(&graph, "parent", move |key: u64| {
        let wait = wait_second.clone();
        async move {
            let mut call = child.get(key);
            assert!(poll(&mut call).is_pending());
            drop(call);
            wait.pass().await;
            key
        }
    });
    cell.set(parent).unwrap();
    // Somebody changes something else all the time.
    let elsewhere = Source::<u64>::new_in(&Graph::new(), "elsewhere");
    let (mut outer, mut inner) = (child.get(1), parent.get(1));
    assert!(poll(&mut outer).is_pending());
    elsewhere.changed(&1);
    assert!(poll(&mut inner).is_pending());
    elsewhere.changed(&1);
    first.open();
    assert!(poll(&mut outer).is_pending(), "the child asks for the parent now");
    second.open();
    assert_eq!((*now(inner).unwrap(), *now(outer).unwrap()), (1, 2));
    assert_eq!(graph.stats().cycles, 0);
}

#[test]
fn a_cycle_is_found_through_whichever_of_its_callers_a_computation_waits_for() {
    for asked in 0..3 {
        let (graph, gate) = (Graph::new(), Gate::default());
        let callers: Arc<OnceLock<Vec<Memo<u64, String>>>> = Arc::default();
        let (known, wait) = (callers.clone(), gate.clone());
        let below = Memo::infallible_in(&graph, "below", move |key: u64| {
            let (known, wait) = (known.clone(), wait.clone());
            async move {
                wait.pass().await;
                let answer = known.get().unwrap()[asked].get(key).await;
                answer.map_or_else(|error| error.to_string(), |_| "no cycle".to_owned())
            }
        });
        let caller = |name: &str| {
            Memo::infallible_in(&graph, name, move |key: u64| async move {
                below.get(key).await.map_or_else(|error| error.to_string(), |text| (*text).clone())
            })
        };
        let all: Vec<_> = ["first", "second", "third"].map(caller).into();
        callers.set(all.clone()).unwrap();
        let mut gets: Vec<_> = all.iter().map(|caller| caller.get(1)).collect();
        assert!(gets.iter_mut().all(|get| poll(get).is_pending()));
        gate.open();
        let Poll::Ready(text) = poll(&mut gets[0]) else { panic!("it waits for itself") };
        let text = text.unwrap();
        assert!(text.starts_with("cycle: ") && text.contains(all[asked].name()), "{}", *text);
    }
}

/// What is asked for `a` before a change that turns an edge round, and for `b` after it.
#[test]
fn a_change_that_turns_an_edge_round_is_no_cycle_while_a_run_of_before_waits() {
    for case in 0..8 {
        let [late_polls_first, a_is_strict, b_is_strict] = [1, 2, 4].map(|bit| case & bit != 0);
        let graph = Graph::new();
        let edges = Source::<u64>::new_in(&graph, "edges");
        let (turned, gate) = (Arc::new(AtomicBool::new(false)), Gate::default());
        let other: Arc<OnceLock<Memo<u64, String>>> = Arc::default();
        let (is_turned, below) = (turned.clone(), other.clone());
        let a = Memo::new_in(&graph, "a", move |key: u64| {
            let (is_turned, below) = (is_turned.clone(), below.clone());
            async move {
                edges.read(&key);
                if is_turned.load(SeqCst) {
                    return Ok("a".to_owned());
                }
                below.get().unwrap().get(key).await.map(|below| format!("a of {}", *below))
            }
        });
        let a = if a_is_strict { a.strict() } else { a };
        let (is_turned, wait) = (turned.clone(), gate.clone());
        let b = Memo::new_in(&graph, "b", move |key: u64| {
            let (is_turned, wait) = (is_turned.clone(), wait.clone());
            async move {
                edges.read(&key);
                if is_turned.load(SeqCst) {
                    return a.get(key).await.map(|below| format!("b of {}", *below));
                }
                wait.pass().await;
                Ok("b".to_owned())
            }
        });
        let b = if b_is_strict { b.strict() } else { b };
        other.set(b).unwrap();
        let mut calls = [(a.get(1), Wakes::new(), None), (b.get(1), Wakes::new(), None)];
        assert!(poll_with(&mut calls[0].0, &calls[0].1).is_pending());
        turned.store(true, SeqCst);
        edges.changed(&1);
        assert!(poll_with(&mut calls[1].0, &calls[1].1).is_pending());
        let mut polled = calls.each_ref().map(|(_, wakes, _)| wakes.count());
        gate.open();
        let order = if late_polls_first { [1, 0] } else { [0, 1] };
        for at in order.repeat(5) {
            let (call, wakes, answer) = &mut calls[at];
            // As a runtime does.
            if answer.is_none() && wakes.count() > polled[at] {
                polled[at] = wakes.count();
                if let Poll::Ready(value) = poll_with(call, wakes) {
                    *answer = Some(value.unwrap());
                }
            }
        }
        let answers = calls.map(|(_, _, answer)| answer.map(|value| (*value).clone()));
        let [Some(before), Some(after)] = answers else { panic!("{case}: {answers:?}") };
        assert!(["a", "a of b"].contains(&before.as_str()), "{before}");
        assert_eq!(after, "b of a");
        assert_eq!(graph.stats().cycles, 0);
        assert!(b.cached(&1).is_some(), "it is kept");
    }
}

#[test]
fn a_watch_inside_of_what_it_waits_for_is_a_cycle_although_it_had_an_early_answer() {
    let graph = Graph::new();
    let edges = Source::<u64>::new_in(&graph, "edges");
    let (turned, gates) = (Arc::new(AtomicBool::new(false)), [Gate::default(), Gate::default()]);
    let above: Arc<OnceLock<Memo<u64, String>>> = Arc::default();
    let (is_turned, asks, waits) = (turned.clone(), above.clone(), gates.clone());
    let runs = AtomicU64::new(0);
    let below = Memo::new_in(&graph, "below", move |key: u64| {
        let (is_turned, asks) = (is_turned.load(SeqCst), asks.clone());
        let wait = waits[runs.fetch_add(1, SeqCst).min(1) as usize].clone();
        async move {
            edges.read(&key);
            if is_turned {
                return asks.get().unwrap().get(key).await.map(|above| (*above).clone());
            }
            wait.pass().await;
            Ok("below".to_owned())
        }
    });
    let mut watch = below.watch(1);
    let mut next = Box::pin(watch.next());
    assert!(poll(&mut next).is_pending());
    edges.changed(&1);
    gates[0].open();
    let Poll::Ready(Some(Ok(early))) = poll(&mut next) else { panic!("it waits") };
    assert_eq!(early.version(), 0);
    drop(next);
    let watch = Arc::new(futures::lock::Mutex::new(watch));
    above
        .set(Memo::new_in(&graph, "above", move |_: u64| {
            let watch = watch.clone();
            async move { watch.lock().await.next().await.expect("open").map(|value| (*value).clone()) }
        }))
        .unwrap();
    let mut before = above.get().unwrap().get(1);
    // A watch lets others run before it asks for what is not kept.
    (0..2).for_each(|_| assert!(poll(&mut before).is_pending()));
    turned.store(true, SeqCst);
    edges.changed(&1);
    let mut after = below.get(1);
    assert!(poll(&mut after).is_pending());
    gates[1].open();
    let Poll::Ready(Err(error)) = poll(&mut after) else { panic!("it waits, or has an answer") };
    assert!(error.to_string().contains("cycle: "), "{error}");
}

#[test]
fn a_question_that_moves_to_what_it_waits_for_is_no_cycle_once_it_has_an_early_answer() {
    let graph = Graph::new();
    let edges = Source::<u64>::new_in(&graph, "edges");
    let (turned, gate) = (Arc::new(AtomicBool::new(false)), Gate::default());
    let heir: Arc<OnceLock<Memo<u64, String>>> = Arc::default();
    let (is_turned, asks, wait) = (turned.clone(), heir.clone(), gate.clone());
    let below = Memo::new_in(&graph, "below", move |key: u64| {
        let (is_turned, asks, wait) = (is_turned.load(SeqCst), asks.clone(), wait.clone());
        async move {
            edges.read(&key);
            if is_turned {
                return asks.get().unwrap().get(key).await.map(|heir| format!("of {}", *heir));
            }
            wait.pass().await;
            Ok("below".to_owned())
        }
    });
    let mut moves = below.get(1);
    assert!(poll(&mut moves).is_pending());
    let moved = Arc::new(Mutex::new(Some(moves)));
    heir.set(Memo::new_in(&graph, "heir", move |_: u64| {
        let moved = moved.lock().unwrap().take();
        async move { moved.expect("runs once").await.map(|below| format!("heir of {}", *below)) }
    }))
    .unwrap();
    turned.store(true, SeqCst);
    edges.changed(&1);
    let mut after = below.get(1);
    assert!(poll(&mut after).is_pending());
    gate.open();
    assert_eq!(*now(after).unwrap(), "of heir of below");
    assert_eq!(graph.stats().cycles, 0);
}

/// `a` reads `b` while the number is even, and `b` reads `a` while it is odd.
#[test]
fn an_edge_that_is_turned_round_twice_is_no_cycle_while_the_runs_of_before_wait() {
    let graph = Graph::new();
    let edges = Source::<u64>::new_in(&graph, "edges");
    let (number, gate) = (Arc::new(AtomicU64::new(0)), Gate::default());
    let both: Arc<OnceLock<[Memo<u64, u64>; 2]>> = Arc::default();
    let make = |name: &str, parity: u64| {
        let (number, gate, both) = (number.clone(), gate.clone(), both.clone());
        Memo::new_in(&graph, name, move |key: u64| {
            let (number, gate, both) = (number.clone(), gate.clone(), both.clone());
            async move {
                edges.read(&key);
                let mut sum = number.load(SeqCst);
                if sum % 2 == parity {
                    sum += *both.get().unwrap()[1 - parity as usize].get(key).await?;
                }
                if parity == 0 {
                    gate.pass().await;
                }
                Ok::<_, Error>(sum)
            }
        })
    };
    let [a, b] = [make("a", 0), make("b", 1)];
    both.set([a, b]).unwrap();
    let mut first = a.get(1);
    assert!(poll(&mut first).is_pending(), "it has read b, and waits at the gate");
    number.store(1, SeqCst);
    edges.changed(&1);
    let mut second = b.get(1);
    assert!(poll(&mut second).is_pending(), "it reads a");
    number.store(2, SeqCst);
    edges.changed(&1);
    gate.open();
    assert_eq!(*now(a.get(1)).unwrap(), 4);
    for get in [first, second] {
        now(get).unwrap();
    }
    assert_eq!(graph.stats().cycles, 0);
}

#[test]
fn what_asks_for_itself_is_told_so_whatever_changes_meanwhile() {
    for (changes, expected) in [("nothing", 1), ("itself", 1), ("others", 17)] {
        let graph = Graph::new();
        let other = Source::<u64>::new_in(&graph, "other");
        let (cell, runs): (Arc<OnceLock<Memo<u64, u64>>>, _) =
            (Arc::default(), Arc::new(AtomicU64::new(0)));
        let (itself, count) = (cell.clone(), runs.clone());
        let memo = Memo::new_in(&graph, "memo", move |key: u64| {
            let itself = itself.clone();
            count.fetch_add(1, SeqCst);
            async move {
                match changes {
                    "itself" => _ = other.changed(&key),
                    "others" => _ = std::thread::spawn(move || other.changed(&key)).join(),
                    _ => {}
                }
                itself.get().unwrap().get(key).await.map(|value| *value)
            }
        });
        cell.set(memo).unwrap();
        let error = now(memo.get(1)).unwrap_err();
        assert!(error.to_string().contains("cycle: memo(1) -> memo(1)"), "{error}");
        assert_eq!(runs.load(SeqCst), expected, "{changes}");
    }
}

#[test]
fn who_drives_a_run_that_is_overtaken_is_woken_although_it_was_polled_a_moment_before() {
    let graph = Graph::new();
    let edges = Source::<u64>::new_in(&graph, "edges");
    let (turned, gate) = (Arc::new(AtomicBool::new(false)), Gate::default());
    let other: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let (is_turned, below) = (turned.clone(), other.clone());
    let a = Memo::new_in(&graph, "a", move |key: u64| {
        let (is_turned, below) = (is_turned.clone(), below.clone());
        async move {
            edges.read(&key);
            if is_turned.load(SeqCst) {
                return Ok(1);
            }
            below.get().unwrap().get(key).await.map(|value| *value)
        }
    });
    let before = Arc::new(Mutex::new((a.get(1), Wakes::new())));
    let (is_turned, wait, polls) = (turned.clone(), gate.clone(), before.clone());
    let b = Memo::new_in(&graph, "b", move |key: u64| {
        let (is_turned, wait, polls) = (is_turned.clone(), wait.clone(), polls.clone());
        async move {
            edges.read(&key);
            if is_turned.load(SeqCst) {
                let elsewhere = std::thread::spawn(move || {
                    let (before, wakes) = &mut *polls.lock().unwrap();
                    assert!(poll_with(before, wakes).is_pending(), "it waits for who polls b");
                });
                elsewhere.join().unwrap();
                return a.get(key).await.map(|value| *value);
            }
            wait.pass().await;
            Ok(0)
        }
    })
    .strict();
    other.set(b).unwrap();
    {
        let (before, wakes) = &mut *before.lock().unwrap();
        assert!(poll_with(before, wakes).is_pending());
    }
    turned.store(true, SeqCst);
    edges.changed(&1);
    gate.open();
    let mut after = b.get(1);
    let woken = before.lock().unwrap().1.count();
    let Poll::Ready(Ok(after)) = poll(&mut after) else { panic!("it waits") };
    let (before, wakes) = &mut *before.lock().unwrap();
    assert!(wakes.count() > woken);
    let Poll::Ready(Ok(value)) = poll_with(before, wakes) else { panic!("it waits") };
    assert_eq!((*value, *after), (1, 1));
}

#[test]
fn a_cycle_through_a_task_that_another_function_awaits_is_an_error() {
    let graph = Graph::new();
    let task = Arc::<Mutex<Option<BoxFuture<'static, ErrorKind>>>>::default();
    let (spawn, take) = (task.clone(), task);
    let second = Arc::<OnceLock<Memo<u64, u64>>>::default();
    let asked = second.clone();
    let first = Memo::infallible_in(&graph, "first", move |key: u64| {
        let second = *asked.get().unwrap();
        let task = scope(async move { second.get(key).await.unwrap_err().kind() });
        *spawn.lock().unwrap() = Some(Box::pin(task));
        std::future::pending()
    });
    let memo = Memo::infallible_in(&graph, "second", move |key: u64| {
        let task = take.lock().unwrap().take().unwrap();
        async move {
            assert_eq!(task.await, ErrorKind::Cycle);
            key
        }
    });
    second.set(memo).unwrap();
    let mut spawns = first.get(1);
    assert!(poll::<tidewire_memo::Get<u64, u64>>(&mut spawns).is_pending());
    let Poll::Ready(answer) = poll(&mut memo.get(1)) else { panic!("it waits for itself") };
    assert_eq!(*answer.unwrap(), 1);
}

#[test]
fn a_task_that_another_function_gave_up_asks_for_its_own_again() {
    let graph = Graph::new();
    let task = Arc::<Mutex<Option<BoxFuture<'static, ErrorKind>>>>::default();
    let (spawn, lend) = (task.clone(), task.clone());
    let first = Arc::<OnceLock<Memo<u64, u64>>>::default();
    let asked = first.clone();
    let memo = Memo::infallible_in(&graph, "first", move |key: u64| {
        let first = *asked.get().unwrap();
        let task = scope(async move {
            yield_once().await;
            first.get(key).await.unwrap_err().kind()
        });
        *spawn.lock().unwrap() = Some(Box::pin(task));
        std::future::pending()
    });
    first.set(memo).unwrap();
    let second = Memo::infallible_in(&graph, "second", move |key: u64| {
        assert!(poll(lend.lock().unwrap().as_mut().unwrap()).is_pending());
        async move { key }
    });
    let mut runs = memo.get(1);
    assert!(poll::<tidewire_memo::Get<u64, u64>>(&mut runs).is_pending());
    now(second.get(1)).unwrap();
    let answer = poll(task.lock().unwrap().as_mut().unwrap());
    assert_eq!(answer, Poll::Ready(ErrorKind::Cycle), "its function waits for it");
}

#[test]
fn a_task_that_waits_for_a_function_which_then_awaits_the_task_is_a_cycle() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let task = Arc::<Mutex<Option<BoxFuture<'static, ErrorKind>>>>::default();
    let (spawn, take, pass) = (task.clone(), task.clone(), gate.clone());
    let second = Memo::infallible_in(&graph, "second", move |key: u64| {
        let (take, pass) = (take.clone(), pass.clone());
        async move {
            pass.pass().await;
            let task = take.lock().unwrap().take().unwrap();
            assert_eq!(task.await, ErrorKind::Cycle);
            key
        }
    });
    let asked = second;
    let first = Memo::infallible_in(&graph, "first", move |key: u64| {
        let second = asked;
        let task = scope(async move { second.get(key).await.unwrap_err().kind() });
        *spawn.lock().unwrap() = Some(Box::pin(task));
        std::future::pending()
    });
    let (mut waits, mut spawns) = (second.get(1), first.get(1));
    assert!(poll(&mut waits).is_pending());
    assert!(poll::<tidewire_memo::Get<u64, u64>>(&mut spawns).is_pending());
    assert!(poll(task.lock().unwrap().as_mut().unwrap()).is_pending());
    gate.open();
    let Poll::Ready(answer) = poll(&mut waits) else { panic!("it waits for itself") };
    assert_eq!(*answer.unwrap(), 1);
}

/// Two values, of which one asks for the other: the one that the data names, which both read first.
fn turning(graph: &Graph, direction: Source<u64>) -> (Memo<u64, u64>, Arc<AtomicU64>) {
    let (data, this) = (Arc::<AtomicU64>::default(), Arc::<OnceLock<Memo<u64, u64>>>::default());
    let (load, asks) = (data.clone(), this.clone());
    let memo = Memo::new_in(graph, "memo", move |key: u64| {
        let (load, asks) = (load.clone(), asks.clone());
        async move {
            direction.read(&1);
            let asking = load.load(SeqCst);
            yield_once().await;
            let other = asks.get().unwrap();
            Ok::<_, Error>(if asking == key { *other.get(1 - key).await? + 1 } else { 10 })
        }
    });
    this.set(memo).unwrap();
    (memo, data)
}

#[test]
fn an_edge_that_a_write_turns_round_is_no_cycle_before_it_is_announced_either() {
    let graph = Graph::new();
    let direction = Source::<u64>::new_in(&graph, "direction");
    let (memo, data) = turning(&graph, direction);
    let mut first = memo.get(0);
    assert!(poll(&mut first).is_pending(), "it has read that it asks the second");
    let write = direction.write(&1);
    data.store(1, SeqCst);
    let reader = std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            // Somebody else than who writes.
            let mut second = memo.get(1);
            let mut polls = 0;
            while polls < 10 {
                assert!(poll(&mut second).is_pending(), "it is held until the write is announced");
                assert!(poll(&mut first).is_pending());
                polls += 1;
            }
            second
        });
        reads.join().unwrap()
    });
    write.finish();
    assert_eq!((*now(first).unwrap(), *now(reader).unwrap()), (10, 11));
}

#[test]
fn a_value_that_is_looked_at_in_the_order_of_before_a_write_is_no_cycle() {
    for first in [0, 1] {
        let graph = Graph::new();
        let direction = Source::<u64>::new_in(&graph, "direction");
        let rows = Source::<u64>::new_in(&graph, "rows");
        let data = Arc::new(AtomicU64::new(0));
        let (load, this) = (data.clone(), Arc::<OnceLock<Memo<u64, u64>>>::default());
        let runs = Arc::<AtomicU64>::default();
        let (asks, count) = (this.clone(), runs.clone());
        let memo = Memo::new_in(&graph, "memo", move |key: u64| {
            let (load, asks) = (load.clone(), asks.clone());
            count.fetch_add(1, SeqCst);
            async move {
                rows.read(&key);
                let asking = load.load(SeqCst);
                let other = asks.get().unwrap();
                let value = if asking == key { *other.get(1 - key).await? + 1 } else { 10 };
                direction.read(&1);
                Ok::<_, Error>(value)
            }
        });
        this.set(memo).unwrap();
        assert_eq!((*now(memo.get(0)).unwrap(), *now(memo.get(1)).unwrap()), (11, 10));
        rows.changed(&1);
        let write = now(Ambient::new(1).scope(async { direction.write(&1) }));
        data.store(1, SeqCst);
        let ask = |key| Box::pin(Ambient::new(2 + key).scope(memo.get(key)));
        let (mut one, mut other) = (ask(first), ask(1 - first));
        assert!(poll(&mut one).is_pending() && poll(&mut other).is_pending(), "they are held");
        write.finish();
        let answers = (*now(one).unwrap(), *now(other).unwrap());
        assert_eq!(answers, if first == 0 { (10, 11) } else { (11, 10) });
        assert!(runs.load(SeqCst) <= 5, "two before, and three since: {runs:?}");
    }
}

#[test]
fn a_cycle_before_a_write_takes_no_turns_that_are_wanted_after_it() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let is_ring = Arc::new(AtomicBool::new(true));
    let (load, this) = (is_ring.clone(), Arc::<OnceLock<Memo<u64, u64>>>::default());
    let asks = this.clone();
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let (load, other) = (load.clone(), *asks.get().unwrap());
        async move {
            if key > 0 {
                rows.read(&0);
            }
            let ends = key == 1 && !load.load(SeqCst);
            Ok::<_, Error>(if ends { 5 } else { *other.get((key + 1) % 3).await? })
        }
    });
    this.set(memo).unwrap();
    let ask = |number: u64, key| Box::pin(Ambient::new(number).scope(memo.get(key)));
    let write = now(Ambient::new(1).scope(async { rows.write(&0) }));
    let mut early = ask(2, 0);
    assert!(poll(&mut early).is_pending(), "it is held, with a ring that is there");
    is_ring.store(false, SeqCst);
    write.finish();
    assert_eq!(*now(ask(3, 2)).unwrap(), 5);
    assert_eq!(*now(early).unwrap(), 5);
}

#[test]
fn a_cycle_that_a_change_makes_is_told_of_after_three_runs() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let is_cyclic = Arc::<AtomicBool>::default();
    let (load, this) = (is_cyclic.clone(), Arc::<OnceLock<Memo<u64, u64>>>::default());
    let runs = Arc::<AtomicU64>::default();
    let (asks, count) = (this.clone(), runs.clone());
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let (load, other) = (load.clone(), *asks.get().unwrap());
        count.fetch_add(1, SeqCst);
        async move {
            rows.read(&key);
            let asks = key == 0 || load.load(SeqCst);
            Ok::<_, Error>(if asks { *other.get(1 - key).await? + 1 } else { 10 })
        }
    });
    this.set(memo).unwrap();
    assert_eq!(*now(memo.get(0)).unwrap(), 11);
    is_cyclic.store(true, SeqCst);
    rows.changed(&1);
    let before = runs.load(SeqCst);
    assert!(now(memo.get(0)).unwrap_err().to_string().contains("cycle: "));
    assert_eq!(runs.load(SeqCst), before + 3, "one went with the look at the first");
}

#[test]
fn an_edge_that_is_turned_round_while_its_source_is_suspended_is_no_cycle() {
    let graph = Graph::new();
    let direction = Source::<u64>::new_in(&graph, "direction");
    let (memo, data) = turning(&graph, direction);
    let suspension = direction.suspend();
    let (mut first, mut second) = (memo.get(0), memo.get(1));
    assert!(poll(&mut first).is_pending(), "it has read that it asks the second");
    data.store(1, SeqCst);
    assert!(poll(&mut second).is_pending(), "it has read that it asks the first");
    let answers = now(futures::future::join(first, second));
    assert_eq!((*answers.0.unwrap(), *answers.1.unwrap()), (10, 11));
    drop(suspension);
    assert_eq!((*now(memo.get(0)).unwrap(), *now(memo.get(1)).unwrap()), (10, 11));
}

#[test]
fn a_cycle_while_a_source_is_suspended_is_told_of() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let this = Arc::<OnceLock<Memo<u64, u64>>>::default();
    let asks = this.clone();
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let other = *asks.get().unwrap();
        async move {
            rows.read(&key);
            other.get(1 - key).await.map(|value| *value)
        }
    });
    this.set(memo).unwrap();
    let suspension = rows.suspend();
    assert!(now(memo.get(0)).unwrap_err().to_string().contains("cycle: memo(0) -> memo(1)"));
    drop(suspension);
}

/// What functions have spawned.
type Tasks = Arc<Mutex<Vec<BoxFuture<'static, ()>>>>;

/// Asks for a value in a `scope`d task, and awaits that.
async fn asked_in_a_task(memo: Memo<u64, u64>, key: u64, tasks: &Tasks) -> Result<u64, Error> {
    let (send, receive) = futures::channel::oneshot::channel();
    let task = scope(async move { send.send(memo.get(key).await).map_or((), drop) });
    tasks.lock().unwrap().push(Box::pin(task));
    receive.await.expect("the task is polled").map(|value| *value)
}

/// The error of a call that is polled in turn with what is spawned, of which nothing is left.
fn error_of<T>(mut call: impl Future<Output = Result<T, Error>> + Unpin, tasks: &Tasks) -> Error {
    let mut answer = None;
    for _ in 0..1_000 {
        if answer.is_none()
            && let Poll::Ready(ready) = poll(&mut call)
        {
            answer = Some(ready.err().unwrap());
        }
        let mut spawned = std::mem::take(&mut *tasks.lock().unwrap());
        spawned.retain_mut(|task| poll(task).is_pending());
        tasks.lock().unwrap().extend(spawned);
    }
    assert!(tasks.lock().unwrap().is_empty(), "{} tasks are left", tasks.lock().unwrap().len());
    answer.unwrap()
}

#[test]
fn a_cycle_whose_functions_ask_for_what_changes_itself_is_told_of_and_leaves_nothing_running() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
        rows.read(&key);
        yield_once().await;
        rows.changed(&key);
        key
    });
    let (tasks, this) = (Tasks::default(), Arc::<OnceLock<Memo<u64, u64>>>::default());
    let runs = Arc::<AtomicU64>::default();
    let (spawn, asks, count) = (tasks.clone(), this.clone(), runs.clone());
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let (spawn, other) = (spawn.clone(), *asks.get().unwrap());
        count.fetch_add(1, SeqCst);
        async move {
            match key {
                0 => other.get(1).await.map(|value| *value),
                1 => {
                    leaf.get(3).await?;
                    other.get(2).await.map(|value| *value)
                }
                _ => asked_in_a_task(other, 0, &spawn).await,
            }
        }
    });
    this.set(memo).unwrap();
    let error = error_of(memo.get(0), &tasks);
    assert!(error.to_string().contains("cycle: memo(0) -> memo(1) -> memo(2) -> memo(0)"));
    assert!(runs.load(SeqCst) < 200, "{} runs", runs.load(SeqCst));
}

#[test]
fn a_cycle_beside_a_read_of_what_changes_itself_is_told_of_and_leaves_nothing_running() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let changing = Memo::infallible_in(&graph, "changing", move |key: u64| async move {
        rows.changed(&key);
        rows.read(&key);
        key
    });
    let (tasks, this) = (Tasks::default(), Arc::<OnceLock<Memo<u64, u64>>>::default());
    let runs = Arc::<AtomicU64>::default();
    let (spawn, asks, count) = (tasks.clone(), this.clone(), runs.clone());
    let memo = Memo::new_in(&graph, "memo", move |key: u64| {
        let (spawn, other) = (spawn.clone(), *asks.get().unwrap());
        count.fetch_add(1, SeqCst);
        async move {
            if key == 0 {
                // Both are asked before either has answered.
                let (other, changing) = futures::join!(other.get(1), changing.get(3));
                return Ok::<_, Error>(*other? + *changing?);
            }
            asked_in_a_task(other, 0, &spawn).await
        }
    });
    this.set(memo).unwrap();
    let error = error_of(memo.get(0), &tasks);
    assert!(error.to_string().contains("cycle: memo(0) -> memo(1) -> memo(0)"), "{error}");
    assert!(runs.load(SeqCst) < 20, "{} runs", runs.load(SeqCst));
}

#[test]
fn an_edge_that_a_change_of_another_graph_turns_round_is_no_cycle() {
    let (graph, elsewhere) = (Graph::new(), Graph::new());
    let direction = Source::<u64>::new_in(&elsewhere, "direction");
    let (memo, data) = turning(&graph, direction);
    let mut first = memo.get(0);
    for _ in 0..2 {
        assert!(poll(&mut first).is_pending(), "it asks the second, which has not answered");
    }
    data.store(1, SeqCst);
    direction.changed(&1);
    let second = memo.get(1);
    assert_eq!((*now(second).unwrap(), *now(first).unwrap()), (11, 10));
}
