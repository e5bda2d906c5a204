//! A create under a key: contact and key are added together, or neither is.
//!
//! There is one writer, and its transaction begins by taking the file's write lock, so nobody adds
//! the key between the look and the insert. The transaction is one of many writes, of which one may
//! fail alone: a savepoint keeps the contact from staying without its key.

use rusqlite::{Connection, OptionalExtension as _, Result};
use tidewire::service::CommandKey;

use super::insert;
use crate::proto::contacts::v1::{Contact, CreateRequest};
use crate::store::{FORGOTTEN_AT_ONCE, KEYS_KEPT};

/// A contact that was asked for under a key.
#[derive(Debug)]
pub(super) enum Created {
    Now(Contact),
    /// As it was when the key came first.
    Before(Contact),
}

/// Adds a contact, unless the key is known.
pub(super) fn create(
    database: &Connection,
    names: CreateRequest,
    key: &CommandKey,
) -> Result<Created> {
    if let Some(contact) = find(database, key)? {
        return Ok(Created::Before(contact));
    }
    run(database, "SAVEPOINT once")?;
    let added = add(database, names, key);
    if added.is_err() && !database.is_autocommit() {
        run(database, "ROLLBACK TO once")?;
    }
    if !database.is_autocommit() {
        run(database, "RELEASE once")?;
    }
    added.map(Created::Now)
}

fn find(database: &Connection, key: &CommandKey) -> Result<Option<Contact>> {
    let mut select = database
        .prepare_cached("SELECT contact_id, firstname, surname FROM command WHERE key = ?1")?;
    let found = select.query_row([key.as_str()], |row| {
        Ok(Contact {
            id: row.get(0)?,
            first_name: row.get(1)?,
            surname: row.get(2)?,
            ..Default::default()
        })
    });
    found.optional()
}

fn add(database: &Connection, names: CreateRequest, key: &CommandKey) -> Result<Contact> {
    let contact = insert(database, names)?;
    database
        .prepare_cached(
            "INSERT INTO command (key, contact_id, firstname, surname) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((key.as_str(), contact.id, &contact.first_name, &contact.surname))?;
    database
        .prepare_cached(
            "DELETE FROM command WHERE key IN (SELECT key FROM command \
             WHERE made_at < unixepoch() - ?1 ORDER BY made_at LIMIT ?2)",
        )?
        .execute((KEYS_KEPT.as_secs() as i64, FORGOTTEN_AT_ONCE))?;
    Ok(contact)
}

fn run(database: &Connection, sql: &str) -> Result<()> {
    database.prepare_cached(sql)?.execute([]).map(|_| ())
}
