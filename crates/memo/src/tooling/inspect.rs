//! Looking into a graph: what it keeps, a page at a time.
//!
//! Each page takes the graph lock for a bounded number of nodes; keys are rendered after it is released.
//! Pages are no snapshot: what is added or removed between two of them may or may not be seen.
#![allow(unsafe_code)]

use std::sync::Arc;

use crate::graph::core::Core;
use crate::graph::owner::Owner;
use crate::graph::{Graph, Shared};
use crate::memory::line::pin;
use crate::store::node::{DIRTY, EMPTY, FADED, FRESH, GHOST, Header};
use crate::store::slots::Id;

/// A memo or a source, as the graph sees it.
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use tidewire::memo::{Graph, Memo};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let double = Memo::infallible_in(&graph, "double", async |n: u32| 2 * n);
/// double.get(1).await?;
/// double.get(2).await?;
/// let owners = graph.owners();
/// assert_eq!((&*owners[0].name, owners[0].entries), ("double", 2));
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerInfo {
    /// The name it was made with.
    pub name: Arc<str>,
    /// Whether it is a source.
    pub is_source: bool,
    /// Keys that have a node.
    pub entries: usize,
    /// What they count for. [`Stats::bytes`](crate::Stats::bytes) has besides what the graph keeps for all
    /// memos: fingerprints, deadlines and watches.
    pub bytes: usize,
    /// Values in memory that were served, or that [`Memo::validate`](crate::Memo::validate) found, of whichever
    /// version, while [`Graph::count_hits`] is on, since that began.
    pub hits: u64,
}

/// One key of a memo or a source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Names the entry for [`Graph::entry`] while it lives.
    pub id: u64,
    /// The memo or source.
    pub memo: Arc<str>,
    /// The key, rendered with `Debug`.
    pub key: String,
    /// Whether the value is current, and whether there is one.
    pub state: EntryState,
    /// The version of the value; 0 before there was one.
    pub version: u64,
    /// What the entry counts for.
    pub bytes: usize,
    /// How many it depends on, as far as the graph knows now.
    pub dependencies: usize,
    /// At most how many depend on it.
    pub dependants: usize,
    /// Whether a computation runs.
    pub is_computing: bool,
    /// Whether a watch listens.
    pub is_watched: bool,
    /// Whether it is an external source, or made of one, and its life is bounded for that.
    pub is_external: bool,
}

/// How an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryState {
    /// Not computed yet.
    Empty,
    /// Current; a source always is.
    Fresh,
    /// Something below has changed; the next call looks whether it matters.
    Suspect,
    /// Current, the value itself was evicted.
    Ghost,
    /// Suspect, the value itself was evicted.
    Faded,
    /// Invalidated or expired.
    Dirty,
}

/// Some entries, and where the next ones are.
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use tidewire::memo::{EntryState, Graph, Memo};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let double = Memo::infallible_in(&graph, "double", async |n: u32| 2 * n);
/// double.get(21).await?;
/// let page = graph.entries("double", 0, 10);
/// assert_eq!((page.entries[0].key.as_str(), page.entries[0].state), ("21", EntryState::Fresh));
/// assert!(page.next.is_none());
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In no order that means anything.
    pub entries: Vec<Entry>,
    /// What to pass to [`Graph::entries`] for more; `None` at the end.
    pub next: Option<u32>,
}

/// An entry and what is around it.
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use tidewire::memo::{Graph, Memo, Source};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let rows = Source::<u32>::new_in(&graph, "rows");
/// let read = Memo::infallible_in(&graph, "read", move |id: u32| async move {
///     rows.read(&id);
///     id
/// });
/// read.get(7).await?;
/// let around = read.entry(&7).expect("it is in memory");
/// assert_eq!((&*around.dependencies[0].memo, &*around.dependencies[0].key), ("rows", "7"));
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbourhood {
    /// The entry.
    pub entry: Entry,
    /// The first 100 it depends on, in the order in which they were read.
    pub dependencies: Vec<Entry>,
    /// Up to 100 that depend on it.
    pub dependants: Vec<Entry>,
}

