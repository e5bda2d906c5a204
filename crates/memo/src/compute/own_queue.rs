//! A run for one caller where the stack is too deep for it: the outermost `get` on the thread polls it from a
//! fresh one, as it does computations; see [`crate::memory::depth`].

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::compute::own_run::{OwnAnswer, Run};
use crate::compute::own_runs::{self, Inside, Running};
use crate::graph::ambient::Ambient;
use crate::memory::depth::{self, Deferred, Level};
use crate::memory::sync::Mutex;
use crate::memory::wake::{self, quietly};

/// See the module documentation.
pub(crate) struct QueuedRun<V: 'static> {
    /// Of the caller.
    ambient: Ambient,
    state: Mutex<State<V>>,
}

struct State<V: 'static> {
    /// With the runs around it; taken out while it is polled, and when it is over.
    run: Option<(Box<Run<V>>, Running)>,
    answer: Option<OwnAnswer<V>>,
    caller: Option<Waker>,
    /// Wants to be polled.
    is_due: bool,
    is_given_up: bool,
}

impl<V: Send + Sync + 'static> QueuedRun<V> {
    pub(crate) fn new(run: Box<Run<V>>) -> Arc<Self> {
        let state = State {
            run: Some((run, own_runs::running())),
            answer: None,
            caller: None,
            is_due: true,
            is_given_up: false,
        };
        Arc::new(Self { ambient: Ambient::current(), state: Mutex::new(state) })
    }

    /// What came out; else the run is polled, here or soon, and the caller is told.
    pub(crate) fn poll(self: &Arc<Self>, context: &Context<'_>) -> Poll<OwnAnswer<V>> {
        let level = Level::enter();
        // Cloned and dropped outside of the lock: both may be user code.
        let waker = context.waker().clone();
        let mut state = self.state.lock();
        if let Some(answer) = state.answer.take() {
            return Poll::Ready(answer);
        }
        let old = state.caller.replace(waker);
        let is_due = state.is_due;
        drop(state);
        quietly(|| drop(old));
        match level {
            _ if !is_due => return Poll::Pending,
            None => {
                depth::defer(Box::new(self.clone()));
                return Poll::Pending;
            }
            Some(level) => {
                // Its caller may have moved to where the stack is not deep.
                Box::new(self.clone()).drive();
                level.drain();
            }
        }
        self.state.lock().answer.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<V> QueuedRun<V> {
    /// The caller goes away.
    pub(crate) fn give_up(&self) {
        let (run, caller) = {
            let mut state = self.state.lock();
            state.is_given_up = true;
            (state.run.take(), state.caller.take())
        };
        drop(run);
        quietly(|| drop(caller));
    }
}

impl<V: Send + Sync + 'static> Deferred for Arc<QueuedRun<V>> {
    fn drive(self: Box<Self>) {
        let (mut run, mut around) = {
            let mut state = self.state.lock();
            if !std::mem::take(&mut state.is_due) {
                return;
            }
            let Some(run) = state.run.take() else { return };
            run
        };
        let polled = {
            let _ambient = self.ambient.enter_from_elsewhere();
            let _inside = Inside::new(&mut around);
            run.poll(&mut Context::from_waker(&Waker::from((*self).clone())))
        };
        let is_over = polled.is_ready();
        let mut left = None;
        let caller = {
            let mut state = self.state.lock();
            match polled {
                Poll::Ready(answer) => state.answer = Some(answer),
                Poll::Pending if state.is_given_up => left = Some((run, around)),
                Poll::Pending => state.run = Some((run, around)),
            }
            if is_over || state.is_due { state.caller.take() } else { None }
        };
        drop(left);
        let wakes = || caller.into_iter().for_each(wake::wake);
        if is_over { wakes() } else { depth::yielding(wakes) }
    }
}

impl<V: Send + Sync + 'static> Wake for QueuedRun<V> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let caller = {
            let mut state = self.state.lock();
            state.is_due = true;
            if state.run.is_none() {
                // Whoever polls it finds out, if anybody does.
                return;
            }
            if depth::will_drain() { None } else { Some(state.caller.take()) }
        };
        match caller {
            Some(caller) => caller.into_iter().for_each(wake::wake),
            None => depth::defer(Box::new(self.clone())),
        }
    }
}
