//! A source whose changes cannot be told for now.

use std::fmt;

/// While it lives, nothing that reads the source is memoized; see [`Source::suspend`](crate::Source::suspend).
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
/// let lost = rows.suspend(); // the connection that tells of changes is lost
/// read.get(1).await?;
/// assert!(read.cached(&1).is_none(), "it was answered and not kept");
/// drop(lost);
/// read.get(1).await?;
/// assert!(read.cached(&1).is_some());
/// # Ok::<(), tidewire::memo::Error>(())
/// # }).unwrap();
/// ```
#[must_use = "the source goes on when the suspension is dropped"]
pub struct Suspension {
    resume: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Suspension {
    pub(super) fn new(resume: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { resume: Some(Box::new(resume)) }
    }
}

impl Drop for Suspension {
    fn drop(&mut self) {
        self.resume.take().into_iter().for_each(|resume| resume());
    }
}

impl fmt::Debug for Suspension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suspension").finish_non_exhaustive()
    }
}
