//! Wakers that poll, change and drop at once, on the thread that wakes them.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use futures::StreamExt;
use tidewire_memo::{Graph, Memo, Source};

use crate::support::{Gate, Wakes, now, poll, poll_with, yield_once};

/// Runs a closure in the wake, as an executor that polls inline does.
struct Inline(Mutex<Box<dyn FnMut() + Send>>);

impl Inline {
    fn waker(run: impl FnMut() + Send + 'static) -> Waker {
        Waker::from(Arc::new(Self(Mutex::new(Box::new(run)))))
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        (self.0.lock().unwrap())();
    }
}

#[test]
fn a_watch_whose_waker_changes_a_source_inline_does_not_deadlock() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let mut watch = memo.watch(1);
    now(watch.next()).unwrap().unwrap();
    let woken = Arc::new(AtomicU64::new(0));
    let count = woken.clone();
    let waker = Inline::waker(move || {
        count.fetch_add(1, SeqCst);
        rows.changed(&2);
        now(memo.get(1)).unwrap();
    });
    assert!(watch.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());
    rows.changed(&1);
    assert_eq!(woken.load(SeqCst), 1);
    let mut walk = Box::pin(rows.changed_async(&1));
    assert!(watch.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());
    let mut polls = 0;
    while poll(&mut walk).is_pending() {
        polls += 1;
        assert!(polls < 100);
    }
    assert_eq!(woken.load(SeqCst), 2);
}

#[test]
fn a_task_that_waits_for_another_walk_may_be_woken_inline() {
    let graph = Graph::new();
    graph.set_walk_chunk(1, false);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let fan = Memo::infallible_in(&graph, "fan", move |key: u64| async move {
        rows.read(&0);
        key
    });
    for _ in 0..3 {
        (0..4).for_each(|key| _ = now(fan.get(key)).unwrap());
        let first = Arc::new(Mutex::new(Some(Box::pin(rows.changed_async(&0)))));
        let mut second = Box::pin(rows.changed_async(&1));
        assert!(poll(first.lock().unwrap().as_mut().unwrap()).is_pending());
        let inline = first.clone();
        let waker = Inline::waker(move || {
            if let Ok(mut first) = inline.try_lock() {
                drop(first.take());
                rows.changed(&2);
            }
        });
        while second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {}
        assert!((0..4).all(|key| fan.cached(&key).is_none()));
    }
}

#[test]
fn a_change_that_waits_for_a_walk_on_another_thread_is_woken_when_that_is_over() {
    let graph = Graph::new();
    graph.set_walk_chunk(16, true);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let fan = Memo::infallible_in(&graph, "fan", move |key: u64| async move {
        rows.read(&0);
        key
    });
    let mut waited = false;
    while !waited {
        (0..2000).for_each(|key| _ = now(fan.get(key)).unwrap());
        std::thread::scope(|scope| {
            let walker = scope.spawn(|| rows.changed(&0));
            while !walker.is_finished() {
                let wakes = Wakes::new();
                let mut change = Box::pin(rows.changed_async(&1));
                if poll_with(&mut change, &wakes).is_pending() && wakes.count() == 0 {
                    while wakes.count() == 0 {
                        std::thread::yield_now();
                    }
                    waited = true;
                }
                now(change);
            }
        });
    }
}

#[test]
fn a_caller_whose_waker_asks_the_same_memo_inline_does_not_deadlock() {
    let graph = Graph::new();
    let gate = Gate::default();
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            let waiting = wait.clone();
            waiting.pass().await;
            // Wakes itself while it is being polled, so that the driver is told at the end of the poll.
            yield_once().await;
            key
        }
    });
    let call = Arc::new(Mutex::new(memo.get(1)));
    let inline = call.clone();
    let seen = Arc::new(AtomicU64::new(0));
    let answer = seen.clone();
    let waker = Inline::waker(move || {
        let mut another = memo.get(1);
        let _ = poll(&mut another);
        drop(another);
        if let Ok(mut call) = inline.try_lock()
            && let Poll::Ready(value) = poll(&mut *call)
        {
            answer.store(*value.unwrap(), SeqCst);
        }
    });
    {
        let mut call = call.lock().unwrap();
        let pinned = Pin::new(&mut *call);
        assert!(pinned.poll(&mut Context::from_waker(&waker)).is_pending());
    }
    gate.open();
    if seen.load(SeqCst) == 0 {
        let mut call = call.lock().unwrap();
        assert_eq!(*now(&mut *call).unwrap(), 1);
    }
}

