//! The runs for one caller that go on on this thread, each inside of the one before: one that asks for
//! itself is a cycle.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use crate::memory::sync;
use crate::store::key::{self, Key};

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

/// A run, and those around it.
pub(crate) struct Link {
    label: Arc<Label>,
    outer: Running,
    /// How many there are.
    length: usize,
}

/// The innermost of the runs that go on where something is asked.
pub(crate) type Running = Option<Arc<Link>>;

impl Label {
    /// That of a memo at this address, with this name.
    pub(crate) fn new<K: Key>(memo: usize, name: &str, key: &K) -> Self {
        let text = format!("{name}({})", key::text(key));
        Self { memo, key: Box::new(key.clone()), text, is_over: AtomicBool::new(false) }
    }

    fn is<K: Key>(&self, other: &Self) -> bool {
        let keys = || self.key.downcast_ref::<K>() == other.key.downcast_ref();
        self.memo == other.memo && keys()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }
}

impl Link {
    /// A run that begins here.
    pub(crate) fn new(label: Label) -> Arc<Self> {
        Self::within(Arc::new(label), running().filter(|around| !around.label.is_over()))
    }

    fn within(label: Arc<Label>, outer: Running) -> Arc<Self> {
        let length = 1 + outer.as_ref().map_or(0, |outer| outer.length);
        Arc::new(Self { label, outer, length })
    }

    /// The run has ended.
    pub(crate) fn ends(&self) {
        self.label.is_over.store(true, SeqCst);
    }

    /// What is asked for in turn, if a run around this one is of the same key. When there are many, not each is
    /// compared with all of them: what asks for itself comes by again.
    pub(crate) fn cycle<K: Key>(&self) -> Option<Vec<String>> {
        if self.length > COMPARED && !self.length.is_multiple_of(COMPARED) {
            return None;
        }
        let mut names = vec![self.label.text.clone()];
        let mut next = &self.outer;
        while let Some(around) = next.as_ref().filter(|around| !around.label.is_over()) {
            names.push(around.label.text.clone());
            if around.label.is::<K>(&self.label) {
                names.reverse();
                return Some(names);
            }
            next = &around.outer;
        }
        None
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // One after the other: there may be more than the stack has room for.
        let mut outer = self.outer.take();
        while let Some(mut link) = outer.and_then(Arc::into_inner) {
            outer = link.outer.take();
        }
    }
}

/// Lets this thread poll inside of one more run, until what is returned is dropped.
pub(crate) fn enter(run: &Arc<Link>) -> Entered {
    let around = running();
    let is_here = around.as_ref().map(Arc::as_ptr) == run.outer.as_ref().map(Arc::as_ptr);
    // It may be polled elsewhere than where it began.
    let run = if is_here { run.clone() } else { Link::within(run.label.clone(), around.clone()) };
    drop(replace(Some(run)));
    Entered(around)
}

/// See [`enter`].
pub(crate) struct Entered(Running);

impl Drop for Entered {
    fn drop(&mut self) {
        drop(replace(self.0.take()));
    }
}

/// The runs inside of which this thread polls.
pub(crate) fn running() -> Running {
    RUNNING.try_with(|running| running.borrow().clone()).unwrap_or_default()
}

/// A thread that is ending may have none any more, as it has no queue for what is deep; see
/// [`crate::memory::depth`].
fn swap(running: &mut Running) {
    _ = RUNNING.try_with(|mine| std::mem::swap(&mut *mine.borrow_mut(), running));
}

fn replace(running: Running) -> Running {
    RUNNING.try_with(|mine| mine.replace(running)).unwrap_or_default()
}

/// Lets this thread poll what runs inside of others, until it is dropped.
pub(crate) struct Inside<'a>(&'a mut Running);

impl<'a> Inside<'a> {
    pub(crate) fn new(running: &'a mut Running) -> Self {
        swap(running);
        Self(running)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        swap(self.0);
    }
}

sync::thread_local! {
    /// The runs that are being polled on this thread.
    static RUNNING: RefCell<Running> = const { RefCell::new(None) };
}

/// Up to this many each run is compared with all around it, and then every so many.
const COMPARED: usize = 64;
