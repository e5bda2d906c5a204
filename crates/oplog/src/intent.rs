//! Commands whose changes are still to be published.
//!
//! What a command publishes comes into the log after the command has changed something: a host that
//! dies between the two would leave the others as they are. So a host says in the log that it runs
//! such commands before the first of them runs, and takes that back a while after the last. Where a
//! host is gone and its word is still there, another host takes it for a change of everything that
//! no table shows ([`LOST`]).
//!
//! | a host | in PostgreSQL |
//! |---|---|
//! | says it | a row of `intent`, and a lock of its session by the row's number |
//! | lives | the lock is held: it goes with the connection, however that ends |
//! | is gone | whoever gets the lock removes the row and adds one to the log, in one transaction |
//!
//! A host that lost nothing but its connection says it again; the others were told too much.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// The name in the log of what a host may not have published before it was gone.
pub(crate) const LOST: &str = "tidewire.lost";

/// Says that what runs until this is dropped may change what is still to be published; see
/// [`OplogHandle::intend`](crate::OplogHandle::intend).
#[derive(Debug)]
#[must_use = "dropped, the intent is over"]
pub struct Intent(Arc<Intents>);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    open: Mutex<Open>,
    /// There may be something to say, or to take back.
    changed: Notify,
    word: watch::Sender<Word>,
    /// Each command is one.
    pub(crate) cover_commands: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    count: u64,
    /// When the last one ended.
    ended: Option<Instant>,
    is_closed: bool,
}

/// What the log knows of this host.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    #[default]
    Unsaid,
    Said,
    /// It is being taken back.
    TakingBack,
    /// It cannot be said: the database does not answer, or has no room for it.
    Unsayable,
}

/// What is to be done about the word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Say,
    TakeBack,
}

impl Drop for Intent {
    fn drop(&mut self) {
        let mut open = self.0.open.lock();
        open.count -= 1;
        if open.count == 0 {
            open.ended = Some(Instant::now());
            self.0.changed.notify_one();
        }
    }
}

impl Intents {
    /// Begins one, and waits until the log knows, or cannot be told.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped, it is over.
    pub(crate) async fn begin(self: &Arc<Self>, patience: Duration) -> Intent {
        let mut word = self.word.subscribe();
        self.open.lock().count += 1;
        let intent = Intent(Arc::clone(self));
        if *word.borrow_and_update() != Word::Said {
            self.changed.notify_one();
            let told = word.wait_for(|word| matches!(word, Word::Said | Word::Unsayable));
            let _ = tokio::time::timeout(patience, told).await;
        }
        intent
    }

    /// Waits until the word has to be said or taken back. Whoever begins while it is taken back
    /// waits until it is said again.
    ///
    /// # Cancel safety
    /// Cancel safe, but for what it returned.
    pub(crate) async fn due(&self) -> Due {
        loop {
            let wait = {
                let open = self.open.lock();
                let word = *self.word.borrow();
                match (open.count, word) {
                    (0, Word::Said) => {
                        let stood = open.ended.map_or(LINGER, |ended| ended.elapsed());
                        if stood >= LINGER || open.is_closed {
                            self.word.send_replace(Word::TakingBack);
                            return Due::TakeBack;
                        }
                        Some(LINGER - stood)
                    }
                    // The next command waits again until it is tried.
                    (0, Word::Unsayable) if !open.is_closed => {
                        self.word.send_replace(Word::Unsaid);
                        None
                    }
                    (0, _) | (_, Word::Said) => None,
                    _ => return Due::Say,
                }
            };
            match wait {
                Some(wait) => _ = tokio::time::timeout(wait, self.changed.notified()).await,
                None => self.changed.notified().await,
            }
        }
    }

    /// What became of it.
    pub(crate) fn set(&self, word: Word) {
        self.word.send_replace(word);
        self.changed.notify_one();
    }

    /// Nothing is said any more, and nobody waits for it.
    pub(crate) fn end(&self) {
        self.open.lock().is_closed = true;
        self.set(Word::Unsayable);
    }

    /// The connection is gone, and with it what the log knew.
    pub(crate) fn forget(&self) {
        self.word.send_if_modified(|word| {
            let was_said = matches!(word, Word::Said | Word::TakingBack);
            if was_said {
                *word = Word::Unsaid;
            }
            was_said
        });
        self.changed.notify_one();
    }

    /// Has the word taken back once nothing is open, without a pause, and waits until it is.
    pub(crate) async fn close(&self, patience: Duration) {
        self.open.lock().is_closed = true;
        self.changed.notify_one();
        let mut word = self.word.subscribe();
        let taken_back = word.wait_for(|word| matches!(word, Word::Unsaid | Word::Unsayable));
        let _ = tokio::time::timeout(patience, taken_back).await;
    }
}

/// For how long the word stands after the last command: the next one has not to wait then.
const LINGER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_command_waits_until_the_log_knows_and_the_next_does_not() {
        let intents = Arc::new(Intents::default());
        let mut first = Box::pin(intents.begin(PATIENCE));
        assert!((&mut first).now_or_never().is_none());
        assert_eq!(intents.due().await, Due::Say);
        intents.set(Word::Said);
        let first = first.now_or_never().unwrap();
        drop(first);
        assert!(intents.due().now_or_never().is_none(), "the word stands for a while");
        let second = intents.begin(PATIENCE).now_or_never().unwrap();
        tokio::time::advance(2 * LINGER).await;
        assert!(intents.due().now_or_never().is_none(), "a command runs");
        drop(second);
        assert_eq!(intents.due().await, Due::TakeBack);
        assert!(intents.begin(PATIENCE).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_log_that_cannot_be_told_and_it_is_tried_again() {
        let intents = Arc::new(Intents::default());
        intents.set(Word::Unsayable);
        let intent = intents.begin(PATIENCE).now_or_never().unwrap();
        assert_eq!(intents.due().await, Due::Say);
        intents.set(Word::Said);
        intents.forget();
        assert_eq!(intents.due().await, Due::Say, "it was lost with its connection");
        intents.set(Word::Unsayable);
        drop(intent);
        assert!(intents.due().now_or_never().is_none(), "nothing is open");
        assert!(intents.begin(PATIENCE).now_or_never().is_none(), "it is tried again first");
    }
}
