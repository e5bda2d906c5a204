//! Writes what waits in the outbox into the log, on another connection, which is opened with the
//! first change.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::Client;

use super::failure::write_error;
use super::intent::{self, IntentFailure};
use super::session::{Line, SessionSettings, within};
use crate::core::Backoff;
use crate::error::Error;
use crate::intent::{NextStep, Registration};
use crate::outbox::{Batch, CHANGES_WAIT, CHANGES_WRITTEN};
use crate::sql::identifier;
use crate::token::Token;

/// An open connection.
struct Writer {
    client: Client,
    _line: Line,
    /// Hears when it is gone.
    changed: Arc<Notify>,
    /// The number of the row that says so while commands run.
    intent: Option<i32>,
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

impl From<Error> for IntentFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Error> for WriteFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl SessionSettings {
    /// Writes for ever: batches, and that commands run which may add to them.
    pub(super) async fn publish(&self) {
        let core = &self.core;
        let mut writer = None;
        loop {
            tokio::select! {
                biased;
                step = core.intents.next_step() => {
                    match self.set_registered(&mut writer, &step).await {
                        Ok(()) => {}
                        Err(IntentFailure::Locked(_)) if step == NextStep::Remove => {
                            core.intents.keep();
                        }
                        Err(IntentFailure::Locked(error)) => core.intents.refuse(&error),
                        Err(IntentFailure::Other(error)) => {
                            writer = None;
                            core.intents.refuse(&error);
                        }
                    }
                }
                batch = core.outbox.take(&core.settings) => self.write_all(&mut writer, batch).await,
                () = until_closed(writer.as_ref()) => {
                    writer = None;
                    core.intents.forget();
                }
            }
        }
    }

    /// Writes a batch. It is tried until it is written; rows that are there twice mark twice.
    async fn write_all(&self, writer: &mut Option<Writer>, mut batch: Batch) {
        let core = &self.core;
        let mut backoff = Backoff::new();
        let mut failures = 0_u64;
        let token = loop {
            match self.write(writer, &batch).await {
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
                    if failures == 0 {
                        tracing::warn!(%error, "{CHANGES_WAIT}");
                    }
                    failures += 1;
                    *writer = None;
                    core.intents.set(Registration::Unavailable);
                    backoff.wait().await;
                }
            }
        };
        if failures > 0 {
            tracing::info!(failures, "{CHANGES_WRITTEN}");
        }
        core.outbox.set_written(&batch, token);
        core.wake_others.notify_one();
    }

    /// The open connection, or another one.
    async fn writer<'w>(&self, writer: &'w mut Option<Writer>) -> Result<&'w mut Writer, Error> {
        match writer {
            Some(writer) => Ok(writer),
            none => {
                let (client, line, changed) = self.connect().await?;
                Ok(none.insert(Writer { client, _line: line, changed, intent: None }))
            }
        }
    }

    async fn write(
        &self,
        writer: &mut Option<Writer>,
        batch: &Batch,
    ) -> Result<Token, WriteFailure> {
        let writer = self.writer(writer).await?;
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

    /// Registers that commands run here, or removes that.
    async fn set_registered(
        &self,
        writer: &mut Option<Writer>,
        step: &NextStep,
    ) -> Result<(), IntentFailure> {
        let settings = &self.core.settings;
        match step {
            NextStep::Register => {
                let writer = self.writer(writer).await?;
                let registered = intent::register(&writer.client, settings);
                writer.intent = Some(within(INTENT_TIMEOUT, registered).await??);
                self.core.intents.registered();
            }
            NextStep::Remove => {
                // With another connection it went, too.
                if let Some(Writer { client, intent: Some(number), .. }) = writer {
                    let removed = intent::remove(client, settings, *number);
                    within(INTENT_TIMEOUT, removed).await??;
                }
                self.core.intents.removed();
            }
        }
        Ok(())
    }
}

/// Waits until an open connection is gone.
async fn until_closed(writer: Option<&Writer>) {
    let Some(writer) = writer else { return std::future::pending().await };
    while !writer.client.is_closed() {
        writer.changed.notified().await;
    }
}

/// A database that falls silent is as one that is gone.
const INTENT_TIMEOUT: Duration = Duration::from_secs(5);
