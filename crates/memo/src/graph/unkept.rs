//! What an answer was made of that is not kept, so that nothing depends on it.
//!
//! Whoever reads such an answer has no record of it. A strict memo must know all the same whether what it was
//! made of is as it was: it would mix states otherwise. So the answer brings a list of what its run had read, and
//! the lists of what that was given in turn. They are looked through once between two steps of changes, so
//! that a chain of such answers costs each of its links one look.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::graph::core::Core;
use crate::graph::validate::{Record, Taint, Validity, validate};
use crate::store::slots::Id;

/// Why an answer is not kept, and what it was made of.
#[derive(Clone)]
pub(crate) struct Unkept {
    pub(crate) taint: Taint,
    /// `None` when it read nothing, or when the taint says that it is outdated already.
    pub(crate) reads: Option<Arc<UnkeptReads>>,
}

/// See the module documentation. It was valid when it was made.
pub(crate) struct UnkeptReads {
    records: Vec<Record>,
    /// Of the answers that were read and are not kept.
    below: Vec<Arc<Self>>,
    /// What [`Core::changed_at`] was when all of it was found valid last. Under the graph lock.
    valid_at: AtomicU64,
}

impl Unkept {
    /// Boxed, as everything rare.
    pub(crate) fn new(taint: Taint, reads: Option<Arc<UnkeptReads>>) -> Box<Self> {
        Box::new(Self { taint, reads })
    }
}

impl UnkeptReads {
    /// What a run has read; `None` for nothing.
    pub(crate) fn of(records: &[Record], below: &[Arc<Self>]) -> Option<Arc<Self>> {
        match (records, below) {
            ([], []) => None,
            ([], [one]) => Some(one.clone()),
            _ => Some(Arc::new(Self::new(records.to_vec(), below.to_vec()))),
        }
    }

    fn new(records: Vec<Record>, below: Vec<Arc<Self>>) -> Self {
        Self { records, below, valid_at: AtomicU64::new(NEVER) }
    }

    /// Adds one to those of a run. Of very many one is made, so that a run that reads the same again and again
    /// takes no more memory than what it reads.
    pub(crate) fn add(self: Arc<Self>, to: &mut Vec<Arc<Self>>) {
        to.push(self);
        if to.len() >= LISTS {
            let one = Self::one_of(to);
            *to = vec![Arc::new(one)];
        }
    }

    fn one_of(all: &[Arc<Self>]) -> Self {
        let mut records: HashMap<Id, Record> = HashMap::new();
        let (mut open, mut known): (Vec<_>, HashSet<_>) = (all.iter().collect(), HashSet::new());
        while let Some(list) = open.pop() {
            if !known.insert(Arc::as_ptr(list)) {
                continue;
            }
            for record in &list.records {
                let older = records.entry(record.id).or_insert(*record);
                older.version = older.version.min(record.version);
            }
            open.extend(&list.below);
        }
        Self::new(records.into_values().collect(), Vec::new())
    }

    /// Whether all of it is as it was.
    pub(crate) fn are_valid(all: &[Arc<Self>], core: &Core) -> bool {
        let mut open: Vec<_> = all.iter().collect();
        let mut found = Vec::new();
        while let Some(list) = open.pop() {
            if list.valid_at.swap(core.changed_at, Relaxed) == core.changed_at {
                continue;
            }
            found.push(list);
            if !matches!(validate(core, &list.records, u64::MAX), Validity::Valid) {
                found.iter().for_each(|list| list.valid_at.store(NEVER, Relaxed));
                return false;
            }
            open.extend(&list.below);
        }
        true
    }
}

impl Drop for UnkeptReads {
    fn drop(&mut self) {
        // One after the other: there may be more than the stack has room for.
        let mut open = std::mem::take(&mut self.below);
        while let Some(list) = open.pop() {
            if let Some(mut list) = Arc::into_inner(list) {
                open.append(&mut list.below);
            }
        }
    }
}

/// So many lists of one run are made one.
const LISTS: usize = 1024;
/// Before the first look.
const NEVER: u64 = u64::MAX;
