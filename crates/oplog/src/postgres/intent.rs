//! The statements of [intents](crate::intent): a row and a lock for each host that runs commands.

use tokio_postgres::Client;

use super::schema::literal;
use crate::intent::LOST;
use crate::settings::Settings;
use crate::sql::identifier;

/// Adds the row and takes the lock, before anybody sees the row; answers with its number.
pub(super) fn register(settings: &Settings) -> String {
    let schema = identifier(&settings.schema);
    let class = class(settings);
    format!(
        "WITH added AS (INSERT INTO {schema}.intent DEFAULT VALUES RETURNING id)
         SELECT id, pg_advisory_lock({class}, id) FROM added"
    )
}

/// Removes the row, and then gives back the lock.
pub(super) fn remove(settings: &Settings) -> String {
    let schema = identifier(&settings.schema);
    let class = class(settings);
    format!(
        "WITH removed AS (DELETE FROM {schema}.intent WHERE id = $1 RETURNING id)
         SELECT pg_advisory_unlock({class}, id) FROM removed"
    )
}

/// Removes the rows of dead hosts and tells every host by the log; whether there was one.
pub(super) async fn remove_dead_hosts(
    client: &Client,
    settings: &Settings,
) -> Result<bool, tokio_postgres::Error> {
    let schema = identifier(&settings.schema);
    let class = class(settings);
    let lost = literal(LOST);
    let sql = format!(
        "WITH dead AS (
            DELETE FROM {schema}.intent WHERE pg_try_advisory_xact_lock({class}, id) RETURNING id
        )
        INSERT INTO {schema}.log (source) SELECT {lost} FROM dead LIMIT 1"
    );
    Ok(client.execute(&sql, &[]).await? > 0)
}

/// Locks with this number are of this log.
fn class(settings: &Settings) -> String {
    format!("hashtext({})", literal(&format!("tidewire intent {}", settings.schema)))
}
