//! What is recorded of a graph: events, and how often values are served.

use std::collections::VecDeque;

use crate::graph::Graph;
use crate::graph::event::{Event, EventKind, Log, Recording};
use crate::graph::owner::{PROBE_COUNT, PROBE_LOG};

impl Graph {
    /// Says which events are recorded from now on. While [`EventKind::Hit`] is among them, hits leave the
    /// lock-free path. Keys are rendered under the graph lock: their `Debug` must not ask the graph.
    pub fn record_events(&self, recording: Recording) {
        let mut core = self.shared.core.lock();
        let log = (!recording.is_nothing()).then(|| Log { recording, events: VecDeque::new() });
        let old = std::mem::replace(&mut core.log, log);
        let owners: Vec<_> = core.owners.iter().flatten().copied().collect();
        for owner in owners {
            owner.set_probe(&mut core, PROBE_LOG, recording.has(EventKind::Hit));
        }
        drop(core);
        drop(old);
    }

    /// Counts hits from now on, memo by memo ([`OwnerInfo::hits`](crate::OwnerInfo::hits)), or no longer. While they are counted they
    /// leave the lock-free path.
    pub fn count_hits(&self, on: bool) {
        let mut core = self.shared.core.lock();
        core.counts_hits = on;
        let owners: Vec<_> = core.owners.iter().flatten().copied().collect();
        for owner in owners {
            if on {
                owner.queue.hits.set(0);
            }
            owner.set_probe(&mut core, PROBE_COUNT, on);
        }
    }

    /// Takes the events since the last call.
    #[must_use]
    pub fn take_events(&self) -> Vec<Event> {
        let mut core = self.shared.core.lock();
        let events = core.log.as_mut().map(|log| std::mem::take(&mut log.events));
        events.map(Vec::from).unwrap_or_default()
    }
}
