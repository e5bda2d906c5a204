//! The types that a program memoizes: keys and values that know what happens to them.

use std::cmp::Ordering as Order;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Weak;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI64, AtomicU64};

use super::hooks::hit;
use super::program::{Node, Place, View};
use super::world::World;

/// A key whose every use is a place for a hook.
pub(super) struct Key(usize);

impl Key {
    pub(super) fn new(key: usize) -> Self {
        Self(key)
    }

    pub(super) fn number(&self) -> usize {
        self.0
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hit(Place::Hash);
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        hit(Place::KeyEq);
        self.0 == other.0
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Order {
        hit(Place::KeyOrd);
        self.0.cmp(&other.0)
    }
}

impl Clone for Key {
    fn clone(&self) -> Self {
        hit(Place::KeyClone);
        Self(self.0)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        hit(Place::KeyDrop);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a function saw of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sight {
    pub(super) cell: usize,
    pub(super) view: View,
    pub(super) shown: u32,
}

impl Sight {
    /// The mark of a question that was not waited for.
    pub(super) fn unanswered(node: Node) -> Self {
        Self { view: View::Unanswered, ..Self::failed(node) }
    }

    /// Whether a cell was seen.
    pub(super) fn is_of_cell(&self) -> bool {
        self.cell != usize::MAX
    }

    /// The mark of an error that was handled.
    pub(super) fn failed(node: Node) -> Self {
        Self { cell: usize::MAX, view: View::Failed, shown: (node.memo * 100 + node.key) as u32 }
    }
}

/// A memoized value: all that its function saw.
pub(super) struct Value {
    pub(super) sights: Vec<Sight>,
    /// Tells a value from memory that was one.
    alive: AtomicU64,
}

impl Value {
    pub(super) fn new(sights: Vec<Sight>) -> Self {
        VALUES.fetch_add(1, SeqCst);
        Self { sights, alive: AtomicU64::new(ALIVE) }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.alive.load(SeqCst) == ALIVE
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        hit(Place::ValueEq);
        self.sights == other.sights
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        if self.alive.swap(0, SeqCst) != ALIVE {
            DOUBLE_DROPS.fetch_add(1, SeqCst);
        }
        VALUES.fetch_sub(1, SeqCst);
        hit(Place::ValueDrop);
    }
}

/// The error of a memoized function.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) sights: Vec<Sight>,
    /// A child panicked, closed or called itself: what it said.
    pub(super) passing: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.passing {
            Some(text) => write!(f, "passed on: {text}"),
            None => write!(f, "failed after {:?}", self.sights),
        }
    }
}

impl std::error::Error for Fault {}

/// Lives as long as a run of a function.
pub(super) struct RunGuard {
    world: Weak<World>,
    node: Node,
    pub(super) is_over: bool,
}

impl RunGuard {
    pub(super) fn new(world: Weak<World>, node: Node) -> Self {
        Self { world, node, is_over: false }
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        if let Some(world) = self.world.upgrade()
            && let Some(running) = world.state().running.get_mut(&self.node)
        {
            *running -= 1;
        }
        // A panic in the drop of an awaited future leaks what it gave, by a defect of the compiler.
        if !self.is_over {
            hit(Place::FutureDrop);
        }
    }
}

/// Values alive, of all programs of the process.
pub(super) static VALUES: AtomicI64 = AtomicI64::new(0);
pub(super) static DOUBLE_DROPS: AtomicU64 = AtomicU64::new(0);

const ALIVE: u64 = 0x5AFE_5AFE_5AFE_5AFE;
