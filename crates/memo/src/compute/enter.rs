//! What a caller of `get` finds that is no hit of the short way: a value all the same, a computation to join,
//! or a reason why there is neither.

use crate::compute::audit;
use crate::compute::cached_value::CachedValue;
use crate::compute::capture::{self, Frame};
use crate::compute::get::{Asking, DirectAnswer, Entry};
use crate::compute::inner::{Inner, Lookup, Node};
use crate::compute::own;
use crate::compute::work::Work;
use crate::graph::core::Core;
use crate::graph::cycle;
use crate::graph::deferred::DeferredDrops;
use crate::graph::flight::Parent;
use crate::graph::verify::{Progress, Verification, confirm_unchanged};
use crate::memory::line;
use crate::memory::sync::MutexGuard;
use crate::store::error::Error;
use crate::store::key::Key;
use crate::store::node::{FRESH, SUSPECT};
use crate::store::value::Outcome;

impl<K: Key, V: Send + Sync + 'static> Inner<K, V> {
    /// Looks for the node of a key. Pinned.
    #[inline(always)]
    pub(crate) fn look_up<'p>(&'static self, key: &K, frame: Option<&Frame>) -> Lookup<'p, K, V> {
        let looked = self.look(key);
        if let Some(frame) = frame {
            frame.makes_good((self.owner.number, looked.hash));
        }
        looked
    }

    /// The run that goes on where a caller asks.
    #[inline(always)]
    pub(crate) fn parent_of(&'static self, frame: Option<&Frame>) -> Parent {
        // Of another graph it is nothing that runs here: no two runs of a process have one number.
        frame.map_or(Parent::NONE, Frame::parent)
    }

    /// Serves, verifies, joins or starts, in one hold of the graph lock where possible. Pinned since the caller
    /// looked.
    #[inline(always)]
    pub(crate) fn enter(
        &'static self,
        key: &K,
        looked: Lookup<'_, K, V>,
        Asking { parent, .. }: Asking,
        frame: Option<&Frame>,
    ) -> Entry<K, V> {
        if parent.is_none()
            && let Some(value) = looked.node.ok().and_then(|node| self.long_hit(node))
        {
            if self.owner.is_probed() {
                audit::sample(self, key, &value);
            }
            return Entry::Direct(DirectAnswer::Hit(value));
        }
        if self.shared().has_writes()
            && parent.is_none()
            && let Some(answer) = self.enter_writing(key)
        {
            return Entry::Direct(answer);
        }
        let parent = parent.map_or_else(|| self.parent_of(frame), Parent::now);
        let Some((mut core, node)) = self.node(key, looked) else {
            return Entry::Direct(DirectAnswer::Refused(Error::closed(self.name())));
        };
        if node.header.state() == SUSPECT
            && !node.header.is_computing()
            && !confirm_unchanged(&mut core, &node.header)
        {
            // Most of what is suspect can be settled right here, without an allocation for a work.
            let mut check = Verification::own(node.header.id);
            let progress = check.proceed(&mut core, self.shared().walk_chunk());
            debug_assert!(!matches!(progress, Progress::Compute(id) if id == node.header.id));
        }
        if node.header.state() == FRESH
            && let Some(answer) = current_value(&mut core, node)
        {
            return Entry::Direct(answer);
        }
        if cycle::find(&core, parent, &node.header).is_some() {
            return self.enter_cycle(core, node, parent);
        }
        Entry::Join(Work::join(&mut core, self, node, parent))
    }

    /// A caller who closes a cycle, unless a run in it is overtaken and begins anew.
    #[cold]
    #[inline(never)]
    fn enter_cycle(
        &'static self,
        mut core: MutexGuard<'_, Core>,
        node: &Node<K, V>,
        parent: Parent,
    ) -> Entry<K, V> {
        let mut deferred = DeferredDrops::default();
        let cycle = cycle::find_current(&core, parent, &node.header, &mut deferred);
        let Some(cycle) = cycle else {
            let joined = Work::join(&mut core, self, node, parent);
            drop(core);
            drop(deferred);
            return Entry::Join(joined);
        };
        core.stats.cycles += 1;
        drop(core);
        drop(deferred);
        Entry::Direct(DirectAnswer::Refused(Error::cycle(&cycle.names())))
    }

    /// What is not in memory, for a caller who holds a write guard.
    #[cold]
    #[inline(never)]
    fn enter_writing(&'static self, key: &K) -> Option<DirectAnswer<V>> {
        if !self.shared().is_writing(capture::asker()) {
            return None;
        }
        Some(match own::begin(self, key) {
            Ok(own) => DirectAnswer::Own(Box::new(own)),
            Err(error) => DirectAnswer::Refused(error),
        })
    }
}

/// The value of a fresh node, under the lock and pinned.
#[inline(always)]
#[allow(unsafe_code)]
fn current_value<K: Key, V: Send + Sync + 'static>(
    core: &mut Core,
    node: &Node<K, V>,
) -> Option<DirectAnswer<V>> {
    let head = node.header.value();
    if head.is_null() {
        return None;
    }
    core.note_hit(&node.header);
    let id = node.header.id;
    // SAFETY: the node's value is alive while the graph lock is held.
    if unsafe { &*head }.is_failure() {
        // SAFETY: as above.
        return Some(DirectAnswer::Failure(unsafe { Outcome::from_shared(head) }, id));
    }
    // SAFETY: a value, read under the caller's pin.
    Some(DirectAnswer::Current(unsafe { CachedValue::pinned(head, &*line::mine()) }, id))
}
