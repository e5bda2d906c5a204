//! A run for one caller: its future, what it reads, and its place among the runs that wait for each other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::compute::capture::{self, Frame, FrameGuard};
use crate::compute::own_runs::{self, Link};
use crate::graph::owner::Owner;
use crate::graph::validate::Record;
use crate::memory::depth;
use crate::memory::running::RunningFuture;
use crate::memory::wake::quietly;
use crate::store::error::Error;
use crate::store::value::Outcome;

/// A run that goes on.
pub(crate) struct Run<V: 'static> {
    owner: &'static Owner,
    /// `None` before it has begun and when it is over.
    running: Option<RunningFuture<Result<V, Error>>>,
    /// Its task is told when the memo is closed.
    waits: bool,
    frame: Frame,
    link: Arc<Link>,
}

/// What came out of a run, and what it has read: who asked has seen that, too.
pub(crate) struct OwnAnswer<V: 'static> {
    pub(crate) outcome: Outcome<V>,
    pub(crate) reads: Vec<Record>,
}

impl<V: Send + Sync + 'static> Run<V> {
    /// A run that has not begun.
    pub(crate) fn new(owner: &'static Owner, link: Arc<Link>) -> Self {
        let frame = Frame::alone(owner.graph, capture::asker());
        Self { owner, running: None, waits: false, frame, link }
    }

    /// The function was called.
    pub(crate) fn begins(&mut self, running: RunningFuture<Result<V, Error>>) {
        self.running = Some(running);
    }

    /// One poll; over when it is ready.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<OwnAnswer<V>> {
        let mut running = self.running.take().expect("polled until it has ended");
        let polled = match self.owner.is_closed() {
            true => Ok(self.closed()),
            false => self.inside(|| running.poll(context)),
        };
        let polled = match polled {
            Ok(Poll::Pending) => self.wait(context),
            // It may be made of that.
            Ok(Poll::Ready(_)) if self.owner.is_closed() => self.closed(),
            Ok(ready) => ready,
            Err(panic) => Poll::Ready(Err(self.panicked(panic))),
        };
        let Poll::Ready(result) = polled else {
            self.running = Some(running);
            return Poll::Pending;
        };
        quietly(|| drop(running));
        self.frame.take_over();
        let reads = self.frame.records().to_vec();
        Poll::Ready(OwnAnswer { outcome: Outcome::new(result), reads })
    }

    /// Waits, unless the memo has been closed.
    fn wait(&mut self, context: &Context<'_>) -> Poll<Result<V, Error>> {
        let old = self.owner.graph.awaits(self.number(), context.waker().clone());
        quietly(|| drop(old));
        self.waits = true;
        // Whoever closes it tells those who wait by then.
        if self.owner.is_closed() { self.closed() } else { Poll::Pending }
    }

    fn closed(&self) -> Poll<Result<V, Error>> {
        Poll::Ready(Err(Error::closed(&self.owner.name)))
    }

    /// Unlike that of any other future that waits.
    fn number(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Runs user code of this run.
    pub(crate) fn inside<T>(&self, run: impl FnOnce() -> T) -> std::thread::Result<T> {
        let _entered = FrameGuard::new(Some(&self.frame));
        let inside = own_runs::enter(&self.link);
        let result = catch_unwind(AssertUnwindSafe(run));
        drop(inside);
        result
    }

    /// The error of a run that panicked.
    pub(crate) fn panicked(&self, payload: Box<dyn Any + Send>) -> Error {
        self.owner.graph.core.lock().stats.panicked += 1;
        let error = Error::panicked(&self.owner.name, &*payload);
        quietly(|| drop(payload));
        error
    }
}

impl<V> Drop for Run<V> {
    fn drop(&mut self) {
        self.link.ends();
        if self.waits {
            let told = self.owner.graph.awaits_no_more(std::ptr::from_ref(self).addr() as u64);
            quietly(|| drop(told));
        }
        let running = self.running.take();
        depth::drop_nested(|| drop(running));
    }
}
