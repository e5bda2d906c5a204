//! Writes what waits in the outbox into the log of the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{TransactionBehavior, params};
use tokio::task::spawn_blocking;

use super::poll::{last_row, open_to_write};
use crate::change::Change;
use crate::core::{Backoff, Core};
use crate::outbox::{Batch, CHANGES_WAIT, CHANGES_WRITTEN};
use crate::token::Token;

/// Writes for ever, on a thread for what blocks. A batch is tried until it is written.
pub(super) async fn publish(core: Arc<Core>, path: PathBuf) {
    loop {
        let batch = Arc::new(core.outbox.take(&core.settings).await);
        let mut backoff = Backoff::new();
        let mut failures = 0_u64;
        loop {
            let of_task = (Arc::clone(&core), path.clone(), Arc::clone(&batch));
            let written = spawn_blocking(move || {
                let (core, path, batch) = of_task;
                write(&core, &path, &batch)
            });
            // The runtime is shutting down.
            let Ok(written) = written.await else { return };
            let Err(error) = written else { break };
            if failures == 0 {
                tracing::warn!(%error, "{CHANGES_WAIT}");
            }
            failures += 1;
            backoff.wait().await;
        }
        if failures > 0 {
            tracing::info!(failures, "{CHANGES_WRITTEN}");
        }
        // A file has no marks; whoever is shown this polls once more.
        core.outbox.set_written(&batch, Token::unclear());
        core.wanted.notify_one();
    }
}

fn write(core: &Core, path: &Path, batch: &Batch) -> rusqlite::Result<()> {
    let mut database = open_to_write(path)?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = last_row(&transaction)?;
    for Change { source, keys } in &batch.changes {
        let mut insert =
            transaction.prepare_cached("INSERT INTO tidewire_log (source, key) VALUES (?1, ?2)")?;
        match keys {
            None => _ = insert.execute(params![source, None::<&str>])?,
            Some(keys) => {
                for key in keys {
                    insert.execute(params![source, key])?;
                }
            }
        }
    }
    let last = last_row(&transaction)?;
    core.publish_rows(before + 1..=last, || transaction.commit())
}
