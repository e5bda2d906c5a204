//! Who is told when a node is marked.
//!
//! A watch hangs a bell on the node; a walk that marks the node rings it: the bell's number is noted in its
//! belfry, under the graph lock, so that whoever takes that lock next finds it there. Ringing computes
//! nothing: the waker goes to the trash and is woken when the locks are free.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::graph::trash::Trash;
use crate::graph::{Shared, budget};
use crate::memory::numbers::Numbers;
use crate::memory::sync::Mutex;
use crate::store::node::EMPTY;
use crate::store::slots::{Id, IdHasher};

/// What a walk rings: one number of a belfry.
#[derive(Clone)]
pub(crate) struct Bell {
    belfry: Arc<Belfry>,
    number: u32,
    /// Tells it from others of the same number.
    serial: u32,
}

/// Where whoever listens finds out which bells rang.
#[derive(Default)]
pub(crate) struct Belfry {
    state: Mutex<Rung>,
}

#[derive(Default)]
struct Rung {
    numbers: Numbers,
    waker: Option<Waker>,
    next_serial: u32,
}

impl Bell {
    /// A bell that rings in `belfry`, which has room for its number from now on: nothing is made under the
    /// graph lock.
    pub(crate) fn of(belfry: Arc<Belfry>, number: u32) -> Self {
        let serial = {
            let mut rung = belfry.state.lock();
            rung.numbers.make_room(number);
            rung.next_serial = rung.next_serial.wrapping_add(1);
            rung.next_serial
        };
        Self { belfry, number, serial }
    }

    fn ring(&self, trash: &mut Trash) {
        let mut rung = self.belfry.state.lock();
        rung.numbers.insert(self.number);
        trash.wakers.extend(rung.waker.take());
    }

    pub(crate) fn belfry(&self) -> &Belfry {
        &self.belfry
    }

    fn place(&self) -> (usize, u32, u32) {
        (Arc::as_ptr(&self.belfry).addr(), self.number, self.serial)
    }
}

impl PartialEq for Bell {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Bell {}

impl PartialOrd for Bell {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bell {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl Belfry {
    /// Whether a bell rang since this was last asked; if none did, `waker` is woken when one does.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<()> {
        if self.take() {
            return Poll::Ready(());
        }
        self.wakes(waker);
        if self.take() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The next bell that rings wakes this task.
    pub(crate) fn wakes(&self, waker: &Waker) {
        if self.state.lock().waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        // Cloned and dropped outside of the lock: both may be user code.
        let waker = waker.clone();
        let old = self.state.lock().waker.replace(waker);
        drop(old);
    }

    /// Takes the numbers that rang, in ascending order.
    pub(crate) fn take_numbers(&self, rung: &mut Vec<u32>) {
        self.state.lock().numbers.take(rung);
    }

    fn take(&self) -> bool {
        self.state.lock().numbers.clear()
    }

    /// Forgets what rang.
    pub(crate) fn silence(&self) {
        self.take();
    }
}

/// The bells of a graph, by node.
pub(crate) struct Watchers {
    bells: HashMap<Id, Bells, IdHasher>,
    /// Bells on all nodes.
    count: usize,
}

/// The bells on a node: one on most, of which there may be a hundred thousand.
enum Bells {
    One(Bell),
    /// Thousands may hang on one node.
    #[expect(
        clippy::box_collection,
        reason = "the entry of a node with one bell is the smaller for it"
    )]
    Many(Box<BTreeSet<Bell>>),
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self { bells: HashMap::default(), count: 0 }
    }

    pub(crate) fn attach(&mut self, id: Id, bell: &Bell) {
        let is_new = match self.bells.entry(id) {
            Entry::Vacant(place) => {
                place.insert(Bells::One(bell.clone()));
                true
            }
            Entry::Occupied(bells) => bells.into_mut().add(bell),
        };
        self.count += usize::from(is_new);
    }

