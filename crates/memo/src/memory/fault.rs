//! Deliberate faults for the mutation table in `tests/model.rs`.
//!
//! A model proves something only if it fails when the code is wrong. Under `--cfg shuttle` a test
//! switches one fault on and expects the named model to fail; in every other build
//! [`injected`] is a constant `false` and leaves no trace in the code.

/// One deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(shuttle), allow(unreachable_pub))]
#[repr(u32)]
#[non_exhaustive]
pub enum Fault {
    /// A change walks without the cascade lock.
    NoCascadeLock = 1,
    /// Publish does not compare versions.
    VersionsNotCompared = 2,
    /// Publish accepts a dependency that is only suspect.
    SuspectAccepted = 3,
    /// An unpublished value goes to any caller.
    EarlyForAnyone = 4,
    /// Completed changes are not counted.
    RevisionNeverBumped = 5,
    /// Eviction leaves no ghost.
    NoGhost = 6,
    /// A source's version is not compared with the tick at which the attempt started.
    SourceStartIgnored = 7,
    /// A ghost is dropped without a walk.
    GhostDroppedSilently = 8,
    /// All chunks of a walk share one tick.
    TickNotBumpedPerChunk = 9,
    /// An explicit invalidation does not reject the running attempt.
    RejectIgnored = 10,
    /// Verification does not restore the edges that a walk took.
    EdgesNotRestored = 11,
    /// The revision is bumped before the walk.
    RevisionBumpedEarly = 12,
    /// An insert beside a change's lookup goes unnoticed.
    InsertUnnoticed = 13,
    /// A change beside a key without a node leaves no mark.
    AbsentNotRaised = 14,
    /// A value that shows what a write has changed is given out before that is announced.
    NotHeld = 15,
}

/// Whether a test switched this fault on.
#[inline(always)]
pub(crate) fn injected(fault: Fault) -> bool {
    #[cfg(shuttle)]
    return INJECTED.load(std::sync::atomic::Ordering::Relaxed) == fault as u32;
    #[cfg(not(shuttle))]
    {
        let _ = fault;
        false
    }
}

/// Switches a fault on, for the whole process.
#[cfg(shuttle)]
pub fn inject(fault: Option<Fault>) {
    INJECTED.store(fault.map_or(0, |fault| fault as u32), std::sync::atomic::Ordering::Relaxed);
}

#[cfg(shuttle)]
static INJECTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
