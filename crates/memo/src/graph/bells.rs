//! Who is told when a node is marked.
//!
//! A watch hangs a bell on the node; a walk that marks the node rings it. Ringing computes nothing: the
//! wakers go to the trash and are woken when the locks are free.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Poll, Waker};

use crate::graph::{Shared, budget};
use crate::graph::trash::Trash;
use crate::memory::sync::Mutex;
use crate::store::node::EMPTY;
use crate::store::slots::Id;

/// What a walk rings.
#[derive(Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Bell {
    pub(crate) fn ring(&self, trash: &mut Trash) {
        self.rung.store(true, SeqCst);
        trash.wakers.extend(self.waker.lock().take());
    }

    /// Whether it rang since the last time somebody asked; if not, `waker` is woken when it does.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<()> {
        if !self.rung.load(SeqCst) {
            let waker = waker.clone();
            let old = self.waker.lock().replace(waker);
            drop(old);
        }
        if self.rung.swap(false, SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(crate) fn silence(&self) {
        self.rung.store(false, SeqCst);
    }
}

/// The bells of a graph, by node.
pub(crate) struct Watchers {
    bells: HashMap<Id, Vec<Arc<Bell>>>,
    /// Bells on all nodes.
    count: usize,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self { bells: HashMap::new(), count: 0 }
    }

    pub(crate) fn attach(&mut self, id: Id, bell: &Arc<Bell>) {
        self.bells.entry(id).or_default().push(bell.clone());
        self.count += 1;
    }

    /// Returns whether nobody watches the node any more.
    fn detach(&mut self, id: Id, bell: &Arc<Bell>) -> bool {
        let Some(bells) = self.bells.get_mut(&id) else { return false };
        let before = bells.len();
        bells.retain(|other| !Arc::ptr_eq(other, bell));
        self.count -= before - bells.len();
        let empty = bells.is_empty();
        if empty {
            self.bells.remove(&id);
        }
        empty
    }

    /// Rings the bells of a node; their wakers go to the trash, to be woken outside the locks.
    pub(crate) fn notify(&self, id: Id, trash: &mut Trash) {
        for bell in self.bells.get(&id).into_iter().flatten() {
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
            bells.iter().for_each(|bell| bell.ring(trash));
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