impl Graph {
    /// The memos and sources; one that was made after another was closed takes its place.
    #[must_use]
    pub fn owners(&self) -> Vec<OwnerInfo> {
        let core = self.shared.core.lock();
        let owners = core.owners.iter().flatten().map(|owner| OwnerInfo {
            name: owner.name.clone(),
            is_source: owner.is_source,
            entries: owner.queue.length.get() as usize,
            bytes: owner.queue.bytes.get(),
            hits: owner.queue.hits.get(),
        });
        owners.collect()
    }

    /// Up to `limit` entries, at least one, of the memo or source called `name`, from `after` on: 0 first, then what the
    /// page before says. A page looks at a bounded number of nodes and may be short, or empty.
    #[must_use]
    pub fn entries(&self, name: &str, after: u32, limit: usize) -> Page {
        let (mut after, limit) = (after, limit.max(1));
        // The pin keeps nodes alive until they are rendered, outside the lock.
        let _pin = pin();
        let (mut found, mut more) = (Vec::new(), true);
        for _ in 0..HOLDS_PER_PAGE {
            let core = self.shared.core.lock();
            for _ in 0..SLOTS_PER_HOLD {
                more = (after as usize) < core.slots.len();
                if !more || found.len() >= limit {
                    break;
                }
                let node = core.neighbour(after);
                after += 1;
                found.extend(
                    node.filter(|node| &*core.owner(node).name == name)
                        .map(|node| Raw::of(&core, node)),
                );
            }
            if !more || found.len() >= limit {
                break;
            }
        }
        Page { entries: found.into_iter().map(Raw::render).collect(), next: more.then_some(after) }
    }

    /// An entry with what it depends on and what depends on it; `None` when it is gone.
    #[must_use]
    pub fn entry(&self, id: u64) -> Option<Neighbourhood> {
        self.shared.entry(Id::from_bits(id))
    }
}

impl Shared {
    pub(crate) fn entry(&self, id: Id) -> Option<Neighbourhood> {
        let _pin = pin();
        let (entry, dependencies, dependants) = self.around(id)?;
        let render = |raw: Vec<Raw>| raw.into_iter().map(Raw::render).collect();
        let (dependencies, dependants) = (render(dependencies), render(dependants));
        Some(Neighbourhood { entry: entry.render(), dependencies, dependants })
    }

    fn around(&self, id: Id) -> Option<(Raw, Vec<Raw>, Vec<Raw>)> {
        let core = self.core.lock();
        let node = core.node(id)?;
        let some = |ids: &mut dyn Iterator<Item = Id>| {
            let nodes = ids.filter_map(|id| core.node(id)).take(NEIGHBOURS);
            nodes.map(|node| Raw::of(&core, node)).collect::<Vec<_>>()
        };
        let dependencies = some(&mut node.dependencies(&core.slots).iter());
        let dependants = some(&mut node.dependants(&core.slots).iter());
        Some((Raw::of(&core, node), dependencies, dependants))
    }
}

/// An entry whose key is not rendered yet.
struct Raw {
    owner: &'static Owner,
    node: *const Header,
    entry: Entry,
}

impl Raw {
    fn of(core: &Core, node: &Header) -> Self {
        let owner = core.owner(node);
        let state = match node.state() {
            FRESH => EntryState::Fresh,
            EMPTY => EntryState::Empty,
            GHOST => EntryState::Ghost,
            FADED => EntryState::Faded,
            DIRTY => EntryState::Dirty,
            _ => EntryState::Suspect,
        };
        let entry = Entry {
            id: node.id.bits(),
            memo: owner.name.clone(),
            key: String::new(),
            state,
            version: node.version(),
            bytes: node.weight.get() as usize,
            dependencies: node.dependencies(&core.slots).len(),
            dependants: node.dependants(&core.slots).len(),
            is_computing: node.is_computing(),
            is_watched: node.is_watched(),
            is_external: node.is_external() && core.expiry.bounds_external(),
        };
        Self { owner, node: core.whole(node), entry }
    }

    /// Under the pin under which it was made.
    fn render(mut self) -> Entry {
        // SAFETY: a whole node of this owner, alive because of the pin.
        self.entry.key = unsafe { (self.owner.functions.label)(self.node) };
        self.entry
    }
}

/// Nodes that are looked at in one hold of the graph lock.
const SLOTS_PER_HOLD: usize = 512;
/// Holds after which a page is given out, full or not.
const HOLDS_PER_PAGE: usize = 64;
const NEIGHBOURS: usize = 100;
