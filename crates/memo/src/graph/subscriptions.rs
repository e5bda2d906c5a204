//! Who is told when a node is marked.
//!
//! A watch puts a subscription on the node. A walk that marks the node notifies it: it notes the
//! number of the subscription in its inbox, under the graph lock, so that whoever takes that lock
//! next finds it there. Notifying computes nothing: the waker is woken when the locks are free
//! (`deferred.rs`).

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Poll, Waker};

use crate::graph::deferred::DeferredDrops;
use crate::graph::{Shared, relief};
use crate::memory::epoch;
use crate::memory::numbers::Numbers;
use crate::memory::sync::Mutex;
use crate::store::node::EMPTY;
use crate::store::slots::{Id, IdHasher};

/// What a walk notifies: one number of an inbox.
#[derive(Clone)]
pub(crate) struct Subscription {
    inbox: Arc<Inbox>,
    number: u32,
    /// Tells it from others of the same number.
    serial: u32,
}

/// Where a listener finds out which subscriptions were notified.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
}

#[derive(Default)]
struct InboxState {
    numbers: Numbers,
    waker: Option<Waker>,
    next_serial: u32,
}

impl Subscription {
    /// A subscription that notifies `inbox`, which has room for its number from now on: nothing is made under the
    /// graph lock.
    pub(crate) fn of(inbox: Arc<Inbox>, number: u32) -> Self {
        let serial = {
            let mut state = inbox.state.lock();
            state.numbers.make_room(number);
            state.next_serial = state.next_serial.wrapping_add(1);
            state.next_serial
        };
        Self { inbox, number, serial }
    }

    fn notify(&self, deferred: &mut DeferredDrops) {
        let mut state = self.inbox.state.lock();
        state.numbers.insert(self.number);
        deferred.wakers.extend(state.waker.take());
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn place(&self) -> (usize, u32, u32) {
        (Arc::as_ptr(&self.inbox).addr(), self.number, self.serial)
    }
}

impl PartialEq for Subscription {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Subscription {}

impl PartialOrd for Subscription {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Subscription {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl Inbox {
    /// Whether a subscription was notified since this was last asked; if none did, `waker` is woken when one does.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<()> {
        if self.take() {
            return Poll::Ready(());
        }
        self.wakes(waker);
        if self.take() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The next notification wakes this task.
    pub(crate) fn wakes(&self, waker: &Waker) {
        if self.state.lock().waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        // Cloned and dropped outside of the lock: both may be user code.
        let waker = waker.clone();
        let old = self.state.lock().waker.replace(waker);
        drop(old);
    }

    /// Takes the numbers that were notified, in ascending order.
    pub(crate) fn take_numbers(&self, state: &mut Vec<u32>) {
        self.state.lock().numbers.take(state);
    }

    fn take(&self) -> bool {
        self.state.lock().numbers.clear()
    }

    /// Forgets all notifications.
    pub(crate) fn silence(&self) {
        self.take();
    }
}

/// The subscriptions of a graph, by node.
pub(crate) struct Watchers {
    subscriptions: HashMap<Id, Subscriptions, IdHasher>,
    /// Subscriptions on all nodes.
    count: usize,
}

/// The subscriptions on a node: one on most, of which there may be a hundred thousand.
enum Subscriptions {
    One(Subscription),
    /// One node may have thousands.
    #[expect(
        clippy::box_collection,
        reason = "the entry of a node with one subscription is the smaller for it"
    )]
    Many(Box<BTreeSet<Subscription>>),
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self { subscriptions: HashMap::default(), count: 0 }
    }

    pub(crate) fn attach(&mut self, id: Id, subscription: &Subscription) {
        let is_new = match self.subscriptions.entry(id) {
            Entry::Vacant(place) => {
                place.insert(Subscriptions::One(subscription.clone()));
                true
            }
            Entry::Occupied(subscriptions) => subscriptions.into_mut().add(subscription),
        };
        self.count += usize::from(is_new);
    }

    /// Returns whether nobody watches the node any more.
    fn detach(&mut self, id: Id, subscription: &Subscription) -> bool {
        let Entry::Occupied(mut subscriptions) = self.subscriptions.entry(id) else { return false };
        let (was_there, is_empty) = match subscriptions.get_mut() {
            Subscriptions::One(one) => (one == subscription, one == subscription),
            Subscriptions::Many(many) => (many.remove(subscription), many.is_empty()),
        };
        self.count -= usize::from(was_there);
        if is_empty {
            subscriptions.remove();
        }
        is_empty
    }

