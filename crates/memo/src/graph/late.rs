//! What tasks of a function read after its value was published.

use crate::graph::Shared;
use crate::graph::core::Core;
use crate::graph::expiry::Alarm;
use crate::graph::validate::{Record, Taint, Validity, validate};
use crate::graph::verify::confirm_unchanged;
use crate::store::node::Header;
use crate::store::slots::Id;

/// What late reads are compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClosedVersion {
    pub(crate) start_tick: u64,
    /// That of the value that was published.
    pub(crate) version: u64,
    /// The attempt announced changes, as the next one will.
    pub(crate) announces: bool,
}

/// A read after its value was published becomes a dependency of it all the same; if what was read has
/// changed since the attempt began, the value is stale.
///
/// What cannot be tracked, or was changed by the attempt itself, would be read late again, of a value that is
/// kept and made stale and, being equal, no news: a watch would ask without end and yield nothing. So the
/// next value is answered and not kept.
pub(crate) fn late(
    graph: &'static Shared,
    id: Id,
    read: Result<Record, Taint>,
    closed: ClosedVersion,
) {
    let mut alarm = None;
    let is_hopeless = closed.announces || read.is_err_and(|taint| taint.has(Taint::UNTRACKED));
    let settled = {
        let mut core = graph.core.lock();
        core.stats.late_reads += 1;
        let Some(node) = core.node(id) else { return };
        let start = closed.start_tick;
        match read {
            Ok(record) if node.version() == closed.version => {
                let depends = core.depend(node, record, start, &mut alarm);
                core.check_budget(graph, None);
                depends
            }
            // Of a value that is another by now, which that has nothing to do with while it is right.
            Ok(record) => matches!(validate(&core, &[record], start), Validity::Valid),
            Err(_) => false,
        }
    };
    alarm.iter().for_each(|alarm| alarm());
    if !settled {
        graph.cascade(|core, walk| match core.node(id) {
            Some(node) if node.version() == closed.version => {
                if is_hopeless {
                    node.set_unkept();
                }
                core.invalidate(node, walk);
            }
            // What was made of the value before it is made anew; what was made of this one is verified.
            Some(node) => walk.outdate(core, node),
            None => {}
        });
    }
}

impl Core {
    /// Adds a dependency to a published node; `false` when the node's value may be older than it.
    fn depend(
        &mut self,
        node: &Header,
        record: Record,
        start_tick: u64,
        alarm: &mut Option<Alarm>,
    ) -> bool {
        let Record { id, version } = record;
        if !matches!(validate(self, &[record], start_tick), Validity::Valid) {
            return false;
        }
        if version > node.verified.get() {
            // What was made since, though nothing has changed, had no place in memory.
            if !node.is_current() || self.changed_at > start_tick {
                return false;
            }
            // Where another had none, either, a change that comes will have the function run, as it does anyway.
            confirm_unchanged(self, node);
        }
        if node.dependencies(&self.slots).iter().any(|known| known == id) {
            return true;
        }
        let Some(dependency) = self.node(id) else { return false };
        if dependency.is_external() {
            node.set_external(true);
            if let Some(life) = self.bounded_life(node, None) {
                *alarm = self.expiry.shorten(node.id, life, None);
            }
        }
        self.add_dependant(dependency, node.id);
        let more = node.add_dependency(&mut self.slots, id);
        self.add_weight(node, more);
        true
    }
}
