//! One bell for many keys: a connection that has been given thousands of values hears of each.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::graph::bells::{Belfry, Bell};
use crate::memo::Memo;
use crate::store::key::Key;
use crate::watch::Post;

/// Notifications of any number of keys of any memos, polled as one. Ringing computes nothing.
///
/// Each key is added with a token that says what it means to whoever listens. Add the key before the
/// `get` whose value it shall guard. Polling costs what rang, not what is in the set.
#[derive(Default)]
pub struct NotifySet<T> {
    belfry: Arc<Belfry>,
    members: HashMap<Member, (T, Box<dyn Hung>)>,
    next: u64,
}

/// A key of a [`NotifySet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member(u64);

/// A bell on a node, of any types.
trait Hung: Send + Sync {
    /// Makes sure that it hangs on a living node; `false` when the memo is closed.
    fn renew(&mut self) -> bool;
}

impl<K: Key, V: Send + Sync + 'static> Hung for Post<K, V> {
    fn renew(&mut self) -> bool {
        Self::renew(self)
    }
}

impl<T> NotifySet<T> {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self { belfry: Arc::default(), members: HashMap::new(), next: 0 }
    }

    /// Adds a key. A key of a memo that is closed rings at once.
    pub fn add<K: Key, V: Send + Sync + 'static>(
        &mut self,
        memo: &Memo<K, V>,
        key: K,
        token: T,
    ) -> Member {
        let member = Member(self.next);
        self.next += 1;
        let bell = Arc::new(Bell::of(self.belfry.clone(), member.0));
        let post = Post::new(*memo, key, bell.clone());
        if post.is_closed() {
            bell.ring_alone();
        }
        self.members.insert(member, (token, Box::new(post)));
        member
    }

    /// Takes a key out, and gives its token back.
    pub fn remove(&mut self, member: Member) -> Option<T> {
        let (token, _) = self.members.remove(&member)?;
        self.belfry.tidy(self.members.len(), |number| self.members.contains_key(&Member(number)));
        Some(token)
    }

    /// Keys in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A key whose value has become suspect since it was added or last reported. As with
    /// [`Notify`](crate::Notify), nothing more comes for it until its value was brought up to date; a key
    /// whose memo is closed is reported once.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<(Member, &T)> {
        let member = loop {
            let Poll::Ready(number) = self.belfry.poll(context.waker()) else {
                return Poll::Pending;
            };
            let member = Member(number);
            if let Some((_, post)) = self.members.get_mut(&member) {
                post.renew();
                break member;
            }
        };
        Poll::Ready((member, &self.members[&member].0))
    }

    /// [`NotifySet::poll_next`] as a future.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> (Member, &T) {
        let member =
            std::future::poll_fn(|context| self.poll_next(context).map(|(member, _)| member)).await;
        (member, &self.members[&member].0)
    }
}

impl<T> fmt::Debug for NotifySet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifySet").field("keys", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, Source};

    #[test]
    fn keys_that_come_ring_and_go_leave_nothing_in_a_set_that_nobody_polls() {
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
            rows.read(&key);
            key
        });
        let mut set = NotifySet::new();
        for number in 0..if cfg!(miri) { 200 } else { 1_000_000 } {
            let member = set.add(&memo, number % 10, ());
            memo.force_out(&(number % 10));
            set.remove(member);
            assert!(set.belfry.rung() <= 16);
        }
        assert_eq!(graph.stats().bytes, 0);
    }
}
