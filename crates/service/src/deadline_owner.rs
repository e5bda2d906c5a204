//! Who set the deadline of a call: an error that it passed is somebody's to mend.

/// Who set the deadline of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum DeadlineOwner {
    /// The caller, with the call.
    #[default]
    Caller,
    /// The server, for a call that came without one: `limits.deadline_default`.
    ServerDefault,
    /// The server, for a call that would have had more time, or all: `limits.deadline_max`.
    ServerMax,
}
