//! What somebody asks who holds a write guard.
//!
//! He must not wait for his own write, and what he reads before it is announced is nobody else's. So what is
//! not in memory is computed for him alone, beside the graph, and never kept.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::compute::capture::{self, Frame, FrameGuard};
use crate::compute::inner::{Inner, RunningFuture};
use crate::compute::own_queue::Queued;
use crate::compute::own_runs::{self, Label, Link};
use crate::graph::Shared;
use crate::graph::validate::Taint;
use crate::memory::depth::{self, Level};
use crate::memory::wake::quietly;
use crate::store::error::Error;
use crate::store::key::Key;
use crate::store::value::Outcome;

/// A run for one caller.
pub(crate) struct Own<V: 'static>(Place<V>);

/// Where it is.
enum Place<V: 'static> {
    Here(Box<Run<V>>),
    /// The stack was too deep for it.
    Queued(Arc<Queued<V>>),
    Over,
}

/// A run that goes on.
pub(crate) struct Run<V: 'static> {
    shared: &'static Shared,
    name: &'static str,
    /// `None` when it is over.
    running: Option<RunningFuture<V>>,
    frame: Frame,
    link: Arc<Link>,
}

/// Begins a run, unless it would ask for itself.
pub(crate) fn begin<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
) -> Result<Own<V>, Error> {
    // Also when nobody waits for it.
    capture::current().inspect(|frame| frame.add_taint(Taint::UNTRACKED));
    let link = Link::new(Label::new(std::ptr::from_ref(memo).addr(), memo.name(), key));
    if let Some(names) = link.cycle::<K>() {
        return Err(Error::cycle(&names));
    }
    let frame = Frame::alone(memo.shared(), capture::asker());
    let (shared, name) = (memo.shared(), memo.name());
    let mut run = Box::new(Run { shared, name, running: None, frame, link });
    let called = run.inside(|| memo.call(key.clone()));
    run.running = match called {
        Ok(Some(running)) => Some(running),
        Ok(None) => return Err(Error::closed(name)),
        Err(panic) => return Err(run.panicked(panic)),
    };
    Ok(Own(Place::Here(run)))
}

impl<V: Send + Sync + 'static> Own<V> {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Outcome<V>> {
        match std::mem::replace(&mut self.0, Place::Over) {
            Place::Here(mut run) => {
                let Some(level) = Level::enter() else {
                    return self.queue(Queued::new(run), context);
                };
                let polled = run.poll(context);
                level.drain();
                if polled.is_pending() {
                    self.0 = Place::Here(run);
                }
                polled
            }
            Place::Queued(queued) => self.queue(queued, context),
            Place::Over => unreachable!("polled until it has ended"),
        }
    }

    fn queue(&mut self, queued: Arc<Queued<V>>, context: &mut Context<'_>) -> Poll<Outcome<V>> {
        let polled = queued.poll(context);
        if polled.is_pending() {
            self.0 = Place::Queued(queued);
        }
        polled
    }
}

impl<V> Drop for Own<V> {
    fn drop(&mut self) {
        if let Place::Queued(queued) = &self.0 {
            queued.give_up();
        }
    }
}

impl<V: Send + Sync + 'static> Run<V> {
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
    fn inside<T>(&self, run: impl FnOnce() -> T) -> std::thread::Result<T> {
        let _entered = FrameGuard::new(Some(&self.frame));
        let inside = own_runs::enter(&self.link);
        let result = catch_unwind(AssertUnwindSafe(run));
        drop(inside);
        result
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) -> Error {
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
