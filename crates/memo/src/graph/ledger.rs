//! The accounts of a graph: what its nodes weigh, what may be taken next, and which hashes are remembered.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::store::slots::Id;

/// The accounts of a graph.
pub(crate) struct Ledger {
    pub(super) bytes: usize,
    pub(super) budget: usize,
    /// Ghosts as they became ghosts; ids of nodes that recovered may remain, and come once more.
    pub(super) ghosts: VecDeque<Id>,
    ghosts_before_prune: usize,
    /// Hashes of values that were evicted, where the memo can give one.
    fingerprints: HashMap<Id, u64>,
    /// Values larger than a budget, to be evicted next.
    pub(super) oversized: Vec<Id>,
    /// What was made at this tick or later may have been read by a computation that runs.
    pub(super) in_use_from: u64,
    /// The same, and is not evicted now.
    pub(super) spare_from: u64,
    /// Something is above a budget only because a watch needs it.
    pub(crate) spared_for_watch: bool,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            bytes: 0,
            budget: DEFAULT_BUDGET,
            ghosts: VecDeque::new(),
            ghosts_before_prune: GHOSTS_BEFORE_PRUNE,
            fingerprints: HashMap::new(),
            oversized: Vec::new(),
            in_use_from: u64::MAX,
            spare_from: u64::MAX,
            spared_for_watch: false,
        }
    }

    /// Bytes of what is kept beside the nodes.
    pub(super) fn aside(&self) -> usize {
        self.fingerprints.len() * FINGERPRINT_BYTES + self.ghosts.len() * size_of::<Id>()
    }

    /// Adds a ghost to the line; forgets when they recovered where that is the majority of it.
    pub(super) fn queue_ghost(&mut self, id: Id, is_ghost: impl Fn(Id) -> bool) {
        if self.ghosts.len() >= self.ghosts_before_prune {
            let line = std::mem::take(&mut self.ghosts);
            let mut known = HashSet::new();
            let latest = line.into_iter().rev().filter(|&id| is_ghost(id) && known.insert(id));
            latest.for_each(|id| self.ghosts.push_front(id));
            self.ghosts_before_prune = (self.ghosts.len() * 2).max(GHOSTS_BEFORE_PRUNE);
        }
        self.ghosts.push_back(id);
    }

    #[cold]
    pub(super) fn note_oversized(&mut self, id: Id) {
        self.oversized.push(id);
    }

    #[cold]
    pub(super) fn replace_fingerprint(&mut self, id: Id, fingerprint: Option<u64>) {
        match fingerprint {
            Some(fingerprint) => _ = self.fingerprints.insert(id, fingerprint),
            None => _ = self.fingerprints.remove(&id),
        }
    }

    /// Whether it remembers a fingerprint at all.
    #[inline]
    pub(crate) fn remembers(&self) -> bool {
        !self.fingerprints.is_empty()
    }

    pub(crate) fn fingerprint(&self, id: Id) -> Option<u64> {
        self.fingerprints.get(&id).copied()
    }
}

const GHOSTS_BEFORE_PRUNE: usize = 1024;
/// About what an entry of a map with a key of 8 bytes takes.
const FINGERPRINT_BYTES: usize = 32;
const DEFAULT_BUDGET: usize = 256 << 20;
