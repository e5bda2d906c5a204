//! Small helpers of the tests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};

use tidewire_memo::{Event, EventKind, Graph};

/// Runs a future that never has to wait for anything outside.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    futures::executor::block_on(future)
}

/// Polls once.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A waker that counts.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Polls once with a counting waker.
pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    let waker = Waker::from(wakes.clone());
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

/// Returns `Pending` once, and wakes at once.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(move |context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What was logged since the last call, without hits, joins and marks.
pub(crate) fn work(graph: &Graph) -> Vec<String> {
    let skip = [EventKind::Hit, EventKind::Joined, EventKind::Marked];
    let events = graph.take_events().into_iter().filter(|event| !skip.contains(&event.kind));
    events.map(|event| event.to_string()).collect()
}

/// What was logged of one kind since the last call.
pub(crate) fn logged(graph: &Graph, kind: EventKind) -> Vec<String> {
    let events: Vec<Event> = graph.take_events();
    events.iter().filter(|e| e.kind == kind).map(ToString::to_string).collect()
}

/// A gate that a memoized function waits at.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<std::sync::Mutex<GateState>>);

#[derive(Default)]
struct GateState {
    open: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    pub(crate) fn open(&self) {
        let waiting = {
            let mut state = self.0.lock().unwrap();
            state.open = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) async fn pass(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.open {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// Runs the test of this name in a process of its own, unless this is it. What other tests do shows in some: their
/// changes, though of other graphs, are later than who asked first.
pub(crate) fn is_started_alone(name: &str) -> bool {
    let is_it = std::env::var_os("MEMO_ALONE").is_some();
    if !is_it {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let done = child.args(["--exact", name, "--nocapture"]).env("MEMO_ALONE", "1").output();
        let done = done.unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
    }
    !is_it
}
