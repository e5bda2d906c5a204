//! Intervals of ordered keys: which readers a change of one key concerns.
//!
//! Each distinct interval that somebody read is a source node of its own, found by a
//! [tree of intervals](crate::memory::intervals). The tree has a lock of its own, taken before the
//! graph lock, because it compares, clones and drops user keys: the one lock of a graph under which user
//! code runs. A change looks up without the graph lock and confirms under it that no interval was added since.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

pub(crate) use crate::memory::intervals::Interval;
use crate::memory::intervals::Tree;
use crate::memory::sync::Mutex;
use crate::memory::wake::quietly;

use crate::source::{Inner, Point};
use crate::store::key::Key;
use crate::store::slots::Id;

/// The intervals of one source. Erased, because only `range` knows that keys are ordered.
pub(crate) trait Intervals<K: 'static>: Send + Sync {
    /// The node of an interval and its version, made if need be.
    fn read(&self, inner: &'static Inner<K>, interval: Interval<K>) -> (Id, u64);
    /// The intervals that contain `key`.
    fn stab(&self, key: &K) -> RangeHits;
    /// Whether no interval was added since. Under the graph lock.
    fn unchanged(&self, stabbed: &RangeHits) -> bool;
    /// A node was removed; its entry is dropped some time later.
    fn removed(&self);
    /// Drops every entry.
    fn close(&self);
}

/// What a change found, and when.
pub(crate) struct RangeHits {
    ids: Vec<Id>,
    inserts: u64,
    unsure: bool,
}

impl RangeHits {
    /// The index cannot tell: any interval may contain the key.
    pub(crate) fn is_unsure(&self) -> bool {
        self.unsure
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        self.ids.iter().copied()
    }
}

/// An empty index.
pub(crate) fn index<K: Key + Ord>() -> Box<dyn Intervals<K>> {
    Box::new(Index {
        tree: Mutex::new(Tree::default()),
        inserts: AtomicU64::new(0),
        dead: AtomicU64::new(0),
    })
}

struct Index<K> {
    tree: Mutex<Tree<K, Id>>,
    /// Written under both locks.
    inserts: AtomicU64,
    dead: AtomicU64,
}

impl<K: Key + Ord> Intervals<K> for Index<K> {
    fn read(&self, inner: &'static Inner<K>, interval: Interval<K>) -> (Id, u64) {
        let mut tree = self.tree.lock();
        if self.dead.load(Relaxed) as usize > tree.len() / 2 + 16 {
            self.purge(&mut tree, inner);
        }
        // The entry comes first: if comparing panics, nobody has read the interval.
        let at = match tree.find(&interval) {
            Some(at) => at,
            None => tree.insert(interval.clone(), Id::NONE),
        };
        let (made, writes) = {
            let core = inner.shared().core.lock();
            let known = core.node(*tree.value(at));
            if let Some(node) = known {
                node.visit();
                return (node.id, node.version());
            }
            drop(core);
            // After the entry: a write that begins now finds it there.
            let writes = inner.open_keys.writes_in(&interval);
            (inner.make(0, Point::Interval(interval)), writes)
        };
        let mut core = inner.shared().core.lock();
        let version = inner.last_change(&core);
        if core.closed {
            drop(core);
            inner.discard(made);
            tree.retain(|_| false);
            return (Id::NONE, 0);
        }
        let id = inner.insert_interval(&mut core, made, version);
        writes.into_iter().for_each(|write| core.add_intervals(write, [id]));
        self.inserts.fetch_add(1, SeqCst);
        drop(core);
        *tree.value_mut(at) = id;
        (id, version)
    }

    fn stab(&self, key: &K) -> RangeHits {
        let tree = self.tree.lock();
        let ids = tree.stab(key);
        RangeHits { ids, inserts: self.inserts.load(SeqCst), unsure: tree.is_broken() }
    }

    fn unchanged(&self, stabbed: &RangeHits) -> bool {
        self.inserts.load(SeqCst) == stabbed.inserts
    }

    fn removed(&self) {
        self.dead.fetch_add(1, Relaxed);
    }

    fn close(&self) {
        // A key whose `Ord` drops the graph has the lock, and drops what is left when it reads.
        let left = self.tree.try_lock().map(|mut tree| std::mem::take(&mut *tree));
        // A key whose destructor panics must not keep the rest of the graph open.
        quietly(|| drop(left));
    }
}

impl<K: Key + Ord> Index<K> {
    /// Drops the entries whose nodes are gone.
    fn purge(&self, tree: &mut Tree<K, Id>, inner: &'static Inner<K>) {
        self.dead.store(0, Relaxed);
        let places: Vec<usize> = (0..tree.len()).collect();
        let mut alive = Vec::with_capacity(places.len());
        for chunk in places.chunks(PURGE_CHUNK) {
            let core = inner.shared().core.lock();
            alive.extend(chunk.iter().map(|&at| core.node(*tree.value(at)).is_some()));
        }
        tree.retain(|at| alive[at]);
    }
}

const PURGE_CHUNK: usize = 512;
