//! Hosts that run commands whose changes are still to be published.
//!
//! What a command of a program changes reaches the log after the change was made. A host that dies
//! in between would leave the other hosts stale. So a host registers itself in the log before the
//! first such command runs, and removes the registration a while after the last. If a host dies
//! while it is registered, another host writes [`LOST`] into the log, and every host marks what no
//! table captures.
//!
//! | a host | in PostgreSQL | in a SQLite file |
//! |---|---|---|
//! | registers | inserts a row into `intent`, and takes an advisory lock with the row's number | inserts a row into `tidewire_intent` |
//! | lives | its session holds the lock, which goes with the connection, however that ends | it counts the row's `beat` up, twice a second |
//! | is dead | whoever gets the lock deletes the row and inserts `LOST`, in one transaction | whoever sees no other beat for 1.5 s does the same |
//!
//! A host that lost only its connection registers again; the others have marked too much.
//!
//! While a host cannot be registered its commands run all the same, and none waits: it is tried
//! again after a pause, which grows.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::error::Error;

/// The source in the log that stands for all that a dead host may not have published.
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
    /// There may be something to do.
    changed: Notify,
    registration: watch::Sender<Registration>,
    /// Each command is one.
    pub(crate) cover_commands: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    count: u64,
    /// When the last one ended.
    ended: Option<Instant>,
    is_closed: bool,
    /// When the last step failed: the next one is not made before.
    retry: Option<Retry>,
    /// How many commands began that the log does not know of.
    unregistered: u64,
}

#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    pause: Duration,
}

impl Open {
    /// How long it is until a step may be made; `None` where it may be made now.
    fn pause_left(&self) -> Option<Duration> {
        let at = self.retry?.at;
        at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// A step failed; whether it is the first one to fail.
    fn fail(&mut self) -> bool {
        let last = self.retry.map(|retry| retry.pause);
        let pause = last.map_or(RETRY, |pause| (pause * 2).min(RETRY_LONGEST));
        self.retry = Some(Retry { at: Instant::now() + pause, pause });
        last.is_none()
    }
}

/// Whether the log knows that commands run here.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registration {
    #[default]
    Absent,
    Registered,
    /// It is being removed.
    Removing,
    /// It cannot be now, and nobody waits for it.
    Unavailable,
}

/// What is to be done in the database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    Register,
    Remove,
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
    /// Begins one, and waits until the host is registered, or cannot be.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped, it is over.
    pub(crate) async fn begin(self: &Arc<Self>, patience: Duration) -> Intent {
        let intent = self.hold();
        if *self.registration.borrow() != Registration::Registered {
            let mut registration = self.registration.subscribe();
            let is_tried = |it: &Registration| {
                matches!(it, Registration::Registered | Registration::Unavailable)
            };
            let _ = tokio::time::timeout(patience, registration.wait_for(is_tried)).await;
            self.count_unregistered();
        }
        intent
    }

    /// A command begins, and has waited. If the log does not know of it the next does not wait.
    fn count_unregistered(&self) {
        let is_unknown = self.registration.send_if_modified(|it| {
            let is_slow = matches!(it, Registration::Absent | Registration::Removing);
            if is_slow {
                *it = Registration::Unavailable;
            }
            is_slow
        });
        if is_unknown || *self.registration.borrow() == Registration::Unavailable {
            self.open.lock().unregistered += 1;
        }
    }

    /// Begins one without a wait.
    pub(crate) fn hold(self: &Arc<Self>) -> Intent {
        self.open.lock().count += 1;
        if *self.registration.borrow() != Registration::Registered {
            self.changed.notify_one();
        }
        Intent(Arc::clone(self))
    }

    /// Waits until the host has to be registered or removed. Who begins while it is removed waits
    /// until it is registered again.
    ///
    /// # Cancel safety
    /// Cancel safe, but for what it returned.
    pub(crate) async fn next_step(&self) -> NextStep {
        loop {
            let wait = {
                let open = self.open.lock();
                let registration = *self.registration.borrow();
                let pause = open.pause_left().filter(|_| !open.is_closed);
                match (open.count, registration) {
                    (_, Registration::Unavailable) if pause.is_some() => pause,
                    (0, Registration::Registered) if pause.is_some() => pause,
                    (0, Registration::Registered) => {
                        let idle = open.ended.map_or(LINGER, |ended| ended.elapsed());
                        if idle >= LINGER || open.is_closed {
                            self.registration.send_replace(Registration::Removing);
                            return NextStep::Remove;
                        }
                        Some(LINGER - idle)
                    }
                    // The next command waits again until it is tried.
                    (0, Registration::Unavailable) if !open.is_closed => {
                        self.registration.send_replace(Registration::Absent);
                        None
                    }
                    (0, _) | (_, Registration::Registered) => None,
                    _ => return NextStep::Register,
                }
            };
            match wait {
                Some(wait) => _ = tokio::time::timeout(wait, self.changed.notified()).await,
                None => self.changed.notified().await,
            }
        }
    }

    /// The step was made, or failed.
    pub(crate) fn set(&self, registration: Registration) {
        self.registration.send_replace(registration);
        self.changed.notify_one();
    }

    /// The log knows that commands run here.
    pub(crate) fn registered(&self) {
        let (retry, unregistered) = {
            let mut open = self.open.lock();
            (open.retry.take(), std::mem::take(&mut open.unregistered))
        };
        if retry.is_some() {
            tracing::info!(commands = unregistered, "{REGISTERED_AGAIN}");
        }
        self.set(Registration::Registered);
    }

    /// The host cannot be registered now. Said once, until it can.
    pub(crate) fn refuse(&self, error: &Error) {
        if self.open.lock().fail() {
            tracing::warn!(%error, "{UNREGISTERED}");
        }
        self.set(Registration::Unavailable);
    }

    /// The host cannot be removed now, and stays registered.
    pub(crate) fn keep(&self) {
        self.open.lock().fail();
        self.set(Registration::Registered);
    }

    /// The host was removed.
    pub(crate) fn removed(&self) {
        self.open.lock().retry = None;
        self.set(Registration::Absent);
    }

    /// Nothing is registered any more, and nobody waits for it.
    pub(crate) fn end(&self) {
        self.open.lock().is_closed = true;
        self.set(Registration::Unavailable);
    }

    /// The connection is gone, and the lock with it.
    pub(crate) fn forget(&self) {
        self.registration.send_if_modified(|registration| {
            let was_registered =
                matches!(registration, Registration::Registered | Registration::Removing);
            if was_registered {
                *registration = Registration::Absent;
            }
            was_registered
        });
        self.changed.notify_one();
    }

    /// Has the host removed once nothing is open, without a pause, and waits until it is.
    pub(crate) async fn close(&self, patience: Duration) {
        self.open.lock().is_closed = true;
        self.changed.notify_one();
        let mut registration = self.registration.subscribe();
        let removed = registration.wait_for(|registration| {
            matches!(registration, Registration::Absent | Registration::Unavailable)
        });
        let _ = tokio::time::timeout(patience, removed).await;
    }
}

