//! Who is told when a node is marked.
//!
//! A watch hangs a bell on the node; a walk that marks the node rings it. Ringing computes nothing: the
//! wakers go to the trash and are woken when the locks are free.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Poll, Waker};

use crate::graph::trash::Trash;
use crate::graph::{Shared, budget};
use crate::store::node::EMPTY;
use crate::store::slots::Id;
use tidewire_memo_memory::sync::Mutex;

/// What a walk rings: one key's, of those that hang in a belfry.
pub(crate) struct Bell {
    rung: AtomicBool,
    number: u64,
    belfry: Arc<Belfry>,
}

/// Where whoever listens finds out which bells rang.
#[derive(Default)]
pub(crate) struct Belfry {
    state: Mutex<Rung>,
}

#[derive(Default)]
struct Rung {
    /// Each at most once.
    bells: VecDeque<Arc<Bell>>,
    waker: Option<Waker>,
}

impl Bell {
    pub(crate) fn of(belfry: Arc<Belfry>, number: u64) -> Self {
        Self { rung: AtomicBool::new(false), number, belfry }
    }

    fn ring(self: &Arc<Self>, trash: &mut Trash) {
        if !self.rung.swap(true, SeqCst) {
            let mut rung = self.belfry.state.lock();
            rung.bells.push_back(self.clone());
            trash.wakers.extend(rung.waker.take());
        }
    }

    /// Rings where no graph is involved.
    pub(crate) fn ring_alone(self: &Arc<Self>) {
        self.ring(&mut Trash::default());
    }
}

impl Belfry {
    /// A bell that rang since it was last asked for; if there is none, `waker` is woken when one does.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<u64> {
        if let Some(number) = self.take() {
            return Poll::Ready(number);
        }
        // Cloned and dropped outside of the lock: both may be user code.
        let waker = waker.clone();
        let old = self.state.lock().waker.replace(waker);
        drop(old);
        self.take().map_or(Poll::Pending, Poll::Ready)
    }

    fn take(&self) -> Option<u64> {
        let bell = self.state.lock().bells.pop_front()?;
        bell.rung.store(false, SeqCst);
        Some(bell.number)
    }

    /// Forgets bells that rang and are gone, when they are more than those that there are.
    pub(crate) fn tidy(&self, alive: usize, is_alive: impl Fn(u64) -> bool) {
        let mut rung = self.state.lock();
        if rung.bells.len() > alive * 2 + 16 {
            rung.bells.retain(|bell| is_alive(bell.number));
        }
    }

    #[cfg(test)]
    pub(crate) fn rung(&self) -> usize {
        self.state.lock().bells.len()
    }

    /// Forgets what rang.
    pub(crate) fn silence(&self) {
        while self.take().is_some() {}
    }
}

/// The bells of a graph, by node.
pub(crate) struct Watchers {
    bells: HashMap<Id, Bells>,
    /// Bells on all nodes.
    count: usize,
}

