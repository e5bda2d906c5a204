//! Intervals of ordered keys: which readers a change of one key concerns.
//!
//! Each distinct interval that somebody read is a source node of its own. An index finds the
//! intervals that contain a key in O(log n + found): a treap ordered by the lower bound that knows the
//! highest upper bound of every subtree. The index has a lock of its own, taken before the graph lock,
//! because it compares, clones and drops user keys: the one lock of a graph under which user code runs.
//! An index whose comparison panicked while it was rearranged finds everything from then on. A change looks up without the graph lock and confirms under it that no
//! interval was added since.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::source::{Inner, Point};
use crate::store::key::Key;
use crate::store::slots::Id;
use tidewire_memo_memory::sync::Mutex;

/// The bounds of a read.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Interval<K> {
    low: Bound<K>,
    high: Bound<K>,
}

impl<K: Clone> Interval<K> {
    pub(crate) fn new(bounds: &impl RangeBounds<K>) -> Self {
        Self { low: bounds.start_bound().cloned(), high: bounds.end_bound().cloned() }
    }
}

impl<K: fmt::Debug> fmt::Debug for Interval<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.low {
            Bound::Included(key) => write!(f, "[{key:?}")?,
            Bound::Excluded(key) => write!(f, "({key:?}")?,
            Bound::Unbounded => f.write_str("(")?,
        }
        f.write_str("..")?;
        match &self.high {
            Bound::Included(key) => write!(f, "{key:?}]"),
            Bound::Excluded(key) => write!(f, "{key:?})"),
            Bound::Unbounded => f.write_str(")"),
        }
    }
}

/// The intervals of one source. Erased, because only `range` knows that keys are ordered.
pub(crate) trait Intervals<K: 'static>: Send + Sync {
    /// The node of an interval and its version, made if need be.
    fn read(&self, inner: &'static Inner<K>, interval: Interval<K>) -> (Id, u64);
    /// The intervals that contain `key`.
    fn stab(&self, key: &K) -> Stabbed;
    /// Whether no interval was added since. Under the graph lock.
    fn unchanged(&self, stabbed: &Stabbed) -> bool;
    /// A node was removed; its entry is dropped some time later.
    fn removed(&self);
}

/// What a change found, and when.
pub(crate) struct Stabbed {
    ids: Vec<Id>,
    inserts: u64,
    unsure: bool,
}

impl Stabbed {
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
    tree: Mutex<Tree<K>>,
    /// Written under both locks.
    inserts: AtomicU64,
    dead: AtomicU64,
}

impl<K: Key + Ord> Intervals<K> for Index<K> {
    fn read(&self, inner: &'static Inner<K>, interval: Interval<K>) -> (Id, u64) {
        let mut tree = self.tree.lock();
        if self.dead.load(Relaxed) as usize > tree.entries.len() / 2 + 16 {
            self.purge(&mut tree, inner);
        }
        // The entry comes first: if comparing panics, nobody has read the interval.
        let at = match tree.find(&interval) {
            Some(at) => at,
            None => tree.insert(interval.clone(), Id::NONE),
        };
        let made = {
            let core = inner.shared().core.lock();
            let known = core.node(tree.entries[at].id);
            if let Some(node) = known {
                node.visit();
                return (node.id, node.version());
            }
            drop(core);
            inner.make(0, Point::Interval(interval))
        };
        let mut core = inner.shared().core.lock();
        let version = inner.last_change();
        let id = inner.insert_interval(&mut core, made, version);
        self.inserts.fetch_add(1, SeqCst);
        drop(core);
        tree.entries[at].id = id;
        (id, version)
    }

    fn stab(&self, key: &K) -> Stabbed {
        let tree = self.tree.lock();
        let mut ids = Vec::new();
        tree.stab(tree.root, key, &mut ids);
        Stabbed { ids, inserts: self.inserts.load(SeqCst), unsure: tree.broken }
    }

    fn unchanged(&self, stabbed: &Stabbed) -> bool {
        self.inserts.load(SeqCst) == stabbed.inserts
    }

    fn removed(&self) {
        self.dead.fetch_add(1, Relaxed);
    }
}

impl<K: Key + Ord> Index<K> {
    /// Drops the entries whose nodes are gone.
    fn purge(&self, tree: &mut Tree<K>, inner: &'static Inner<K>) {
        self.dead.store(0, Relaxed);
        let old = std::mem::take(tree);
        tree.broken = old.broken;
        for chunk in old.entries.chunks(PURGE_CHUNK) {
            let core = inner.shared().core.lock();
            let alive: Vec<bool> = chunk.iter().map(|e| core.node(e.id).is_some()).collect();
            drop(core);
            for (entry, _) in chunk.iter().zip(alive).filter(|(_, alive)| *alive) {
                tree.insert(entry.interval.clone(), entry.id);
            }
        }
    }
}

/// A treap of intervals.
struct Tree<K> {
    entries: Vec<Entry<K>>,
    root: Option<usize>,
    seed: u64,
    /// It is being rearranged, or was when a comparison panicked.
    broken: bool,
}

struct Entry<K> {
    interval: Interval<K>,
    id: Id,
    priority: u64,
    left: Option<usize>,
    right: Option<usize>,
    /// The entry with the highest upper bound of this subtree.
    highest: usize,
}

impl<K> Default for Tree<K> {
    fn default() -> Self {
        Self { entries: Vec::new(), root: None, seed: 0x2545_F491_4F6C_DD1D, broken: false }
    }
}

