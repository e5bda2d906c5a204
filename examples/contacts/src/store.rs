//! Where contacts and users are kept: the one seam between the service and a database.
//!
//! Records are the messages of the `.proto`, so nothing is copied from one struct into another.

mod names;
#[cfg(feature = "postgres")]
pub mod postgres;
mod progress;
mod sources;
pub mod sqlite;
mod tracked;

use std::time::Duration;

use tidewire::http::StatusCode;
use tidewire::service::CommandKey;
use tidewire::{Error, Outcome, Result, Stream};

pub use self::progress::Progress;
pub use self::sources::Sources;
pub use self::tracked::Tracked;
use crate::proto::contacts::v1::{Contact, CreateRequest, UpdateRequest};
use crate::proto::users::v1::{UpdateRequest as UserChange, User};

/// Keeps contacts and users.
///
/// Every method fails with `UNAVAILABLE` when the database cannot be used for now, and with
/// `RESOURCE_EXHAUSTED` when more calls wait for it than it takes. What a method acknowledged is
/// kept through a crash of the program and a loss of power.
pub trait Store: Send + Sync + 'static {
    /// Adds a contact under an id that was never used before.
    fn create(&self, names: CreateRequest) -> impl Future<Output = Result<Contact>> + Send;

    /// As [`create`](Self::create), once for a key: whoever comes again with it, at the same time
    /// or up to [`KEYS_KEPT`] later, over restarts, is given the contact as it was then, whatever
    /// became of it. The key is kept in the transaction that adds the contact.
    ///
    /// Other names under the same key are `FAILED_PRECONDITION`, and nothing is added.
    fn create_once(
        &self,
        names: CreateRequest,
        key: CommandKey,
    ) -> impl Future<Output = Result<Contact>> + Send;

    /// The contact with this id.
    fn find(&self, id: i32) -> impl Future<Output = Result<Option<Contact>>> + Send;

    /// The contacts with these ids, in any order, by one query; an id without one has none.
    fn find_many(&self, ids: Vec<i32>) -> impl Future<Output = Result<Vec<Contact>>> + Send;

    /// Up to `rows` contacts with ids over `after`, by ascending id.
    fn page(&self, after: i32, rows: u32) -> impl Future<Output = Result<Vec<Contact>>> + Send;

    /// All contacts by ascending id, in as little memory as for one page. Whoever was there from
    /// the begin to the end of the list is on it exactly once.
    fn list(&self) -> impl Future<Output = Result<Stream<Contact>>> + Send;

    /// How many contacts there are.
    fn count(&self) -> impl Future<Output = Result<i64>> + Send;

    /// Changes the fields that are there; the contact as it is then, if there is one.
    fn update(&self, change: UpdateRequest)
    -> impl Future<Output = Result<Option<Contact>>> + Send;

    /// Removes the contact with this id, if there is one.
    fn delete(&self, id: i32) -> impl Future<Output = Result<()>> + Send;

    /// The user with this id: of those from 1 to [`USERS`], with which a store begins.
    fn find_user(&self, id: i64) -> impl Future<Output = Result<Option<User>>> + Send;

    /// The users with these ids, as [`find_many`](Self::find_many) finds contacts.
    fn find_users(&self, ids: Vec<i64>) -> impl Future<Output = Result<Vec<User>>> + Send;

    /// Changes the fields that are there; the user as it is then, if there is one.
    fn update_user(&self, change: UserChange) -> impl Future<Output = Result<Option<User>>> + Send;
}

/// How many users there are.
pub const USERS: u32 = 1000;

/// How long the key of a create is kept at least; after that it may be forgotten, and the same key
/// is a new create. A caller that repeats a command does so within half of it.
///
/// Each create with a key removes two that are older, so there are never many more
/// than were used within this time, and none of them costs more than the contact that it made.
pub const KEYS_KEPT: Duration = Duration::from_hours(24);

/// How many keys a create with a key removes at most: more than the one that it adds.
const FORGOTTEN_AT_ONCE: u32 = 2;

/// The answer to a create under a key that is known: what the first one gave.
fn repeated(asked: &CreateRequest, first: Contact) -> Result<Contact> {
    if (&asked.first_name, &asked.surname) == (&first.first_name, &first.surname) {
        return Ok(first);
    }
    Err(Error::failed_precondition(
        "the key of this command, such as its header Idempotency-Key, was used to create another \
         contact; give each command its own key",
    )
    .with_http_status(StatusCode::UNPROCESSABLE_ENTITY)
    .with_outcome(Outcome::NotRun))
}
