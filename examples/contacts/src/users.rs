//! The typed service of `users.proto`: look up, change.

use std::sync::Arc;

use tidewire::{Context, Error, Reply, Result};

use crate::proto::users::v1::{GetRequest, UpdateRequest, User, Users};
use crate::store::Store;

/// `users.v1.Users` on a store.
#[derive(Debug)]
pub(crate) struct TypedUsers<S>(pub(crate) Arc<S>);

impl<S: Store> Users for TypedUsers<S> {
    async fn get(&self, _: Context, request: GetRequest) -> Result<Reply<User>> {
        reply_or_not_found(request.id, self.0.find_user(request.id).await?)
    }

    async fn update(&self, _: Context, request: UpdateRequest) -> Result<Reply<User>> {
        for (field, text) in [("name", &request.name), ("email", &request.email)] {
            // The one character that not every database can keep.
            if text.as_ref().is_some_and(|text| text.contains('\0')) {
                return Err(Error::invalid_argument(format!(
                    "field {field} holds a NUL character; leave it out"
                )));
            }
        }
        reply_or_not_found(request.id, self.0.update_user(request).await?)
    }
}

fn reply_or_not_found(id: i64, user: Option<User>) -> Result<Reply<User>> {
    match user {
        Some(user) => Ok(user.into()),
        None => Err(Error::not_found(format!("no user has id {id}"))),
    }
}