impl<K: Ord> Tree<K> {
    fn find(&self, interval: &Interval<K>) -> Option<usize> {
        let mut at = self.root;
        while let Some(here) = at {
            let entry = &self.entries[here];
            at = match order(interval, &entry.interval) {
                Ordering::Less => entry.left,
                Ordering::Greater => entry.right,
                Ordering::Equal => return Some(here),
            };
        }
        None
    }

    /// Returns the place of the entry.
    fn insert(&mut self, interval: Interval<K>, id: Id) -> usize {
        let was_broken = std::mem::replace(&mut self.broken, true);
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let new = self.entries.len();
        let priority = self.seed;
        let entry = Entry { interval, id, priority, left: None, right: None, highest: new };
        self.entries.push(entry);
        self.root = Some(self.insert_below(self.root, new));
        self.broken = was_broken;
        new
    }

    fn insert_below(&mut self, root: Option<usize>, new: usize) -> usize {
        let Some(root) = root else { return new };
        let top = if order(&self.entries[new].interval, &self.entries[root].interval).is_lt() {
            let left = self.insert_below(self.entries[root].left, new);
            self.entries[root].left = Some(left);
            if self.entries[left].priority > self.entries[root].priority {
                self.entries[root].left = self.entries[left].right.replace(root);
                left
            } else {
                root
            }
        } else {
            let right = self.insert_below(self.entries[root].right, new);
            self.entries[root].right = Some(right);
            if self.entries[right].priority > self.entries[root].priority {
                self.entries[root].right = self.entries[right].left.replace(root);
                right
            } else {
                root
            }
        };
        if top != root {
            self.refresh(root);
        }
        self.refresh(top);
        top
    }

    /// Recomputes which entry of a subtree reaches highest.
    fn refresh(&mut self, at: usize) {
        let mut highest = at;
        for child in [self.entries[at].left, self.entries[at].right].into_iter().flatten() {
            let candidate = self.entries[child].highest;
            let (a, b) = (&self.entries[candidate].interval, &self.entries[highest].interval);
            if upper(&a.high, &b.high).is_gt() {
                highest = candidate;
            }
        }
        self.entries[at].highest = highest;
    }

    fn stab(&self, at: Option<usize>, key: &K, found: &mut Vec<Id>) {
        let Some(at) = at else { return };
        let entry = &self.entries[at];
        if !reaches(&self.entries[entry.highest].interval.high, key) {
            return;
        }
        self.stab(entry.left, key, found);
        if !begins(&entry.interval.low, key) {
            return;
        }
        if reaches(&entry.interval.high, key) {
            found.push(entry.id);
        }
        self.stab(entry.right, key, found);
    }
}

/// Whether an interval with this lower bound may contain `key`.
fn begins<K: Ord>(low: &Bound<K>, key: &K) -> bool {
    match low {
        Bound::Unbounded => true,
        Bound::Included(low) => low <= key,
        Bound::Excluded(low) => low < key,
    }
}

/// Whether an interval with this upper bound may contain `key`.
fn reaches<K: Ord>(high: &Bound<K>, key: &K) -> bool {
    match high {
        Bound::Unbounded => true,
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
    }
}

fn order<K: Ord>(a: &Interval<K>, b: &Interval<K>) -> Ordering {
    lower(&a.low, &b.low).then_with(|| upper(&a.high, &b.high))
}

fn lower<K: Ord>(a: &Bound<K>, b: &Bound<K>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Less,
        (_, Bound::Unbounded) => Ordering::Greater,
        (Bound::Included(a), Bound::Included(b)) | (Bound::Excluded(a), Bound::Excluded(b)) => {
            a.cmp(b)
        }
        (Bound::Included(a), Bound::Excluded(b)) => a.cmp(b).then(Ordering::Less),
        (Bound::Excluded(a), Bound::Included(b)) => a.cmp(b).then(Ordering::Greater),
    }
}

fn upper<K: Ord>(a: &Bound<K>, b: &Bound<K>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Greater,
        (_, Bound::Unbounded) => Ordering::Less,
        (Bound::Included(a), Bound::Included(b)) | (Bound::Excluded(a), Bound::Excluded(b)) => {
            a.cmp(b)
        }
        (Bound::Included(a), Bound::Excluded(b)) => a.cmp(b).then(Ordering::Greater),
        (Bound::Excluded(a), Bound::Included(b)) => a.cmp(b).then(Ordering::Less),
    }
}

const PURGE_CHUNK: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stabbing_finds_exactly_the_intervals_that_contain_the_key() {
        let mut tree = Tree::default();
        let mut all = Vec::new();
        let mut seed = 0x9E37_79B9_u64;
        let mut next = |bound: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        for id in 0..500 {
            let (from, length) = (next(100), next(30));
            let bounds = match next(5) {
                0 => (Bound::Included(from), Bound::Excluded(from + length)),
                1 => (Bound::Excluded(from), Bound::Included(from + length)),
                2 => (Bound::Unbounded, Bound::Included(from)),
                3 => (Bound::Excluded(from), Bound::Unbounded),
                _ => (Bound::Included(from), Bound::Included(from)),
            };
            let interval = Interval::new(&bounds);
            if tree.find(&interval).is_none() {
                tree.insert(interval, Id::new(id, 1));
                all.push((bounds, id));
            }
        }
        for key in 0..=140 {
            let mut found = Vec::new();
            tree.stab(tree.root, &key, &mut found);
            let mut found: Vec<u32> = found.into_iter().map(Id::slot).collect();
            found.sort_unstable();
            let expected: Vec<u32> =
                all.iter().filter(|(bounds, _)| bounds.contains(&key)).map(|&(_, id)| id).collect();
            assert_eq!(found, expected, "key {key}");
        }
    }
}
