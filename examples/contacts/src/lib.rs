//! Contacts over REST and all RPC protocols, from one `.proto`: the reference application.
//!
//! ```text
//! proto/contacts/v1/contacts.proto ─▶ service.rs ─▶ store.rs (trait) ─▶ store/sqlite.rs
//!                    plain handlers ─▶ plain.rs
//! ```
//!
//! The program is in `main.rs`; [`add_to`] is apart from it so that tests start the application in
//! their own process.

mod plain;
mod service;
pub mod store;

use tidewire::Builder;

use crate::proto::contacts::v1::ContactsServer;
pub use crate::service::{Scheme, TypedContacts};
use crate::store::Store;

/// The code made of `proto/`.
pub mod proto {
    tidewire::include_protos!();
}

/// Adds the application to a server: the typed service, and the plain handlers beside it.
pub fn add_to(builder: Builder, store: impl Store, scheme: Scheme) -> Builder {
    let contacts = ContactsServer::new(TypedContacts::new(store, scheme));
    plain::add_to(builder).service(contacts)
}
