//! Writes that cannot forget to say that they happened.

use std::fmt;

use crate::compute::capture;
use crate::graph::Shared;
use crate::graph::cascade::Mark;
use crate::graph::order::Ticket;
use crate::source::Source;
use crate::store::key::Key;

/// Marks its keys as changed when finished or dropped.
///
/// While it is open, values that are computed from its keys are held, so that nobody is shown the older state
/// after somebody was shown the newer one. What its holder asks does not wait and is not stored; a task that
/// the holder spawns is somebody else and waits. The guide says who the holder is.
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
    /// The first mark is of every key of the source with this number: none was named yet.
    unnamed: Option<u16>,
    /// Ends after the keys were marked.
    ticket: Ticket,
}

impl WriteGuard {
    pub(crate) fn new<K: Key>(source: &Source<K>, key: &K) -> Self {
        let shared = source.shared();
        let ticket = shared.begin_write(capture::asker());
        Self { shared, marks: Vec::new(), unnamed: None, ticket }.also(source, key)
    }

    pub(crate) fn unnamed<K: Key>(source: &Source<K>) -> Self {
        let shared = source.shared();
        let ticket = shared.begin_write(capture::asker());
        let (mark, written) = source.every_key();
        ticket.add(written);
        Self { shared, marks: vec![mark], unnamed: Some(source.number()), ticket }
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
        if self.unnamed == Some(source.number()) {
            self.unnamed = None;
            self.marks.remove(0);
        }
        let mut mark = source.mark(key);
        mark.begin_write(&self.ticket);
        self.marks.push(Box::new(mark));
        self
    }

    /// Ends a write that has surely changed nothing, as one that was rolled back. Nothing is marked.
    pub fn unchanged(mut self) {
        self.marks.clear();
    }

    /// Marks the keys now. When this returns, no later `get` sees the older state.
    pub fn finish(self) {}

    /// Marks the keys a chunk per poll; see [`Source::changed_async`].
    pub async fn finish_async(mut self) {
        let marks = std::mem::take(&mut self.marks);
        // The guard goes after the future, which marks what is left when it is dropped.
        let guard = self;
        guard.shared.change_async(marks).await;
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
