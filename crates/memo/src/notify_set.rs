//! One subscription for many keys: a connection that has been given thousands of values hears of each.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use crate::graph::Shared;
use crate::graph::subscriptions::{Inbox, Subscription};
use crate::memo::Memo;
use crate::store::key::Key;
use crate::store::slots::Id;

/// Notifications of any number of values, of keys of any memos of any graphs, taken in one go. Notifying computes
/// nothing.
///
/// A value has a number in the set, which its owner picks: small, since the set has a bit for each up to the
/// largest. A notification is there before the change that caused it returns, and before anybody can be given
/// what was computed after that change. Taking costs the notifications, not the size of the set.
///
/// ```
/// # use tidewire_memo::{Graph, Memo, NotifySet, Source};
/// # let graph = Graph::new();
/// let rows = Source::<u64>::new_in(&graph, "rows");
/// let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
///     rows.read(&key);
///     key
/// });
/// # futures::executor::block_on(async {
/// let (set, mut rung) = (NotifySet::new(), Vec::new());
/// let one = set.add(&memo, &1, memo.get(1).await.unwrap().version(), 1);
/// let two = set.add(&memo, &2, memo.get(2).await.unwrap().version(), 2);
/// rows.changed(&2);
/// set.take(&mut rung);
/// assert_eq!(rung, [2]);
/// assert!(one.is_current() && !two.is_current());
/// # });
/// ```
#[derive(Default)]
pub struct NotifySet {
    inbox: Arc<Inbox>,
}

/// One value in a [`NotifySet`]; dropping it takes it out.
#[must_use = "a value is in its set for as long as this is kept"]
pub struct Member {
    graph: &'static Shared,
    id: Id,
    version: u64,
    subscription: Subscription,
}

impl NotifySet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a version of a key. It is notified of the next change, not with earlier ones: ask it afterwards whether
    /// it [is current](Member::is_current).
    ///
    /// A member stands for this version: once it is notified, drop it and add the version that you are given next.
    /// One that is kept is notified of later changes too, unless its key has left memory meanwhile.
    pub fn add<K: Key, V: Send + Sync + 'static>(
        &self,
        memo: &Memo<K, V>,
        key: &K,
        version: u64,
        number: u32,
    ) -> Member {
        let subscription = Subscription::of(self.inbox.clone(), number);
        // A memo that is closed has no node of that name, now or later.
        let id = memo.inner.attach(key, &subscription).unwrap_or(Id::NONE);
        Member { graph: memo.inner.shared(), id, version, subscription }
    }

    /// The next notification wakes this task, and only it. To be called before [`take`](Self::take).
    pub fn wakes(&self, waker: &Waker) {
        self.inbox.wakes(waker);
    }

    /// Appends the numbers of values that became suspect since they were added or last taken, each once and in
    /// ascending order. As with [`Notify`](crate::Notify), nothing more comes of one until somebody has asked
    /// for it again. A value that was dropped after its notification is still there: who has its number next asks it
    /// [`is_current`](Member::is_current).
    pub fn take(&self, numbers: &mut Vec<u32>) {
        self.inbox.take_numbers(numbers);
    }
}

impl Member {
    /// Whether this version is that of the current value of its key, without computing anything: `false` also
    /// when that could not be known without, and of an error. A current version is notified when it becomes
    /// suspect.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.version != 0 && self.graph.is_at(self.id, self.version)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A notification stays: it may be that of another value with this number.
        self.graph.detach(self.id, &self.subscription);
    }
}

impl fmt::Debug for NotifySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifySet").finish_non_exhaustive()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("version", &self.version).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_takes_no_more_than_it_needs() {
        // There may be a hundred thousand.
        assert_eq!(size_of::<Member>(), 40);
    }
}
