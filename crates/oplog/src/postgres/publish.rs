//! Writes what waits in the outbox into the log, on another connection, which is opened with the
//! first change.

use tokio_postgres::Client;

use super::session::{Line, SessionSettings};
use crate::core::Backoff;
use crate::error::{Error, ErrorKind};
use crate::outbox::Batch;
use crate::sql::identifier;
use crate::token::Token;

/// An open connection.
struct Writer {
    client: Client,
    _line: Line,
}

/// Why a batch was not written.
enum WriteFailure {
    /// This change of it cannot be.
    Unwritable(usize, Error),
    Other(Error),
}

impl WriteFailure {
    fn of(at: usize, error: tokio_postgres::Error) -> Self {
        // Class 22: data that the database cannot hold, as in another encoding.
        let is_data = error.code().is_some_and(|code| code.code().starts_with("22"));
        match is_data {
            true => Self::Unwritable(at, write_error(error)),
            false => Self::Other(write_error(error)),
        }
    }
}

/// The database refused a statement, or is gone.
fn write_error(error: tokio_postgres::Error) -> Error {
    let kind = if error.is_closed() { ErrorKind::Unreachable } else { ErrorKind::Database };
    Error::new(kind, "the change log cannot be written").because(error)
}

impl From<Error> for WriteFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl SessionSettings {
    /// Writes for ever. A batch is tried until it is written; rows that are there twice mark twice.
    pub(super) async fn publish(&self) {
        let core = &self.core;
        let mut writer = None;
        loop {
            let mut batch = core.outbox.take(&core.settings).await;
            let mut backoff = Backoff::new();
            let token = loop {
                match self.write(&mut writer, &batch).await {
                    Ok(token) => break token,
                    Err(WriteFailure::Unwritable(at, error)) => {
                        let source = &batch.changes[at].source;
                        tracing::error!(
                            source,
                            %error,
                            "the database cannot hold this key, or the name of its source; other \
                             hosts are told of every key, or of nothing"
                        );
                        batch.reject(at);
                    }
                    Err(WriteFailure::Other(error)) => {
                        tracing::warn!(%error, "changes wait to be written into the change log");
                        writer = None;
                        backoff.wait().await;
                    }
                }
            };
            core.outbox.set_written(&batch, token);
            core.wake_others.notify_one();
        }
    }

    async fn write(
        &self,
        writer: &mut Option<Writer>,
        batch: &Batch,
    ) -> Result<Token, WriteFailure> {
        let writer = match writer {
            Some(writer) => writer,
            none => {
                let (client, line, _) = self.connect().await?;
                none.insert(Writer { client, _line: line })
            }
        };
        let schema = identifier(&self.core.settings.schema);
        let insert = format!("INSERT INTO {schema}.log (source, keys) VALUES ($1, $2)");
        let transaction = writer.client.transaction().await.map_err(write_error)?;
        for (at, change) in batch.changes.iter().enumerate() {
            let added = transaction.execute(&insert, &[&change.source, &change.keys]).await;
            added.map_err(|error| WriteFailure::of(at, error))?;
        }
        let mark = format!("SELECT {schema}.mark()");
        let mark = transaction.query_one(&mark, &[]).await.map_err(write_error)?;
        // Before a poll can see its rows. No other transaction gets this id if the commit fails.
        let token = self.core.published(mark.get(0));
        transaction.commit().await.map_err(write_error)?;
        Ok(token)
    }
}
