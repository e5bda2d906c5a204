//! What somebody asks who holds a write guard.
//!
//! He must not wait for his own write, and what he reads before it is announced is nobody else's. So what is
//! not in memory is computed for him alone, beside the graph, and never kept.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};

use crate::compute::capture::{self, Frame, FrameGuard};
use crate::compute::inner::{Inner, RunningFuture};
use crate::graph::validate::Taint;
use crate::memory::sync;
use crate::memory::wake::quietly;
use crate::store::error::Error;
use crate::store::key::{self, Key};
use crate::store::value::Outcome;

/// A run for one caller.
pub(crate) struct Own<V: 'static> {
    running: Option<RunningFuture<V>>,
    frame: Box<Frame>,
    label: Arc<Label>,
}

/// Memo and key of a run, to find one that asks for itself. Two memos may have one name, and two keys one
/// text.
pub(crate) struct Label {
    /// The address of the memo.
    memo: usize,
    key: Box<dyn Any + Send + Sync>,
    text: String,
    /// What it left behind, a task or a `get`, does not run inside of it.
    is_over: AtomicBool,
}

/// The runs that go on where something is asked, the outermost first.
pub(crate) type Running = Vec<Arc<Label>>;

impl Label {
    fn new<K: Key, V: Send + Sync + 'static>(memo: &'static Inner<K, V>, key: &K) -> Self {
        let text = format!("{}({})", memo.name(), key::text(key));
        let (memo, key) = (std::ptr::from_ref(memo).addr(), Box::new(key.clone()));
        Self { memo, key, text, is_over: AtomicBool::new(false) }
    }

    fn is<K: Key>(&self, other: &Self) -> bool {
        let keys = || self.key.downcast_ref::<K>() == other.key.downcast_ref();
        self.memo == other.memo && keys()
    }
}

/// Begins a run, unless it would ask for itself or runs nest too deeply.
pub(crate) fn begin<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
) -> Result<Option<Own<V>>, Error> {
    // Also when nobody waits for it.
    capture::current().inspect(|frame| frame.add_taint(Taint::UNTRACKED));
    let label = Arc::new(Label::new(memo, key));
    let mut outer = running();
    if let Some(over) = outer.iter().rposition(|label| label.is_over.load(SeqCst)) {
        outer.drain(..=over);
    }
    if let Some(at) = outer.iter().position(|other| other.is::<K>(&label)) {
        let names: Vec<_> =
            outer[at..].iter().chain([&label]).map(|label| label.text.clone()).collect();
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
        RUNNING.with(|running| running.borrow_mut().push(self.label.clone()));
        let result = catch_unwind(AssertUnwindSafe(run));
        let label = RUNNING.with(|running| running.borrow_mut().pop());
        drop(label);
        result
    }
}

impl<V> Drop for Own<V> {
    fn drop(&mut self) {
        self.label.is_over.store(true, SeqCst);
    }
}

/// The runs inside of which this thread polls.
pub(crate) fn running() -> Running {
    RUNNING.with(|running| running.borrow().clone())
}

/// Lets this thread poll what runs inside of others, until it is dropped.
pub(crate) struct Inside<'a>(&'a mut Running);

impl<'a> Inside<'a> {
    pub(crate) fn new(running: &'a mut Running) -> Self {
        RUNNING.with(|mine| std::mem::swap(&mut *mine.borrow_mut(), running));
        Self(running)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        RUNNING.with(|mine| std::mem::swap(&mut *mine.borrow_mut(), self.0));
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

sync::thread_local! {
    /// The runs that are being polled on this thread, the outermost first.
    static RUNNING: RefCell<Running> = const { RefCell::new(Vec::new()) };
}

/// Runs within runs; what is deeper is computed as for anybody.
const DEPTH: usize = 64;
