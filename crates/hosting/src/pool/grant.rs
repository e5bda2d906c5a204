//! A place for a call, or why there is none.

use std::fmt;
use std::time::Duration;

use tidewire_service::CallerKey;

/// A place at an instance, to be given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant<M> {
    pub(crate) id: u64,
    pub(crate) caller: CallerKey,
    pub(crate) instance: M,
    /// It is frozen, and has to be thawed before it is called.
    pub(crate) is_frozen: bool,
    /// It stood by, so that the next one has to be started.
    pub(crate) was_spare: bool,
}

/// Why a call gets no instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Too many wait.
    QueueFull,
    /// It could not be started; the next attempt is not before this.
    Failed(Failure, Duration),
    /// It is being ended.
    Draining,
}

/// Why an instance could not be started, or crashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What there is to say: `it ended with exit code 1`.
    pub(crate) text: String,
    /// The program itself cannot be run.
    pub(crate) is_hopeless: bool,
    /// It was not ready within `start_timeout`, which is this.
    pub(crate) late_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn text(text: String) -> Self {
        Self { text, is_hopeless: false, late_after: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}
