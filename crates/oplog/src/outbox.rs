//! Changes that no trigger sees, on their way into the log: of sources that programs name and no
//! table shows, and of tags of pages.
//!
//! They are marked here before they come here, so this host passes their rows over. One task writes
//! them, in batches: a host that dies before it has written loses them.

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::change::{Change, ChangeSet};
use crate::settings::Settings;
use crate::token::Token;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    added: Notify,
    written: watch::Sender<Written>,
}

#[derive(Debug, Default)]
struct Queue {
    changes: ChangeSet,
    /// How many changes were ever added.
    count: u64,
}

/// Changes up to this one are in the log.
#[derive(Debug, Default)]
struct Written {
    count: u64,
    token: Token,
    is_closed: bool,
}

/// What is written at once.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) changes: Vec<Change>,
    count: u64,
}

impl Batch {
    /// The database cannot hold a change: it becomes one of every key, or is left out if it is that
    /// already.
    pub(crate) fn reject(&mut self, at: usize) {
        match &mut self.changes[at].keys {
            keys @ Some(_) => *keys = None,
            None => _ = self.changes.remove(at),
        }
    }
}

impl Outbox {
    /// Adds a change. A key that the log has no room for, or that no text of a database can be
    /// (with a NUL in it), is each key of its source.
    pub(crate) fn add(&self, settings: &Settings, source: &str, key: Option<&str>) {
        let fits = |key: &&str| key.len() <= settings.key_bytes_max as usize && !key.contains('\0');
        let keys = key.filter(fits).map(|key| vec![key.to_owned()]);
        let mut queue = self.queue.lock();
        queue.changes.add(Change { source: source.to_owned(), keys });
        queue.count += 1;
        self.added.notify_one();
    }

    /// How many changes were ever added.
    pub(crate) fn count(&self) -> u64 {
        self.queue.lock().count
    }

    /// Waits for changes and takes them, in rows that the log has room for.
    pub(crate) async fn take(&self, settings: &Settings) -> Batch {
        loop {
            {
                let mut queue = self.queue.lock();
                if !queue.changes.is_empty() {
                    let changes = std::mem::take(&mut queue.changes).into_changes();
                    let changes = changes.map(|change| change.bounded(settings)).collect();
                    return Batch { changes, count: queue.count };
                }
            }
            self.added.notified().await;
        }
    }

    /// A batch was committed.
    pub(crate) fn set_written(&self, batch: &Batch, token: Token) {
        self.written.send_modify(|written| {
            written.count = batch.count;
            written.token = token;
        });
    }

    /// Nothing is written any more.
    pub(crate) fn close(&self) {
        self.written.send_modify(|written| written.is_closed = true);
    }

    /// Waits until all that was added so far is in the log, and returns a token that names it;
    /// `None` where nobody writes any more.
    pub(crate) async fn until_written(&self) -> Option<Token> {
        let count = self.count();
        let mut written = self.written.subscribe();
        let now = written.wait_for(|written| written.count >= count || written.is_closed);
        let now = now.await.ok()?;
        (now.count >= count).then(|| now.token.clone())
    }
}

/// Logged when the first write of a batch fails, and when one succeeds after that.
pub(crate) const CHANGES_WAIT: &str = "changes wait to be written into the change log";
pub(crate) const CHANGES_WRITTEN: &str =
    "changes that waited are in the change log; to write them failed `failures` times";

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn what_is_added_while_a_batch_is_written_waits_for_the_next() {
        let (outbox, settings) = (Outbox::default(), Settings::default());
        outbox.add(&settings, "items", Some("1"));
        outbox.add(&settings, "items", Some("1"));
        let batch = outbox.take(&settings).await;
        assert_eq!(batch.changes.len(), 1);
        outbox.add(&settings, "items", Some("2"));
        assert!(outbox.until_written().now_or_never().is_none());
        outbox.set_written(&batch, Token::unclear());
        assert!(outbox.until_written().now_or_never().is_none(), "the second is not written");
        let batch = outbox.take(&settings).await;
        outbox.set_written(&batch, Token::unclear());
        assert_eq!(outbox.until_written().now_or_never(), Some(Some(Token::unclear())));
    }

    #[tokio::test]
    async fn what_the_log_has_no_room_for_is_every_key() {
        let settings = Settings { keys_max: 2, key_bytes_max: 4, ..Settings::default() };
        let outbox = Outbox::default();
        outbox.add(&settings, "long", Some("12345"));
        for key in ["1", "2", "3"] {
            outbox.add(&settings, "many", Some(key));
        }
        let batch = outbox.take(&settings).await;
        let every = |source: &str| Change { source: source.to_owned(), keys: None };
        assert_eq!(batch.changes, [every("long"), every("many")]);
    }

    #[tokio::test]
    async fn what_cannot_be_written_holds_up_nothing_else() {
        let (outbox, settings) = (Outbox::default(), Settings::default());
        outbox.add(&settings, "items", Some("a\0b"));
        outbox.add(&settings, "others", Some("1"));
        let mut batch = outbox.take(&settings).await;
        let change = |source: &str, keys: Option<&str>| {
            let keys = keys.map(|key| vec![key.to_owned()]);
            Change { source: source.to_owned(), keys }
        };
        assert_eq!(batch.changes, [change("items", None), change("others", Some("1"))]);
        batch.reject(1);
        assert_eq!(batch.changes, [change("items", None), change("others", None)]);
        batch.reject(0);
        assert_eq!(batch.changes, [change("others", None)]);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_log_that_has_ended() {
        let outbox = Outbox::default();
        outbox.add(&Settings::default(), "items", None);
        outbox.close();
        assert_eq!(outbox.until_written().await, None);
    }
}
