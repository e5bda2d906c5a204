//! A place for a call, or why there is none.

use std::time::Duration;

use tidewire_service::CallerKey;

use crate::pool::failure::Failure;

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
