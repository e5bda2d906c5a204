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
use crate::compute::own_runs::{self, Label};
use crate::graph::validate::Taint;
use crate::memory::wake::quietly;
use crate::store::error::Error;
use crate::store::key::Key;
use crate::store::value::Outcome;

/// A run for one caller.
pub(crate) struct Own<V: 'static> {
    running: Option<RunningFuture<V>>,
    frame: Box<Frame>,
    label: Arc<Label>,
}

/// Begins a run, unless it would ask for itself or runs nest too deeply.
pub(crate) fn begin<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
) -> Result<Option<Own<V>>, Error> {
    // Also when nobody waits for it.
    capture::current().inspect(|frame| frame.add_taint(Taint::UNTRACKED));
    let label = Arc::new(Label::new(std::ptr::from_ref(memo).addr(), memo.name(), key));
    let mut outer = own_runs::running();
    if let Some(over) = outer.iter().rposition(|label| label.is_over()) {
        outer.drain(..=over);
    }
    if let Some(at) = outer.iter().position(|other| other.is::<K>(&label)) {
        let names: Vec<_> =
            outer[at..].iter().chain([&label]).map(|label| label.text().to_owned()).collect();
        return Err(Error::cycle(&names));
    }
    if outer.len() >= DEPTH {
        return Ok(None);
    }
    let frame = Box::new(Frame::alone(memo.shared(), capture::asker()));
    let mut own = Own { running: None, frame, label };
    let called = own.inside(|| memo.call(key.clone()));
    own.running = match called {
        Ok(Some(running)) => Some(running),
        Ok(None) => return Err(Error::closed(memo.name())),
        Err(panic) => return Err(panicked(memo, panic)),
    };
    Ok(Some(own))
}

impl<V: Send + Sync + 'static> Own<V> {
    pub(crate) fn poll<K: Key>(
        &mut self,
        memo: &'static Inner<K, V>,
        context: &mut Context<'_>,
    ) -> Poll<Outcome<V>> {
        let mut running = self.running.take().expect("polled until it has ended");
        let result = match self.inside(|| running.poll(context)) {
            Ok(Poll::Pending) => {
                self.running = Some(running);
                return Poll::Pending;
            }
            Ok(Poll::Ready(result)) => result,
            Err(panic) => Err(panicked(memo, panic)),
        };
        quietly(|| drop(running));
        Poll::Ready(Outcome::new(result))
    }

    /// Runs user code of this run.
    fn inside<T>(&self, run: impl FnOnce() -> T) -> std::thread::Result<T> {
        let _entered = FrameGuard::new(Some(&self.frame));
        let inside = own_runs::begin(self.label.clone());
        let result = catch_unwind(AssertUnwindSafe(run));
        drop(inside);
        result
    }
}

impl<V> Drop for Own<V> {
    fn drop(&mut self) {
        self.label.ends();
    }
}

fn panicked<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    payload: Box<dyn Any + Send>,
) -> Error {
    memo.shared().core.lock().stats.panicked += 1;
    let error = Error::panicked(memo.name(), &*payload);
    quietly(|| drop(payload));
    error
}

/// Runs within runs; what is deeper is computed as for anybody.
const DEPTH: usize = 64;
