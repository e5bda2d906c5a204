//! A transaction that takes its invalidations along.
//!
//! What a trigger captures needs no listing: the database adds its rows. What a transaction lists
//! is written into the log with it, and is marked here as soon as the commit is acknowledged. A
//! connection that is cut during the commit loses nothing: if the transaction was committed, its
//! rows are in the log.

use std::fmt;

use tidewire_memo::{Source, SourceKey, WriteGuard};
use tokio_postgres::{Client, Transaction};

use crate::change::{Change, ChangeSet};
use crate::core::Core;
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

pub(crate) async fn transaction<T, E>(
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
    let schema = identifier(&core.settings.schema);
    let insert = format!("INSERT INTO {schema}.log (source, keys) VALUES ($1, $2)");
    let mut by_source = ChangeSet::default();
    listed.into_iter().for_each(|change| by_source.add(change));
    for change in by_source.into_changes() {
        let keys = change.keys.filter(|keys| keys.len() <= core.settings.keys_max as usize);
        let added = transaction.execute(&insert, &[&change.source, &keys]).await;
        added.map_err(WriteError::Refused)?;
    }
    let mark = transaction
        .query_one(&format!("SELECT {schema}.mark()"), &[])
        .await
        .map_err(WriteError::Refused)?;
    if let Err(error) = transaction.commit().await {
        return Err(match error.is_closed() || error.as_db_error().is_none() {
            true => WriteError::Unknown(error),
            false => WriteError::Refused(error),
        });
    }
    let token = core.committed(mark.get(0));
    if let Some(guard) = guard {
        guard.finish_async().await;
    }
    core.wrote(&token);
    Ok((output, token))
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