/// What a waker does when it is cloned, once; wakers of it do nothing else.
type OnClone = Box<dyn FnOnce()>;

thread_local! {
    static ON_CLONE: RefCell<Option<OnClone>> = const { RefCell::new(None) };
}

fn on_clone(run: impl FnOnce() + 'static) {
    ON_CLONE.with(|on_clone| *on_clone.borrow_mut() = Some(Box::new(run)));
}

fn take_on_clone() -> Option<OnClone> {
    ON_CLONE.with(|on_clone| on_clone.borrow_mut().take())
}

const CALLS_WHEN_CLONED: &RawWakerVTable = &RawWakerVTable::new(
    |data| {
        take_on_clone().into_iter().for_each(|run| run());
        RawWaker::new(data, CALLS_WHEN_CLONED)
    },
    |_| {},
    |_| {},
    |_| {},
);

#[test]
#[allow(unsafe_code)]
fn a_waker_whose_clone_asks_for_the_same_key_does_not_deadlock() {
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
    // SAFETY: its functions look at no data.
    let waker = unsafe { Waker::new(std::ptr::null(), CALLS_WHEN_CLONED) };
    let mut calls = [memo.get(1), memo.get(1)];
    let asks = move || assert!(poll(&mut memo.get(1)).is_pending() || memo.cached(&1).is_some());
    for call in &mut calls {
        on_clone(asks);
        let pinned = Pin::new(call);
        assert!(pinned.poll(&mut Context::from_waker(&waker)).is_pending());
    }
    on_clone(asks);
    gate.open();
    for call in calls {
        assert_eq!(*now(call).unwrap(), 1);
    }
    // Nobody had a reason to clone it while somebody was told.
    assert!(take_on_clone().is_some());
}

#[test]
fn a_graph_may_be_dropped_in_a_wake() {
    let graph = Arc::new(Mutex::new(Some(Graph::new())));
    let rows = Source::<u64>::new_in(graph.lock().unwrap().as_ref().unwrap(), "rows");
    let memo = Memo::infallible_in(
        graph.lock().unwrap().as_ref().unwrap(),
        "memo",
        move |key: u64| async move {
            rows.read(&key);
            key
        },
    );
    let mut watch = memo.watch(1);
    now(watch.next()).unwrap().unwrap();
    let waker = Inline::waker(move || drop(graph.lock().unwrap().take()));
    assert!(watch.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());
    rows.changed(&1);
    assert!(now(watch.next()).is_none());
}

#[test]
fn forty_thousand_callers_join_one_key_and_leave_it_in_any_order() {
    const CALLERS: usize = 40_000;
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
    let mut calls: Vec<_> = (0..CALLERS).map(|_| memo.get(1)).collect();
    for call in &mut calls {
        assert!(poll(call).is_pending());
    }
    assert_eq!(graph.stats().joined as usize, CALLERS - 1);
    // The first ones and every second one go, the driver among them.
    let mut rest: Vec<_> = calls.into_iter().skip(10).step_by(2).collect();
    gate.open();
    for call in &mut rest {
        assert!(poll(call).is_ready());
    }
    assert_eq!((graph.stats().started, graph.stats().cancelled), (1, 0));
}

#[test]
#[allow(unsafe_code)]
fn a_change_that_comes_while_a_watch_says_whom_to_wake_is_not_missed() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(1));
    let load = data.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let load = load.clone();
        async move {
            rows.read(&key);
            load.load(SeqCst)
        }
    });
    let (mut watch, mut notify) = (memo.watch(1), memo.notify(1));
    assert_eq!(*now(watch.next()).unwrap().unwrap(), 1);
    // SAFETY: its functions look at no data.
    let waker = unsafe { Waker::new(std::ptr::null(), CALLS_WHEN_CLONED) };
    let change = move || {
        data.fetch_add(1, SeqCst);
        rows.changed(&1);
    };
    let twice = change.clone();
    on_clone(change);
    let next = watch.poll_next_unpin(&mut Context::from_waker(&waker));
    let Poll::Ready(Some(Ok(value))) = next else {
        panic!("nobody would wake the watch: {next:?}")
    };
    assert_eq!(*value, 2);
    assert!(notify.poll_next_unpin(&mut Context::from_waker(&waker)).is_ready());
    on_clone(twice);
    let mut other = Context::from_waker(&waker);
    assert!(notify.poll_next_unpin(&mut other).is_ready(), "nobody would wake it");
}