    /// Rings the subscriptions of a node; their wakers go to the deferred, to be woken outside the locks.
    pub(crate) fn notify(&self, id: Id, deferred: &mut DeferredDrops) {
        if let Some(subscriptions) = self.subscriptions.get(&id) {
            subscriptions.notify(deferred);
        }
    }

    /// The node is gone: its watches are notified and look for the next one.
    pub(crate) fn release(&mut self, id: Id, deferred: &mut DeferredDrops) {
        self.notify(id, deferred);
        self.count -= self.subscriptions.remove(&id).map_or(0, |subscriptions| subscriptions.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What the subscriptions take.
    pub(crate) fn bytes(&self) -> usize {
        self.count * BELL_BYTES
    }

    /// The graph is closed: every watch is notified and finds out.
    pub(crate) fn close(&mut self, deferred: &mut DeferredDrops) {
        self.count = 0;
        for (_, subscriptions) in std::mem::take(&mut self.subscriptions) {
            subscriptions.notify(deferred);
        }
    }
}

impl Subscriptions {
    /// Returns whether it was not there.
    fn add(&mut self, subscription: &Subscription) -> bool {
        match self {
            Self::One(one) if one == subscription => false,
            Self::One(one) => {
                let two = [one.clone(), subscription.clone()];
                *self = Self::Many(Box::new(BTreeSet::from(two)));
                true
            }
            Self::Many(many) => many.insert(subscription.clone()),
        }
    }

    fn notify(&self, deferred: &mut DeferredDrops) {
        match self {
            Self::One(one) => one.notify(deferred),
            Self::Many(many) => many.iter().for_each(|subscription| subscription.notify(deferred)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.len(),
        }
    }
}

impl Shared {
    pub(crate) fn detach(&self, id: Id, subscription: &Subscription) {
        {
            let mut deferred = DeferredDrops::default();
            let mut core = self.core.lock();
            if !core.watchers.detach(id, subscription) {
                return;
            }
            let Some(node) = core.node(id) else { return };
            node.set_watched(false);
            if node.state() == EMPTY && !node.is_computing() {
                let owner = core.owner(node);
                core.remove(owner, node, &mut deferred);
            }
            // What was kept for the watch may be too much now.
            if std::mem::take(&mut core.ledger.spared_for_watch) {
                self.over_budget.store(true, SeqCst);
            }
        }
        relief::relieve(self);
        epoch::collect_if_due();
    }
}

/// A subscription in its place in the map, and what whoever hung it keeps.
const BELL_BYTES: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_no_bell_one_or_many_and_each_once() {
        let inbox = Arc::<Inbox>::default();
        let subscriptions: Vec<_> = (0..3).map(|n| Subscription::of(inbox.clone(), n)).collect();
        let (mut watchers, id) = (Watchers::new(), Id::new(1, 1));
        assert!(!watchers.detach(id, &subscriptions[0]));
        for attached in [
            &subscriptions[0],
            &subscriptions[0],
            &subscriptions[1],
            &subscriptions[0],
            &subscriptions[1],
        ] {
            watchers.attach(id, attached);
        }
        assert_eq!(watchers.count, 2);
        watchers.notify(id, &mut DeferredDrops::default());
        let mut state = Vec::new();
        inbox.take_numbers(&mut state);
        assert_eq!(state, [0, 1]);
        assert!(!watchers.detach(id, &subscriptions[2]) && !watchers.detach(id, &subscriptions[0]));
        assert!(watchers.detach(id, &subscriptions[1]) && watchers.is_empty());
        watchers.attach(id, &subscriptions[2]);
        assert!(!watchers.detach(id, &subscriptions[1]));
        watchers.release(id, &mut DeferredDrops::default());
        assert!(watchers.is_empty() && watchers.subscriptions.is_empty());
        state.clear();
        inbox.take_numbers(&mut state);
        assert_eq!(state, [2]);
        assert_eq!(
            size_of::<(Id, Subscriptions)>(),
            24,
            "of which there may be a hundred thousand"
        );
    }
}
