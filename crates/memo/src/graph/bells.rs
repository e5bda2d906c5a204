//! Who is told when a node is marked.
//!
//! A watch hangs a bell on the node; a walk that marks the node rings it. Ringing computes nothing: the
//! wakers go to the trash and are woken when the locks are free.

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
    /// By address: thousands may hang on one node.
    bells: HashMap<Id, BTreeMap<usize, Arc<Bell>>>,
    /// Bells on all nodes.
    count: usize,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self { bells: HashMap::new(), count: 0 }
    }

    pub(crate) fn attach(&mut self, id: Id, bell: &Arc<Bell>) {
        let place = Arc::as_ptr(bell).addr();
        let old = self.bells.entry(id).or_default().insert(place, bell.clone());
        self.count += usize::from(old.is_none());
    }

    /// Returns whether nobody watches the node any more.
    fn detach(&mut self, id: Id, bell: &Arc<Bell>) -> bool {
        let Some(bells) = self.bells.get_mut(&id) else { return false };
        self.count -= usize::from(bells.remove(&Arc::as_ptr(bell).addr()).is_some());
        let empty = bells.is_empty();
        if empty {
            self.bells.remove(&id);
        }
        empty
    }

    /// Rings the bells of a node; their wakers go to the trash, to be woken outside the locks.
    pub(crate) fn notify(&self, id: Id, trash: &mut Trash) {
        for bell in self.bells.get(&id).into_iter().flat_map(BTreeMap::values) {
            bell.ring(trash);
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
            bells.values().for_each(|bell| bell.ring(trash));
        }
    }
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
