//! Lives that end by time, with time as an argument.
//!
//! Nothing here reads a clock. [`Graph::advance`] is told what time it is; a value that is published
//! between two calls counts from the first of them, so it lives at most its `ttl`, never longer. At most
//! one entry per node waits in the heap; a recomputed value moves its deadline in a map instead.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::graph::cascade::Walk;
use crate::graph::core::Core;
use crate::graph::event::EventKind;
use crate::graph::{Graph, Shared};
use crate::memory::fault::{Fault, injected};
use crate::store::node::{DIRTY, EMPTY, FRESH, GHOST, Header};
use crate::store::slots::Id;

/// Deadlines of a graph.
pub(crate) struct Expiry {
    now: Option<Instant>,
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    deadlines: HashMap<Id, Lifetime>,
    /// Published when nobody had told the time yet, or while the driver slept.
    undated: HashMap<Id, Duration>,
    /// Told when something is to be dated.
    alarm: Option<Alarm>,
    asleep: bool,
    /// How long what was made of external sources lives at most.
    external: Option<Duration>,
}

/// Tells the driver that something is to be dated. Called outside of the lock.
pub(crate) type Alarm = Arc<dyn Fn() + Send + Sync>;

/// When a value with a life of its own was made, and when that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The time that [`Graph::advance`] was last told before the value was made.
    pub since: Instant,
    /// From when on the value is stale.
    pub until: Instant,
}

impl Expiry {
    pub(crate) fn new() -> Self {
        Self {
            now: None,
            heap: BinaryHeap::new(),
            deadlines: HashMap::new(),
            undated: HashMap::new(),
            alarm: None,
            asleep: false,
            external: Some(EXTERNAL_LIFE),
        }
    }

    /// Whether what is made of external sources ends by time.
    pub(crate) fn bounds_external(&self) -> bool {
        self.external.is_some()
    }

    #[inline(never)]
    fn bounded(&self, life: Option<Duration>) -> Option<Duration> {
        life.into_iter().chain(self.external).min()
    }

    /// A value was published that may live for `life`, or, unless that begins anew, no longer than what was
    /// left of the last one. Returns whom to tell, outside the lock.
    pub(crate) fn publish(&mut self, id: Id, life: Duration, anew: bool) -> Option<Alarm> {
        let queued = if anew { self.deadlines.remove(&id) } else { None };
        if anew && !self.undated.is_empty() {
            self.undated.remove(&id);
        }
        self.shorten(id, life, queued)
    }

    /// From now on the value lives for `life` at most. Returns whom to tell, outside the lock.
    ///
    /// The heap may have an entry already, of a deadline that was.
    pub(crate) fn shorten(
        &mut self,
        id: Id,
        life: Duration,
        queued: Option<Lifetime>,
    ) -> Option<Alarm> {
        match self.now {
            Some(now) if !self.asleep => self.date(id, now, life, queued),
            _ => {
                let undated = self.undated.entry(id).or_insert(life);
                *undated = life.min(*undated);
            }
        }
        self.alarm_if_asleep()
    }

    /// Whom to tell that time matters again, while the driver sleeps.
    fn alarm_if_asleep(&self) -> Option<Alarm> {
        self.asleep.then(|| self.alarm.clone()).flatten()
    }

    /// Whom to tell of what is no value: the driver looks once more before it sleeps, or wakes.
    pub(crate) fn alarm(&self) -> Option<Alarm> {
        self.alarm.clone()
    }

    /// The value has no deadline any more.
    #[inline]
    pub(crate) fn forget(&mut self, id: Id) {
        if !self.deadlines.is_empty() || !self.undated.is_empty() {
            self.forget_dated(id);
        }
    }

    #[cold]
    fn forget_dated(&mut self, id: Id) {
        self.deadlines.remove(&id);
        self.undated.remove(&id);
    }

    /// What the deadlines take.
    pub(crate) fn bytes(&self) -> usize {
        (self.deadlines.len() + self.undated.len()) * DEADLINE_BYTES
            + self.heap.len() * size_of::<Reverse<(Instant, u64)>>()
    }

    fn date(&mut self, id: Id, from: Instant, life: Duration, queued: Option<Lifetime>) {
        self.undated.remove(&id);
        let Some(deadline) = from.checked_add(life) else { return };
        if self.deadlines.get(&id).is_some_and(|known| known.until <= deadline) {
            return;
        }
        self.deadlines.insert(id, Lifetime { since: from, until: deadline });
        if queued.is_none_or(|queued| queued.until > deadline) {
            self.heap.push(Reverse((deadline, id.bits())));
        }
        if self.heap.len() > self.deadlines.len() * 2 + HEAP_SLACK {
            // Nodes that went before their time left their entries behind.
            self.heap =
                self.deadlines.iter().map(|(id, at)| Reverse((at.until, id.bits()))).collect();
        }
    }

    pub(crate) fn lifetime(&self, id: Id) -> Option<Lifetime> {
        self.deadlines.get(&id).copied()
    }

    fn advance(&mut self, now: Instant) {
        let from = if self.asleep { now } else { self.now.unwrap_or(now) };
        self.asleep = false;
        for (id, life) in std::mem::take(&mut self.undated) {
            self.date(id, from, life, None);
        }
        self.now = Some(self.now.map_or(now, |old| old.max(now)));
    }

