//! Where a service and its instances are in their lives.

use std::time::Duration;

/// Where a hosted service is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// No process serves; the next call starts one, or takes one that stands by.
    Stopped,
    /// A process was started and cannot be called yet.
    Starting,
    /// A process can be called.
    Ready,
    /// All processes are frozen; the next call thaws one.
    Frozen,
    /// The last process is asked to end.
    Stopping,
    /// Calls are refused for a while, since processes crash or cannot be started.
    Broken,
}

/// How an instance is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InstanceStatus {
    pub(crate) state: State,
    pub(crate) is_spare: bool,
    pub(crate) calls: usize,
    pub(crate) requests: u64,
    pub(crate) age: Duration,
}

/// How many instances are where, and how many were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) is_starting: bool,
    pub(crate) ready: usize,
    pub(crate) frozen: usize,
    /// Those that were started ahead.
    pub(crate) spares: usize,
    pub(crate) stopping: usize,
    pub(crate) waiting: usize,
    /// Calls that instances have.
    pub(crate) calls: usize,
    pub(crate) starts: u64,
}

impl Count {
    /// Where the service is in its life.
    pub(crate) fn state(&self) -> State {
        match self {
            Self { ready: 1.., .. } => State::Ready,
            Self { frozen: 1.., .. } => State::Frozen,
            Self { is_starting: true, .. } => State::Starting,
            Self { stopping: 1.., .. } => State::Stopping,
            _ => State::Stopped,
        }
    }
}
