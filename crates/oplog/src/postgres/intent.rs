//! The statements of [intents](crate::intent): a row and a lock for each host that runs commands.
//!
//! Whoever holds a lock on the table, as an operator, is not waited for: each statement has a
//! `lock_timeout`, and is sent with it in one message, which is one transaction.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::failure::write_error;
use super::schema::literal;
use crate::error::{Error, ErrorKind};
use crate::intent::LOST;
use crate::settings::Settings;
use crate::sql::identifier;

/// Adds the row and takes the lock, before anybody sees the row; its number.
pub(super) async fn register(client: &Client, settings: &Settings) -> Result<i32, IntentFailure> {
    let schema = identifier(&settings.schema);
    let class = class(settings);
    let sql = format!(
        "SET LOCAL lock_timeout = '{PATIENCE}';
         WITH added AS (INSERT INTO {schema}.intent DEFAULT VALUES RETURNING id)
         SELECT id, pg_advisory_lock({class}, id) FROM added"
    );
    let messages = client.simple_query(&sql).await.map_err(|error| failure(settings, error))?;
    let number = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    let text = "the change log shows what PostgreSQL does not write";
    number.ok_or_else(|| IntentFailure::Other(Error::new(ErrorKind::Corrupt, text)))
}

/// Removes the row, and then gives back the lock.
pub(super) async fn remove(
    client: &Client,
    settings: &Settings,
    number: i32,
) -> Result<(), IntentFailure> {
    let schema = identifier(&settings.schema);
    let class = class(settings);
    let sql = format!(
        "SET LOCAL lock_timeout = '{PATIENCE}';
         WITH removed AS (DELETE FROM {schema}.intent WHERE id = {number} RETURNING id)
         SELECT pg_advisory_unlock({class}, id) FROM removed"
    );
    client.batch_execute(&sql).await.map_err(|error| failure(settings, error))
}

/// Removes the rows of dead hosts and tells every host by the log; whether there was one.
pub(super) async fn remove_dead_hosts(
    client: &Client,
    settings: &Settings,
) -> Result<bool, IntentFailure> {
    let schema = identifier(&settings.schema);
    let class = class(settings);
    let lost = literal(LOST);
    let sql = format!(
        "SET LOCAL lock_timeout = '{PATIENCE_OF_POLLS}';
        WITH dead AS (
            DELETE FROM {schema}.intent WHERE pg_try_advisory_xact_lock({class}, id) RETURNING id
        )
        INSERT INTO {schema}.log (source) SELECT {lost} FROM dead LIMIT 1"
    );
    let messages = client.simple_query(&sql).await.map_err(|error| failure(settings, error))?;
    Ok(messages.iter().any(|message| matches!(message, SimpleQueryMessage::CommandComplete(1..))))
}

/// Why the table was not written.
pub(super) enum IntentFailure {
    /// Somebody holds a lock on it.
    Locked(Error),
    Other(Error),
}

fn failure(settings: &Settings, error: tokio_postgres::Error) -> IntentFailure {
    if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
        let table = format!("{}.intent", identifier(&settings.schema));
        let text = format!("somebody holds a lock on {table} (see pg_locks)");
        return IntentFailure::Locked(Error::new(ErrorKind::Database, text).because(error));
    }
    IntentFailure::Other(write_error(error))
}

/// Locks with this number are of this log.
fn class(settings: &Settings) -> String {
    format!("hashtext({})", literal(&format!("tidewire intent {}", settings.schema)))
}

/// For how long a command waits for a lock on the table.
const PATIENCE: &str = "200ms";
/// For how long polls wait for it.
const PATIENCE_OF_POLLS: &str = "20ms";
