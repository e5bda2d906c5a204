//! A run for one caller: its future, what it reads, and its place among the runs that wait for each other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::compute::capture::{self, Frame, FrameGuard};
use crate::compute::own_runs::{self, Link};
use crate::graph::Shared;
use crate::memory::depth;
use crate::memory::running::RunningFuture;
use crate::memory::wake::quietly;
use crate::store::error::Error;
use crate::store::value::Outcome;

/// A run that goes on.
pub(crate) struct Run<V: 'static> {
    shared: &'static Shared,
    name: &'static str,
    /// `None` before it has begun and when it is over.
    running: Option<RunningFuture<Result<V, Error>>>,
    frame: Frame,
    link: Arc<Link>,
}

impl<V: Send + Sync + 'static> Run<V> {
    /// A run that has not begun.
    pub(crate) fn new(shared: &'static Shared, name: &'static str, link: Arc<Link>) -> Self {
        let frame = Frame::alone(shared, capture::asker());
        Self { shared, name, running: None, frame, link }
    }

    /// The function was called.
    pub(crate) fn begins(&mut self, running: RunningFuture<Result<V, Error>>) {
        self.running = Some(running);
    }

    /// One poll; over when it is ready.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Outcome<V>> {
        let mut running = self.running.take().expect("polled until it has ended");
        let result = match self.inside(|| running.poll(context)) {
            Ok(Poll::Pending) => {
                self.running = Some(running);
                return Poll::Pending;
            }
            Ok(Poll::Ready(result)) => result,
            Err(panic) => Err(self.panicked(panic)),
        };
        quietly(|| drop(running));
        Poll::Ready(Outcome::new(result))
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
        self.shared.core.lock().stats.panicked += 1;
        let error = Error::panicked(self.name, &*payload);
        quietly(|| drop(payload));
        error
    }
}

impl<V> Drop for Run<V> {
    fn drop(&mut self) {
        self.link.ends();
        let running = self.running.take();
        depth::drop_nested(|| drop(running));
    }
}
