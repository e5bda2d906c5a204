//! Users: a look-up and a change by id.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::list::json_array;
use crate::proto::users::v1::{UpdateRequest, User};

/// The user with this id.
pub(super) fn find(database: &Connection, id: i64) -> rusqlite::Result<Option<User>> {
    let mut select = database.prepare_cached("SELECT id, name, email FROM user WHERE id = ?1")?;
    select.query_row([id], user).optional()
}

/// The users with these ids.
pub(super) fn find_many(database: &Connection, ids: &[i64]) -> rusqlite::Result<Vec<User>> {
    let mut select = database.prepare_cached(
        "SELECT id, name, email FROM user WHERE id IN (SELECT value FROM json_each(?1))",
    )?;
    select.query_map([json_array(ids)], user)?.collect()
}

/// Changes the fields that are there; the user as it is then.
pub(super) fn update(
    database: &Connection,
    change: &UpdateRequest,
) -> rusqlite::Result<Option<User>> {
    let mut update = database.prepare_cached(
        "UPDATE user SET name = coalesce(?2, name), email = coalesce(?3, email) WHERE id = ?1 \
         RETURNING id, name, email",
    )?;
    update.query_row((change.id, &change.name, &change.email), user).optional()
}

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    Ok(User { id: row.get(0)?, name: row.get(1)?, email: row.get(2)?, ..Default::default() })
}
