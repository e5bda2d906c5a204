//! What a caller of `get` finds that is no hit of the short way: a value all the same, a computation to join,
//! or a reason why there is neither.

use crate::compute::audit;
use crate::compute::cached_value::CachedValue;
use crate::compute::capture::{self, Frame};
use crate::compute::inner::{Inner, Lookup, Node};
use crate::compute::own::{self, Own};
use crate::compute::work::{Participant, Work};
use crate::graph::core::Core;
use crate::graph::cycle;
use crate::graph::verify::{Progress, Verification, confirm_unchanged};
use crate::memory::line;
use crate::store::error::Error;
use crate::store::key::Key;
use crate::store::node::{FRESH, SUSPECT};
use crate::store::slots::Id;
use crate::store::value::Outcome;

/// How a caller asks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asking {
    /// On behalf of this node, which is not the ambient one.
    pub(crate) parent: Option<Id>,
    /// By who was answered early before and would only be given the same again.
    pub(crate) is_patient: bool,
}

/// What a caller finds that is no hit of the short way.
pub(crate) enum Entry<K: Key, V: Send + Sync + 'static> {
    Join(Participant<K, V>),
    Settled(Settled<V>),
}

/// What needs no computation, or one for this caller alone.
pub(crate) enum Settled<V: Send + Sync + 'static> {
    /// A hit all the same, which is noted.
    Hit(CachedValue<V>),
    /// What turned out to be current under the lock.
    Current(CachedValue<V>, Id),
    Failure(Outcome<V>, Id),
    /// The caller writes.
    Own(Box<Own<V>>),
    Refused(Error),
}

/// Looks for the node of a key. Pinned.
#[inline(always)]
pub(crate) fn look<'p, K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
    frame: Option<&Frame>,
) -> Lookup<'p, K, V> {
    let looked = memo.look(key);
    if let Some(frame) = frame {
        frame.makes_good((memo.owner.number, looked.hash));
    }
    looked
}

/// The node that is being computed where a caller asks.
#[inline(always)]
pub(crate) fn parent_of<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    frame: Option<&Frame>,
) -> Id {
    // Another graph's nodes have numbers of their own.
    let own = frame.filter(|frame| std::ptr::eq(frame.graph, memo.shared()));
    own.map_or(Id::NONE, |frame| frame.node)
}

/// Serves, verifies, joins or starts, in one hold of the graph lock where possible. Pinned since the caller
/// looked.
#[inline(always)]
pub(crate) fn enter<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
    looked: Lookup<'_, K, V>,
    Asking { parent, is_patient }: Asking,
    frame: Option<&Frame>,
) -> Entry<K, V> {
    if parent.is_none()
        && let Some(value) = looked.node.ok().and_then(|node| memo.long_hit(node))
    {
        if memo.owner.is_probed() {
            audit::sample(memo, key, &value);
        }
        return Entry::Settled(Settled::Hit(value));
    }
    let is_free = parent.is_none() && !is_patient;
    if memo.shared().has_writes()
        && is_free
        && let Some(settled) = enter_writing(memo, key)
    {
        return Entry::Settled(settled);
    }
    let parent = parent.unwrap_or_else(|| parent_of(memo, frame));
    let Some((mut core, node)) = memo.node(key, looked) else {
        return Entry::Settled(Settled::Refused(Error::closed(memo.name())));
    };
    if node.header.state() == SUSPECT
        && !node.header.is_computing()
        && !confirm_unchanged(&mut core, &node.header)
    {
        // Most of what is suspect can be settled right here, without an allocation for a work.
        let mut check = Verification::own(node.header.id);
        let progress = check.proceed(&mut core, memo.shared().walk_chunk());
        debug_assert!(!matches!(progress, Progress::Compute(id) if id == node.header.id));
    }
    if node.header.state() == FRESH
        && let Some(settled) = current_value(&mut core, node)
    {
        return Entry::Settled(settled);
    }
    if let Some(cycle) = cycle::find(&core, parent, &node.header) {
        core.stats.cycles += 1;
        drop(core);
        return Entry::Settled(Settled::Refused(Error::cycle(&cycle.names())));
    }
    Entry::Join(Work::join(&mut core, memo, node, parent))
}

/// What is not in memory, for a caller who holds a write guard.
#[cold]
#[inline(never)]
fn enter_writing<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
) -> Option<Settled<V>> {
    if !memo.shared().is_writing(capture::asker()) {
        return None;
    }
    match own::begin(memo, key) {
        Ok(own) => own.map(|own| Settled::Own(Box::new(own))),
        Err(error) => Some(Settled::Refused(error)),
    }
}

/// The value of a fresh node, under the lock and pinned.
#[inline(always)]
#[allow(unsafe_code)]
fn current_value<K: Key, V: Send + Sync + 'static>(
    core: &mut Core,
    node: &Node<K, V>,
) -> Option<Settled<V>> {
    let head = node.header.value();
    if head.is_null() {
        return None;
    }
    core.note_hit(&node.header);
    let id = node.header.id;
    // SAFETY: the node's value is alive while the graph lock is held.
    if unsafe { &*head }.is_failure() {
        // SAFETY: as above.
        return Some(Settled::Failure(unsafe { Outcome::from_shared(head) }, id));
    }
    // SAFETY: a value, read under the caller's pin.
    Some(Settled::Current(unsafe { CachedValue::pinned(head, &*line::mine()) }, id))
}
