//! Memoized async functions that know exactly when they are stale.
//!
//! ```
//! use std::time::Duration;
//! use tidewire_memo::{Memo, Source};
//!
//! # futures::executor::block_on(async {
//! # #[derive(Clone, PartialEq)] struct Contact { name: String }
//! # #[derive(Clone)] struct Db;
//! # impl Db {
//! #     async fn contact(&self, id: i32) -> Result<Contact, std::fmt::Error> { Ok(Contact { name: format!("{id}") }) }
//! #     async fn update(&self, _: i32) -> Result<(), std::fmt::Error> { Ok(()) }
//! # }
//! # let (db, handle) = (Db, Db);
//! let contacts = Source::<i32>::new("contacts");          // what can change
//! let contact = Memo::new("contact", move |id: i32| {      // what is derived
//!     let db = handle.clone();
//!     async move {
//!         contacts.read(&id);
//!         db.contact(id).await
//!     }
//! })
//! .ttl(Duration::from_secs(60))
//! .weigh(|contact| contact.name.capacity());
//!
//! let c = contact.get(1).await?;                           // CachedValue<Contact>: derefs, Send, 'static
//! assert_eq!(c.name, "1");
//! assert_eq!(contact.with(&1, |c| c.name.len()), Some(1)); // borrow; hits only
//!
//! let write = contacts.write(&1);                          // before the transaction
//! db.update(1).await?;
//! write.finish();                                          // no later `get` sees the older state
//! assert!(contact.cached(&1).is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # Limits, first
//! - Writes that bypass sources are not seen.
//! - A function that reads something other than sources, memos and its key is yours to declare
//!   ([`Memo::ttl`]); [`Memo::verify`] finds such functions.
//! - Without a driver or calls of [`Graph::advance`] nothing expires.
//! - A caller that was waiting *before* a change may be given the value of the attempt that the change
//!   outdated, once; such a value can mix before and after. [`Memo::strict`] makes it wait instead.
//! - A computation in a task that is spawned without [`scope`] is not captured, and a cycle through it
//!   hangs; [`Graph::on_stuck`] names it.
//! - Eight callers and more of one computation that poll once and then neither poll nor drop their
//!   `get` can hold up the others until one more wake or one more caller comes.
//!
//! # Guarantees
//! 1. **Read-your-writes.** After [`Source::changed`] (or [`WriteGuard::finish`], or the guard's drop)
//!    returns, no `get` that starts later returns a value computed from the older state: directly,
//!    through any chain of memos, or by joining a computation that was already running. It does not
//!    matter where inside the function `read` stands relative to the load. (A function that goes on with a `get`
//!    which somebody polled before that change is given what that `get` is given.)
//! 2. **Single flight.** Concurrent misses of one key run the function once. Dropping a caller neither
//!    wedges nor cancels the others; the last one cancels. A panic is an error for every current waiter.
//! 3. **Exactness.** What did not depend on the change stays a hit. A recomputed value that is equal
//!    leaves its dependants valid without running them. (A change of what a value depended on before it
//!    was last computed, and does not any more, may mark it once: it is verified and does not run.)
//! 4. **No lost staleness.** Eviction never loses an invalidation for anyone who still depends or watches.
//! 5. **Bounded.** A byte budget per graph and per memo; a hit writes at most one relaxed bit.
//! 6. **Cycles** are errors that name the cycle, also across tasks; never memoized.
//! 7. **Errors** are memoized only with a life of their own ([`Memo::error_ttl`]); cancellation never.
//! 8. **No runtime, no clock.** Any executor; time is an argument.
//! 9. **Versions** order the values of one key within a boot.
//! 10. **Order of reads.** After any caller was given a value that shows a write of an open [`WriteGuard`],
//!     no call that begins later is given an older one. Values that would show it are held until the guard ends.
//!
//! `docs/guide/memo.md` explains them, and when something else is the better choice.

mod batch;
mod compute;
#[cfg(feature = "driver")]
mod driver;
mod graph;
mod memo;
mod memory;
mod methods;
mod notify_set;
mod range;
mod settings;
mod source;
mod store;
mod tooling;
mod watch;
mod write;

pub use batch::{Batch, batch};
pub use compute::cached_value::CachedValue;
pub use compute::capture::{has_read, has_read_untracked, is_computing, read_untracked};
pub use compute::get::Get;
pub use compute::in_order::{InOrder, OrderedReads};
pub use compute::scope::{ScopedFuture, scope};
#[cfg(feature = "driver")]
pub use driver::Driver;
pub use graph::Graph;
pub use graph::ambient::{Ambient, InAmbient};
pub use graph::event::{Cause, Event, EventKind, Mismatch, Recording};
pub use graph::expiry::Lifetime;
pub use graph::stats::Stats;
pub use memo::Memo;
#[cfg(shuttle)]
pub use memory::fault::{Fault, inject};
pub use methods::{Method, MethodOutput, Methods};
pub use notify_set::{Member, NotifySet};
pub use source::Source;
pub use source::suspension::Suspension;
pub use store::error::{BoxError, Error, ErrorKind};
pub use store::key::Key;
pub use tidewire_memo_macros::memo;
pub use tooling::inspect::{Entry, EntryState, Neighbourhood, OwnerInfo, Page};
pub use tooling::source_key::{KeyPart, SourceKey};
pub use tooling::stuck::Stuck;
pub use watch::{Notify, Watch};
pub use write::WriteGuard;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("tidewire-memo packs a tag beside 48-bit pointers and needs a 64-bit target");
