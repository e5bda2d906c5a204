//! What somebody asks who holds a write guard.
//!
//! He must not wait for his own write, and what he reads before it is announced is nobody else's. So what is
//! not in memory is computed for him alone, beside the graph, and never kept.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::compute::capture;
use crate::compute::inner::Inner;
use crate::compute::own_queue::QueuedRun;
use crate::compute::own_run::{OwnAnswer, Run};
use crate::compute::own_runs::{Label, Link};
use crate::graph::validate::Taint;
use crate::memory::depth::Level;
use crate::store::error::Error;
use crate::store::key::Key;

/// A run for one caller.
pub(crate) struct Own<V: 'static>(Place<V>);

/// Where it is.
enum Place<V: 'static> {
    Here(Box<Run<V>>),
    /// The stack was too deep for it.
    Queued(Arc<QueuedRun<V>>),
    Over,
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
    let mut run = Box::new(Run::new(&memo.owner, link));
    match run.inside(|| memo.call(key.clone())) {
        Ok(Some(running)) => run.begins(running),
        Ok(None) => return Err(Error::closed(memo.name())),
        Err(panic) => return Err(run.panicked(panic)),
    }
    Ok(Own(Place::Here(run)))
}

impl<V: Send + Sync + 'static> Own<V> {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<OwnAnswer<V>> {
        match std::mem::replace(&mut self.0, Place::Over) {
            Place::Here(mut run) => {
                let Some(level) = Level::enter() else {
                    return self.queue(QueuedRun::new(run), context);
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

    fn queue(
        &mut self,
        queued: Arc<QueuedRun<V>>,
        context: &mut Context<'_>,
    ) -> Poll<OwnAnswer<V>> {
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
