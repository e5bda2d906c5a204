//! Counters of a graph, for metrics and for the stress program.

/// What happened in a graph since it was made, and what it holds now.
///
/// How a test asks whether a change reached what it should, and nothing else:
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
/// read.get(1).await?;
/// read.get(2).await?;
/// rows.changed(&1);
/// assert_eq!(graph.stats().marked, 1);
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Times a memoized function was called (a computation may need several attempts).
    pub started: u64,
    /// Callers that joined a running computation.
    pub joined: u64,
    /// Values published.
    pub published: u64,
    /// Publishes whose value equalled the old one, so that dependants stay valid.
    pub cut_off: u64,
    /// Attempts that were not published because something they read changed meanwhile.
    pub rejected: u64,
    /// Suspect values found unchanged without running a function.
    pub verified: u64,
    /// Computations that ended with a value for early callers only.
    pub unpublished: u64,
    /// Computations cancelled because their last caller went away.
    pub cancelled: u64,
    /// Computations that panicked.
    pub panicked: u64,
    /// Values evicted that left a ghost behind.
    pub ghosted: u64,
    /// Nodes removed.
    pub removed: u64,
    /// Ghosts and source nodes removed with their dependants marked, because the budget asked.
    pub forced: u64,
    /// Nodes marked by walks.
    pub marked: u64,
    /// Walks.
    pub walks: u64,
    /// Cycles found, also where a value is verified and nobody is told.
    pub cycles: u64,
    /// Values expired by `advance`.
    pub expired: u64,
    /// Reads by a scoped task after its computation had been published.
    pub late_reads: u64,
    /// Reads across graphs, which cannot be tracked; their computation is not memoized.
    pub foreign_reads: u64,
    /// Hits re-executed by `verify`, and those that gave something else.
    pub audited: u64,
    /// See [`Stats::audited`].
    pub mismatched: u64,
    /// Destructors of values that panicked while memory was reclaimed (all graphs of the process).
    pub panicked_drops: u64,
    /// The most edges that one hold of the graph lock published: what others may have waited for.
    pub longest_hold: u64,
    /// Events that went because newer ones came; see [`Recording::keep`](crate::Recording::keep).
    pub events_dropped: u64,
    /// Threads known to reclamation now (all graphs of the process).
    pub threads: usize,
    /// Nodes held now.
    pub nodes: usize,
    /// Bytes accounted for now.
    pub bytes: usize,
}
