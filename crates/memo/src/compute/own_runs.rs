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

/// The runs that go on where something is asked, the outermost first.
pub(crate) type Running = Vec<Arc<Label>>;

impl Label {
    /// That of a memo at this address, with this name.
    pub(crate) fn new<K: Key>(memo: usize, name: &str, key: &K) -> Self {
        let text = format!("{name}({})", key::text(key));
        Self { memo, key: Box::new(key.clone()), text, is_over: AtomicBool::new(false) }
    }

    pub(crate) fn is<K: Key>(&self, other: &Self) -> bool {
        let keys = || self.key.downcast_ref::<K>() == other.key.downcast_ref();
        self.memo == other.memo && keys()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the run has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    pub(crate) fn ends(&self) {
        self.is_over.store(true, SeqCst);
    }
}

/// Lets this thread poll inside of one more run, until what is returned is dropped.
pub(crate) fn begin(label: Arc<Label>) -> InsideOne {
    RUNNING.with(|running| running.borrow_mut().push(label));
    InsideOne
}

/// See [`begin`].
pub(crate) struct InsideOne;

impl Drop for InsideOne {
    fn drop(&mut self) {
        let label = RUNNING.with(|running| running.borrow_mut().pop());
        drop(label);
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

sync::thread_local! {
    /// The runs that are being polled on this thread, the outermost first.
    static RUNNING: RefCell<Running> = const { RefCell::new(Vec::new()) };
}
