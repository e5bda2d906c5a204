//! Notifications and watches where values are early, evicted or errors.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use futures::{FutureExt, StreamExt};
use tidewire_memo::{Graph, Memo, Source};

use crate::support::{Gate, Wakes, now, poll, yield_once};

#[test]
fn a_notification_made_before_a_get_that_is_served_early_rings() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let gate = Gate::default();
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            rows.read(&key);
            wait.pass().await;
            key
        }
    });
    let mut notify = memo.notify(1);
    let mut get = memo.get(1);
    assert!(poll(&mut get).is_pending());
    rows.changed(&1);
    gate.open();
    assert_eq!(now(get).unwrap().version(), 0, "served early, and never published");
    assert_eq!(notify.next().now_or_never(), Some(Some(())), "what was served is stale");
    now(memo.get(1)).unwrap();
    assert!(notify.next().now_or_never().is_none());
    rows.changed(&1);
    assert_eq!(notify.next().now_or_never(), Some(Some(())));
}

#[test]
fn a_notification_rings_also_when_the_attempt_after_the_early_one_is_published() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let gate = Gate::default();
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            rows.read(&key);
            wait.pass().await;
            yield_once().await;
            key
        }
    });
    let mut notify = memo.notify(1);
    let mut early = memo.get(1);
    assert!(poll(&mut early).is_pending());
    rows.changed(&1);
    let mut late = memo.get(1);
    assert!(poll(&mut late).is_pending());
    gate.open();
    // The first attempt ends in the second poll; the next one is under way when that returns.
    let mut answer = poll(&mut early);
    while answer.is_pending() {
        answer = poll(&mut early);
    }
    let std::task::Poll::Ready(Ok(served)) = answer else { unreachable!() };
    assert_eq!(served.version(), 0);
    assert_ne!(now(late).unwrap().version(), 0);
    assert_eq!(notify.next().now_or_never(), Some(Some(())), "the early answer is outdated");
}

#[test]
fn an_error_that_is_not_kept_does_not_ring() {
    let graph = Graph::new();
    let memo = Memo::new_in(&graph, "memo", |_: u64| async move { Err::<u64, _>(std::fmt::Error) });
    let mut notify = memo.notify(1);
    now(memo.get(1)).unwrap_err();
    assert!(notify.next().now_or_never().is_none());
}

#[test]
fn an_answer_that_a_change_outdated_rings_also_when_it_was_made_of_an_error_that_is_not_kept() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let gate = Gate::default();
    let load = data.clone();
    let odd = Memo::new_in(&graph, "odd", move |key: u64| {
        let load = load.clone();
        async move {
            rows.read(&key);
            match load.load(SeqCst) % 2 {
                0 => Err(std::fmt::Error),
                value => Ok(value),
            }
        }
    });
    let (load, wait) = (data.clone(), gate.clone());
    let above = Memo::new_in(&graph, "above", move |key: u64| {
        let (load, wait) = (load.clone(), wait.clone());
        async move {
            rows.read(&key);
            match load.load(SeqCst) % 2 {
                0 => Ok(0),
                _ => {
                    wait.pass().await;
                    odd.get(key).await.map(|value| *value)
                }
            }
        }
    });
    let mut notify = above.notify(1);
    let mut get = above.get(1);
    assert!(poll(&mut get).is_pending());
    data.store(2, SeqCst);
    rows.changed(&1);
    gate.open();
    now(get).unwrap_err();
    assert_eq!(notify.next().now_or_never(), Some(Some(())), "what it was told is a mixture");
    assert_eq!(*now(above.get(1)).unwrap(), 0);
    rows.changed(&1);
    assert_eq!(notify.next().now_or_never(), Some(Some(())));
}

