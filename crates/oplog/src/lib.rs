//! The change log: what anybody writes to the database makes its dependants stale on every host.
//!
//! ```text
//! psql, a host, a migration ─▶ table ─▶ trigger ─▶ log      one transaction
//!                                                   │
//!                              every host polls ◀───┘ ─▶ memo sources ─▶ cached replies, watches
//! ```
//!
//! A log is a small table in the application's own database. Triggers fill it, so that it does not
//! matter who writes; every host reads it by difference of snapshots, so that no commit is passed
//! over. Nothing here elects, replicates or stores: the database does.
//!
//! # What is promised
//! 1. **Complete.** Every committed change of a captured table is applied on every host, at least
//!    once.
//! 2. **Read your writes.** A request with a [`Token`] is answered from a state that includes it,
//!    or is refused ([`OplogHandle::caught_up`]).
//! 3. **Order.** Changes are applied in the order in which they became visible, whole transactions
//!    at once, and never before a fresh snapshot shows them.
//! 4. **Monotonic** for each host and key, where the memo is `strict` and loads from one database.
//! 5. **Bounded.** Without a token a reply is at most [`Settings::lease`] old. A host that cannot
//!    read the log for that long keeps nothing ([`OplogHandle::check_lease`]).
//! 6. **Reset over loss.** Any doubt makes whole sources stale.
//!
//! Not promised: one snapshot across several keys, and anything of a database that itself lost
//! commits.

#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "each database uses a part of what is shared")
)]

mod apply;
mod capture;
mod change;
mod collect;
mod core;
mod cursor;
mod error;
mod intent;
mod lease;
mod oplog;
mod outbox;
mod own;
#[cfg(feature = "postgres")]
mod postgres;
mod registry;
mod settings;
mod snapshot;
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod status;
mod text_key;
mod token;
#[cfg(feature = "postgres")]
mod wake_pause;

pub use self::change::HeardChange;
pub use self::collect::{collect, note};
pub use self::cursor::{Incarnation, Position, ResetReason};
pub use self::error::{CatchUpError, Error, ErrorKind};
pub use self::intent::Intent;
pub use self::lease::Lease;
pub use self::oplog::{Oplog, OplogHandle};
#[cfg(feature = "postgres")]
pub use self::postgres::{Changes, PostgresLog, WriteError};
pub use self::settings::Settings;
pub use self::snapshot::{Snapshot, SnapshotError};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{SqliteLog, last_row};
pub use self::status::{Counts, SourceStatus, Status};
pub use self::text_key::TextKey;
pub use self::token::{TOKEN_HEADER, Token};
