//! A transaction that takes its invalidations along.
//!
//! What a trigger captures needs no listing: the database adds its rows. What a transaction lists
//! is written into the log with it, and is marked here as soon as the commit is acknowledged. A
//! connection that is cut during the commit loses nothing: if the transaction was committed, its
//! rows are in the log.

use std::fmt;
use std::pin::pin;

use futures_util::FutureExt as _;
use futures_util::future::join;
use tidewire_memo::{Source, SourceKey, WriteGuard};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Transaction};

use crate::change::{Change, ChangeSet};
use crate::core::Core;
use crate::oplog::OplogHandle;
use crate::settings::Settings;
use crate::sql::identifier;
use crate::token::Token;

/// What a transaction changes; see [`OplogHandle::transaction`](crate::OplogHandle::transaction).
#[derive(Debug, Default)]
pub struct Changes {
    guard: Option<WriteGuard>,
    listed: Vec<Change>,
}

impl Changes {
    /// Says that the transaction changes a key of a source. Call it before the statement that does.
    pub fn changed<K: SourceKey>(&mut self, source: &Source<K>, key: &K) {
        self.guard = Some(match self.guard.take() {
            Some(guard) => guard.also(source, key),
            None => source.write(key),
        });
        let source = source.name().to_owned();
        let keys = Some(vec![key.to_text()]);
        self.listed.push(Change { source, keys });
    }
}

/// Why a transaction failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError<E> {
    /// The work failed; the transaction was rolled back.
    Work(E),
    /// The database refused the transaction, or what it lists; it was rolled back.
    Refused(tokio_postgres::Error),
    /// The connection ended during the commit: whether it was committed is not known. If it was,
    /// every host hears of it by the log.
    Unknown(tokio_postgres::Error),
}

impl OplogHandle {
    /// Runs `work` in a transaction and marks what it lists when the commit is acknowledged, here
    /// at once and on other hosts by the log.
    ///
    /// # Errors
    /// When the work fails, or the database does; [`WriteError`] says whether it was rolled
    /// back.
    ///
    /// # Cancel safety
    /// Dropped before the commit, the transaction is rolled back. Dropped during the commit, it may
    /// have been committed: then the log has its rows.
    pub async fn transaction<T, E>(
        &self,
        client: &mut Client,
        work: impl AsyncFnOnce(&Transaction<'_>, &mut Changes) -> Result<T, E>,
    ) -> Result<(T, Token), WriteError<E>> {
        transaction(&self.core, client, work).await
    }
}

async fn transaction<T, E>(
    core: &Core,
    client: &mut Client,
    work: impl AsyncFnOnce(&Transaction<'_>, &mut Changes) -> Result<T, E>,
) -> Result<(T, Token), WriteError<E>> {
    let transaction = client.transaction().await.map_err(WriteError::Refused)?;
    let mut changes = Changes::default();
    let output = match work(&transaction, &mut changes).await {
        Ok(output) => output,
        Err(error) => {
            // That the connection is gone rolls it back, too. The guard marks what did not change,
            // which costs a verification.
            let _ = transaction.rollback().await;
            return Err(WriteError::Work(error));
        }
    };
    let Changes { guard, listed } = changes;
    let mark = commit(transaction, &last_statement(&core.settings, listed)).await?;
    let token = core.committed(&mark);
    if let Some(guard) = guard {
        guard.finish_async().await;
    }
    core.wrote(&token);
    Ok((output, token))
}

/// What a transaction says at its end.
struct LastStatement {
    sql: String,
    changes: Vec<Change>,
}

/// Writes what was listed into the log, and asks for the mark.
fn last_statement(settings: &Settings, listed: Vec<Change>) -> LastStatement {
    let schema = identifier(&settings.schema);
    let mut by_source = ChangeSet::default();
    listed.into_iter().for_each(|change| by_source.add(change));
    let changes: Vec<_> = by_source.into_changes().map(|it| it.bounded(settings)).collect();
    if changes.is_empty() {
        return LastStatement { sql: format!("SELECT {schema}.mark()"), changes };
    }
    let row = |at: usize| format!("(${}, ${})", at * 2 + 1, at * 2 + 2);
    let rows: Vec<String> = (0..changes.len()).map(row).collect();
    let rows = rows.join(", ");
    let sql =
        format!("INSERT INTO {schema}.log (source, keys) VALUES {rows} RETURNING {schema}.mark()");
    LastStatement { sql, changes }
}

/// Sends the last statement and `COMMIT` at once, and returns the mark. PostgreSQL takes one after
/// the other: if the statement fails, `COMMIT` rolls back.
async fn commit<E>(
    transaction: Transaction<'_>,
    last: &LastStatement,
) -> Result<String, WriteError<E>> {
    let mut params: Vec<(&(dyn ToSql + Sync), Type)> = Vec::with_capacity(last.changes.len() * 2);
    for change in &last.changes {
        params.push((&change.source, Type::TEXT));
        params.push((&change.keys, Type::TEXT_ARRAY));
    }
    let failure = |error: tokio_postgres::Error| match error.as_db_error() {
        Some(_) if !error.is_closed() => WriteError::Refused(error),
        _ => WriteError::Unknown(error),
    };
    let (said, committed) = {
        let mut said = pin!(transaction.query_typed(&last.sql, &params));
        // It is sent when it is polled first. What cannot be sent is known then, and nothing is
        // committed without it.
        if let Some(Err(error)) = said.as_mut().now_or_never() {
            return Err(WriteError::Refused(error));
        }
        join(said, transaction.batch_execute("COMMIT")).await
    };
    // It has ended: dropped, it would send a `ROLLBACK`. It owns nothing.
    std::mem::forget(transaction);
    let rows = said.map_err(failure)?;
    committed.map_err(failure)?;
    // Each row of the log has the same one.
    Ok(rows.first().map(|row| row.get(0)).unwrap_or_default())
}

impl<E: fmt::Display> fmt::Display for WriteError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => error.fmt(f),
            Self::Refused(error) => write!(f, "the transaction was rolled back: {error}"),
            Self::Unknown(error) => {
                write!(f, "whether the transaction was committed is not known: {error}")
            }
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for WriteError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Work(error) => Some(error),
            Self::Refused(error) | Self::Unknown(error) => Some(error),
        }
    }
}
