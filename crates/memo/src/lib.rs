//! Memoized async functions that know exactly when they are stale.

mod attempt;
mod audit;
mod batch;
mod budget;
mod cached;
mod capture;
mod cascade;
mod close;
mod core;
mod cycle;
mod depth;
#[cfg(feature = "driver")]
mod driver;
mod edges;
mod epoch;
mod error;
mod event;
mod expiry;
mod fault;
mod get;
mod graph;
mod hasher;
mod hazard;
mod key;
mod memo;
mod node;
mod options;
mod owner;
mod pool;
mod publish;
mod range;
mod scope;
mod slots;
mod source;
mod stats;
mod sync;
mod table;
mod trash;
mod value;
mod verify;
mod wake;
mod watch;
mod work;
mod write;

pub use audit::Mismatch;
pub use batch::{Batch, batch};
pub use cached::Cached;
#[cfg(feature = "driver")]
pub use driver::Driver;
pub use error::{BoxError, Error, ErrorKind};
pub use event::{Event, EventKind};
#[cfg(shuttle)]
pub use fault::{Fault, inject};
pub use get::Get;
pub use graph::Graph;
pub use key::Key;
pub use memo::Memo;
pub use scope::{Scoped, scope};
pub use source::Source;
pub use stats::Stats;
pub use watch::{Notify, Watch};
pub use write::WriteGuard;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("tidewire-memo packs a tag beside 48-bit pointers and needs a 64-bit target");

/// What a node costs beside itself: its slot and its share of the table.
const TABLE_BYTES: usize = 16 + 24;
