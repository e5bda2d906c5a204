//! Where contacts are kept: the one seam between the service and a database.
//!
//! Records are the messages of the `.proto`, so nothing is copied from one struct into another.

mod names;
pub mod postgres;
mod progress;
pub mod sqlite;

use tidewire::{Result, Stream};

pub use self::progress::Progress;
use crate::proto::contacts::v1::{Contact, CreateRequest, UpdateRequest};

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

    /// Up to `rows` contacts with ids over `after`, by ascending id.
    fn page(&self, after: i32, rows: u32) -> impl Future<Output = Result<Vec<Contact>>> + Send;

    /// All contacts by ascending id, in as little memory as for one page. Whoever was there from
    /// the begin to the end of the list is on it exactly once.
    fn list(&self) -> impl Future<Output = Result<Stream<Contact>>> + Send;

    /// Changes the fields that are there; the contact as it is then, if there is one.
    fn update(&self, change: UpdateRequest)
    -> impl Future<Output = Result<Option<Contact>>> + Send;

    /// Removes the contact with this id, if there is one.
    fn delete(&self, id: i32) -> impl Future<Output = Result<()>> + Send;
}