    /// The next node whose time is over, if any.
    fn pop_due(&mut self, now: Instant) -> Option<Id> {
        while let Some(&Reverse((deadline, bits))) = self.heap.peek() {
            if deadline > now {
                return None;
            }
            self.heap.pop();
            let id = Id::from_bits(bits);
            match self.deadlines.get(&id) {
                Some(current) if current.until <= now => {
                    self.deadlines.remove(&id);
                    return Some(id);
                }
                Some(current) => self.heap.push(Reverse((current.until, bits))),
                None => {}
            }
        }
        None
    }

    fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((deadline, _))| deadline)
    }
}

impl Graph {
    /// Tells the graph what time it is: values whose `ttl` is over become stale, a bounded number per
    /// call. Returns when to call again; `None` while no value has a deadline and nobody asked for
    /// [`Graph::on_stuck`].
    ///
    /// Time is whatever the caller says it is; it never goes back. A value counts from the last
    /// `advance` before it was published. A driver (see [`Graph::drive`], feature `driver`) calls this
    /// from a thread of its own.
    pub fn advance(&self, now: Instant) -> Option<Instant> {
        self.shared.advance(now)
    }

    /// Sets how long values live at most that were made, directly or through others, of a source that
    /// others may change without saying so ([`Source::external`](crate::Source::external)); 5 seconds
    /// unless this is called, `None` for ever. Like every life it needs somebody who tells the time.
    pub fn set_external_life(&self, life: Option<Duration>) {
        self.shared.core.lock().expiry.external = life;
    }
}

impl Shared {
    pub(crate) fn advance(&self, now: Instant) -> Option<Instant> {
        let due: Vec<Id> = {
            let mut core = self.core.lock();
            core.expiry.advance(now);
            std::iter::from_fn(|| core.expiry.pop_due(now)).take(EXPIRED_PER_CALL).collect()
        };
        if !due.is_empty() {
            self.cascade(|core, walk| {
                for &id in &due {
                    let Some(node) = core.node(id) else { continue };
                    core.stats.expired += 1;
                    core.note(EventKind::Expired, node);
                    core.invalidate(node, walk);
                }
            });
        }
        let lookout = self.core.lock().lookout.clone();
        let look_again = lookout.and_then(|lookout| lookout(self, now));
        self.audits.poll();
        let look_again = look_again.into_iter().chain(self.limit_writes(now));
        let core = self.core.lock();
        let next = if due.len() == EXPIRED_PER_CALL { Some(now) } else { core.expiry.next() };
        look_again.chain(next).min()
    }

    /// Lets `alarm` be called when a value with a deadline is published after [`Shared::sleep`].
    #[cfg(feature = "driver")]
    pub(crate) fn set_alarm(&self, alarm: Option<Alarm>) {
        let mut core = self.core.lock();
        core.expiry.asleep &= alarm.is_some();
        core.expiry.alarm = alarm;
    }

    /// The driver is about to sleep until `until`. `false` when it must advance first: something
    /// was dated since it was told that.
    #[cfg(feature = "driver")]
    pub(crate) fn sleep(&self, until: Option<Instant>) -> bool {
        let mut core = self.core.lock();
        let is_sooner = |due| until.is_none_or(|until| due < until);
        let may = core.expiry.undated.is_empty() && !core.expiry.next().is_some_and(is_sooner);
        core.expiry.asleep = may;
        may
    }
}

impl Core {
    /// The life of a value, bounded when it was made of external sources.
    #[inline]
    pub(crate) fn bounded_life(&self, node: &Header, life: Option<Duration>) -> Option<Duration> {
        if node.is_external() { self.expiry.bounded(life) } else { life }
    }

    /// Makes a node's own value stale, whatever its dependencies say, and rejects a running attempt.
    pub(crate) fn invalidate(&mut self, node: &Header, walk: &mut Walk) {
        if let Some(flight) = self.flight(node).filter(|_| !injected(Fault::RejectIgnored)) {
            flight.rejected.set(true);
        }
        self.expiry.forget(node.id);
        match node.state() {
            EMPTY => {}
            FRESH | GHOST => walk.mark(self, node, DIRTY),
            // Whoever watches it was told.
            _ => {
                node.set_state(DIRTY);
                walk.mark_dependants(self, node);
            }
        }
    }
}

/// An entry of a map of deadlines, about.
const DEADLINE_BYTES: usize = 48;
/// See [`Graph::set_external_life`].
const EXTERNAL_LIFE: Duration = Duration::from_secs(5);
/// Entries of nodes that are gone before the heap is rebuilt.
const HEAP_SLACK: usize = 1024;
/// Bounds one call of `advance`.
const EXPIRED_PER_CALL: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_while_the_driver_sleeps_lives_from_when_it_wakes() {
        let (mut expiry, start, second) = (Expiry::new(), Instant::now(), Duration::from_secs(1));
        let id = Id::new(1, 1);
        expiry.alarm = Some(Arc::new(|| ()));
        expiry.advance(start);
        assert!(expiry.publish(id, second, true).is_none(), "it is awake");
        assert_eq!(expiry.lifetime(id), Some(Lifetime { since: start, until: start + second }));
        expiry.asleep = true;
        let later = start + 3600 * second;
        assert!(expiry.publish(Id::new(2, 1), second, true).is_some());
        expiry.advance(later);
        let life = Lifetime { since: later, until: later + second };
        assert_eq!(expiry.lifetime(Id::new(2, 1)), Some(life));
        assert_eq!((expiry.pop_due(later), expiry.pop_due(later)), (Some(id), None));
        assert_eq!(expiry.next(), Some(life.until));
    }
}
