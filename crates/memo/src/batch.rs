//! Many changes as one: readers see all of them or are marked by all of them.

use std::fmt;

use crate::graph::Shared;
use crate::graph::cascade::Mark;
use crate::source::Source;
use crate::store::key::Key;

/// Collects changes of any sources and applies them together, in one walk per graph. What was collected
/// is applied also when the closure panics.
///
/// ```
/// # use tidewire_memo::{Source, batch};
/// # let (contacts, lists) = (Source::<i32>::new("contacts"), Source::<()>::new("lists"));
/// batch(|batch| {
///     batch.changed(&contacts, &1);
///     batch.changed(&lists, &());
/// });
/// ```
pub fn batch(collect: impl FnOnce(&mut Batch)) -> usize {
    let mut batch = Batch { changes: Vec::new() };
    collect(&mut batch);
    batch.apply()
}

/// See [`batch`].
pub struct Batch {
    changes: Vec<(&'static Shared, Vec<Box<dyn Mark>>)>,
}

impl Batch {
    /// Adds a change; it is applied when the closure returns.
    pub fn changed<K: Key>(&mut self, source: &Source<K>, key: &K) {
        self.add(source.shared(), Box::new(source.mark(key)));
    }

    /// Adds a change of every key of a source; it is applied when the closure returns.
    pub fn changed_all<K: Key>(&mut self, source: &Source<K>) {
        self.add(source.shared(), source.every_key().0);
    }

    fn add(&mut self, shared: &'static Shared, mark: Box<dyn Mark>) {
        match self.changes.iter_mut().find(|(graph, _)| std::ptr::eq(*graph, shared)) {
            Some((_, marks)) => marks.push(mark),
            None => self.changes.push((shared, vec![mark])),
        }
    }
}

impl Batch {
    fn apply(&mut self) -> usize {
        let mut marked = 0;
        while let Some((shared, mut marks)) = self.changes.pop() {
            let mut marks: Vec<_> =
                marks.iter_mut().map(|mark| &mut **mark as &mut dyn Mark).collect();
            marked += shared.change(&mut marks);
        }
        marked
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.apply();
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: usize = self.changes.iter().map(|(_, marks)| marks.len()).sum();
        f.debug_struct("Batch").field("keys", &keys).finish()
    }
}
