//! Whether what a computation read is still so, and registering it.

use crate::graph::core::Core;
use crate::memory::fault::{Fault, injected};
use crate::store::node::Header;
use crate::store::slots::Id;

/// One dependency as it was when it was read.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) id: Id,
    pub(crate) version: u64,
}

/// Why an answer cannot be published, or was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taint(u8);

impl Taint {
    /// A change came between: the next attempt may be published.
    pub(crate) const OUTDATED: Self = Self(1);
    /// It used what cannot be tracked (another graph, a cycle, an error that is not kept), as the next
    /// attempt will.
    pub(crate) const UNTRACKED: Self = Self(2);
    /// It announced changes itself, which is no reason by itself, but says whose fault it is if there is one.
    pub(crate) const ANNOUNCES: Self = Self(4);

    /// It said so by [`read_untracked`](crate::read_untracked).
    pub(crate) const UNTOLD: Self = Self(8);
    /// The next attempt may be published, but not if it is made at once: a change came between again and again,
    /// or what the value before had read late could not be tracked (see [`crate::compute::scope`]).
    pub(crate) const DEFERRED: Self = Self(16);
    /// It, or what it used, was rejected as often as a strict memo may be: it may mix states, and
    /// whoever used it would not get better by running again.
    pub(crate) const EXHAUSTED: Self = Self(32);
    /// Whoever is given such an answer is told.
    pub(crate) const TOLD: Self = Self::OUTDATED.or(Self::DEFERRED);

    pub(crate) fn is_any(self) -> bool {
        self.has(Self::OUTDATED.or(Self::UNTRACKED))
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What the graph says.
pub(crate) enum Validity {
    Valid,
    Invalid,
    Unsure(Id),
}

#[inline]
pub(crate) fn validate(core: &Core, records: &[Record], start_tick: u64) -> Validity {
    if records.is_empty() { Validity::Valid } else { validate_some(core, records, start_tick) }
}

fn validate_some(core: &Core, records: &[Record], start_tick: u64) -> Validity {
    let mut suspect = None;
    for record in records {
        let Some(node) = core.node(record.id) else { return Validity::Invalid };
        let version = node.version();
        if version != record.version && !injected(Fault::VersionsNotCompared) {
            return Validity::Invalid;
        }
        if node.is_source() && version > start_tick && !injected(Fault::SourceStartIgnored) {
            return Validity::Invalid;
        }
        if suspect.is_none() && !node.is_current() && !injected(Fault::SuspectAccepted) {
            suspect = Some(record.id);
        }
    }
    suspect.map_or(Validity::Valid, Validity::Unsure)
}

/// Makes a node a dependant of everything in `edges`, where it is not one already: a list that was not
/// taken since the node was last verified still has it, if it was a dependency then.
#[inline(always)]
pub(crate) fn register(core: &mut Core, node: &Header, edges: impl ExactSizeIterator<Item = Id>) {
    if edges.len() > 0 {
        register_some(core, node, edges);
    }
}

fn register_some(core: &mut Core, node: &Header, edges: impl ExactSizeIterator<Item = Id>) {
    core.stats.longest_hold = core.stats.longest_hold.max(edges.len() as u64);
    let verified = node.verified.get();
    for (at, id) in edges.enumerate() {
        let Some(dependency) = core.node(id) else { continue };
        if dependency.is_external() {
            node.set_external(true);
        }
        let old = node.dependencies(&core.slots);
        let untouched = dependency.taken.get() <= verified;
        let known = untouched
            && (old.get(at) == Some(id) || old.iter().take(SEARCHED).any(|old| old == id));
        if !known {
            core.add_dependant(dependency, node.id);
        }
    }
}

/// Old dependencies that are searched for a moved one before the edge is simply added again.
const SEARCHED: usize = 32;