    /// Returns whether nobody watches the node any more.
    fn detach(&mut self, id: Id, bell: &Bell) -> bool {
        let Entry::Occupied(mut bells) = self.bells.entry(id) else { return false };
        let (was_there, is_empty) = match bells.get_mut() {
            Bells::One(one) => (one == bell, one == bell),
            Bells::Many(many) => (many.remove(bell), many.is_empty()),
        };
        self.count -= usize::from(was_there);
        if is_empty {
            bells.remove();
        }
        is_empty
    }

    /// Rings the bells of a node; their wakers go to the trash, to be woken outside the locks.
    pub(crate) fn notify(&self, id: Id, trash: &mut Trash) {
        if let Some(bells) = self.bells.get(&id) {
            bells.ring(trash);
        }
    }

    /// The node is gone: its watches ring and look for the next one.
    pub(crate) fn release(&mut self, id: Id, trash: &mut Trash) {
        self.notify(id, trash);
        self.count -= self.bells.remove(&id).map_or(0, |bells| bells.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What the bells take.
    pub(crate) fn bytes(&self) -> usize {
        self.count * BELL_BYTES
    }

    /// The graph is closed: every watch rings and finds out.
    pub(crate) fn close(&mut self, trash: &mut Trash) {
        self.count = 0;
        for (_, bells) in self.bells.drain() {
            bells.ring(trash);
        }
    }
}

impl Bells {
    /// Returns whether it was not there.
    fn add(&mut self, bell: &Bell) -> bool {
        match self {
            Self::One(one) if one == bell => false,
            Self::One(one) => {
                let two = [one.clone(), bell.clone()];
                *self = Self::Many(Box::new(BTreeSet::from(two)));
                true
            }
            Self::Many(many) => many.insert(bell.clone()),
        }
    }

    fn ring(&self, trash: &mut Trash) {
        match self {
            Self::One(one) => one.ring(trash),
            Self::Many(many) => many.iter().for_each(|bell| bell.ring(trash)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.len(),
        }
    }
}

impl Shared {
    pub(crate) fn detach(&self, id: Id, bell: &Bell) {
        {
            let mut trash = Trash::default();
            let mut core = self.core.lock();
            if !core.watchers.detach(id, bell) {
                return;
            }
            let Some(node) = core.node(id) else { return };
            node.set_watched(false);
            if node.state() == EMPTY && !node.is_computing() {
                let owner = core.owner(node);
                core.remove(owner, node, &mut trash);
            }
            // What was kept for the watch may be too much now.
            core.check_budget(self, None);
        }
        budget::relieve(self);
    }
}

/// A bell in its place in the map, and what whoever hung it keeps.
const BELL_BYTES: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_no_bell_one_or_many_and_each_once() {
        let belfry = Arc::<Belfry>::default();
        let bells: Vec<_> = (0..3).map(|n| Bell::of(belfry.clone(), n)).collect();
        let (mut watchers, id) = (Watchers::new(), Id::new(1, 1));
        assert!(!watchers.detach(id, &bells[0]));
        for attached in [&bells[0], &bells[0], &bells[1], &bells[0], &bells[1]] {
            watchers.attach(id, attached);
        }
        assert_eq!(watchers.count, 2);
        watchers.notify(id, &mut Trash::default());
        let mut rung = Vec::new();
        belfry.take_numbers(&mut rung);
        assert_eq!(rung, [0, 1]);
        assert!(!watchers.detach(id, &bells[2]) && !watchers.detach(id, &bells[0]));
        assert!(watchers.detach(id, &bells[1]) && watchers.is_empty());
        watchers.attach(id, &bells[2]);
        assert!(!watchers.detach(id, &bells[1]));
        watchers.release(id, &mut Trash::default());
        assert!(watchers.is_empty() && watchers.bells.is_empty());
        rung.clear();
        belfry.take_numbers(&mut rung);
        assert_eq!(rung, [2]);
        assert_eq!(size_of::<(Id, Bells)>(), 24, "of which there may be a hundred thousand");
    }
}