#[test]
fn watches_beyond_the_budget_settle_and_stay_exact() {
    const WATCHES: u64 = 100;
    let graph = Graph::new();
    graph.set_budget(2_000);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        count.fetch_add(1, SeqCst);
        async move {
            rows.read(&key);
            key
        }
    });
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    let mut watches: Vec<_> = (0..WATCHES).map(|key| memo.watch(key)).collect();
    let waker = std::task::Waker::from(Wakes::new());
    let mut yields = 0;
    let mut round = || {
        let mut yielded = 0;
        for watch in &mut watches {
            let mut context = std::task::Context::from_waker(&waker);
            while yielded < 10 * WATCHES && watch.poll_next_unpin(&mut context).is_ready() {
                yielded += 1;
            }
        }
        yielded
    };
    for _ in 0..10 {
        yields += round();
    }
    assert_eq!(yields, WATCHES, "each has yielded its first value, and nothing has changed");
    assert!(runs.load(SeqCst) <= WATCHES * 2, "{} runs", runs.load(SeqCst));
    for key in 0..WATCHES {
        rows.changed(&key);
    }
    assert_eq!(round(), WATCHES, "a change reaches every watch, over the budget or not");
}

#[test]
fn an_early_answer_rings_also_when_nobody_waits_for_the_end() {
    let (graph, runs) = (Graph::new(), Arc::new(AtomicU64::new(0)));
    let (rows, gate) = (Source::<u64>::new_in(&graph, "rows"), Gate::default());
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let is_first = runs.fetch_add(1, SeqCst) == 0;
        async move {
            rows.read(&key);
            if !is_first {
                std::future::pending::<()>().await;
            }
            key
        }
    });
    let wait = gate.clone();
    let above = Memo::infallible_in(&graph, "above", move |key: u64| {
        let wait = wait.clone();
        async move {
            let below = *leaf.get(key).await.unwrap();
            wait.pass().await;
            below
        }
    });
    let mut notify = above.notify(1);
    let mut get = above.get(1);
    assert!(poll(&mut get).is_pending());
    rows.changed(&1);
    gate.open();
    // Whether the leaf has really changed takes long; the only caller does not wait for that.
    assert_eq!(now(get).unwrap().version(), 0);
    assert_eq!(notify.next().now_or_never(), Some(Some(())), "what was served may be stale");
}

#[test]
fn who_is_given_a_value_early_is_notified_also_when_that_very_value_is_published_after_all() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let (first, second) = (Gate::default(), Gate::default());
    let (first_wait, second_wait) = (first.clone(), second.clone());
    let runs = Arc::new(AtomicU64::new(0));
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let (runs, wait) = (runs.clone(), second_wait.clone());
        async move {
            rows.read(&key);
            if runs.fetch_add(1, SeqCst) > 0 {
                wait.pass().await;
            }
            7
        }
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| {
        let wait = first_wait.clone();
        async move {
            let value = *leaf.get(key).await.unwrap();
            wait.pass().await;
            value
        }
    });
    let mut notify = above.notify(1);
    let mut early = above.get(1);
    assert!(poll(&mut early).is_pending());
    rows.changed(&1);
    let mut late = above.get(1);
    assert!(poll(&mut late).is_pending());
    first.open();
    let early = now(early).unwrap();
    assert_eq!((*early, early.version()), (7, 0), "what it is made of is looked at still");
    second.open();
    assert_ne!(now(late).unwrap().version(), 0);
    assert_eq!(notify.next().now_or_never(), Some(Some(())));
    assert!(notify.next().now_or_never().is_none());
}

#[test]
fn what_is_stale_already_and_is_invalidated_is_not_told_again_until_somebody_has_asked_for_it() {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move { rows.read(&key) });
    now(memo.get(1)).unwrap();
    let mut notify = memo.notify(1);
    rows.changed(&1);
    assert_eq!(notify.next().now_or_never(), Some(Some(())));
    for _ in 0..2 {
        memo.invalidate(&1);
        assert!(notify.next().now_or_never().is_none());
    }
    now(memo.get(1)).unwrap();
    memo.invalidate(&1);
    assert_eq!(notify.next().now_or_never(), Some(Some(())));
}
