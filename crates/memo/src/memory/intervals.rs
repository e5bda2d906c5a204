//! A tree of intervals, which finds those that contain a point in O(log n + found).
//!
//! It is a treap ordered by the lower bound, in which every subtree knows its highest upper bound. One whose
//! comparison panicked while it was rearranged says so from then on.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, RangeBounds};

/// The bounds of a read.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Interval<K> {
    low: Bound<K>,
    high: Bound<K>,
}

impl<K: Clone> Interval<K> {
    /// The interval of a range.
    pub(crate) fn new(bounds: &impl RangeBounds<K>) -> Self {
        Self { low: bounds.start_bound().cloned(), high: bounds.end_bound().cloned() }
    }
}

impl<K: Ord> Interval<K> {
    /// Whether a key lies in it.
    pub(crate) fn contains(&self, key: &K) -> bool {
        begins(&self.low, key) && reaches(&self.high, key)
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

/// A treap of intervals, each with a value.
#[derive(Debug)]
pub(crate) struct Tree<K, V> {
    entries: Vec<Entry<K, V>>,
    root: Option<usize>,
    seed: u64,
    /// It is being rearranged, or was when a comparison panicked.
    broken: bool,
}

#[derive(Debug)]
struct Entry<K, V> {
    interval: Interval<K>,
    value: V,
    priority: u64,
    left: Option<usize>,
    right: Option<usize>,
    /// The entry with the highest upper bound of this subtree.
    highest: usize,
}

impl<K, V> Default for Tree<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), root: None, seed: 0x2545_F491_4F6C_DD1D, broken: false }
    }
}

impl<K, V> Tree<K, V> {
    /// How many intervals there are, each at a place below this.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A comparison panicked while the tree was rearranged, so that [`stab`](Self::stab) may miss intervals.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// The value at a place.
    pub(crate) fn value(&self, place: usize) -> &V {
        &self.entries[place].value
    }

    /// The value at a place.
    pub(crate) fn value_mut(&mut self, place: usize) -> &mut V {
        &mut self.entries[place].value
    }
}

impl<K: Ord, V: Copy> Tree<K, V> {
    /// The place of an interval.
    pub(crate) fn find(&self, interval: &Interval<K>) -> Option<usize> {
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

    /// Adds an interval and returns its place.
    pub(crate) fn insert(&mut self, interval: Interval<K>, value: V) -> usize {
        let was_broken = std::mem::replace(&mut self.broken, true);
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let new = self.entries.len();
        let priority = self.seed;
        let entry = Entry { interval, value, priority, left: None, right: None, highest: new };
        self.entries.push(entry);
        self.root = Some(self.insert_below(self.root, new));
        self.broken = was_broken;
        new
    }

    /// Drops the intervals whose places are not wanted; the others get new places.
    pub(crate) fn retain(&mut self, wanted: impl Fn(usize) -> bool) {
        let old = std::mem::take(self);
        self.broken = old.broken;
        let wanted = old.entries.into_iter().enumerate().filter(|(at, _)| wanted(*at));
        for (_, entry) in wanted {
            self.insert(entry.interval, entry.value);
        }
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

    /// The values of the intervals that contain `key`.
    pub(crate) fn stab(&self, key: &K) -> Vec<V> {
        let mut found = Vec::new();
        self.stab_below(self.root, key, &mut found);
        found
    }

    fn stab_below(&self, at: Option<usize>, key: &K, found: &mut Vec<V>) {
        let Some(at) = at else { return };
        let entry = &self.entries[at];
        if !reaches(&self.entries[entry.highest].interval.high, key) {
            return;
        }
        self.stab_below(entry.left, key, found);
        if !begins(&entry.interval.low, key) {
            return;
        }
        if reaches(&entry.interval.high, key) {
            found.push(entry.value);
        }
        self.stab_below(entry.right, key, found);
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
                tree.insert(interval, id);
                all.push((bounds, id));
            }
        }
        for key in 0..=140 {
            let mut found = tree.stab(&key);
            found.sort_unstable();
            let expected: Vec<u32> =
                all.iter().filter(|(bounds, _)| bounds.contains(&key)).map(|&(_, id)| id).collect();
            assert_eq!(found, expected, "key {key}");
        }
    }
}