/// For how long a host stays registered after its last command, so that the next need not wait.
const LINGER: Duration = Duration::from_secs(1);
/// The pause after a step that failed; it doubles up to the longest.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_LONGEST: Duration = Duration::from_secs(8);
const UNREGISTERED: &str = "the change log does not know that commands of programs run here: if this host \
                            dies in one, the others are not told";
const REGISTERED_AGAIN: &str = "the change log knows again that commands of programs run here; `commands` \
                                began meanwhile";

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::error::ErrorKind;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_command_waits_until_the_log_knows_and_the_next_does_not() {
        let intents = Arc::new(Intents::default());
        let mut first = Box::pin(intents.begin(PATIENCE));
        assert!((&mut first).now_or_never().is_none());
        assert_eq!(intents.next_step().await, NextStep::Register);
        intents.set(Registration::Registered);
        let first = first.now_or_never().unwrap();
        drop(first);
        assert!(intents.next_step().now_or_never().is_none(), "it stays registered for a while");
        let second = intents.begin(PATIENCE).now_or_never().unwrap();
        tokio::time::advance(2 * LINGER).await;
        assert!(intents.next_step().now_or_never().is_none(), "a command runs");
        drop(second);
        assert_eq!(intents.next_step().await, NextStep::Remove);
        assert!(intents.begin(PATIENCE).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_log_that_cannot_be_told_and_it_is_tried_again() {
        let intents = Arc::new(Intents::default());
        intents.set(Registration::Unavailable);
        let intent = intents.begin(PATIENCE).now_or_never().unwrap();
        assert_eq!(intents.next_step().await, NextStep::Register);
        intents.set(Registration::Registered);
        intents.forget();
        assert_eq!(
            intents.next_step().await,
            NextStep::Register,
            "it was lost with its connection"
        );
        intents.set(Registration::Unavailable);
        drop(intent);
        assert!(intents.next_step().now_or_never().is_none(), "nothing is open");
        assert!(intents.begin(PATIENCE).now_or_never().is_none(), "it is tried again first");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_one_command_in_a_growing_pause_waits() {
        let error = Error::new(ErrorKind::Database, "locked");
        let intents = Arc::new(Intents::default());
        for pause in [1, 2, 4, 8, 8] {
            let mut first = Box::pin(intents.begin(PATIENCE));
            assert!((&mut first).now_or_never().is_none());
            assert_eq!(intents.next_step().await, NextStep::Register);
            intents.refuse(&error);
            drop(first.await);
            drop(intents.begin(PATIENCE).now_or_never().expect("it does not wait"));
            let failed = Instant::now();
            let mut next = Box::pin(intents.next_step());
            assert!((&mut next).now_or_never().is_none());
            tokio::time::advance(Duration::from_secs(pause)).await;
            assert!(next.now_or_never().is_none(), "nothing is open");
            assert_eq!(failed.elapsed(), Duration::from_secs(pause));
        }
        assert_eq!(intents.open.lock().unregistered, 10);
        let intent = intents.hold();
        assert_eq!(intents.next_step().await, NextStep::Register);
        intents.registered();
        assert_eq!(intents.open.lock().unregistered, 0);
        drop(intent);
    }

    #[tokio::test(start_paused = true)]
    async fn of_commands_that_the_database_never_answers_one_waits() {
        let intents = Arc::new(Intents::default());
        let first = intents.begin(PATIENCE).await;
        let second = intents.begin(PATIENCE).now_or_never().expect("it does not wait");
        assert_eq!(intents.next_step().await, NextStep::Register);
        drop((first, second));
    }
}
