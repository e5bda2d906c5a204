//! Writes that cannot forget to say that they happened.

use std::fmt;

use crate::graph::Shared;
use crate::graph::cascade::Mark;
use crate::source::Source;
use crate::store::key::Key;

/// Marks its keys as changed when finished or dropped.
///
/// Take it before the transaction. Whether the transaction commits, fails, panics or is cancelled, the
/// guard marks: a change that did not happen costs a verification, a change that was not announced
/// would cost freshness.
///
/// ```
/// # use tidewire_memo::Source;
/// # let contacts = Source::<i32>::new("contacts");
/// # let count = Source::<()>::new("count");
/// let write = contacts.write(&1).also(&count, &());
/// // … the transaction …
/// write.finish(); // from here on, no new `get` sees the older state
/// ```
#[must_use = "the keys are marked when the guard is finished or dropped"]
pub struct WriteGuard {
    shared: &'static Shared,
    marks: Vec<Box<dyn Mark>>,
}

impl WriteGuard {
    pub(crate) fn new(shared: &'static Shared, mark: Box<dyn Mark>) -> Self {
        Self { shared, marks: vec![mark] }
    }

    /// Adds a key of the same or another source; all of them change as one.
    ///
    /// # Panics
    /// When `source` belongs to another graph.
    pub fn also<K: Key>(mut self, source: &Source<K>, key: &K) -> Self {
        assert!(
            std::ptr::eq(self.shared, source.shared()),
            "a write guard covers sources of one graph"
        );
        self.marks.push(Box::new(source.mark(key.clone())));
        self
    }

    /// Marks the keys now. When this returns, no later `get` sees the older state.
    pub fn finish(self) {}

    /// Marks the keys a chunk per poll; see [`Source::changed_async`].
    pub async fn finish_async(mut self) {
        let marks = std::mem::take(&mut self.marks);
        self.shared.change_async(marks).await;
    }
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        if self.marks.is_empty() {
            return;
        }
        let mut marks: Vec<_> =
            self.marks.iter_mut().map(|mark| &mut **mark as &mut dyn Mark).collect();
        self.shared.change(&mut marks);
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGuard").field("keys", &self.marks.len()).finish()
    }
}