/// The bells on a node: one on most, of which there may be a hundred thousand.
#[allow(clippy::box_collection, reason = "the place of one is half as large for it")]
enum Bells {
    One(Arc<Bell>),
    /// By address: thousands may hang on one node.
    #[expect(
        clippy::box_collection,
        reason = "the entry of a node with one bell is the smaller for it"
    )]
    Many(Box<BTreeMap<usize, Arc<Bell>>>),
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self { bells: HashMap::new(), count: 0 }
    }

    pub(crate) fn attach(&mut self, id: Id, bell: &Arc<Bell>) {
        let is_new = match self.bells.entry(id) {
            Entry::Vacant(place) => {
                place.insert(Bells::One(bell.clone()));
                true
            }
            Entry::Occupied(bells) => bells.into_mut().add(bell),
        };
        self.count += usize::from(is_new);
    }

    /// Returns whether nobody watches the node any more.
    fn detach(&mut self, id: Id, bell: &Arc<Bell>) -> bool {
        let Entry::Occupied(mut bells) = self.bells.entry(id) else { return false };
        let (was_there, is_empty) = match bells.get_mut() {
            Bells::One(one) => (Arc::ptr_eq(one, bell), Arc::ptr_eq(one, bell)),
            Bells::Many(many) => (many.remove(&place(bell)).is_some(), many.is_empty()),
        };
        self.count -= usize::from(was_there);
        if is_empty {
            bells.remove();
        }
        is_empty
    }

    /// Rings the bells of a node; their wakers go to the trash, to be woken outside the locks.
    pub(crate) fn notify(&self, id: Id, trash: &mut Trash) {
        if let Some(bells) = self.bells.get(&id) {
            bells.ring(trash);
        }
    }

    /// The node is gone: its watches ring and look for the next one.
    pub(crate) fn release(&mut self, id: Id, trash: &mut Trash) {
        self.notify(id, trash);
        self.count -= self.bells.remove(&id).map_or(0, |bells| bells.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What the bells take.
    pub(crate) fn bytes(&self) -> usize {
        self.count * BELL_BYTES
    }

    /// The graph is closed: every watch rings and finds out.
    pub(crate) fn close(&mut self, trash: &mut Trash) {
        self.count = 0;
        for (_, bells) in self.bells.drain() {
            bells.ring(trash);
        }
    }
}

impl Bells {
    /// Returns whether it was not there.
    fn add(&mut self, bell: &Arc<Bell>) -> bool {
        match self {
            Self::One(one) if Arc::ptr_eq(one, bell) => false,
            Self::One(one) => {
                let two = [(place(one), one.clone()), (place(bell), bell.clone())];
                *self = Self::Many(Box::new(BTreeMap::from(two)));
                true
            }
            Self::Many(many) => many.insert(place(bell), bell.clone()).is_none(),
        }
    }

    fn ring(&self, trash: &mut Trash) {
        match self {
            Self::One(one) => one.ring(trash),
            Self::Many(many) => many.values().for_each(|bell| bell.ring(trash)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.len(),
        }
    }
}

fn place(bell: &Arc<Bell>) -> usize {
    Arc::as_ptr(bell).addr()
}

impl Shared {
    pub(crate) fn detach(&self, id: Id, bell: &Arc<Bell>) {
        {
            let mut trash = Trash::default();
            let mut core = self.core.lock();
            if !core.watchers.detach(id, bell) {
                return;
            }
            let Some(node) = core.node(id) else { return };
            node.set_watched(false);
            if node.state() == EMPTY && !node.is_computing() {
                let owner = core.owner(node);
                core.remove(owner, node, &mut trash);
            }
            // What was kept for the watch may be too much now.
            core.check_budget(self, None);
        }
        budget::relieve(self);
    }
}

/// A bell, its place in the map and in its list.
const BELL_BYTES: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_no_bell_one_or_many_and_each_once() {
        let belfry = Arc::<Belfry>::default();
        let bells: Vec<_> = (0..3).map(|n| Arc::new(Bell::of(belfry.clone(), n))).collect();
        let (mut watchers, id) = (Watchers::new(), Id::new(1, 1));
        assert!(!watchers.detach(id, &bells[0]));
        for attached in [&bells[0], &bells[0], &bells[1], &bells[0], &bells[1]] {
            watchers.attach(id, attached);
        }
        assert_eq!(watchers.count, 2);
        watchers.notify(id, &mut Trash::default());
        let mut rung: Vec<u64> = std::iter::from_fn(|| belfry.take()).collect();
        rung.sort_unstable();
        assert_eq!(rung, [0, 1]);
        assert!(!watchers.detach(id, &bells[2]) && !watchers.detach(id, &bells[0]));
        assert!(watchers.detach(id, &bells[1]) && watchers.is_empty());
        watchers.attach(id, &bells[2]);
        assert!(!watchers.detach(id, &bells[1]));
        watchers.release(id, &mut Trash::default());
        assert!(watchers.is_empty() && watchers.bells.is_empty());
        assert_eq!(belfry.take(), Some(2));
    }
}