thread_local! {
    /// How many clones and drops of wakers are left before one panics.
    static LEFT: [Cell<u32>; 2] = const { [Cell::new(u32::MAX), Cell::new(u32::MAX)] };
}

fn panic_if_due(which: usize) {
    LEFT.with(|left| {
        let before = left[which].get();
        left[which].set(before.wrapping_sub(1));
        assert_ne!(before, 0, "a waker of {which}");
    });
}

const PANICS: &RawWakerVTable = &RawWakerVTable::new(
    |data| {
        panic_if_due(0);
        RawWaker::new(data, PANICS)
    },
    |_| {},
    |_| {},
    |_| panic_if_due(1),
);

/// Each of two callers polls last, with a waker that panics once in its clone or its drop; it is dropped then.
#[test]
#[allow(unsafe_code)]
fn a_waker_whose_clone_or_drop_panics_leaves_the_others_their_answer() {
    for case in 0..48_usize {
        let (which, panics_first, number) = (case & 1, case & 2 == 0, case as u32 / 4);
        let (graph, gate) = (Graph::new(), Gate::default());
        let wait = gate.clone();
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
            let wait = wait.clone();
            async move {
                yield_once().await;
                wait.pass().await;
                yield_once().await;
                key
            }
        });
        let (mut bad, mut good, wakes) = (memo.get(1), memo.get(1), Wakes::new());
        // SAFETY: its functions look at no data.
        let waker = unsafe { ManuallyDrop::new(Waker::new(std::ptr::null(), PANICS)) };
        LEFT.with(|left| left[which].set(number));
        let mut poll_bad = || {
            let polled = || Pin::new(&mut bad).poll(&mut Context::from_waker(&waker)).is_ready();
            catch_unwind(AssertUnwindSafe(polled)).unwrap_or(true)
        };
        let mut over = panics_first && poll_bad();
        assert!(poll_with(&mut good, &wakes).is_pending());
        over = over || poll_bad();
        let mut seen = 0;
        gate.open();
        over = over || poll_bad();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(bad)));
        LEFT.with(|left| left.iter().for_each(|left| left.set(u32::MAX)));
        // As a runtime does.
        let answer = (0..10).find_map(|_| {
            (wakes.count() > seen).then(|| seen = wakes.count())?;
            match poll_with(&mut good, &wakes) {
                Poll::Ready(value) => Some(*value.unwrap()),
                Poll::Pending => None,
            }
        });
        assert_eq!(answer, Some(1), "{which}, {panics_first}, {number}, {over}");
        assert_eq!(*now(memo.get(1)).unwrap(), 1);
    }
}

#[test]
#[allow(unsafe_code)]
fn who_goes_with_a_waker_whose_drop_panics_leaves_its_turn_to_the_others() {
    let (graph, gate) = (Graph::new(), Gate::default());
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            wait.pass().await;
            key
        }
    });
    // So many are told, and put away.
    let mut idle: Vec<_> = (0..8).map(|_| memo.get(1)).collect();
    idle.iter_mut().for_each(|get| assert!(poll(get).is_pending()));
    let (mut bad, mut good, wakes) = (memo.get(1), memo.get(1), Wakes::new());
    // SAFETY: its functions look at no data.
    let waker = unsafe { ManuallyDrop::new(Waker::new(std::ptr::null(), PANICS)) };
    assert!(Pin::new(&mut bad).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(poll_with(&mut good, &wakes).is_pending());
    gate.open();
    assert_eq!(wakes.count(), 0, "others were told");
    LEFT.with(|left| left[1].set(0));
    let _ = catch_unwind(AssertUnwindSafe(|| drop(bad)));
    LEFT.with(|left| left[1].set(u32::MAX));
    assert!(wakes.count() > 0);
    assert_eq!(*now(good).unwrap(), 1);
}
