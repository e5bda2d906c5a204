//! Where contacts are kept: the one seam between the service and a database.
//!
//! Records are the messages of the `.proto`, so nothing is copied from one struct into another.

pub mod sqlite;

use tidewire::Result;

use crate::proto::contacts::v1::{Contact, CreateRequest};

/// Keeps contacts.
///
/// Every method fails with `UNAVAILABLE` when the database cannot be used for now, and with
/// `RESOURCE_EXHAUSTED` when more calls wait for it than it takes. What a method acknowledged is
/// kept through a crash of the program and a loss of power.
pub trait Store: Send + Sync + 'static {
    /// Adds a contact under an id that was never used before.
    fn create(&self, names: CreateRequest) -> impl Future<Output = Result<Contact>> + Send;

    /// The contact with this id.
    fn find(&self, id: i32) -> impl Future<Output = Result<Option<Contact>>> + Send;

    /// Removes the contact with this id, if there is one.
    fn delete(&self, id: i32) -> impl Future<Output = Result<()>> + Send;
}
