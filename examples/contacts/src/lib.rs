//! Contacts over REST and all RPC protocols, from one `.proto`: the reference application.
//!
//! ```text
//! proto/contacts/v1/contacts.proto ─▶ service.rs ─┬▶ store.rs (trait) ─▶ store/tracked.rs ─▶ store/sqlite.rs,
//! proto/users/v1/users.proto ───────▶ users.rs ───┘                                        store/postgres.rs
//! proto/keyvalue/v1/keyvalue.proto ─▶ keyvalue.rs; relay.rs ─▶ a store elsewhere, over HTTP
//! proto/mvc/v1/mvc.proto ───────────▶ mvc.rs
//!                    plain handlers ─▶ plain.rs; tour.rs ─▶ the page at `/`, of tour/
//! ```
//!
//! The program is in `main.rs`; [`add_to`] is apart from it so that tests start the application in
//! their own process.

mod database;
mod keyvalue;
mod mvc;
mod page;
mod plain;
mod relay;
mod service;
pub mod store;
mod tour;
mod users;

use std::sync::Arc;

use tidewire::config::{Config, UnknownSetting};
use tidewire::{Builder, Client};

pub use crate::database::Database;
use crate::keyvalue::Caesar;
use crate::mvc::Hello;
use crate::proto::contacts::v1::ContactsServer;
use crate::proto::keyvalue::v1::{KeyValueServer, RelayServer};
use crate::proto::mvc::v1::IndexServer;
use crate::proto::users::v1::UsersServer;
use crate::relay::ToStore;
pub use crate::service::TypedContacts;
use crate::store::Store;
use crate::users::TypedUsers;

/// The code made of `proto/`.
pub mod proto {
    tidewire::include_protos!();
}

/// The settings, with those of the application where nothing is set: a member of a JSON body over
/// REST that names no field, such as `firstname` for `firstName`, is refused and not passed over.
pub fn with_defaults(mut config: Config) -> Config {
    config.rest.unknown_members.get_or_insert(UnknownSetting::Refused);
    config
}

/// Adds the application to a server: the typed services, and the plain handlers beside them. A
/// relay asks the key/value store that `key_values` leads to.
pub fn add_to(builder: Builder, store: impl Store, key_values: Client) -> Builder {
    let store = Arc::new(store);
    tour::add_to(plain::add_to(builder))
        .service(ContactsServer::new(TypedContacts::new(Arc::clone(&store))))
        .service(UsersServer::new(TypedUsers(store)))
        .service(KeyValueServer::new(Caesar))
        .service(RelayServer::new(ToStore(key_values)))
        .service(IndexServer::new(Hello))
        .command_keys(&["contacts.v1.Contacts/Create"], store::KEYS_KEPT)
}
